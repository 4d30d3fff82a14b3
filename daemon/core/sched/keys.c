/* See keys.h. */
#include "core/sched/keys.h"

static struct cs_span_key key_of(const struct cs_action *action)
{
    enum cs_op op = (enum cs_op)action->op;
    return (struct cs_span_key){.stage = action->stage,
                                .peer = action->peer,
                                .slot = action->slot,
                                .letter = cs_op_letter(op)[0],
                                .is_compute = cs_op_stream(op) == CS_STREAM_COMPUTE,
                                .is_grad = action->is_grad};
}

const struct cs_span_keys *cs_program_keys(const struct cs_program *program, struct cs_arena *arena)
{
    struct cs_span_keys *keys = CS_NEW_ARRAY(arena, struct cs_span_keys, program->n_ranks);
    for (int32_t r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rank = &program->rank[r];
        struct cs_span_key *key = CS_NEW_ARRAY(arena, struct cs_span_key, rank->n_actions);
        for (uint32_t i = 0; i < rank->n_actions; i++)
            key[i] = key_of(&rank->actions[i]);
        keys[r] = (struct cs_span_keys){.key = key, .n = rank->n_actions};
    }
    return keys;
}
