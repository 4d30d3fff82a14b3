/* Branch and bound for the assignment of least largest load (the paper's integer program: each
 * block on one rank, minimise Z >= load of every rank, optionally at most cap blocks per rank).
 *
 * Depth first over the blocks, heaviest first; a block tries the ranks from the lightest up, so the
 * first leaf is LPT. Pruned: ranks that would reach the best load known, ranks that are twins of
 * one tried before (equal load and, with a cap, equal count), and branches whose remaining blocks
 * do not fit under the best load. Stops at the lower bound or after max_nodes, never by the
 * clock. */
#include "core/plan/tokens/balance_exact.h"

#include <math.h>
#include <string.h>

struct level {
    int32_t rank; /* tried now, -1: none yet */
    double load;  /* of rank before the block was put there */
};

struct search {
    struct cs_balance_job *job;
    double *load;        /* (ranks) */
    int32_t *blocks;     /* (ranks) */
    struct level *level; /* (n) */
    double *rest;        /* (n + 1) work of the blocks from here on */
    int32_t *best;       /* (n) rank by sorted position */
    double best_max;
};

/* a comes before b in the order in which ranks are tried */
static bool is_before(const struct search *s, int32_t a, int32_t b)
{
    if (s->load[a] != s->load[b])
        return s->load[a] < s->load[b];
    if (s->job->cap > 0 && s->blocks[a] != s->blocks[b])
        return s->blocks[a] < s->blocks[b];
    return a < b;
}

static bool is_twin(const struct search *s, int32_t a, int32_t b)
{
    return s->load[a] == s->load[b] && (s->job->cap == 0 || s->blocks[a] == s->blocks[b]);
}

/* The next rank for a block after `last` (-1: the first); -1: none is left. O(ranks). */
static int32_t next_rank(const struct search *s, double work, int32_t last)
{
    int32_t next = -1;
    for (int32_t r = 0; r < s->job->ranks; r++) {
        if (!(s->load[r] + work < s->best_max) || (s->job->cap > 0 && s->blocks[r] == s->job->cap))
            continue;
        if (last >= 0 && (!is_before(s, last, r) || is_twin(s, last, r)))
            continue;
        if (next < 0 || is_before(s, r, next))
            next = r;
    }
    return next;
}

/* Room under the best load that the open ranks still have. Without a cap all ranks stay open and
 * their room exceeds the work as long as the best load exceeds the mean, which the bound covers. */
static bool has_room(const struct search *s, double work)
{
    double room = 0;
    if (s->job->cap == 0)
        return true;
    for (int32_t r = 0; r < s->job->ranks; r++)
        if (s->blocks[r] < s->job->cap)
            room += s->best_max - s->load[r];
    return room > work;
}

static void take_back(struct search *s, int32_t depth)
{
    struct level *level = &s->level[depth];
    s->load[level->rank] = level->load; /* restored, not subtracted: exact */
    s->blocks[level->rank]--;
}

static void keep(struct search *s)
{
    s->best_max = 0;
    for (int32_t i = 0; i < s->job->n; i++)
        s->best[i] = s->level[i].rank;
    for (int32_t r = 0; r < s->job->ranks; r++)
        s->best_max = fmax(s->best_max, s->load[r]);
}

/* Returns true when the whole tree was seen or the bound reached. */
static bool run(struct search *s)
{
    struct cs_balance_job *job = s->job;
    int32_t depth = 0;
    s->level[0].rank = -1;
    while (depth >= 0 && s->best_max > job->bound) {
        struct level *level = &s->level[depth];
        const double work = job->item[depth].work;
        if (level->rank >= 0)
            take_back(s, depth);
        level->rank = next_rank(s, work, level->rank);
        if (level->rank < 0 || !has_room(s, s->rest[depth])) {
            level->rank = -1;
            depth--;
            continue;
        }
        if (job->nodes++ >= job->max_nodes)
            return false;
        level->load = s->load[level->rank];
        s->load[level->rank] += work;
        s->blocks[level->rank]++;
        if (depth + 1 < job->n)
            s->level[++depth].rank = -1;
        else
            keep(s);
    }
    return true;
}

void cs_balance_improve(struct cs_balance_job *job)
{
    struct search s = {
        .job = job,
        .load = CS_NEW_ARRAY(job->arena, double, job->ranks),
        .blocks = CS_NEW_ARRAY(job->arena, int32_t, job->ranks),
        .level = CS_NEW_ARRAY(job->arena, struct level, job->n),
        .rest = CS_NEW_ARRAY(job->arena, double, job->n + 1),
        .best = CS_NEW_ARRAY(job->arena, int32_t, job->n),
    };
    for (int32_t i = 0; i < job->n; i++) { /* loads in the order of the search, heaviest first */
        s.best[i] = job->owner[job->item[i].block];
        s.load[s.best[i]] += job->item[i].work;
    }
    for (int32_t r = 0; r < job->ranks; r++) {
        s.best_max = fmax(s.best_max, s.load[r]);
        s.load[r] = 0;
    }
    for (int32_t i = job->n - 1; i >= 0; i--)
        s.rest[i] = s.rest[i + 1] + job->item[i].work;
    job->is_exhausted = run(&s);
    for (int32_t i = 0; i < job->n; i++)
        job->owner[job->item[i].block] = s.best[i];
}
