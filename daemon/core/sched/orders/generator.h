/* Generators: what makes the order of a schedule. The table of schedules (core/plan/plan_schedule.h)
 * has the rows; every row's file defines its cs_generator_<id>. Private to core/sched and the
 * search's replay. */
#ifndef CS_SCHED_ORDERS_GENERATOR_H
#define CS_SCHED_ORDERS_GENERATOR_H

#include "core/plan/plan_schedule.h"
#include "core/sched/orders/order.h"

struct cs_generator {
    /* Refuses plans that the schedule cannot order, computes what its ranks share; NULL: it takes
     * any plan. */
    enum cs_status (*prepare)(struct cs_pipeline *pipeline, struct cs_arena *arena,
                              struct cs_err *err);
    /* emits the order of one rank */
    void (*order)(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order);
};

#define X(id, name, layout, live, splits, encodes_all, takes, is_usual, help)                      \
    extern const struct cs_generator cs_generator_##id;
CS_SCHEDULES_TABLE(X)
#undef X

/* The orders of all ranks under the plan's schedule: (n_ranks). CS_PLAN: unknown schedule, with the
 * names; a plan that the schedule cannot order. */
enum cs_status cs_orders_make(struct cs_pipeline *pipeline, struct cs_arena *arena,
                              struct cs_order **out, struct cs_err *err) CS_NODISCARD;

#endif
