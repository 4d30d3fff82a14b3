/* Which rows of a slot go from which rank of a context to which, as runs of neighbours. */
#include "worker/slot/row_runs.h"

#include <string.h>

#include "core/plan/context.h"

static int32_t *ints(struct cs_input *in, int64_t n)
{
    return cs_scratch_take(&in->memory, (size_t)n * sizeof(int32_t));
}

/* Runs, rank by rank. */
struct runs_maker {
    struct cs_row_run *run;
    int32_t *first, *rows, rank;
};

static int32_t ranks_of(const struct cs_input *in)
{
    return in->tables->context.ranks > 1 ? in->tables->context.ranks : 1;
}

static struct runs_maker begin_runs(struct cs_input *in, int32_t most)
{
    const int32_t ranks = ranks_of(in);
    struct runs_maker m = {
        .run = cs_scratch_take(&in->memory, ((size_t)most + 1) * sizeof(struct cs_row_run)),
        .first = ints(in, ranks + 1),
        .rows = ints(in, ranks),
        .rank = -1};
    memset(m.first, 0, ((size_t)ranks + 1) * sizeof *m.first);
    memset(m.rows, 0, (size_t)ranks * sizeof *m.rows);
    return m;
}

static void next_rank(struct runs_maker *m)
{
    m->rank++;
    m->first[m->rank + 1] = m->first[m->rank];
}

static void add_rows(struct runs_maker *m, int32_t row, int32_t n)
{
    int32_t *end = &m->first[m->rank + 1];
    struct cs_row_run *last = *end > m->first[m->rank] ? &m->run[*end - 1] : NULL;
    if (last != NULL && last->row + last->n == row)
        last->n += n;
    else
        m->run[(*end)++] = (struct cs_row_run){row, n};
    m->rows[m->rank] += n;
}

static struct cs_row_runs runs_of(const struct runs_maker *m)
{
    return (struct cs_row_runs){m->run, m->first, m->rows};
}

struct cs_row_runs cs_row_runs_make(struct cs_input *in, const int32_t *owner, const int32_t *at,
                                    int32_t n)
{
    struct runs_maker m = begin_runs(in, n);
    for (int32_t r = 0; r < ranks_of(in); r++) {
        next_rank(&m);
        for (int32_t i = 0; i < n; i++)
            if (owner == NULL || owner[at != NULL ? at[i] : i] == r)
                add_rows(&m, i, 1);
    }
    return runs_of(&m);
}

/* Rows of the slot's blocks that `from` has and `to` needs. */
static void add_needed(struct runs_maker *m, const struct cs_input *in, const int32_t *owner,
                       const uint8_t *need, int32_t from, int32_t to)
{
    const int32_t n = in->n_tokens, block = cs_context_block(n, in->tables->context.ranks);
    const int32_t n_blocks = n > 0 ? (n - 1) / block + 1 : 0;
    next_rank(m);
    for (int32_t b = 0; b < n_blocks && from != to; b++)
        if (owner[b * block] == from && need[(int64_t)to * n_blocks + b])
            add_rows(m, b * block, b < n_blocks - 1 ? block : n - b * block);
}

void cs_row_needs_make(struct cs_input *in, const int32_t *owner)
{
    const struct cs_input_context *c = &in->tables->context;
    const int32_t most = in->n_tokens / cs_context_block(in->n_tokens, c->ranks) + 1;
    uint8_t *need = cs_scratch_take(&in->memory, (size_t)c->ranks * (size_t)most);
    for (int32_t m = 0; m < in->tables->n_masks; m++) {
        struct cs_row_needs *out = &in->split->need[m];
        if (in->tables->mask[m].encoder >= 0)
            continue;
        struct runs_maker come = begin_runs(in, most), go = begin_runs(in, most);
        cs_context_needs(&in->mask[m], owner, c->ranks, need);
        for (int32_t r = 0; r < c->ranks; r++) {
            add_needed(&come, in, owner, need, r, c->place);
            add_needed(&go, in, owner, need, c->place, r);
        }
        *out = (struct cs_row_needs){.come = runs_of(&come), .go = runs_of(&go)};
    }
}
