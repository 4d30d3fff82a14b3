/* Makes the slot that takes most memory, to reserve for it before the first step. */
#include "worker/slot/place/place.h"

#include <stdlib.h>

#include "worker/slot/place/masks.h"
#include "worker/slot/split.h"

/* A slot of text only: whatever the budgets are, it is a legal one. */
static void fill_text(const struct cs_input_tables *tables, struct cs_slot *slot,
                      struct cs_manifest *manifest)
{
    const int32_t n = tables->budget->seq_tokens;
    slot->head->n_samples = 1;
    slot->head->n_tokens = slot->head->n_labels = n;
    slot->sample_rows[1] = n;
    for (int32_t i = 0; i < n; i++) {
        slot->ids[i] = slot->labels[i] = slot->doc[i] = 0;
        slot->pos[i] = i;
    }
    cs_manifest_note(manifest, 0, slot);
}

/* Where tiles are cut at items, their number depends on where the items are. A rank with fewer rows of its own may
 * have more that come: all of them are the most. Returns the bytes of the numbers of tiles. */
static size_t count_tiles(struct cs_input *in, int32_t m)
{
    struct cs_mask_plan cut = in->mask[m];
    struct cs_mask_cells *near = &in->lists[m].cells, *far = &in->far[m].cells;
    if (in->at.mask[m].cells != NULL && in->word != NULL) {
        cut.n_segments = cut.n_tokens / CS_MASK_TILE + 1;
        near->n_q = cs_mask_tile_room(&cut);
    }
    size_t tiles = (size_t)near->n_q + CS_SLOT_MAX_SAMPLES;
    if (in->tables->context.own_first && in->split != NULL && near->n_q > 0) {
        far->n_q = near->n_q;
        far->n_k += near->n_k;
        tiles += (size_t)(far->n_q + far->n_k) + CS_SLOT_MAX_SAMPLES;
    }
    return tiles * sizeof(int32_t);
}

/* Items of as many slots as may be on this rank at once. */
static struct cs_slot_budget most_items(const struct cs_input_tables *tables)
{
    struct cs_slot_budget most = *tables->budget;
    int32_t all = 1;
    for (int32_t e = 0; e < most.n_encoders; e++) {
        const int32_t slots = tables->enc[e].most_slots;
        if (slots < 2)
            continue;
        most.enc[e].items *= slots;
        most.enc[e].rows *= slots;
        most.enc[e].patches *= slots;
        most.enc[e].bytes *= slots;
        all = slots > all ? slots : all;
    }
    most.seq_tokens *= all; /* rows that they fill */
    return most;
}

static enum cs_status fill(const struct cs_input_tables *tables, unsigned needs,
                           struct cs_fullest *out, struct cs_manifest *manifest, struct cs_err *err)
{
    const struct cs_slot_budget most = most_items(tables), *budget = &most;
    struct cs_input *in = &out->input;
    struct cs_slot_layout layout;
    struct cs_slot slot;
    cs_slot_layout_make(budget, &layout);
    out->slot_memory = calloc(1, layout.bytes);
    if (out->slot_memory == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a slot of %zu bytes", layout.bytes);
    cs_slot_view(&layout, budget, out->slot_memory, &slot);
    fill_text(tables, &slot, manifest);
    CS_TRY(cs_input_prepare(in, tables, manifest, 0, &slot, needs, err));
    in->slot = slot; /* one rank may have all items that others do not */
    for (int32_t e = 0; e < budget->n_encoders; e++) {
        cs_slot_fill_items(&slot, budget, e);
        in->n_items[e] = slot.head->n_items[e];
        in->n_rows[e] = slot.head->n_rows[e];
        in->n_fills[e] = slot.head->n_fills[e];
        in->n_bytes[e] = slot.head->n_bytes[e];
        cs_input_prepare_encoder(in, e);
        if (tables->enc[e].most_slots > 1 && in->n_fills[e] > tables->budget->seq_tokens)
            in->n_fills[e] = tables->budget->seq_tokens; /* of the LLM */
    }
    cs_input_split_fullest(in);
    out->block_bytes = cs_input_measure(in);
    /* other slots have more documents, and more tiles where these are cut at items */
    for (int32_t m = 0; m < tables->n_masks; m++) {
        if (tables->mask[m].encoder >= 0)
            continue;
        out->block_bytes += count_tiles(in, m);
    }
    return CS_OK;
}

enum cs_status cs_fullest_new(const struct cs_input_tables *tables, unsigned needs,
                              struct cs_fullest *out, struct cs_err *err)
{
    struct cs_slot_counts counts = {0};
    struct cs_manifest manifest = {.n_slots = 1, .slot = &counts};
    *out = (struct cs_fullest){.block_bytes = 0};
    const enum cs_status status = fill(tables, needs, out, &manifest, err);
    if (status != CS_OK)
        cs_fullest_free(out);
    return status;
}

void cs_fullest_free(struct cs_fullest *fullest)
{
    cs_input_free(&fullest->input);
    free(fullest->slot_memory);
    *fullest = (struct cs_fullest){.block_bytes = 0};
}

enum cs_status cs_input_reserve(struct cs_input *input, const struct cs_fullest *fullest,
                                struct cs_err *err)
{
    const struct cs_input *most = &fullest->input;
    struct cs_device *device = most->tables->device;
    input->tables = most->tables;
    if (device == NULL || device->mem == NULL)
        return CS_OK;
    CS_TRY(cs_input_reserve_block(input, fullest->block_bytes, err));
    for (int32_t m = 0; m < most->tables->n_masks; m++) {
        CS_TRY(cs_input_masks_reserve(&input->lists[m], most->lists[m].cells.n_q,
                                      most->lists[m].cells.n_k, device, err));
        CS_TRY(cs_input_masks_reserve(&input->far[m], most->far[m].cells.n_q,
                                      most->far[m].cells.n_k, device, err));
    }
    return CS_OK;
}
