/* Span keys of lowered programs; see keys.h. */
#include "runner/keys.h"

#include <string.h>

#include "core/sched/program.h"

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

static const struct cs_span_keys *keys_of(const struct cs_program *program, struct cs_arena *arena)
{
    struct cs_span_keys *out = CS_NEW_ARRAY(arena, struct cs_span_keys, program->n_ranks);
    for (int r = 0; r < program->n_ranks; r++) {
        const struct cs_rank_program *rank = &program->rank[r];
        struct cs_span_key *key = CS_NEW_ARRAY(arena, struct cs_span_key, rank->n_actions);
        for (uint32_t i = 0; i < rank->n_actions; i++)
            key[i] = key_of(&rank->actions[i]);
        out[r] = (struct cs_span_keys){.key = key, .n = rank->n_actions};
    }
    return out;
}

enum cs_status cs_keys_get(struct cs_keys *keys, int n_slots, bool is_eval,
                           const struct cs_span_keys **out, struct cs_err *err)
{
    if (n_slots < 1 || n_slots > CS_STEP_MAX_SLOTS)
        return cs_fail(err, CS_INVALID, "a step of %d slots (1 to %d)", n_slots, CS_STEP_MAX_SLOTS);
    const struct cs_span_keys **cell = &keys->by_slots[is_eval][n_slots];
    if (!*cell) {
        struct cs_arena *scratch = cs_arena_new(0);
        struct cs_program *program = NULL;
        enum cs_status status =
            cs_program_make(keys->plan, keys->graph, n_slots, is_eval, scratch, &program, err);
        if (status == CS_OK) {
            *cell = keys_of(program, keys->arena);
            if (!is_eval && n_slots == keys->plan->slots)
                memcpy(keys->program_hash, program->hash, sizeof keys->program_hash);
        }
        cs_arena_free(scratch);
        if (status != CS_OK)
            return status;
    }
    *out = *cell;
    return CS_OK;
}
