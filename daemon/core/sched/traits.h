/* What the actions of a stage are and take, from the plan and the table of operations alone:
 * generators, messages, verifier, simulator and search ask here. */
#ifndef CS_SCHED_TRAITS_H
#define CS_SCHED_TRAITS_H

#include "core/sched/program.h"

struct cs_stage_traits {
    bool has_backward;    /* false in programs that only run forward */
    bool has_input_part;  /* a split backward has a BWD_INPUT ... */
    bool has_weight_part; /* ... and a BWD_WEIGHT; at least one where there is a backward */
    bool leads;           /* nothing on its rank and upstream of it has a backward; not the head */
    struct cs_slot_share share;
};

/* (n_stages) */
struct cs_stage_traits *cs_traits_make(const struct cs_plan *plan, bool is_eval,
                                       const struct cs_slot_share *share, struct cs_arena *arena);

static inline bool cs_stage_runs(const struct cs_stage_traits *traits, int32_t slot)
{
    return traits->share.n == 0 || slot % traits->share.n == traits->share.at;
}

/* slots of this step that a leading stage finds done */
static inline bool cs_is_done_before(const struct cs_stage_traits *traits, int32_t lead_before,
                                     int32_t slot)
{
    return traits->leads && slot < lead_before;
}

/* the last slot of a step that the stage runs, -1: none */
static inline int32_t cs_last_slot(const struct cs_stage_traits *traits, int32_t n_slots)
{
    int32_t slot = n_slots - 1;
    while (slot >= 0 && !cs_stage_runs(traits, slot))
        slot--;
    return slot;
}

/* a copy whose gradients are summed with those of the others */
static inline bool cs_sums_over_copies(const struct cs_plan *plan,
                                       const struct cs_stage_traits *traits, int32_t stage)
{
    return plan->stages[stage].copies > 1 && traits[stage].has_backward;
}

/* the backward that makes the gradient of the stage's input, or takes the place of the one that
 * would */
static inline bool cs_takes_gradient(const struct cs_stage_traits *traits, enum cs_op op)
{
    return cs_op_does(op, CS_PART_INPUT) ||
           (cs_op_does(op, CS_PART_WEIGHT) && !traits->has_input_part);
}

/* the last backward of the stage on its slot */
static inline bool cs_ends_backward(const struct cs_stage_traits *traits, enum cs_op op)
{
    return cs_op_does(op, CS_PART_WEIGHT) ||
           (cs_op_does(op, CS_PART_INPUT) && !traits->has_weight_part);
}

/* what the parts of an operation take of a slot filled to its budgets, in ns; 0: it has none */
static inline int64_t cs_work_ns(const struct cs_stage *stage, enum cs_op op)
{
    return (cs_op_does(op, CS_PART_FORWARD) ? stage->fwd_ns : 0) +
           (cs_op_does(op, CS_PART_INPUT) ? stage->bwd_input_ns : 0) +
           (cs_op_does(op, CS_PART_WEIGHT) ? stage->bwd_weight_ns : 0);
}

/* the same of an action, as its plan says */
static inline int64_t cs_action_work_ns(const struct cs_plan *plan, const struct cs_action *action)
{
    return action->stage >= 0 ? cs_work_ns(&plan->stages[action->stage], (enum cs_op)action->op)
                              : 0;
}

/* live slots of the action's stage: +1 it becomes live, -1 it is released */
static inline int32_t cs_live_change(const struct cs_stage_traits *traits,
                                     const struct cs_action *action)
{
    enum cs_op op = (enum cs_op)action->op;
    if (!traits->has_backward)
        return 0;
    return cs_op_does(op, CS_PART_FORWARD) ? 1 : cs_ends_backward(traits, op) ? -1 : 0;
}

#endif
