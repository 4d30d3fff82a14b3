/* The span keys of a program, and keys in words. */
#include "core/sched/span_keys.h"

#include <stdio.h>

/* an action of a rank among all ranks and slots */
static struct cs_span_key key_of(const struct cs_program *program, int32_t rank,
                                 const struct cs_action *action)
{
    enum cs_op op = (enum cs_op)action->op;
    const struct cs_plan *plan = program->plan;
    const int32_t replica = cs_plan_replica(plan, rank);
    const bool is_llm = action->stage >= 0 &&
                        plan->stages[action->stage].branch == plan->stages[plan->head_stage].branch;
    const int32_t lane = is_llm ? cs_plan_at(plan, rank).dp % cs_plan_side_by_side(plan)
                                : 0; /* encoders: the first */
    return (struct cs_span_key){
        .stage = action->stage,
        .peer = (int16_t)(action->peer < 0 ? -1 : cs_plan_peer(plan, rank, action->peer)),
        .slot = action->slot < 0 ? -1 : cs_plan_slot(plan, action->slot, replica, lane),
        .letter = cs_op_letter(op)[0],
        .is_compute = cs_op_stream(op) == CS_STREAM_COMPUTE,
        .is_grad = action->is_grad};
}

const struct cs_span_keys *cs_program_keys(const struct cs_program *program, struct cs_arena *arena)
{
    const struct cs_plan *plan = program->plan;
    const int32_t world = cs_plan_world(plan);
    struct cs_span_keys *keys = CS_NEW_ARRAY(arena, struct cs_span_keys, world);
    for (int32_t r = 0; r < world; r++) {
        const struct cs_rank_program *rank = &program->rank[cs_plan_rank_in_replica(plan, r)];
        struct cs_span_key *key = CS_NEW_ARRAY(arena, struct cs_span_key, rank->n_actions);
        for (uint32_t i = 0; i < rank->n_actions; i++)
            key[i] = key_of(program, r, &rank->actions[i]);
        keys[r] = (struct cs_span_keys){.key = key, .n = rank->n_actions};
    }
    return keys;
}

void cs_program_key_text(const struct cs_span_key *key, char *out, size_t cap)
{
    const enum cs_op op = cs_op_of_letter(key->letter);
    const char *what = key->is_grad ? "a gradient of slot" : "slot";
    if (op == CS_OP_SEND)
        snprintf(out, cap, "send of %s %d to rank %d", what, key->slot, key->peer);
    else if (op == CS_OP_RECV)
        snprintf(out, cap, "receive of %s %d from rank %d", what, key->slot, key->peer);
    else if (op == CS_OP_COUNT || cs_op_is(op, CS_OP_KIND_WORK))
        snprintf(out, cap, "%c of slot %d", key->letter, key->slot);
    else
        snprintf(out, cap, "%s", cs_op_table[op].words);
}
