/* The compute order of a schedule, run with many sets of numbers: what makes hundreds of plans and
 * thousands of batches affordable. The generators of core/sched give every rank's order; lowering
 * to programs adds messages that occupy no rank; those of one rank to another arrive one after the
 * other. The longest path over both is the simulator's, to the nanosecond (a test keeps them
 * equal). Only plans that are handed back are lowered and verified. */
#ifndef CS_SEARCH_REPLAY_H
#define CS_SEARCH_REPLAY_H

#include "core/plan/tokens/context_groups.h"
#include "core/sched/program.h"

struct cs_replay_item {
    int32_t stage, slot;
    int16_t rank;
    uint8_t op;    /* FWD, BWD, BWD_INPUT, BWD_WEIGHT */
    bool releases; /* what the stage keeps of the slot is free after it */
};

struct cs_replay {
    const struct cs_plan *plan;
    int32_t n_items, n_slots, n_messages, n_channels;
    struct cs_replay_item *item; /* everything an item waits for stands before it */
    int32_t *first_wait;         /* (n_items + 1) */
    int32_t *wait;               /* items of the same rank; messages as -1 - index */
    int32_t *first_message;      /* (n_items + 1) what is sent after the item, in that order */

    struct cs_replay_message {
        int32_t edge, channel; /* channel: of a rank to another */
        int32_t flow;          /* enum cs_edge_flow */
    } * message;
};

/* CS_PLAN: the schedule cannot order such a plan, or the order never ends. */
enum cs_status cs_replay_make(const struct cs_plan *plan, const struct cs_slot_share *share,
                              int32_t n_slots, struct cs_arena *arena, struct cs_replay **out,
                              struct cs_err *err) CS_NODISCARD;
/* numbers of scratch that cs_replay_run needs with so many lanes */
int64_t cs_replay_scratch(const struct cs_replay *replay, int32_t lanes);

/* Stages that are n ranks, of which some alone have a slot: only they are busy with it. */
struct cs_replay_lanes {
    int32_t n;
    const bool *is_split; /* (n_stages) stages of which `slot` speaks; others: all ranks */
    const struct cs_context_group *slot; /* (n_slots) */
};

/* cost: (n_items) ns; hop: (n_edges, CS_FLOWS) ns of a message; lanes NULL: all ranks of a stage have every slot. The
 * makespan. */
int64_t cs_replay_run(const struct cs_replay *replay, const int64_t *cost, const int64_t *hop,
                      const struct cs_replay_lanes *lanes, int64_t *scratch);

/* Bytes of a slot on a stage: from its forward to its last backward, and between the halves of a split one. */
struct cs_replay_kept {
    int64_t saved, held;
};

/* Most live slots of every group of stages of one rank (1 where there is no backward), and the most
 * bytes that live slots keep on every rank when a slot of stage s keeps kept[s].
 * group: (n_stages) an index below n_stages; slots: (n_stages) by group; bytes: (n_ranks). */
void cs_replay_peaks(const struct cs_replay *replay, const int32_t *group,
                     const struct cs_replay_kept *kept, int32_t *slots, int64_t *bytes,
                     struct cs_arena *scratch);

#endif
