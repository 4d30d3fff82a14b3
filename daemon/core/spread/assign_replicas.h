/* The orders of assign_order.h on a whole assignment. */
#ifndef CS_SPREAD_ASSIGN_REPLICAS_H
#define CS_SPREAD_ASSIGN_REPLICAS_H

#include "core/spread/assign_order.h"
#include "core/spread/slot_policies.h"

/* The orders above on a whole assignment, replica by replica, with the recurrence of assign_pipe.h. */
enum cs_order_how {
    CS_ORDER_KEPT,
    CS_ORDER_SORTED, /* by enc + llm, the smallest first */
    CS_ORDER_DISTTRAIN,
    CS_ORDER_SEARCHED,
    CS_ORDER_HOWS
};

struct cs_order_replicas {
    enum cs_order_how how;
    struct cs_pipe pipe;
    int32_t rounds; /* SEARCHED, as above */
    uint64_t seed;
};

/* Renumbers the slots of every replica. Not after a deferral, whose pairs are neighbours. */
void cs_order_replicas(const struct cs_assign_samples *samples,
                       const struct cs_order_replicas *options, struct cs_arena *arena,
                       struct cs_assign_result *result);
/* Time of the slowest replica with the slots as they are. */
double cs_order_makespan(const struct cs_pipe *pipe, const struct cs_assign_result *result,
                         struct cs_arena *arena);
bool cs_order_from_name(const char *name, enum cs_order_how *how);

#endif
