/* The spread of a job's training steps: which slot every sample of a step sits in, by the policy
 * that the specification names (balance, slot_order), with the plan's costs.
 *
 * A function of (specification, plan, step, its samples): a resumed job makes the same slots. Which
 * samples a step holds is decided before (core/spread/first_fit.h) and never changes here. */
#ifndef CS_SPREAD_STEP_SLOTS_H
#define CS_SPREAD_STEP_SLOTS_H

#include "core/base/buf.h"
#include "core/model/graph.h"
#include "core/plan/plan.h"
#include "core/spread/first_fit.h"

struct cs_step_spread;

/* spec, graph and plan must outlive it. CS_INVALID: a policy that is not known. CS_PLAN: the plan's
 * schedule needs more slots than a step is sure to have. */
enum cs_status cs_step_spread_new(const struct cs_spec *spec, const struct cs_graph *graph,
                                  const struct cs_plan *plan, struct cs_step_spread **out,
                                  struct cs_err *err) CS_NODISCARD;
void cs_step_spread_free(struct cs_step_spread *job); /* accepts NULL */

/* pack (n): as cs_pack left it; n_slots: its result, and how many there are afterwards. */
enum cs_status cs_step_spread_step(struct cs_step_spread *job, int64_t step,
                                   struct cs_pack_sample *pack, int n, int *n_slots,
                                   struct cs_err *err) CS_NODISCARD;

/* One line for the log: the largest slot's share of a step's work per branch, as spread and in
 * stream order, on average over the steps so far. Nothing before the first. */
void cs_step_spread_report(const struct cs_step_spread *job, struct cs_buf *out);

#endif
