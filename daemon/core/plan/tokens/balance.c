/* Static layouts, LPT and the choice of the best; branch and bound is in balance_exact.c. */
#include "core/plan/tokens/balance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/base/units.h"
#include "core/plan/tokens/balance_exact.h"
#include "core/plan/tokens/ranges.h"

enum { STRIPE_BLOCKS = 16, MAX_RANKS = 1 << 20 };

static const char *const how_names[CS_BALANCE_HOWS] = {"best", "uniform", "zigzag", "striped",
                                                       "lpt",  "exact",   "random"};

const char *cs_balance_how_name(enum cs_balance_how how)
{
    return how < CS_BALANCE_HOWS ? how_names[how] : "unknown";
}

bool cs_balance_how_from_name(const char *name, enum cs_balance_how *how)
{
    for (int i = 0; i < CS_BALANCE_HOWS; i++)
        if (strcmp(name, how_names[i]) == 0) {
            *how = (enum cs_balance_how)i;
            return true;
        }
    return false;
}

static void fill_range(int32_t *owner, struct cs_token_range range, int32_t rank)
{
    for (int32_t b = range.begin; b < range.end; b++)
        owner[b] = rank;
}

static void uniform(struct cs_balance_job *job)
{
    for (int32_t r = 0; r < job->ranks; r++)
        fill_range(job->owner, cs_balance_part(job->n, job->ranks, r), r);
}

static void zigzag(struct cs_balance_job *job)
{
    for (int32_t r = 0; r < job->ranks; r++) {
        struct cs_token_range range[2];
        cs_balance_zigzag_ranges(job->n, job->ranks, r, range);
        fill_range(job->owner, range[0], r);
        fill_range(job->owner, range[1], r);
    }
}

static void striped(struct cs_balance_job *job)
{
    int32_t stripe = STRIPE_BLOCKS;
    while (stripe > 1 && job->n < 2 * (int64_t)stripe * job->ranks)
        stripe /= 2;
    const int32_t half = ((job->n - 1) / stripe + 1) / 2;
    for (int32_t b = 0; b < job->n; b++) {
        const int32_t s = b / stripe;
        job->owner[b] = s < half ? s % job->ranks : job->ranks - 1 - (s - half) % job->ranks;
    }
}

static void shuffled(struct cs_balance_job *job)
{
    int32_t *order = CS_NEW_ARRAY(job->arena, int32_t, job->n);
    for (int32_t i = 0; i < job->n; i++) {
        const double u = cs_philox_uniform(job->seed, 0, (uint64_t)i);
        const int32_t j = (int32_t)(u * (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    for (int32_t i = 0; i < job->n; i++)
        job->owner[order[i]] = i % job->ranks;
}

/* Heaviest first, equal ones in their order. */
static int by_work(const void *a, const void *b)
{
    const struct cs_balance_item *x = a, *y = b;
    if (x->work != y->work)
        return x->work > y->work ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static void sort_blocks(struct cs_balance_job *job)
{
    job->item = CS_NEW_ARRAY(job->arena, struct cs_balance_item, job->n);
    for (int32_t b = 0; b < job->n; b++)
        job->item[b] = (struct cs_balance_item){job->work[b], b};
    qsort(job->item, (size_t)job->n, sizeof *job->item, by_work);
}

struct rank_load {
    double load;
    int32_t rank, blocks;
};

static bool is_lighter(const struct rank_load *a, const struct rank_load *b)
{
    return a->load < b->load || (a->load == b->load && a->rank < b->rank);
}

static void sift_down(struct rank_load *heap, int32_t n, int32_t i)
{
    for (;;) {
        int32_t least = i;
        for (int32_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < n && is_lighter(&heap[child], &heap[least]))
                least = child;
        if (least == i)
            return;
        const struct rank_load moved = heap[i];
        heap[i] = heap[least];
        heap[least] = moved;
        i = least;
    }
}

static void lpt(struct cs_balance_job *job)
{
    int32_t n = job->ranks;
    struct rank_load *heap = CS_NEW_ARRAY(job->arena, struct rank_load, n);
    for (int32_t r = 0; r < n; r++)
        heap[r].rank = r; /* equal loads in ascending order are a heap */
    for (int32_t i = 0; i < job->n; i++) {
        job->owner[job->item[i].block] = heap->rank;
        heap->load += job->item[i].work;
        if (++heap->blocks == job->cap)
            *heap = heap[--n]; /* full: leaves the heap */
        sift_down(heap, n, 0);
    }
}

static void exact(struct cs_balance_job *job)
{
    lpt(job);
    cs_balance_improve(job);
}

static void measure(const struct cs_balance_job *job, struct cs_balance_result *out)
{
    memset(out->load, 0, (size_t)job->ranks * sizeof *out->load);
    for (int32_t b = 0; b < job->n; b++)
        out->load[job->owner[b]] += job->work[b];
    out->max = 0;
    for (int32_t r = 0; r < job->ranks; r++)
        out->max = fmax(out->max, out->load[r]);
}

static bool is_within_cap(const struct cs_balance_job *job)
{
    int32_t *blocks = CS_NEW_ARRAY(job->arena, int32_t, job->ranks);
    for (int32_t b = 0; b < job->n; b++)
        if (++blocks[job->owner[b]] > job->cap && job->cap > 0)
            return false;
    return true;
}

typedef void (*layout_fn)(struct cs_balance_job *job);

static const layout_fn layouts[CS_BALANCE_HOWS] = {
    [CS_BALANCE_UNIFORM] = uniform, [CS_BALANCE_ZIGZAG] = zigzag, [CS_BALANCE_STRIPED] = striped,
    [CS_BALANCE_LPT] = lpt,         [CS_BALANCE_EXACT] = exact,   [CS_BALANCE_RANDOM] = shuffled,
};

/* In ascending order of how scattered a rank's tokens are: a tie goes to the simpler layout. */
static void best(struct cs_balance_job *job, struct cs_balance_result *out)
{
    struct cs_balance_result trial = *out;
    trial.load = CS_NEW_ARRAY(job->arena, double, job->ranks);
    trial.owner = job->owner;
    out->max = INFINITY;
    for (int how = CS_BALANCE_UNIFORM; how <= CS_BALANCE_EXACT && out->max > job->bound; how++) {
        layouts[how](job);
        if (!is_within_cap(job))
            continue;
        measure(job, &trial);
        if (trial.max < out->max) {
            out->max = trial.max;
            out->how = (enum cs_balance_how)how;
            memcpy(out->owner, trial.owner, (size_t)job->n * sizeof *out->owner);
        }
    }
    job->owner = out->owner;
}

static enum cs_status check(const double *work, int32_t n, const struct cs_balance_options *options,
                            struct cs_err *err)
{
    if (n < 1 || options->ranks < 1 || options->ranks > MAX_RANKS)
        return cs_fail(err, CS_INVALID, "%d block%s on %d rank%s; both must be at least 1", (int)n,
                       CS_PLURAL(n), (int)options->ranks, CS_PLURAL(options->ranks));
    for (int32_t b = 0; b < n; b++)
        if (!(work[b] >= 0 && work[b] < INFINITY))
            return cs_fail(err, CS_INVALID, "work of block %d is %g; it must be 0 or more", (int)b,
                           work[b]);
    if (options->cap < 0 || (options->cap > 0 && (int64_t)options->cap * options->ranks < n))
        return cs_fail(err, CS_INVALID,
                       "%d ranks of at most %d blocks cannot hold %d blocks; the cap must be at "
                       "least %d",
                       (int)options->ranks, (int)options->cap, (int)n,
                       (int)((n - 1) / options->ranks + 1));
    if (options->nodes < 0 || options->how >= CS_BALANCE_HOWS)
        return cs_fail(err, CS_INVALID, "unknown balance %d or fewer than 0 nodes",
                       (int)options->how);
    return CS_OK;
}

/* No assignment is better: the heaviest block, the mean (rounded up where all work is whole), and
 * the two lightest of the ranks + 1 heaviest blocks, which must share a rank. */
static double lower_bound(const struct cs_balance_job *job)
{
    double sum = 0, bound = job->item[0].work;
    bool is_whole = true;
    for (int32_t i = 0; i < job->n; i++) {
        sum += job->work[i];
        is_whole = is_whole && job->work[i] == floor(job->work[i]);
    }
    is_whole = is_whole && sum < 9007199254740992.0;
    bound = fmax(bound, is_whole ? ceil(sum / job->ranks) : sum / job->ranks);
    if (job->n > job->ranks)
        bound = fmax(bound, job->item[job->ranks - 1].work + job->item[job->ranks].work);
    return bound;
}

static int64_t default_nodes(const struct cs_balance_options *options)
{
    const int64_t nodes =
        options->how == CS_BALANCE_EXACT ? CS_BALANCE_NODES : CS_BALANCE_BEST_NODES;
    return options->ranks <= 16 ? nodes : nodes * 16 / options->ranks;
}

enum cs_status cs_balance(const double *work, int32_t n, const struct cs_balance_options *options,
                          struct cs_arena *arena, struct cs_balance_result *out, struct cs_err *err)
{
    CS_TRY(check(work, n, options, err));
    struct cs_balance_job job = {
        .work = work,
        .n = n,
        .ranks = options->ranks,
        .cap = options->cap,
        .seed = options->seed,
        .max_nodes = options->nodes > 0 ? options->nodes : default_nodes(options),
        .arena = arena,
        .owner = CS_NEW_ARRAY(arena, int32_t, n),
    };
    *out = (struct cs_balance_result){.owner = CS_NEW_ARRAY(arena, int32_t, n),
                                      .load = CS_NEW_ARRAY(arena, double, options->ranks),
                                      .how = options->how};
    sort_blocks(&job);
    job.bound = lower_bound(&job);
    if (options->how == CS_BALANCE_BEST) {
        best(&job, out);
    } else {
        layouts[options->how](&job);
        out->owner = job.owner;
    }
    if (!is_within_cap(&job))
        return cs_fail(err, CS_INVALID,
                       "%s gives a rank more than the cap of %d blocks; use lpt, "
                       "exact or best",
                       cs_balance_how_name(options->how), (int)options->cap);
    measure(&job, out);
    for (int32_t b = 0; b < n; b++)
        out->mean += work[b];
    out->mean /= options->ranks;
    out->nodes = job.nodes;
    out->is_proven = job.is_exhausted || out->max <= job.bound;
    return CS_OK;
}

void cs_balance_work(const struct cs_balance_cost *cost, int32_t n_tokens, int32_t block,
                     const int64_t *pairs, const struct cs_mask_tiles *tiles, double *work)
{
    const int32_t n = (n_tokens - 1) / block + 1;
    CS_ASSERT(cost->per_pair == 0 || pairs);
    CS_ASSERT((cost->per_tile_all == 0 && cost->per_tile_partial == 0) ||
              (tiles && tiles->q_rows == block));
    for (int32_t b = 0; b < n; b++) {
        const int32_t rows = b < n - 1 ? block : n_tokens - b * block;
        work[b] = cost->per_token * rows;
        if (cost->per_pair != 0)
            work[b] += cost->per_pair * (double)pairs[b];
        if (cost->per_tile_all != 0 || cost->per_tile_partial != 0) {
            const struct cs_mask_tile_counts c = cs_mask_tiles_count(tiles, b);
            work[b] += cost->per_tile_all * (double)c.count[CS_TILE_ALL] +
                       cost->per_tile_partial * (double)c.count[CS_TILE_PARTIAL];
        }
    }
}
