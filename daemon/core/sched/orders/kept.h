/* What ranks keep under the orders of a plan's schedule, before there is a program. */
#ifndef CS_SCHED_ORDERS_KEPT_H
#define CS_SCHED_ORDERS_KEPT_H

#include "core/base/status.h"
#include "core/sched/kept.h"

/* Most bytes of activations that every rank of the plan keeps at once in a step of so many slots: kept (n_ranks); held
 * (n_stages), NULL: see core/sched/kept.h. The same as of the lowered program. CS_PLAN: the schedule cannot order it. */
enum cs_status cs_orders_kept(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                              int64_t *kept, struct cs_err *err) CS_NODISCARD;

#endif
