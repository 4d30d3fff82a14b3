/* Keys lie as they arrive: first the own rows, then those of every other rank, each rank's in their
 * order in the slot. Attention of hosts is faster where keys ascend, so there they are sorted once
 * more. Where the own ones are attended to by themselves (tables->context.own_first) there are two
 * masks of the own queries: one over the own keys, whose partial results need nobody, and one over those
 * that come. */
#include "worker/slot/row_keys.h"

#include <string.h>

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

static int32_t rows_of(const struct cs_row_runs *runs, int32_t ranks)
{
    int32_t n = 0;
    for (int32_t r = 0; r < ranks; r++)
        n += runs->rows[r];
    return n;
}

/* The rows of runs, by rank, to out; returns where the rows of the next rank begin. */
static int32_t *list_rows(const struct cs_row_runs *runs, int32_t rank, int32_t *out)
{
    for (int32_t i = runs->first[rank]; i < runs->first[rank + 1]; i++)
        for (int32_t k = 0; k < runs->run[i].n; k++)
            *out++ = runs->run[i].row + k;
    return out;
}

static int32_t *list_all(struct cs_input *in, const struct cs_row_runs *runs, int32_t n)
{
    int32_t *rows = ints(in, n), *at = rows;
    for (int32_t r = 0; r < in->split->ranks; r++)
        at = list_rows(runs, r, at);
    return rows;
}

/* ---- the mask's keys ---- */

/* values of the own rows, where they are of the plan, then those of the slot's rows that come */
static void *join(struct cs_input *in, const void *own, const void *all, size_t size,
                  const struct cs_row_keys *k, const int32_t *come)
{
    if (all == NULL)
        return NULL;
    const int32_t own_rows = k->own - k->first;
    char *out = cs_scratch_take(&in->memory, (size_t)(k->n - k->first) * size);
    memcpy(out, own, (size_t)own_rows * size);
    for (int32_t i = 0; i < k->n - k->own; i++)
        memcpy(out + (size_t)(own_rows + i) * size, (const char *)all + (size_t)come[i] * size,
               size);
    return out;
}

/* where the rows of each rank begin, the own ones in front; returns how many ranks they are of */
static int32_t pieces(struct cs_input *in, const struct cs_row_keys *k,
                      const struct cs_row_runs *come, const int32_t **out)
{
    const int32_t ranks = in->split->ranks;
    int32_t *begin = ints(in, ranks + 1), n = 0;
    begin[0] = 0;
    if (!in->tables->context.own_first)
        begin[++n] = k->own;
    for (int32_t r = 0; r < ranks; r++)
        if (r != in->split->place) {
            begin[n + 1] = begin[n] + come->rows[r];
            n++;
        }
    *out = begin;
    return n;
}

/* own, all: the rows of here as they are padded, and those of the slot */
static void make_plan(struct cs_input *in, struct cs_row_needs *need,
                      const struct cs_mask_plan *own, const struct cs_mask_plan *all,
                      const int32_t *come)
{
    struct cs_row_keys *k = &need->keys;
    k->plan = (struct cs_mask_plan){
        .rule = own->rule,
        .n_tokens = k->n - k->first,
        .doc = join(in, own->doc, all->doc, sizeof *all->doc, k, come),
        .pos = join(in, own->pos, all->pos, sizeof *all->pos, k, come),
        .item = join(in, own->item, all->item, sizeof *all->item, k, come),
        .word = join(in, own->word, all->word, sizeof *all->word, k, come),
    };
    k->plan.n_segments = pieces(in, k, &need->come, &k->plan.segment);
}

/* Own keys are the own queries once more. mask: of these. */
static void make_own(struct cs_input *in, struct cs_row_keys *k, struct cs_mask_plan *mask)
{
    int32_t *segment = ints(in, 2);
    segment[0] = 0;
    segment[1] = k->own;
    k->own_plan = *mask;
    k->own_plan.n_segments = 1;
    k->own_plan.segment = segment;
    k->far = *mask;
    k->far.keys = &k->plan;
    mask->keys = &k->own_plan;
}

/* ---- what goes, and what comes back ---- */

/* the slot's rows to the own ones */
static void to_own(const struct cs_input_split *s, int32_t *row, int32_t n)
{
    int32_t at = 0;
    for (int32_t i = 0; i < n; i++) {
        if (at >= s->n || s->row[at] > row[i])
            at = 0; /* rows of the next rank */
        while (s->row[at] != row[i])
            at++;
        row[i] = at;
    }
}

/* Rows of every rank that need not be gathered: mostly, where there are two ranks. */
static const int32_t *firsts(struct cs_input *in, const struct cs_row_runs *runs, const int32_t *go)
{
    int32_t *first = ints(in, in->split->ranks);
    for (int32_t r = 0; r < in->split->ranks; r++) {
        first[r] = runs->rows[r] > 0 ? go[0] : 0;
        for (int32_t i = 0; i < runs->rows[r]; i++)
            if (*go++ != first[r] + i)
                return NULL;
    }
    return first;
}

/* For every own row, in the order of ranks: the own gradient, and what others give to it, which lies
 * behind the gradients of all keys, by rank. */
static void make_back(struct cs_input *in, struct cs_row_needs *need, const int32_t *go)
{
    struct cs_row_keys *k = &need->keys;
    const int32_t n = k->own + k->n_go;
    int32_t *start = ints(in, k->own + 1), *index = ints(in, n), *next = ints(in, k->own);
    float *weight = cs_scratch_take(&in->memory, (size_t)n * sizeof *weight);
    start[0] = 0;
    for (int32_t i = 0; i < k->own; i++)
        start[i + 1] = 1;
    for (int32_t i = 0; i < k->n_go; i++)
        start[go[i] + 1]++;
    for (int32_t i = 0; i < k->own; i++)
        start[i + 1] += start[i];
    memcpy(next, start, (size_t)k->own * sizeof *next);
    for (int32_t r = 0, at = 0; r < in->split->ranks; r++) {
        for (int32_t i = 0; r == in->split->place && i < k->own; i++)
            index[next[i]++] = i;
        for (int32_t end = at + need->go.rows[r]; at < end; at++)
            index[next[go[at]]++] = k->n + at;
    }
    for (int32_t i = 0; i < n; i++)
        weight[i] = 1.0f;
    k->back = (struct cs_row_mix){k->own, n, start, index, weight};
}

/* ---- hosts ---- */

static void *sorted(struct cs_input *in, const void *values, size_t size,
                    const struct cs_row_keys *k)
{
    if (values == NULL)
        return NULL;
    const int32_t n = k->n - k->first;
    char *out = cs_scratch_take(&in->memory, (size_t)n * size);
    for (int32_t i = 0; i < n; i++)
        memcpy(out + (size_t)i * size, (const char *)values + (size_t)k->order[i] * size, size);
    return out;
}

/* Rows ascend in every rank's piece: they are put where they belong in the slot. */
static void sort(struct cs_input *in, struct cs_row_keys *k, const int32_t *come)
{
    const int32_t all = k->n - k->first;
    int32_t *at = ints(in, in->n_tokens), *order = ints(in, all), *place = ints(in, all);
    for (int32_t i = 0; i < in->n_tokens; i++)
        at[i] = -1;
    for (int32_t i = k->first; i < k->own; i++)
        at[in->split->row[i]] = i - k->first;
    for (int32_t i = k->own; i < k->n; i++)
        at[come[i - k->own]] = i - k->first;
    for (int32_t i = 0, n = 0; i < in->n_tokens; i++)
        if (at[i] >= 0) {
            order[n] = at[i];
            place[at[i]] = n++;
        }
    k->order = order;
    k->place = place;
    k->plan.doc = sorted(in, k->plan.doc, sizeof *k->plan.doc, k);
    k->plan.pos = sorted(in, k->plan.pos, sizeof *k->plan.pos, k);
    k->plan.item = sorted(in, k->plan.item, sizeof *k->plan.item, k);
    k->plan.word = sorted(in, k->plan.word, sizeof *k->plan.word, k);
}

bool cs_row_keys_are_sorted(const struct cs_input *input)
{
    return input->tables->device == NULL || input->tables->device->mem == NULL;
}

/* ---- all of a mask ---- */

static void make_keys(struct cs_input *in, int32_t m)
{
    struct cs_row_needs *need = &in->split->need[m];
    struct cs_row_keys *k = &need->keys;
    const int32_t n_come = rows_of(&need->come, in->split->ranks);
    const bool own_first = in->tables->context.own_first;
    *k = (struct cs_row_keys){.own = in->mask[m].n_tokens,
                              .n = in->mask[m].n_tokens + n_come,
                              .n_go = rows_of(&need->go, in->split->ranks),
                              .first = own_first ? in->mask[m].n_tokens : 0};
    const int32_t *come = list_all(in, &need->come, n_come);
    int32_t *go = list_all(in, &need->go, k->n_go);
    to_own(in->split, go, k->n_go);
    k->go = go;
    k->go_first = firsts(in, &need->go, go);
    make_plan(in, need, &in->mask[m], &in->split->all, come);
    make_back(in, need, go);
    if (cs_row_keys_are_sorted(in))
        sort(in, k, come);
    in->mask[m].keys = &k->plan;
    if (own_first)
        make_own(in, k, &in->mask[m]);
    need->at = *k;
}

void cs_row_keys_make(struct cs_input *input)
{
    if (input->split == NULL || input->split->place < 0 || input->tables->context.moves_heads)
        return;
    for (int32_t m = 0; m < input->tables->n_masks; m++)
        if (input->tables->mask[m].encoder < 0)
            make_keys(input, m);
}

/* Of keys of the plan: fewer own ones may mean more that come, all together are bounded. */
static const void *put(struct cs_slot_block *b, const struct cs_row_keys *k, const void *host,
                       size_t size)
{
    if (b->is_host || host == NULL)
        return host;
    return cs_slot_block_put_room(b, host, (size_t)(k->n - k->first) * size, (size_t)k->n * size);
}

/* make_own where operators read */
static void take_own(struct cs_row_keys *at, struct cs_mask_plan *mask)
{
    mask->keys = NULL;
    at->own_plan = at->far = *mask;
    at->own_plan.segment = NULL;
    at->far.keys = &at->plan;
    mask->keys = &at->own_plan;
}

void cs_row_keys_put(struct cs_input *in, int32_t mask, struct cs_slot_block *b)
{
    const struct cs_row_keys *k = &in->split->need[mask].keys;
    struct cs_row_keys *at = &in->split->need[mask].at;
    *at = *k;
    at->go = cs_slot_block_put(b, k->go, (size_t)k->n_go * sizeof *k->go);
    at->back.start = cs_slot_block_put(b, k->back.start, ((size_t)k->own + 1) * sizeof(int32_t));
    at->back.index = cs_slot_block_put(b, k->back.index, (size_t)k->back.n * sizeof(int32_t));
    at->back.weight = cs_slot_block_put(b, k->back.weight, (size_t)k->back.n * sizeof(float));
    at->plan.doc = put(b, k, k->plan.doc, sizeof *k->plan.doc);
    at->plan.pos = put(b, k, k->plan.pos, sizeof *k->plan.pos);
    at->plan.item = put(b, k, k->plan.item, sizeof *k->plan.item);
    at->plan.word = put(b, k, k->plan.word, sizeof *k->plan.word);
    at->plan.segment = NULL; /* says where tiles begin, on the host */
    in->at.mask[mask].keys = &at->plan;
    if (in->tables->context.own_first)
        take_own(at, &in->at.mask[mask]);
}
