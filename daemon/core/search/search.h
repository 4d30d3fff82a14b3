/* Search for the fastest plan: modality x schedule x (tp, cp, pp, recompute) of every branch x dp.
 *
 * Enumerate layouts that the cluster holds, drop those whose parameters cannot fit, score each with
 * a closed form, then cut (capped by memory), lower, verify and simulate the best ones under every
 * schedule. One pipeline of sum(pp) ranks stands for all: ranks that differ in dp, cp or tp only
 * run in lockstep. Many slots: two lengths past the warm-up are simulated and the period continued.
 *
 * step = pipeline + gradients of the slowest stage (a ring over dp * cp, not overlapped) +
 * optimizer. Deterministic: bounded by counts, never by time; ties go to less memory, fewer ranks,
 * and the candidate enumerated first. Messages all take the time of the slowest edge of the plan.
 *
 * The frozen-blind planner cuts and chooses by 3 F per layer; its choice is shown at true costs and
 * stands among the candidates too, so that the first plan is never slower than it. */
#ifndef CS_SEARCH_SEARCH_H
#define CS_SEARCH_SEARCH_H

#include "core/search/memory.h"

enum cs_search_modality {
    CS_SEARCH_PARALLEL,   /* every branch has its own ranks */
    CS_SEARCH_COLOCATED,  /* the LLM's ranks hold whole encoders and share their slots */
    CS_SEARCH_REPLICATED, /* every LLM stage runs all encoders for every slot: a baseline */
    CS_SEARCH_MODALITIES
};

/* "encoder-parallel" ... */
const char *cs_search_modality_name(enum cs_search_modality modality);
bool cs_search_modality_from_name(const char *name, enum cs_search_modality *out);

enum { CS_SEARCH_SCHEDULES = 7 };

bool cs_search_schedule_from_name(const char *name, int *schedule);

/* Zero: free, or the default in brackets. */
struct cs_search_options {
    int32_t batch_slots; /* slots of a step over all replicas; needed */
    unsigned modalities; /* bits [parallel and colocated] */
    unsigned schedules;  /* bits of the table [1f1b, zb-h1, interleaved, anchors] */
    unsigned recomputes; /* bits [all] */
    int32_t dp;

    struct {
        int32_t tp, cp, pp;
    } fix[CS_SEARCH_MAX_BRANCHES];

    bool no_zero; /* the optimizer is not sharded; else zero = 1 */
    bool may_leave_node;
    bool is_blind_only; /* rank what the frozen-blind planner would consider */
    bool skip_blind;    /* do not look for its choice */
    int32_t max_pp;     /* of a branch [64] */
    int32_t top;        /* plans handed back [16] */
    int32_t n_simulate; /* layouts [24] */
    int64_t max_scored; /* layouts scored at most [20 million] */
};

struct cs_search_stage {
    const char *name;
    int32_t branch, index, rank; /* first rank of the stage */
    int32_t n_layers;
    int64_t fwd_ns, bwd_input_ns, bwd_weight_ns; /* bwd_input: with what is redone */
    int32_t in_flight;
    struct cs_memory memory; /* of a rank; colocated encoders are on the LLM's stages */
    double bubble;
};

struct cs_search_plan {
    enum cs_search_modality modality;
    const char *schedule;
    struct cs_layout layout;
    bool is_blind_cut;
    int32_t slots; /* of a replica */
    int32_t n_ranks, n_stages;
    const struct cs_search_stage *stage;
    int64_t score_ns; /* closed form */
    int64_t pipeline_ns, sync_ns, optim_ns, step_ns;
    int64_t peak_bytes;
    double bubble;  /* idle share of the ranks during the pipeline */
    bool is_pareto; /* none handed back is better in both time and memory */
    const char *why;
};

struct cs_search_result {
    struct cs_search_plan *plan; /* (n_plans) fastest first */
    int32_t n_plans;
    const struct cs_search_plan *blind; /* at true costs; NULL: skipped, or nothing of it fits */
    int64_t n_scored, n_pruned;         /* layouts; pruned: parameters cannot fit */
    int32_t n_simulated, n_too_big;     /* too big: did not fit once they were cut */
};

/* CS_PLAN when nothing can be planned: the figures of the plan that came nearest. */
enum cs_status cs_search_run(const struct cs_search_problem *problem,
                             const struct cs_search_options *options, struct cs_arena *arena,
                             struct cs_search_result *out, struct cs_err *err) CS_NODISCARD;
/* batch_slots 0: spec->slots */
enum cs_status cs_search(const struct cs_spec *spec, const struct cs_graph *graph,
                         const struct cs_cluster *cluster, const struct cs_profile *profile,
                         const struct cs_search_options *options, struct cs_arena *arena,
                         struct cs_search_result *out, struct cs_err *err) CS_NODISCARD;
/* one plan of a "cornstarch.plans/1" document */
json_t *cs_search_plan_json(const struct cs_search_plan *plan);
json_t *cs_search_result_json(const struct cs_search_result *result);

#endif
