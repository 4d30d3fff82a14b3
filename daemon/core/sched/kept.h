/* What a rank keeps of slots between their forwards and their last backwards, from the order of its compute
 * actions alone: that order is fixed, so it does not depend on times. Whoever tells or bounds activations of a
 * schedule asks here: the planner by orders, forecasts, limits and workers' tests by programs.
 *
 * A stage keeps saved_bytes of a slot from the start of its forward to the end of its last backward, and
 * held bytes more from the start of the input half of a split backward to the end of its weight half. Where
 * activations wait on the host (core/plan/offload.h) it keeps as many slots as it has sets, at most. */
#ifndef CS_SCHED_KEPT_H
#define CS_SCHED_KEPT_H

#include "core/sched/traits.h"

/* One compute action of a rank. */
struct cs_kept_item {
    uint8_t op;    /* enum cs_op */
    int16_t stage; /* -1: of none */
    int32_t slot;
};

/* Those of a rank in the order of its compute stream. */
struct cs_kept_order {
    const struct cs_kept_item *item;
    uint32_t n;
};

/* What an action adds at its start and takes away at its end, bytes; both 0 or more. */
struct cs_kept_change {
    int64_t taken, released;
};

struct cs_kept_of {
    const struct cs_plan *plan;
    const struct cs_stage_traits *traits; /* (n_stages) */
    const int64_t *held;  /* (n_stages) bytes of a slot, of one of its ranks; NULL: none */
    int32_t *live, *sets; /* (n_stages) of a walk; 0 outside */
};

/* for all ranks of a plan; in the arena */
struct cs_kept_of cs_kept_of_make(const struct cs_plan *plan, const struct cs_stage_traits *traits,
                                  const int64_t *held, struct cs_arena *arena);

/* The most bytes that are kept at once. change: (order->n), NULL: not asked for. */
int64_t cs_kept_most(const struct cs_kept_of *of, const struct cs_kept_order *order,
                     struct cs_kept_change *change);

#endif
