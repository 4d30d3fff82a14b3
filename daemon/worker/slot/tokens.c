/* The LLM's rows of a slot: ids without placeholders, what each row is, where it stands, who sees it. */
#include "worker/slot/tokens.h"

#include <string.h>

#include "core/data/axes.h"

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

enum cs_status cs_input_prepare_tokens(struct cs_input *in, int index, struct cs_err *err)
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
