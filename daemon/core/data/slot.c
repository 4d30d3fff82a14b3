/* Lays out the memory of a slot, and adds and checks the items of its encoders. */
#include "core/data/slot.h"

#include <math.h>
#include <string.h>

_Static_assert(CS_SPEC_MAX_BATCH <= CS_SLOT_MAX_SAMPLES * CS_STEP_PACK_SLOTS,
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
    out->sample_sources = place(&at, CS_SLOT_MAX_SAMPLES, sizeof(int32_t));
    for (int e = 0; e < budget->n_encoders; e++) {
        out->enc[e].items = place(&at, (size_t)budget->enc[e].items, sizeof(struct cs_item));
        out->enc[e].data = place(&at, cs_budget_bytes(budget, e), 1);
        const size_t fills = (size_t)cs_budget_fills(budget, e);
        out->enc[e].rows = place(&at, fills, sizeof(int32_t));
        if (!budget->enc[e].has_sources)
            continue;
        out->enc[e].source = place(&at, fills, sizeof(int32_t));
        out->enc[e].blends = place(&at, fills, sizeof(struct cs_slot_blend));
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
        .sample_sources = (int32_t *)(void *)(base + layout->sample_sources),
    };
    for (int e = 0; e < budget->n_encoders; e++) {
        out->items[e] = (struct cs_item *)(void *)(base + layout->enc[e].items);
        out->data[e] = (uint8_t *)(base + layout->enc[e].data);
        out->rows[e] = (int32_t *)(void *)(base + layout->enc[e].rows);
        if (!budget->enc[e].has_sources)
            continue;
        out->source[e] = (int32_t *)(void *)(base + layout->enc[e].source);
        out->blends[e] = (struct cs_slot_blend *)(void *)(base + layout->enc[e].blends);
    }
}

struct cs_item_shape cs_slot_largest_item(const struct cs_slot_budget *budget, int encoder)
{
    const struct cs_item_budget *b = &budget->enc[encoder];
    return (struct cs_item_shape){
        .kind = CS_ITEM_IMAGE,
        .grid = {1, 1, b->item_patches},
        .rows = b->item_rows,
        .bytes = b->item_bytes
    };
}

struct cs_item_shape cs_slot_smaller_item(const struct cs_slot_budget *budget, int encoder,
                                          int32_t rows)
{
    const struct cs_item_budget *b = &budget->enc[encoder];
    const int64_t share = rows;
    return (struct cs_item_shape){
        .kind = CS_ITEM_IMAGE,
        .grid = {1, 1, (int32_t)(share * b->item_patches / b->item_rows)},
        .rows = rows,
        .bytes = (int32_t)(share * b->item_bytes / b->item_rows)
    };
}

/* Every LLM row that there is room for, by as many rows as one can have. */
static void fill_by_blends(struct cs_slot *slot, const struct cs_slot_budget *budget, int encoder)
{
    const int32_t n_rows = slot->head->n_rows[encoder], n = cs_budget_fills(budget, encoder);
    for (int32_t i = 0; n_rows > 0 && i < n; i++) {
        struct cs_slot_blend blend;
        for (int k = 0; k < 4; k++) {
            blend.row[k] = (int32_t)((4 * (int64_t)i + k) % n_rows);
            blend.weight[k] = 0.25F;
        }
        cs_slot_add_fill(slot, encoder, i, cs_slot_add_blend(slot, encoder, &blend));
    }
}

void cs_slot_fill_items(struct cs_slot *slot, const struct cs_slot_budget *budget, int encoder)
{
    const struct cs_item_budget *b = &budget->enc[encoder];
    const struct cs_item_shape largest = cs_slot_largest_item(budget, encoder);
    while (cs_slot_add_item(slot, budget, encoder, &largest, NULL) != NULL)
        ;
    const int32_t rest = b->rows - slot->head->n_rows[encoder];
    const struct cs_item_shape last =
        cs_slot_smaller_item(budget, encoder, rest < b->item_rows ? rest : b->item_rows);
    if (last.rows > 0 && last.grid[2] > 0)
        (void)cs_slot_add_item(slot, budget, encoder, &last, NULL);
    if (b->has_sources)
        fill_by_blends(slot, budget, encoder);
}

struct cs_item *cs_slot_add_item(struct cs_slot *slot, const struct cs_slot_budget *budget,
                                 int encoder, const struct cs_item_shape *shape, int32_t *first_row)
{
    const struct cs_item_budget *b = &budget->enc[encoder];
    struct cs_slot_head *head = slot->head;
    const int64_t patches = head->n_patches[encoder] + cs_item_patches(shape);
    if (head->n_items[encoder] >= b->items || head->n_rows[encoder] + shape->rows > b->rows ||
        patches > b->patches || head->n_bytes[encoder] + shape->bytes > b->bytes)
        return NULL;
    struct cs_item *item = &slot->items[encoder][head->n_items[encoder]++];
    *item = (struct cs_item){*shape, head->n_bytes[encoder]};
    if (first_row != NULL)
        *first_row = head->n_rows[encoder];
    head->n_rows[encoder] += shape->rows;
    head->n_patches[encoder] = (int32_t)patches;
    head->n_bytes[encoder] += shape->bytes;
    if (!b->has_sources)
        head->n_fills[encoder] = head->n_rows[encoder];
    return item;
}

void cs_slot_add_fill(struct cs_slot *slot, int encoder, int32_t llm_row, int32_t source)
{
    const int32_t at = slot->head->n_fills[encoder]++;
    slot->rows[encoder][at] = llm_row;
    slot->source[encoder][at] = source;
}

int32_t cs_slot_add_blend(struct cs_slot *slot, int encoder, const struct cs_slot_blend *blend)
{
    const int32_t at = slot->head->n_blends[encoder]++;
    slot->blends[encoder][at] = *blend;
    return CS_SOURCE_BLENDS - at;
}

static bool is_shape(const struct cs_item_shape *s, const struct cs_item_budget *b)
{
    const int64_t most = b->item_patches;
    return s->kind >= 0 && s->kind < CS_ITEM_KINDS && s->grid[0] >= 1 && s->grid[1] >= 1 &&
           s->grid[2] >= 1 && s->grid[0] <= most && (int64_t)s->grid[0] * s->grid[1] <= most &&
           cs_item_patches(s) <= most && s->rows >= 1 && s->rows <= b->item_rows && s->bytes >= 0;
}

static bool is_blend(const struct cs_slot_blend *b, int32_t n_rows)
{
    for (int i = 0; i < 4; i++)
        if (!isfinite(b->weight[i]) ||
            (b->weight[i] != 0 && (b->row[i] < 0 || b->row[i] >= n_rows)))
            return false;
    return true;
}

static enum cs_status check_sources(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                                    int encoder, struct cs_err *err)
{
    const struct cs_slot_head *head = slot->head;
    const int32_t n = head->n_fills[encoder], n_blends = head->n_blends[encoder];
    const int32_t n_rows = head->n_rows[encoder], most = cs_budget_fills(budget, encoder);
    if (n < 0 || n > most || n_blends < 0 || n_blends > most || (n > 0 && n_rows == 0))
        return cs_fail(err, CS_CORRUPT,
                       "slot %d: encoder %d fills %d rows with %d blends, at most %d are possible",
                       head->slot, encoder, n, n_blends, most);
    for (int32_t i = 0; i < n; i++) {
        const int32_t source = slot->source[encoder][i];
        const int32_t blend = source <= CS_SOURCE_BLENDS ? CS_SOURCE_BLENDS - source : -1;
        if (source >= n_rows || blend >= n_blends ||
            (blend >= 0 && !is_blend(&slot->blends[encoder][blend], n_rows)))
            return cs_fail(err, CS_CORRUPT,
                           "slot %d: row %d that encoder %d fills has source %d of %d rows and %d "
                           "blends",
                           head->slot, i, encoder, source, n_rows, n_blends);
    }
    return CS_OK;
}

enum cs_status cs_slot_check_items(const struct cs_slot *slot, const struct cs_slot_budget *budget,
                                   int encoder, struct cs_err *err)
{
    const struct cs_slot_head *head = slot->head;
    const int32_t most = budget->enc[encoder].rows, n = head->n_items[encoder];
    const int64_t room = (int64_t)cs_budget_bytes(budget, encoder);
    int64_t rows = 0, patches = 0, bytes = 0;
    for (int32_t i = 0; i < n && i < budget->enc[encoder].items; i++) {
        const struct cs_item *item = &slot->items[encoder][i];
        const struct cs_item_shape *s = &item->shape;
        if (!is_shape(s, &budget->enc[encoder]) || item->offset != bytes || rows + s->rows > most ||
            bytes + s->bytes > room)
            return cs_fail(
                err, CS_CORRUPT,
                "slot %d: item %d of encoder %d is of kind %d, %d x %d x %d patches, %d "
                "rows and %d bytes at %lld, after %lld rows of %d and %lld bytes of %lld",
                head->slot, i, encoder, s->kind, s->grid[0], s->grid[1], s->grid[2], s->rows,
                s->bytes, (long long)item->offset, (long long)rows, most, (long long)bytes,
                (long long)room);
        rows += s->rows;
        patches += cs_item_patches(s);
        bytes += s->bytes;
    }
    if (n < 0 || n > budget->enc[encoder].items || rows != head->n_rows[encoder] ||
        patches != head->n_patches[encoder] || patches > budget->enc[encoder].patches ||
        bytes != head->n_bytes[encoder])
        return cs_fail(
            err, CS_CORRUPT,
            "slot %d: %d items of encoder %d have %lld rows, %lld patches and %lld bytes, its head "
            "says %d, %d and %lld",
            head->slot, n, encoder, (long long)rows, (long long)patches, (long long)bytes,
            head->n_rows[encoder], head->n_patches[encoder], (long long)head->n_bytes[encoder]);
    if (budget->enc[encoder].has_sources)
        return check_sources(slot, budget, encoder, err);
    if (head->n_fills[encoder] != head->n_rows[encoder])
        return cs_fail(err, CS_CORRUPT, "slot %d: encoder %d has %d rows and fills %d", head->slot,
                       encoder, head->n_rows[encoder], head->n_fills[encoder]);
    return CS_OK;
}

void cs_manifest_note(struct cs_manifest *manifest, int index, const struct cs_slot *slot)
{
    const struct cs_slot_head *head = slot->head;
    struct cs_slot_counts *counts = &manifest->slot[index];
    counts->n_tokens = head->n_tokens;
    counts->n_labels = head->n_labels;
    memcpy(counts->n_items, head->n_items, sizeof counts->n_items);
    memcpy(counts->n_rows, head->n_rows, sizeof counts->n_rows);
    memcpy(counts->n_patches, head->n_patches, sizeof counts->n_patches);
    memcpy(counts->n_fills, head->n_fills, sizeof counts->n_fills);
}
