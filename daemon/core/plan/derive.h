/* What follows from the stages of a plan. The planner fills it in; the reader of a plan makes it
 * again and demands equality. */
#ifndef CS_PLAN_DERIVE_H
#define CS_PLAN_DERIVE_H

#include "core/plan/plan.h"

/* Fills edges, has_backward, needs_input_grad and the tied stages from stages, graph and
 * budgets. */
void cs_plan_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan);

#endif
