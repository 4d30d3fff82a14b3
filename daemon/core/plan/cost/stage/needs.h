/* What a rank of a plan needs of its device's memory: it takes all of it once, for every step. The one sum that
 * the planner holds against the device and that forecasts tell. */
#ifndef CS_PLAN_COST_NEEDS_H
#define CS_PLAN_COST_NEEDS_H

#include "core/plan/plan.h"

/* Bytes. */
struct cs_rank_needs {
    int64_t weights, state; /* parameters; gradients and what the optimizer keeps */
    int64_t
        activations; /* of slots that are alive together, and what split backwards hold (core/sched/kept.h) */
    int64_t scratch;  /* of its largest action (scratch.h), and what ZeRO makes whole (zero.h) */
    int64_t boundary; /* buffers for rows and gradients on their way */
    int64_t windows;  /* what communicators take (core/plan/cost/links/windows.h) */
};

int64_t cs_rank_needs_bytes(const struct cs_rank_needs *needs); /* the sum */

/* What the needs of a plan's ranks are made of. */
struct cs_needs_of {
    const struct cs_plan *plan;
    const struct cs_graph
        *graph; /* as a rank has it (cs_plan_rank_graph); NULL: no scratch is known, none counts */
    const struct cs_cluster *cluster; /* NULL: no windows are known, none count */
    int element;                      /* bytes of an activation's element */
    const int32_t *n_buffers;         /* (n_edges, 2) under its schedule (core/sched/buffers.h) */
};

/* The graph as that rank of every stage has it that has most of it, where ranks share matrices or experts; else the
 * graph itself. In the arena. */
const struct cs_graph *cs_plan_rank_graph(const struct cs_graph *graph, const struct cs_plan *plan,
                                          struct cs_arena *arena);
/* (n_stages) bytes of a slot between the halves of a split backward, in the arena; NULL where there is no graph */
int64_t *cs_needs_held(const struct cs_needs_of *of, struct cs_arena *arena);
/* kept: most bytes of activations that the rank keeps at once under its schedule, with what is held */
struct cs_rank_needs cs_rank_needs(const struct cs_needs_of *of, int32_t rank, int64_t kept);

#endif
