/* Private to core/search: how many buffers the edges of plans have (core/sched/buffers.h). That follows from who runs
 * what and who has a backward, whatever layers and slots take: what was proved of one plan is known of all like it. */
#ifndef CS_SEARCH_BUFFERS_H
#define CS_SEARCH_BUFFERS_H

#include "core/plan/plan_schedule.h"
#include "core/sched/orders/kept.h"

struct cs_known_buffers;

/* nothing is known yet; in the arena */
struct cs_known_buffers *cs_known_buffers_new(struct cs_arena *arena);

/* Slots of a step; where there are more than `enough`, orders are made for so many and for `period` more, and all after
 * that ask for as many more buffers, every period, as these did. */
struct cs_buffer_slots {
    int32_t slots, enough, period;
};

/* n_buffers (n_edges, 2) as cs_buffers_count. known NULL: nothing is remembered. CS_PLAN: the schedule cannot order
 * the plan. */
enum cs_status cs_search_buffers(struct cs_known_buffers *known, const struct cs_plan *plan,
                                 struct cs_buffer_slots slots, struct cs_arena *scratch,
                                 int32_t *n_buffers, struct cs_err *err) CS_NODISCARD;

#endif
