/* Rounds the LLM's rows of a slot up to a bucket, for devices where what repeats is cheaper than
 * what is small. */
#include "worker/slot/place/pad.h"

#include <string.h>

#include "worker/slot/split.h"
#include "worker/slot/tokens.h"

enum { ROWS = CS_INPUT_ROWS_ADDED + 1, DOCUMENTS = 8 };

static int32_t round_up(int32_t n, int32_t to)
{
    return (n + to - 1) / to * to;
}

/* Documents beside those of the slot, so that their number repeats too; as far as there are rows
 * for them. */
static int32_t wanted_documents(const struct cs_input *in)
{
    return round_up(in->mask[0].n_segments, DOCUMENTS) - in->mask[0].n_segments;
}

static int32_t bucket(int32_t n, int32_t most)
{
    const int32_t rows = round_up(n, ROWS);
    return rows < most ? rows : most;
}

int32_t cs_input_bucket(const struct cs_input *in)
{
    return bucket(cs_split_rows(in),
                  in->split != NULL ? in->tables->context.most : in->tables->budget->seq_tokens);
}

/* A number that no document of the slot has, nor the ones after it. */
static int32_t first_free_document(const struct cs_input *in)
{
    int32_t last = -1;
    for (int32_t i = 0; i < in->n_tokens; i++)
        if (in->slot.doc[i] > last)
            last = in->slot.doc[i];
    return last < INT32_MAX - DOCUMENTS ? last + 1 : INT32_MIN;
}

/* Rows of a slot: n that there are, and as many as they become. */
struct rows {
    struct cs_input *in;
    int32_t n, all;
};

/* all values in the slot's memory: n of the host's, then the same value again and again */
static void *longer(const struct rows *r, const void *host, size_t size, const void *value)
{
    char *out = cs_scratch_take(&r->in->memory, (size_t)r->all * size);
    memcpy(out, host, (size_t)r->n * size);
    for (size_t i = (size_t)r->n; i < (size_t)r->all; i++)
        memcpy(out + i * size, value, size);
    return out;
}

/* The rows behind the own ones of a context's rank: one document that no other rank sees. */
static void add_document(const struct rows *r, struct cs_mask_plan *mask)
{
    const int32_t n = r->n, name = first_free_document(r->in);
    int32_t *pos = longer(r, mask->pos, sizeof *pos, &n);
    for (int32_t i = n; i < r->all; i++)
        pos[i] = i - n;
    mask->doc = longer(r, mask->doc, sizeof *mask->doc, &name);
    mask->pos = pos;
}

/* The rows behind the slot's tokens: documents of their own, all of a row but the last. */
static void add_documents(const struct rows *r, struct cs_mask_plan *mask)
{
    static const int32_t none = 0;
    const int32_t n = r->n, rows = r->all, wanted = wanted_documents(r->in);
    const int32_t most = rows - n, more = wanted > most ? most : wanted > 1 ? wanted : 1;
    const int32_t name = first_free_document(r->in);
    int32_t *doc = longer(r, mask->doc, sizeof *doc, &none);
    int32_t *pos = longer(r, mask->pos, sizeof *pos, &none);
    int32_t *segment =
        cs_scratch_take(&r->in->memory, (size_t)(mask->n_segments + more + 1) * sizeof *segment);
    memcpy(segment, mask->segment, (size_t)mask->n_segments * sizeof *segment);
    for (int32_t i = n; i < rows; i++) {
        const int32_t k = i - n < more ? i - n : more - 1;
        doc[i] = name + k;
        pos[i] = i - n - k;
        if (i - n == k)
            segment[mask->n_segments + k] = i;
    }
    mask->n_segments += more;
    segment[mask->n_segments] = rows;
    mask->doc = doc;
    mask->pos = pos;
    mask->segment = segment;
}

/* keys of a context lie by rank, behind the own rows: these have no documents of their own */
static bool is_of_own_rows(const struct cs_input *in)
{
    return in->split != NULL && !in->tables->context.moves_heads;
}

/* All rows are here, or they come, beside the own ones. */
static int32_t rows_of_masks(const struct cs_input *in)
{
    const bool is_here = is_of_own_rows(in) || (in->split != NULL && in->split->group.n == 1);
    return is_here ? in->llm_rows : bucket(in->mask[0].n_tokens, in->tables->budget->seq_tokens);
}

static void pad_masks(struct cs_input *in)
{
    static const int32_t none = -1;
    static const uint64_t text = CS_MASK_TEXT;
    struct cs_mask_plan longest = in->mask[0], *mask = &longest;
    const bool is_own = is_of_own_rows(in);
    const struct rows r = {in, mask->n_tokens, rows_of_masks(in)};
    if (r.all == r.n)
        return;
    if (is_own)
        add_document(&r, mask);
    else
        add_documents(&r, mask);
    if (mask->item != NULL)
        mask->item = longer(&r, mask->item, sizeof *mask->item, &none);
    if (mask->word != NULL)
        mask->word = longer(&r, mask->word, sizeof *mask->word, &text);
    mask->n_tokens = r.all;
    cs_input_set_masks(in, mask);
}

void cs_input_pad(struct cs_input *in)
{
    static const int32_t none = -1;
    const struct rows own = {in, cs_split_rows(in), in->llm_rows};
    if (own.all > own.n)
        in->embed_ids = longer(&own, in->embed_ids, sizeof *in->embed_ids, &none);
    pad_masks(in);
}

/* Any others will do: nobody reads what becomes of them. */
void cs_input_pick(struct cs_input *in, bool is_padded)
{
    const int32_t n = in->n_labels;
    in->picked = in->label_rows;
    in->n_picked = is_padded ? bucket(n, in->llm_rows) : n;
    if ((in->needs & CS_INPUT_LABELS) == 0 || in->n_picked == n)
        return;
    bool *has_label = cs_scratch_take(&in->memory, (size_t)in->llm_rows * sizeof *has_label);
    memset(has_label, 0, (size_t)in->llm_rows * sizeof *has_label);
    in->picked = cs_scratch_take(&in->memory, (size_t)in->n_picked * sizeof *in->picked);
    memcpy(in->picked, in->label_rows, (size_t)n * sizeof *in->picked);
    for (int32_t i = 0; i < n; i++)
        has_label[in->label_rows[i]] = true;
    for (int32_t row = 0, at = n; at < in->n_picked; row++)
        if (!has_label[row])
            in->picked[at++] = row;
}
