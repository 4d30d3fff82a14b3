/* Checks a slot against its manifest and prepares what layers need of it. */
#include "core/data/axes.h"
#include "worker/slot/item.h"

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

void cs_input_set_masks(struct cs_input *in, const struct cs_mask_plan *rows)
{
    const struct cs_input_tables *t = in->tables;
    for (int32_t m = 0; m < t->n_masks; m++) {
        if (t->mask[m].encoder >= 0)
            continue;
        in->mask[m] = *rows;
        in->mask[m].rule = t->mask[m].rule;
    }
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

/* Encoder rows go to ascending, distinct LLM rows; those rows have no embedding of their own. */
static enum cs_status prepare_fill(struct cs_input *in, int32_t e, int index, struct cs_err *err)
{
    const int32_t *rows = in->slot.rows[e];
    for (int32_t i = 0; i < in->n_fills[e]; i++) {
        if (rows[i] < 0 || rows[i] >= in->n_tokens || (i > 0 && rows[i] <= rows[i - 1]))
            return cs_fail(err, CS_CORRUPT,
                           "slot %d: row %d of encoder %d goes to token row %d of %d, after row %d",
                           index, i, e, rows[i], in->n_tokens, i > 0 ? rows[i - 1] : -1);
        if (in->embed_ids[rows[i]] < 0)
            return cs_fail(err, CS_CORRUPT, "slot %d: two encoders fill token row %d", index,
                           rows[i]);
        in->embed_ids[rows[i]] = -1;
    }
    return CS_OK;
}

static enum cs_status check_ids(const struct cs_input *in, int index, struct cs_err *err)
{
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (in->embed_ids[i] >= in->tables->vocab || (in->slot.ids[i] < 0 && in->embed_ids[i] >= 0))
            return cs_fail(err, CS_CORRUPT,
                           "slot %d: token %d at row %d is outside the vocabulary of %d", index,
                           in->slot.ids[i], i, in->tables->vocab);
    return CS_OK;
}

/* they choose rows of the rope tables */
static enum cs_status check_positions(const struct cs_input *in, int index, struct cs_err *err)
{
    const int32_t limit = in->tables->n_positions;
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (in->slot.pos[i] < 0 || in->slot.pos[i] >= limit)
            return cs_fail(err, CS_CORRUPT, "slot %d: position %d at row %d, the limit is %d",
                           index, in->slot.pos[i], i, limit);
    return CS_OK;
}

/* Rules that look at what a token is get an item and a word per row; for the others all rows are
 * text. Items are counted over the slot: they are compared within a document only. Text sees the
 * modalities of all encoders. */
static void prepare_spans(struct cs_input *in)
{
    const struct cs_input_tables *t = in->tables;
    bool is_asked = false;
    for (int32_t m = 0; m < t->n_masks; m++)
        is_asked |= t->mask[m].encoder < 0 && cs_mask_asks_what(t->mask[m].rule.kind);
    const size_t n = (size_t)in->n_tokens;
    uint64_t text = CS_MASK_TEXT;
    int32_t first = 0;
    if (!is_asked)
        return;
    in->item = cs_scratch_take(&in->memory, n * sizeof *in->item);
    in->word = cs_scratch_take(&in->memory, n * sizeof *in->word);
    for (int32_t e = 0; e < t->budget->n_encoders; e++)
        text |= CS_MASK_MODALITY(e);
    for (size_t i = 0; i < n; i++) {
        in->item[i] = -1;
        in->word[i] = text;
    }
    for (int32_t e = 0; e < t->budget->n_encoders; first += in->n_items[e++])
        for (int32_t i = 0; i < in->n_fills[e]; i++) {
            in->item[in->fill[e][i]] = first + in->item_of[e][i];
            in->word[in->fill[e][i]] = CS_MASK_MODALITY(e);
        }
}

static bool turns_by_axes(const struct cs_input_tables *t)
{
    bool is_asked = false;
    for (int32_t r = 0; r < t->n_ropes; r++)
        is_asked |= t->rope[r].encoder < 0 && t->rope[r].rope->axes != CS_ROPE_LINE;
    return is_asked;
}

/* Pictures have a place in height and width beside the one in time; sounds have not. */
static enum cs_status prepare_axes(struct cs_input *in, int index, struct cs_err *err)
{
    const struct cs_input_tables *t = in->tables;
    int32_t merge[CS_MAX_ENCODERS] = {0};
    if (!turns_by_axes(t))
        return CS_OK;
    for (int32_t e = 0; e < t->budget->n_encoders; e++) {
        const struct cs_front *front = &cs_graph_encoder(t->graph, e)->arch.front;
        merge[e] = front->stem == CS_STEM_PATCHES ? front->merge : 0;
    }
    in->axes = cs_scratch_take(&in->memory, 3 * (size_t)in->n_tokens * sizeof *in->axes);
    cs_slot_axes(&in->slot, t->budget, merge, in->axes);
    for (int32_t i = 0; i < 3 * in->n_tokens; i++)
        if (in->axes[i] < 0 || in->axes[i] >= t->n_positions)
            return cs_fail(err, CS_CORRUPT,
                           "slot %d: a row stands at %d of an axis, the limit is %d", index,
                           in->axes[i], t->n_positions);
    return CS_OK;
}

static enum cs_status prepare_tokens(struct cs_input *in, int index, struct cs_err *err)
{
    const size_t n = (size_t)in->n_tokens;
    in->embed_ids = cs_scratch_take(&in->memory, n * sizeof(int32_t));
    if (n > 0)
        memcpy(in->embed_ids, in->slot.ids, n * sizeof(int32_t));
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (in->embed_ids[i] < 0)
            return cs_fail(err, CS_CORRUPT, "slot %d: token %d at row %d", index, in->embed_ids[i],
                           i);
    for (int32_t e = 0; e < in->tables->budget->n_encoders; e++)
        CS_TRY(prepare_fill(in, e, index, err));
    CS_TRY(check_ids(in, index, err));
    CS_TRY(check_positions(in, index, err));
    CS_TRY(prepare_axes(in, index, err));
    prepare_spans(in);
    int32_t *segment = cs_scratch_take(&in->memory, (n + 1) * sizeof(int32_t));
    const struct cs_mask_plan tokens = {
        .n_tokens = in->n_tokens,
        .doc = in->slot.doc,
        .pos = in->slot.pos,
        .item = in->item,
        .word = in->word,
        .n_segments = cs_mask_segments(in->slot.doc, in->n_tokens, segment),
        .segment = segment,
    };
    cs_input_set_masks(in, &tokens);
    return CS_OK;
}

static enum cs_status prepare_labels(struct cs_input *in, int index, struct cs_err *err)
{
    const size_t n = (size_t)in->n_labels;
    in->label_rows = cs_scratch_take(&in->memory, n * sizeof(int32_t));
    in->label_ids = cs_scratch_take(&in->memory, n * sizeof(int32_t));
    in->row_loss = cs_scratch_take(&in->memory, n * sizeof *in->row_loss);
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

enum cs_status cs_input_prepare(struct cs_input *input, const struct cs_input_tables *tables,
                                const struct cs_manifest *manifest, int index,
                                const struct cs_slot *slot, unsigned needs, struct cs_err *err)
{
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
        .n_tokens = manifest->n_tokens[index],
        .n_labels = manifest->n_labels[index],
    };
    memcpy(input->lists, old.lists, sizeof input->lists);
    memcpy(input->n_items, manifest->n_items[index], sizeof input->n_items);
    memcpy(input->n_rows, manifest->n_rows[index], sizeof input->n_rows);
    memcpy(input->n_fills, manifest->n_fills[index], sizeof input->n_fills);
    CS_TRY(check_counts(input, tables->budget, index, err));
    for (int32_t e = 0; e < tables->budget->n_encoders; e++) {
        CS_TRY(check_items(input, e, index, err));
        cs_input_prepare_encoder(input, e);
    }
    if (needs & CS_INPUT_TOKENS)
        CS_TRY(prepare_tokens(input, index, err));
    if (needs & CS_INPUT_LABELS)
        CS_TRY(prepare_labels(input, index, err));
    if (needs & CS_INPUT_CORRECT)
        input->correct = cs_scratch_take(&input->memory, (size_t)input->n_labels);
    return CS_OK;
}

void cs_input_by_source(const struct cs_input *input, struct cs_source_loss *sources)
{
    int32_t label = 0;
    for (int32_t s = 0; s < input->slot.head->n_samples; s++) {
        struct cs_source_loss *own = &sources[input->slot.sample_sources[s]];
        const int32_t end = input->slot.sample_rows[s + 1];
        for (; label < input->n_labels && input->label_rows[label] < end; label++) {
            own->sum += input->row_loss[label];
            own->tokens++;
        }
    }
}

void cs_input_exact(const struct cs_input *input, int64_t *n_samples, int64_t *n_exact)
{
    int32_t label = 0;
    *n_samples = *n_exact = 0;
    for (int32_t s = 0; s < input->slot.head->n_samples; s++) {
        const int32_t end = input->slot.sample_rows[s + 1];
        int32_t n = 0, right = 0;
        for (; label < input->n_labels && input->label_rows[label] < end; label++) {
            n++;
            right += input->correct[label] != 0;
        }
        *n_samples += n > 0;
        *n_exact += n > 0 && n == right;
    }
}
