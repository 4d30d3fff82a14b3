/* A plan under way: what its steps read and fill. Private to this folder. */
#ifndef CS_PLAN_MAKE_PLANNING_H
#define CS_PLAN_MAKE_PLANNING_H

#include "core/plan/cost/cost.h"
#include "core/plan/make/place.h"
#include "core/plan/make/planner.h"

struct cs_planner {
    const struct cs_spec *spec;
    const struct cs_graph *graph; /* as a rank has it where ranks share matrices */
    const struct cs_graph *whole; /* as the job has it */
    const struct cs_cluster *cluster;
    struct cs_arena *arena;
    struct cs_layer_cost *cost;   /* (graph->n_layers) */
    struct cs_cost_source source; /* what these are made from */
    struct cs_placing placing;
    struct cs_cuts cuts;
    struct cs_plan *plan;
    int32_t *full; /* where to tell the branch that does not fit in memory */
    /* (stages of the branch) what ranks of the last cut needed beside what the cut counts; NULL: there was none */
    double *beside[CS_MAX_BRANCHES];
};

/* what the layout says of a branch, NULL: nothing */
static inline const struct cs_spec_parallel *cs_planner_parallel(const struct cs_planner *p,
                                                                 int32_t branch)
{
    return cs_spec_parallel_of(p->spec, p->graph->branches[branch].name);
}

/* budget.c: p->plan->budget. CS_PLAN says what a slot cannot hold. */
enum cs_status cs_planner_budget(struct cs_planner *p, struct cs_err *err) CS_NODISCARD;

/* alive.c: slots of a stage under way at once, at most; those whose activations are on the device */
double cs_planner_live(const struct cs_planner *p, int32_t b, int32_t stage);
double cs_planner_alive(const struct cs_planner *p, int32_t b, int32_t stage);

/* cut.c. ns of every layer of a branch, in the arena; frozen-blind: as if all trained. */
double *cs_planner_costs(struct cs_planner *p, int32_t b, bool is_blind);
bool cs_planner_counts_layers(const struct cs_planner *p); /* the cut knows nothing of costs */
int32_t cs_planner_holders(const struct cs_planner *p,
                           int32_t branch); /* ranks with the same weights */
/* sizes (p->cuts.n_stages[b]): layers of every stage. CS_PLAN: no cut fits in memory (*p->full = b). */
enum cs_status cs_planner_cut_branch(struct cs_planner *p, int32_t b, bool is_blind, int *sizes,
                                     struct cs_err *err) CS_NODISCARD;
enum cs_status cs_planner_cut(struct cs_planner *p,
                              struct cs_err *err) CS_NODISCARD; /* p->cuts.sizes */

/* Learns what ranks need beside what cuts count, from a plan as it is cut. needs (n_ranks): bytes */
void cs_planner_learn(struct cs_planner *p, const int64_t *needs);

/* explain.c: p->plan->why */
enum cs_status cs_planner_explain(struct cs_planner *p, struct cs_err *err) CS_NODISCARD;

#endif
