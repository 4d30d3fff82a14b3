/* The block of a slot: pieces one behind the other, 256 bytes aligned, sent to the device in one
 * copy. It is walked twice: to know its size (staging NULL), then to fill it. On the host nothing
 * is copied and arrays stay where they are. */
#ifndef CS_WORKER_SLOT_BLOCK_H
#define CS_WORKER_SLOT_BLOCK_H

#include "worker/device/device.h"

/* used: bytes of the walk so far; the same in both walks */
struct cs_slot_block {
    struct cs_device *device;
    bool is_host;
    char *staging, *placed; /* page-locked host memory and its copy on the device */
    size_t used;
};

/* offset of the next piece */
size_t cs_slot_block_take(struct cs_slot_block *block, size_t bytes);
/* Where the device reads a copy of host memory, with room for more behind it, so that what follows
 * lies where it always lies; NULL in the first walk. */
void *cs_slot_block_put_room(struct cs_slot_block *block, const void *host, size_t bytes,
                             size_t room);
/* where the device reads a copy of host memory; NULL stays NULL */
const void *cs_slot_block_put(struct cs_slot_block *block, const void *host, size_t bytes);
/* zeros up to `rows` behind n rows that begin at `at` */
void cs_slot_block_zero_behind(const struct cs_slot_block *block, size_t at, size_t row_bytes,
                               int32_t n, int32_t rows);
/* page-locked host memory for a result that is copied back without waiting; NULL in the first
 * walk */
void *cs_slot_block_mirror(struct cs_slot_block *block, size_t bytes);

#endif
