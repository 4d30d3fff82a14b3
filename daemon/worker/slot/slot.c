/* Checks a slot against its manifest and prepares what layers need of it. */
#include "worker/slot/fills.h"
#include "worker/slot/item.h"
#include "worker/slot/share.h"
#include "worker/slot/split.h"
#include "worker/slot/tokens.h"

#include <string.h>

/* A learned row is a parameter of the projector. */
static enum cs_status check_learned(const struct cs_input *in, int32_t e, int index,
                                    struct cs_err *err)
{
    if (in->slot.source[e] == NULL || in->tables->enc[e].has_newline)
        return CS_OK;
    for (int32_t i = 0; i < in->n_fills[e]; i++)
        if (in->slot.source[e][i] == CS_SOURCE_LEARNED)
            return cs_fail(err, CS_INVALID,
                           "slot %d: a learned row ends lines of pictures of encoder %d, and its "
                           "projector has none: a projector with \"newline\" is needed, as that of "
                           "LLaVA-NeXT",
                           index, e);
    return CS_OK;
}

static enum cs_status check_counts(const struct cs_input *in, const struct cs_slot_budget *budget,
                                   int index, struct cs_err *err)
{
    const struct cs_slot_head *head = in->slot.head;
    if (in->n_tokens < 0 || in->n_tokens > budget->seq_tokens || in->n_labels < 0 ||
        in->n_labels > in->n_tokens)
        return cs_fail(
            err, CS_CORRUPT,
            "slot %d of the manifest has %d tokens and %d labels, the budget is %d tokens", index,
            in->n_tokens, in->n_labels, budget->seq_tokens);
    if (head->n_tokens != in->n_tokens || head->n_labels != in->n_labels)
        return cs_fail(err, CS_CORRUPT,
                       "slot %d holds %d tokens and %d labels, its manifest says %d and %d", index,
                       head->n_tokens, head->n_labels, in->n_tokens, in->n_labels);
    if (head->n_samples < 0 || head->n_samples > CS_SLOT_MAX_SAMPLES)
        return cs_fail(err, CS_CORRUPT, "slot %d says it holds %d samples", index, head->n_samples);
    for (int32_t e = 0; e < budget->n_encoders; e++) {
        if (in->n_items[e] < 0 || in->n_items[e] > budget->enc[e].items)
            return cs_fail(err, CS_CORRUPT, "slot %d has %d items for encoder %d, the budget is %d",
                           index, in->n_items[e], e, budget->enc[e].items);
        if (head->n_items[e] != in->n_items[e] || head->n_rows[e] != in->n_rows[e] ||
            head->n_fills[e] != in->n_fills[e])
            return cs_fail(err, CS_CORRUPT,
                           "slot %d holds %d items of %d rows for encoder %d, which fill %d; its "
                           "manifest says %d of %d, which fill %d",
                           index, head->n_items[e], head->n_rows[e], e, head->n_fills[e],
                           in->n_items[e], in->n_rows[e], in->n_fills[e]);
        CS_TRY(cs_slot_check_items(&in->slot, budget, e, err));
        CS_TRY(check_learned(in, e, index, err));
    }
    return CS_OK;
}

/* An item that this encoder can have: rows by its grid, data by its size. */
static enum cs_status check_item(const struct cs_arch *arch, const struct cs_item *item, int32_t i,
                                 int32_t e, int index, struct cs_err *err)
{
    int32_t grid[3];
    cs_input_item_grid(arch, item, grid);
    const int32_t rows = cs_front_out_rows(arch, grid);
    int64_t bytes = cs_input_item_bytes(arch, grid);
    const int64_t frames = arch->front.patch_frames;
    const bool is_repeated = frames > 1 && grid[0] == 1 && item->shape.bytes == bytes / frames;
    const bool is_longer = arch->front.stem == CS_STEM_FRAMES && item->shape.bytes >= bytes &&
                           item->shape.bytes % (bytes / grid[0]) == 0; /* silence behind it */
    if (is_repeated || is_longer)
        bytes = item->shape.bytes;
    if (rows == item->shape.rows && bytes == item->shape.bytes)
        return CS_OK;
    return cs_fail(err, CS_CORRUPT,
                   "slot %d: item %d of encoder %d is of %d x %d x %d patches with %d rows and %d "
                   "bytes; such an item has %d and %lld",
                   index, i, e, grid[0], grid[1], grid[2], item->shape.rows, item->shape.bytes,
                   rows, (long long)bytes);
}

static enum cs_status check_items(const struct cs_input *in, int32_t e, int index,
                                  struct cs_err *err)
{
    const struct cs_arch *arch = &cs_graph_encoder(in->tables->graph, e)->arch;
    for (int32_t i = 0; i < in->n_items[e]; i++)
        CS_TRY(check_item(arch, &in->slot.items[e][i], i, e, index, err));
    return CS_OK;
}

static enum cs_status prepare_labels(struct cs_input *in, int index, struct cs_err *err)
{
    const size_t n = (size_t)in->n_labels;
    in->label_rows = cs_scratch_take(&in->memory, n * sizeof(int32_t));
    in->label_ids = cs_scratch_take(&in->memory, n * sizeof(int32_t));
    in->row_loss = cs_scratch_take(&in->memory, n * sizeof *in->row_loss);
    const int32_t loads = cs_experts_loads(&cs_graph_llm(in->tables->graph)->arch.experts);
    in->load = loads > 0 ? cs_scratch_take(&in->memory, (size_t)loads * sizeof *in->load) : NULL;
    int32_t found = 0;
    for (int32_t i = 0; i < in->n_tokens; i++) {
        const int32_t label = in->slot.labels[i];
        if (label < 0)
            continue;
        if (label >= in->tables->vocab || found == in->n_labels)
            return cs_fail(err, CS_CORRUPT,
                           "slot %d: label %d at row %d is one of more than %d, or outside the "
                           "vocabulary of %d",
                           index, label, i, in->n_labels, in->tables->vocab);
        in->label_rows[found] = i;
        in->label_ids[found++] = label;
    }
    for (int32_t s = 0; s < in->slot.head->n_samples; s++)
        if (in->slot.sample_sources[s] < 0 || in->slot.sample_sources[s] >= CS_SOURCES_MAX)
            return cs_fail(err, CS_CORRUPT, "slot %d: sample %d is of source %d", index, s,
                           in->slot.sample_sources[s]);
    if (found != in->n_labels)
        return cs_fail(err, CS_CORRUPT, "slot %d holds %d labels, its manifest says %d", index,
                       found, in->n_labels);
    return CS_OK;
}

static void number_words(const struct cs_tp_share *own, int64_t n, int32_t *ids)
{
    for (int64_t i = 0; ids != NULL && i < n; i++)
        ids[i] = ids[i] < own->begin || ids[i] >= own->end ? -1 : ids[i] - (int32_t)own->begin;
}

/* Where ranks have some words each: numbers among the own ones, -1 for those of others. */
static void take_words(struct cs_input *in)
{
    const struct cs_tp_share *own = &in->tables->words;
    if (own->end == 0)
        return;
    number_words(own, cs_split_rows(in), in->embed_ids);
    number_words(own, in->n_labels, in->label_ids);
}

enum cs_status cs_input_prepare(struct cs_input *input, const struct cs_input_tables *tables,
                                const struct cs_manifest *manifest, int index,
                                const struct cs_slot *slot, unsigned needs, struct cs_err *err)
{
    const struct cs_slot_counts *counts = &manifest->slot[index];
    struct cs_input old = *input; /* its memory is used again */
    cs_scratch_reset(&old.memory);
    *input = (struct cs_input){
        .tables = tables,
        .memory = old.memory,
        .staging = old.staging,
        .placed = old.placed,
        .room = old.room,
        .slot = *slot,
        .needs = needs,
        .n_tokens = counts->n_tokens,
        .n_labels = counts->n_labels,
    };
    memcpy(input->lists, old.lists, sizeof input->lists);
    memcpy(input->far, old.far, sizeof input->far);
    memcpy(input->n_items, counts->n_items, sizeof input->n_items);
    memcpy(input->n_rows, counts->n_rows, sizeof input->n_rows);
    memcpy(input->n_fills, counts->n_fills, sizeof input->n_fills);
    memcpy(input->n_bytes, slot->head->n_bytes, sizeof input->n_bytes);
    CS_TRY(check_counts(input, tables->budget, index, err));
    for (int32_t e = 0; e < tables->budget->n_encoders; e++) {
        CS_TRY(check_items(input, e, index, err));
        if (needs & CS_INPUT_BESIDE)
            cs_input_prepare_fills(input, e);
        else
            cs_input_prepare_encoder(input, e);
        input->whole[e] =
            (struct cs_input_fills){input->n_fills[e], input->fill[e], input->item_of[e]};
    }
    const bool is_split = tables->context.ranks > 1;
    if ((needs & CS_INPUT_TOKENS) || is_split) /* where rows go is known from all of them */
        CS_TRY(cs_input_prepare_tokens(input, index, err));
    if (needs & CS_INPUT_LABELS)
        CS_TRY(prepare_labels(input, index, err));
    if (is_split)
        CS_TRY(cs_input_split(input, manifest, index, err));
    if (tables->context.lanes < 2)
        cs_input_join(input, (const struct cs_input *const[]){input});
    take_words(input);
    if (needs & CS_INPUT_CORRECT)
        input->correct = cs_scratch_take(&input->memory, (size_t)input->n_labels);
    return CS_OK;
}
