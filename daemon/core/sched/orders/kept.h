/* What ranks keep under the orders of a plan's schedule, and their buffers, before there is a program. */
#ifndef CS_SCHED_ORDERS_KEPT_H
#define CS_SCHED_ORDERS_KEPT_H

#include "core/base/status.h"
#include "core/sched/buffers.h"

/* Of a step of so many slots the most bytes of activations that every rank of the plan keeps at once, kept (n_ranks),
 * with what is held (n_stages, NULL: nothing; core/sched/kept.h); and the buffers of its edges, n_buffers (n_edges, 2;
 * core/sched/buffers.h). The same as of the lowered program. CS_PLAN: the schedule cannot order it. */
enum cs_status cs_orders_kept(const struct cs_plan *plan, int32_t n_slots, const int64_t *held,
                              int64_t *kept, int32_t *n_buffers, struct cs_err *err) CS_NODISCARD;

#endif
