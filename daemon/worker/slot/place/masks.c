/* Lists of tiles for attention kernels that work from them (core/mask/cells.h): one set per slot
 * and mask, built on the device by the operator mask_build, used by all layers both ways. */
#include "worker/slot/place/masks.h"

#include <stdlib.h>
#include <string.h>

#include "core/mask/bitmaps.h"
#include "core/mask/cut.h"

enum { ALIGN = 256 };

/* Bytes one after the other; base NULL: only counts. */
struct carver {
    char *base;
    size_t used;
};

static void *carve(struct carver *c, size_t bytes)
{
    void *p = c->base != NULL ? c->base + c->used : NULL;
    c->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static void carve_list(struct carver *c, struct cs_mask_list *list, int32_t n, int32_t stride)
{
    const size_t entries = (size_t)n * (size_t)stride;
    list->n = n;
    list->stride = stride;
    list->count = carve(c, (size_t)n * sizeof *list->count);
    list->entry = carve(c, entries * sizeof *list->entry);
    list->cell = carve(c, entries * sizeof *list->cell);
    list->order = carve(c, (size_t)n * sizeof *list->order);
}

static void carve_cells(struct carver *c, struct cs_mask_cells *cells, int32_t n_q, int32_t n_k,
                        int32_t room)
{
    cells->n_q = n_q;
    cells->n_k = n_k;
    carve_list(c, &cells->by_q, n_q, n_k);
    carve_list(c, &cells->by_k, n_k, n_q);
    cells->bitmap_room = room;
    const size_t bytes = (size_t)cells->bitmap_room * 128 * sizeof(uint32_t);
    cells->bits_q = carve(c, bytes);
    cells->bits_k = carve(c, bytes);
    cells->n_bitmaps = carve(c, sizeof *cells->n_bitmaps);
    cells->pairs = carve(c, sizeof *cells->pairs);
}

static void free_rows(struct cs_input_mask *m)
{
    if (m->k_row != m->q_row)
        free(m->k_row);
    free(m->q_row);
    m->q_row = m->k_row = NULL;
}

static int32_t *new_rows(size_t room)
{
    int32_t *row = malloc(room * sizeof *row);
    CS_ASSERT(row != NULL);
    return row;
}

/* Tiles of a document each have keys and queries in common; else keys are cut plainly, those of a
 * context where another rank's begin. */
static void make_rows(struct cs_input_mask *m, const struct cs_mask_plan *mask, bool restart)
{
    const struct cs_mask_plan *keys = mask->keys != NULL ? mask->keys : mask;
    free_rows(m);
    m->q_row = m->k_row = new_rows((size_t)cs_mask_tile_room(mask));
    if (restart) {
        m->cells.n_q = m->cells.n_k = cs_mask_tile_rows(mask, true, m->q_row);
    } else {
        m->k_row = new_rows((size_t)cs_mask_tile_room(keys));
        m->cells.n_q = cs_mask_tile_rows_chosen(mask, m->q_row);
        m->cells.n_k = cs_mask_tile_rows(keys, mask->keys != NULL, m->k_row);
    }
    m->room = cs_mask_bitmap_room(mask, m->q_row, m->cells.n_q, m->cells.n_k);
}

void cs_input_masks_put(struct cs_input_mask *m, const struct cs_mask_plan *mask, bool restart,
                        struct cs_slot_block *b)
{
    if (b->staging == NULL)
        make_rows(m, mask, restart);
    m->cells.q_row = cs_slot_block_put(b, m->q_row, ((size_t)m->cells.n_q + 1) * sizeof *m->q_row);
    m->cells.k_row =
        m->k_row == m->q_row
            ? m->cells.q_row
            : cs_slot_block_put(b, m->k_row, ((size_t)m->cells.n_k + 1) * sizeof *m->k_row);
    m->n_bitmaps = cs_slot_block_mirror(b, sizeof *m->n_bitmaps);
}

static size_t all_bytes(const struct cs_device *device, int32_t n_q, int32_t n_k, int32_t room,
                        size_t *workspace_bytes)
{
    struct carver count = {.base = NULL};
    struct cs_mask_cells unused;
    carve_cells(&count, &unused, n_q, n_k, room);
    *workspace_bytes = device->ops->mask_workspace(n_q, n_k, room);
    return count.used + *workspace_bytes;
}

static enum cs_status reserve(struct cs_input_mask *m, size_t bytes, struct cs_device *device,
                              struct cs_err *err)
{
    if (bytes <= m->bytes)
        return CS_OK;
    cs_device_free(device, m->memory, m->bytes);
    m->bytes = 0;
    m->memory = NULL;
    CS_TRY(cs_device_alloc(device, bytes, &m->memory, err));
    m->bytes = bytes;
    return CS_OK;
}

enum cs_status cs_input_masks_reserve(struct cs_input_mask *m, int32_t n_q, int32_t n_k,
                                      struct cs_device *device, struct cs_err *err)
{
    const int32_t room = cs_mask_bitmap_room_usual(n_q, n_k);
    size_t workspace;
    return n_q == 0 ? CS_OK
                    : reserve(m, all_bytes(device, n_q, n_k, room, &workspace), device, err);
}

enum cs_status cs_input_masks_make_room(struct cs_input_mask *m, struct cs_device *device,
                                        struct cs_err *err)
{
    size_t workspace;
    if (m->cells.n_q == 0)
        return CS_OK;
    const size_t bytes = all_bytes(device, m->cells.n_q, m->cells.n_k, m->room, &workspace);
    return reserve(m, bytes > m->bytes ? bytes + bytes / 4 : bytes, device, err);
}

void cs_input_masks_build(struct cs_input_mask *m, struct cs_mask_plan *mask,
                          struct cs_device *device)
{
    const int32_t n_q = m->cells.n_q, n_k = m->cells.n_k;
    struct cs_ctx ctx = cs_device_ctx(device);
    if (n_q == 0)
        return;
    const size_t bytes = all_bytes(device, n_q, n_k, m->room, &ctx.workspace_bytes);
    CS_ASSERT(bytes <= m->bytes);
    struct carver c = {.base = m->memory};
    carve_cells(&c, &m->cells, n_q, n_k, m->room);
    ctx.workspace = c.base + c.used;
    mask->cells = &m->cells;
    device->ops->mask_build(&ctx, mask, &m->cells);
    cs_device_copy(device, m->n_bitmaps, m->cells.n_bitmaps, sizeof *m->n_bitmaps);
}

enum cs_status cs_input_masks_check(const struct cs_input_mask *m, struct cs_err *err)
{
    if (m->cells.n_q == 0 || m->n_bitmaps == NULL || *m->n_bitmaps <= m->cells.bitmap_room)
        return CS_OK;
    return cs_fail(err, CS_LIMIT,
                   "the attention mask of a slot has %d different pieces of 64 x 64, there is room "
                   "for %d: longer documents or fewer spans per slot need fewer",
                   *m->n_bitmaps, m->cells.bitmap_room);
}

void cs_input_masks_free(struct cs_input_mask *m, struct cs_device *device)
{
    cs_device_free(device, m->memory, m->bytes);
    free_rows(m);
    *m = (struct cs_input_mask){.memory = NULL};
}
