/* Batches of samples that a search ranks its plans on: ragged, drawn with a fixed seed, the same
 * for every plan and every planner.
 *
 * A step has n samples; each is drawn whole from a list (sample metadata of a data set), or row
 * counts of every branch on their own from quantiles: u in [0, 1) falls between two neighbours of
 * an equally spaced list, minimum first and maximum last, and is interpolated. Integers only, so
 * that every machine draws the same.
 *
 * Work of a sample on a branch, as a share of a full slot: (1 - q) x / rows + q (x / rows)^2, with
 * q the share of attention in the time of a full slot. Encoders attend within an item: q = 0 where all
 * are alike, else (1 - q) x / rows + q (x / rows) (x / largest item). The
 * planner's policy deals samples to replicas and slots (core/spread/slot_policies.h); a slot then costs its
 * share of what a full one costs. Slots may come out over their budget a little: what a feeder
 * would carry to the next step. */
#ifndef CS_SEARCH_SAMPLES_H
#define CS_SEARCH_SAMPLES_H

#include "core/search/problem/planners.h"
#include "core/search/problem/problem.h"

struct cs_search_samples {
    /* one row per sample, (n_rows, n_branches) rows of every branch; NULL: quantiles */
    const int32_t *row;
    int32_t n_rows;

    struct { /* of a branch, at least 2 values ascending */
        const int32_t *value;
        int32_t n;
    } quantile[CS_SEARCH_MAX_BRANCHES];

    int32_t n_batches; /* 0: 8 */
    int32_t n_samples; /* of a step; 0: what fills the fullest branch of its slots to 7/8 */
    uint64_t seed;
};

/* Rows of every sample of every batch: (n_batches, n_samples, n_branches). */
struct cs_search_batches {
    int32_t n_batches, n_samples, n_branches;
    int32_t *rows;
};

/* How much of a full slot every slot of a step is: (replicas, slots) by branch. */
struct cs_search_loads {
    int32_t replicas, slots;
    double *fwd[CS_SEARCH_MAX_BRANCHES], *bwd[CS_SEARCH_MAX_BRANCHES];
    int32_t *rows; /* (replicas, slots) of the LLM */
};

/* CS_INVALID: no or negative rows, quantiles that descend. */
enum cs_status cs_samples_check(const struct cs_search_problem *problem,
                                const struct cs_search_samples *samples,
                                struct cs_err *err) CS_NODISCARD;
/* after such a check */
enum cs_status cs_samples_draw(const struct cs_search_problem *problem,
                               const struct cs_search_samples *samples, int32_t batch_slots,
                               struct cs_arena *arena, struct cs_search_batches *out,
                               struct cs_err *err) CS_NODISCARD;
/* Work of n samples of a stream of its own, by branch, in ns of one rank. samples were checked. */
void cs_samples_work(const struct cs_search_problem *problem,
                     const struct cs_search_samples *samples, int32_t stream, int32_t n,
                     double *work);
/* The smallest batch, a power of two, whose deal of ranks in proportion to work is settled: 59
 * fresh batches in a row agree (with confidence 0.95 another one differs less often than 1 in 20).
 * 0: none up to 2^14. Source: Entrain, minimum profile batch. */
int32_t cs_samples_least_batch(const struct cs_search_problem *problem,
                               const struct cs_search_samples *samples, int32_t ranks);
/* One batch dealt by a planner's policy to replicas of the LLM with `slots` each.
 * enc_stages, llm_stages: of the pipeline, for policies that look at it. */
enum cs_status cs_samples_deal(const struct cs_search_problem *problem,
                               const struct cs_search_batches *batches, int32_t batch,
                               const struct cs_planner_rules *rules, int32_t replicas,
                               int32_t slots, int32_t enc_stages, int32_t llm_stages,
                               struct cs_arena *arena, struct cs_search_loads *out,
                               struct cs_err *err) CS_NODISCARD;

#endif
