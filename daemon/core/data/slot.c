/* Lays out the memory of a slot, and adds and checks the items of its encoders. */
#include "core/data/slot.h"

#include <string.h>

_Static_assert(CS_SPEC_MAX_BATCH == CS_SLOT_MAX_SAMPLES * CS_STEP_PACK_SLOTS,
               "a step holds as many samples as may be asked for");

enum { ALIGN = 64, PAGE = 4096 };

/* Reserve n items at the next aligned offset. */
static size_t place(size_t *at, size_t n, size_t item_bytes)
{
    size_t here = (*at + ALIGN - 1) / ALIGN * ALIGN;
    *at = here + n * item_bytes;
    return here;
}

void cs_slot_layout_make(const struct cs_slot_budget *budget, struct cs_slot_layout *out)
{
    CS_ASSERT(budget->seq_tokens >= 0 && budget->n_encoders >= 0 &&
              budget->n_encoders <= CS_MAX_ENCODERS);
    *out = (struct cs_slot_layout){0};
    size_t tokens = (size_t)budget->seq_tokens;
    size_t at = sizeof(struct cs_slot_head);
    out->ids = place(&at, tokens, sizeof(int32_t));
    out->labels = place(&at, tokens, sizeof(int32_t));
    out->doc = place(&at, tokens, sizeof(int32_t));
    out->pos = place(&at, tokens, sizeof(int32_t));
    out->sample_ids = place(&at, CS_SLOT_MAX_SAMPLES, sizeof(uint64_t));
    out->sample_rows = place(&at, CS_SLOT_MAX_SAMPLES + 1, sizeof(int32_t));
    for (int e = 0; e < budget->n_encoders; e++) {
        out->enc[e].items = place(&at, (size_t)budget->enc[e].items, sizeof(struct cs_item));
        out->enc[e].data = place(&at, cs_budget_bytes(budget, e), 1);
        out->enc[e].rows = place(&at, (size_t)budget->enc[e].rows, sizeof(int32_t));
    }
    out->bytes = (at + PAGE - 1) / PAGE * PAGE;
}

void cs_slot_view(const struct cs_slot_layout *layout, const struct cs_slot_budget *budget,
                  void *memory, struct cs_slot *out)
{
    char *base = memory;
    *out = (struct cs_slot){
        .head = memory,
        .ids = (int32_t *)(void *)(base + layout->ids),
        .labels = (int32_t *)(void *)(base + layout->labels),
        .doc = (int32_t *)(void *)(base + layout->doc),
        .pos = (int32_t *)(void *)(base + layout->pos),
        .sample_ids = (uint64_t *)(void *)(base + layout->sample_ids),
        .sample_rows = (int32_t *)(void *)(base + layout->sample_rows),
    };
    for (int e = 0; e < budget->n_encoders; e++) {
        out->items[e] = (struct cs_item *)(void *)(base + layout->enc[e].items);
        out->data[e] = (uint8_t *)(base + layout->enc[e].data);
        out->rows[e] = (int32_t *)(void *)(base + layout->enc[e].rows);
    }
}

struct cs_item_shape cs_slot_largest_item(const struct cs_slot_budget *budget, int encoder)
{
    return (struct cs_item_shape){
        .kind = CS_ITEM_IMAGE,
        .grid = {1, 1, budget->enc[encoder].item_rows},
        .rows = budget->enc[encoder].item_rows,
        .bytes = budget->enc[encoder].item_bytes
    };
}

struct cs_item *cs_slot_add_item(struct cs_slot *slot, const struct cs_slot_budget *budget,
                                 int encoder, const struct cs_item_shape *shape, int32_t *first_row)
{
    struct cs_slot_head *head = slot->head;
    if (head->n_items[encoder] >= budget->enc[encoder].items ||
        head->n_rows[encoder] + shape->rows > budget->enc[encoder].rows ||
        (size_t)(head->n_bytes[encoder] + shape->bytes) > cs_budget_bytes(budget, encoder))
        return NULL;
    struct cs_item *item = &slot->items[encoder][head->n_items[encoder]++];
    *item = (struct cs_item){*shape, head->n_bytes[encoder]};
    if (first_row != NULL)
        *first_row = head->n_rows[encoder];
    head->n_rows[encoder] += shape->rows;
    head->n_bytes[encoder] += shape->bytes;
    return item;
}

static bool is_shape(const struct cs_item_shape *s, int32_t most_rows)
{
    return s->kind >= 0 && s->kind < CS_ITEM_KINDS && s->grid[0] >= 1 && s->grid[1] >= 1 &&
           s->grid[2] >= 1 && s->rows >= 1 && s->rows <= most_rows && s->bytes >= 0;
}

enum cs_status cs_slot_check_items(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                                   int encoder, struct cs_err *err)
{
    const struct cs_slot_head *head = slot->head;
    const int32_t most = budget->enc[encoder].rows, n = head->n_items[encoder];
    const int64_t room = (int64_t)cs_budget_bytes(budget, encoder);
    int64_t rows = 0, bytes = 0;
    for (int32_t i = 0; i < n && i < budget->enc[encoder].items; i++) {
        const struct cs_item *item = &slot->items[encoder][i];
        const struct cs_item_shape *s = &item->shape;
        if (!is_shape(s, budget->enc[encoder].item_rows) || item->offset != bytes ||
            rows + s->rows > most || bytes + s->bytes > room)
            return cs_fail(
                err, CS_CORRUPT,
                "slot %d: item %d of encoder %d is of kind %d, %d x %d x %d patches, %d "
                "rows and %d bytes at %lld, after %lld rows of %d and %lld bytes of %lld",
                head->slot, i, encoder, s->kind, s->grid[0], s->grid[1], s->grid[2], s->rows,
                s->bytes, (long long)item->offset, (long long)rows, most, (long long)bytes,
                (long long)room);
        rows += s->rows;
        bytes += s->bytes;
    }
    if (n < 0 || n > budget->enc[encoder].items || rows != head->n_rows[encoder] ||
        bytes != head->n_bytes[encoder])
        return cs_fail(
            err, CS_CORRUPT,
            "slot %d: %d items of encoder %d have %lld rows and %lld bytes, its head says "
            "%d and %lld",
            head->slot, n, encoder, (long long)rows, (long long)bytes, head->n_rows[encoder],
            (long long)head->n_bytes[encoder]);
    return CS_OK;
}

void cs_manifest_note(struct cs_manifest *manifest, int index, const struct cs_slot *slot)
{
    const struct cs_slot_head *head = slot->head;
    manifest->n_tokens[index] = head->n_tokens;
    manifest->n_labels[index] = head->n_labels;
    memcpy(manifest->n_items[index], head->n_items, sizeof manifest->n_items[index]);
    memcpy(manifest->n_rows[index], head->n_rows, sizeof manifest->n_rows[index]);
}
