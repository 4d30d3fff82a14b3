/* Private to core/search: a layout on its way from the enumeration to the simulator. */
#ifndef CS_SEARCH_CANDIDATE_H
#define CS_SEARCH_CANDIDATE_H

#include "core/search/search.h"

struct cs_candidate {
    int64_t score_ns;
    int64_t order; /* of the enumeration: the last tie break */
    int32_t n_ranks, dp;
    int32_t own_dp[CS_SEARCH_MAX_BRANCHES]; /* replicas of the branch; colocated: on LLM ranks */
    int16_t option[CS_SEARCH_MAX_BRANCHES], pp[CS_SEARCH_MAX_BRANCHES];
    uint8_t place[CS_SEARCH_MAX_BRANCHES], zero[CS_SEARCH_MAX_BRANCHES];
    uint8_t planner;
    int32_t context_rows; /* as plan.context_rows; 0: all ranks of a context split every slot */
};

/* A share of a slot's time: num / den. parts > 1: replicas share its items; times > 1: one replica
 * has the slots of several. */
struct cs_share {
    int64_t num, den;
};

struct cs_share cs_share_of(const struct cs_search_branch *branch, int32_t parts, int32_t times);
int64_t cs_share_ns(struct cs_share share, int64_t value);
/* of the branch's slots, given the candidate's layout */
struct cs_share cs_candidate_share(const struct cs_search_problem *problem,
                                   const struct cs_candidate *candidate, int32_t branch);
int32_t cs_candidate_modality(const struct cs_search_problem *problem,
                              const struct cs_candidate *candidate);

int64_t cs_search_layer_ns(const struct cs_search_layer *layer, enum cs_search_cut cut);
/* of the cluster */
struct cs_device_class cs_search_device(const struct cs_search_problem *problem);
/* what exchanges of so many ranks ask of a device: its links are those between them */
struct cs_device_class cs_search_replica_link(const struct cs_search_problem *problem,
                                              int32_t shards, int32_t tp);
/* time of a gather over `shards` ranks, of bytes */
int64_t cs_search_gather_ns(const struct cs_search_problem *problem, int32_t shards, int32_t tp,
                            int64_t bytes);
/* levels in the order of what they cost: 1, 0, 2, 3 */
int cs_search_next_zero(unsigned zeros, int zero); /* -1: before the first; returns -1: none */

struct cs_enumeration {
    struct cs_candidate *best; /* ascending: score, ranks, order */
    int32_t n;
    int64_t n_scored, n_pruned;
    int64_t least_bytes; /* of what was pruned: the smallest average of a rank, 0: nothing was */
    int32_t least_branch, least_ranks;
};

/* The `keep` best layouts by the rules and the formula of options->planner. */
enum cs_status cs_search_enumerate(const struct cs_search_problem *problem,
                                   const struct cs_search_options *options, int32_t keep,
                                   struct cs_arena *arena, struct cs_enumeration *out,
                                   struct cs_err *err) CS_NODISCARD;

/* A candidate that became a plan, with what is needed to try changes of it. */
struct cs_found {
    struct cs_search_plan *plan;
    struct cs_candidate candidate; /* with the zero levels that fit */
    enum cs_schedule_id schedule;
    int32_t chunks;
    int *sizes[CS_SEARCH_MAX_BRANCHES]; /* layers of every stage, LLM: of every chunk */
    bool is_refined;
};

struct cs_known_buffers;

/* Cut (unless sizes are given), simulate, count memory. known: buffers of plans that were tried (buffers.h), NULL: none
 * is remembered. CS_PLAN: does not fit in memory, or the
 * schedule cannot order it; nearest: bytes of the rank that needs most, when memory is the reason.
 * found: candidate, schedule and chunks are read, the rest is filled. */
enum cs_status cs_search_evaluate(const struct cs_search_problem *problem,
                                  const struct cs_search_options *options,
                                  struct cs_known_buffers *known, struct cs_found *found,
                                  struct cs_arena *arena, int64_t *nearest,
                                  struct cs_err *err) CS_NODISCARD;
/* Lower and verify: the programs that would run. */
enum cs_status cs_search_prove(const struct cs_search_problem *problem,
                               const struct cs_search_options *options,
                               const struct cs_found *found, struct cs_err *err) CS_NODISCARD;
/* Batches, dealt once for every (planner, replicas, slots). */
struct cs_sampler;
enum cs_status cs_sampler_make(const struct cs_search_problem *problem,
                               const struct cs_search_options *options,
                               struct cs_known_buffers *known, struct cs_arena *arena,
                               struct cs_sampler **out, struct cs_err *err) CS_NODISCARD;
const struct cs_search_batches *cs_sampler_batches(const struct cs_sampler *sampler);
/* Mean and 95th percentile (nearest rank) of the steps of all batches into the plan. Where ranks split the rows of
 * the LLM the plan becomes one that leaves short slots on few of them, if its steps take a hundredth less and it
 * still fits. */
enum cs_status cs_search_sample(struct cs_sampler *sampler, struct cs_arena *arena,
                                struct cs_found *found, struct cs_err *err) CS_NODISCARD;
/* Move layers between neighbouring stages while that is faster; a small plan: all cuts. */
void cs_search_refine(const struct cs_search_problem *problem,
                      const struct cs_search_options *options, struct cs_known_buffers *known,
                      struct cs_found *found, struct cs_arena *arena);
/* Fills result->explain. best: that of result->plan[0]; unbound: the fastest plan where memory has
 * no limit, NULL: there is none. */
void cs_search_explain(const struct cs_search_problem *problem,
                       const struct cs_search_options *options, const struct cs_found *best,
                       const struct cs_search_plan *unbound, struct cs_arena *arena,
                       struct cs_search_result *result);
/* of a step; of sampled batches the mean */
int64_t cs_search_time(const struct cs_search_plan *plan);
/* Its step as the job has it, where a job runs it and that is known; of sampled batches in proportion. */
double cs_search_job_time(const struct cs_search_plan *plan);
/* what a plan takes longer than the best, and by what */
const char *cs_search_loses(const struct cs_search_plan *best, const struct cs_search_plan *plan,
                            struct cs_arena *arena);

#endif
