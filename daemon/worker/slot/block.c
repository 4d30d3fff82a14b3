/* Lays the pieces of a slot one behind the other into the one block that is copied to a device. */
#include "worker/slot/block.h"

#include <string.h>

enum { ALIGN = 256 };

size_t cs_slot_block_take(struct cs_slot_block *b, size_t bytes)
{
    const size_t at = b->used;
    b->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

void *cs_slot_block_put_room(struct cs_slot_block *b, const void *host, size_t bytes, size_t room)
{
    const size_t at = cs_slot_block_take(b, room > bytes ? room : bytes);
    if (b->staging == NULL)
        return NULL;
    if (bytes > 0)
        memcpy(b->staging + at, host, bytes);
    return b->placed + at;
}

const void *cs_slot_block_put(struct cs_slot_block *b, const void *host, size_t bytes)
{
    return b->is_host || host == NULL ? host : cs_slot_block_put_room(b, host, bytes, bytes);
}

void cs_slot_block_zero_behind(const struct cs_slot_block *b, size_t at, size_t row_bytes,
                               int32_t n, int32_t rows)
{
    if (rows > n)
        memset(b->staging + at + (size_t)n * row_bytes, 0, (size_t)(rows - n) * row_bytes);
}

void *cs_slot_block_mirror(struct cs_slot_block *b, size_t bytes)
{
    const size_t at = cs_slot_block_take(b, bytes);
    return b->staging != NULL ? b->staging + at : NULL;
}
