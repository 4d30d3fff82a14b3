/* Search for the fastest plan: placement of every encoder x (tp, cp, pp, dp, zero, recompute) of
 * every branch x schedule and its chunks.
 *
 * Enumerate layouts that the cluster holds, drop those whose parameters cannot fit, score each with
 * a closed form, then cut (every stage under its own memory cap) and simulate the best ones under
 * every schedule; refine the cuts of the first few by moving layers between neighbours; lower and
 * verify what is handed back. One pipeline stands for all: ranks that differ in dp, cp or tp only
 * run in lockstep. Many slots: two lengths past the warm-up are simulated and the period continued.
 *
 * dp of an encoder may differ from the LLM's: with twice as many replicas each takes half of the items of a slot, with
 * half as many the slots of two LLM replicas, with three to two the items of two slots are shared by three. Where
 * neither divides the other only few ranks are looked at (problem/widths.h).
 * Colocated encoders may have a smaller tp * cp than the LLM's ranks, which then share the items.
 *
 * step = pipeline + gradients of the slowest stage (a ring over dp * cp, not overlapped) +
 * optimizer. Bytes of gradients and optimizer, and its time, are those of the job's
 * optimizer.state; the time is the profile's (gradients to 0, norm, update), else twice those bytes
 * at the bandwidth of the memory. zero 1 shards the optimizer and costs nothing; 2 reduces
 * gradients in every slot; 3 also gathers weights in every forward and backward. Of recompute and
 * zero the cheapest level that fits is taken. Deterministic: bounded by counts, never by time; ties
 * go to less memory, fewer ranks, and the candidate enumerated first. Messages take the time of
 * their edge, both ways, as in a plan of the layout (core/plan/cost/links/edges.h).
 *
 * The frozen-blind planner cuts and chooses by 3 F per layer; its choice is shown at true costs and
 * stands among the candidates too, so that the first plan is never slower than it. Published
 * planners are restrictions of the same search (planners.h). */
#ifndef CS_SEARCH_SEARCH_H
#define CS_SEARCH_SEARCH_H

#include "core/plan/plan_schedule.h"
#include "core/sched/sim/forecast.h"
#include "core/search/problem/memory.h"
#include "core/search/problem/planners.h"
#include "core/search/problem/samples.h"

/* Where encoders of a plan run: a searched placement, or this: they differ in that. */
enum { CS_SEARCH_MIXED = CS_SEARCHED_PLACEMENTS };

/* "encoder-parallel" ... "mixed" */
const char *cs_search_modality_name(int32_t modality);
/* false: it is not searched */
bool cs_search_modality_from_name(const char *name, int32_t *out);

/* of the table of schedules; false: unknown, or not searched */
bool cs_search_schedule_from_name(const char *name, enum cs_schedule_id *schedule);

/* Zero: free, or the default in brackets. */
struct cs_search_plan;

struct cs_search_options {
    enum cs_search_planner planner;
    int32_t batch_slots; /* slots of a step over all replicas; needed */
    unsigned modalities; /* bits [parallel, colocated and mixed] */
    unsigned schedules;  /* bits of enum cs_schedule_id [the usual ones] */
    unsigned recomputes; /* bits [all] */
    unsigned zeros;      /* bits of levels 0 to 3 [1, 2 and 3] */
    int32_t dp;          /* of all branches with ranks of their own; fix[].dp: of one */

    struct {
        int32_t tp, cp, pp, dp, vpp, ep;
        int32_t place;     /* 1 + enum cs_placement */
        int32_t recompute; /* 1 + enum cs_recompute */
        int32_t sp;        /* 1 + whether rows are split between products */
    } fix[CS_SEARCH_MAX_BRANCHES];

    bool has_one_dp; /* of all branches, whatever it is */
    bool only_runs;  /* layouts that jobs run; of a spec (cs_search) */
    bool may_leave_node;
    bool skip_planners; /* do not look for what the other planners would choose */
    bool explains;      /* fill result->explain */
    int32_t max_pp;     /* of a branch [64] */
    int32_t max_vpp;    /* chunks of a stage when interleaved [4] */
    int32_t top;        /* plans handed back [16] */
    int32_t n_simulate; /* layouts [50] */
    int32_t n_refine;   /* plans whose cuts are refined [4]; -1: none */
    int64_t max_scored; /* layouts scored at most [20 million] */

    const struct cs_search_samples *samples; /* rank by their batches; NULL: by full slots */
    /* Whether a job runs a plan, and what it makes of it (runs, job, why_not_run): of a spec (cs_search). The first plans
     * are ranked by that; NULL: nobody knows. */
    void (*judge)(const void *user, struct cs_search_plan *plan, struct cs_arena *arena);
    const void *judge_user;
    /* by branch, for planners that deal ranks in proportion [of samples, else of full slots] */
    double work[CS_SEARCH_MAX_BRANCHES];
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
    enum cs_search_planner planner; /* whose rules cut it */
    int32_t modality;               /* enum cs_placement, CS_SEARCH_MIXED */
    const char *schedule;
    const char *state; /* optimizer.state that it was counted with; NULL: bytes given by hand */
    struct cs_layout layout;
    bool is_blind_cut;
    bool is_refined;      /* layers were moved after the cut */
    int32_t slots;        /* of a replica of the LLM */
    int32_t context_rows; /* as plan.context_rows; 0: none, or that of the spec */
    int32_t n_ranks, n_stages;
    struct cs_search_stage *stage;
    int64_t score_ns; /* closed form, by the rules of its planner */
    int64_t pipeline_ns, sync_ns, optim_ns, step_ns;
    int64_t mean_ns, p95_ns; /* steps of the sampled batches; 0: none */
    int64_t peak_bytes;
    double bubble;  /* idle share of the ranks during the pipeline */
    bool is_pareto; /* none handed back is better in both time and memory */
    const char *why;
    const char *loses; /* against the first plan: how much, and by what; NULL: it is the first */
    bool runs;         /* a job can have it as it stands; of a spec (cs_search) */
    /* of the plan that such a job makes of it, as `plan` and the Plan view tell it; step_ns 0: not known */
    struct cs_forecast_figures job;
    const char *why_not_run;
};

/* What another planner takes, at true costs. */
struct cs_search_choice {
    enum cs_search_planner planner;
    const struct cs_search_plan *plan; /* NULL: why it has none */
    const char *why_not;
};

struct cs_search_explain {
    const char **cut; /* sentences: why this cut, what the bottleneck is */
    int32_t n_cut;
    const char **bind; /* constraints, and what the best plan without them would take */
    int32_t n_bind;
};

struct cs_search_result {
    struct cs_search_plan *plan; /* (n_plans) fastest first */
    int32_t n_plans;
    int64_t least_step_ns;                /* of all found, at full slots */
    struct cs_search_optimizer optimizer; /* what was assumed */
    const struct cs_search_plan *blind;   /* at true costs; NULL: skipped, or nothing of it fits */
    struct cs_search_choice choice[CS_PLANNERS]; /* plan NULL and why_not NULL: not looked for */
    struct cs_search_explain explain;
    int32_t n_batches, n_samples; /* sampled steps, samples of each */
    int32_t least_batch; /* samples that settle a deal of ranks by work (entrain), 0: unknown */
    int64_t n_scored, n_pruned;     /* layouts; pruned: parameters cannot fit */
    int32_t n_simulated, n_too_big; /* too big: did not fit once they were cut */
};

/* "measured" ..., as in the document */
const char *cs_step_source_name(enum cs_step_source source);
/* CS_PLAN when nothing can be planned: the figures of the plan that came nearest. */
enum cs_status cs_search_run(const struct cs_search_problem *problem,
                             const struct cs_search_options *options, struct cs_arena *arena,
                             struct cs_search_result *out, struct cs_err *err) CS_NODISCARD;
/* batch_slots 0: spec->slots. CS_PLAN too: only_runs, and jobs run none of what was found. CS_INVALID: the devices do not compute in the precision that the spec
 * asks for, or do not keep its optimizer.state. */
enum cs_status cs_search(const struct cs_spec *spec, const struct cs_graph *graph,
                         const struct cs_cluster *cluster, const struct cs_profile *profile,
                         const struct cs_search_options *options, struct cs_arena *arena,
                         struct cs_search_result *out, struct cs_err *err) CS_NODISCARD;
/* CS_OK: a job with the settings of the spec and the plan's layout runs here, and what its plan foretells; figures
 * NULL: not asked for. CS_UNSUPPORTED, CS_PLAN: what does not yet. */
enum cs_status cs_search_check_runs(const struct cs_search_plan *plan, const struct cs_spec *spec,
                                    const struct cs_graph *graph, const struct cs_cluster *cluster,
                                    struct cs_forecast_figures *figures,
                                    struct cs_err *err) CS_NODISCARD;
/* The spec with the branches of a layout in place of its own, and its context_rows where ranks split rows (0: as the spec
 * has it); its document and hashes are the old ones. Branch names are
 * borrowed from the layout. */
struct cs_spec cs_search_spec(const struct cs_layout *layout, int32_t context_rows,
                              const struct cs_spec *spec);
/* The modality of a found plan (enum cs_placement), and where every encoder is where they are in different
 * places (CS_SEARCH_MIXED); spec: of cs_search_spec. */
void cs_search_place(const struct cs_layout *layout, int32_t modality, struct cs_spec *spec);
/* What is free becomes what jobs run, as far as that is known before there is a plan. */
void cs_search_restrict(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_cluster *cluster, struct cs_search_options *options);
/* one plan of a "cornstarch.plans/1" document */
json_t *cs_search_plan_json(const struct cs_search_plan *plan);
json_t *cs_search_result_json(const struct cs_search_result *result);

#endif
