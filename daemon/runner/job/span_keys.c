/* Lowers programs for what their actions are, once per number of slots. */
#include "runner/job/span_keys.h"

#include <string.h>

#include "core/base/units.h"
#include "core/sched/lower/lower.h"
#include "core/sched/span_keys.h"

enum cs_status cs_keys_get(struct cs_keys *keys, int n_slots, bool is_eval,
                           const struct cs_span_keys **out, struct cs_err *err)
{
    if (n_slots < 1 || n_slots > CS_STEP_MAX_SLOTS)
        return cs_fail(err, CS_INVALID, "a step of %d slot%s (1 to %d)", n_slots,
                       CS_PLURAL(n_slots), CS_STEP_MAX_SLOTS);
    if (n_slots % cs_plan_llm_replicas(keys->plan) != 0)
        return cs_fail(err, CS_INVALID, "a step of %d slot%s for %d replicas", n_slots,
                       CS_PLURAL(n_slots), cs_plan_llm_replicas(keys->plan));
    const struct cs_span_keys **cell = &keys->by_slots[is_eval][n_slots];
    if (!*cell) {
        struct cs_arena *scratch = cs_arena_new(0);
        struct cs_program *program = NULL;
        enum cs_status status =
            cs_program_make(keys->plan, keys->graph, cs_plan_own_slots(keys->plan, n_slots),
                            is_eval, scratch, &program, err);
        if (status == CS_OK) {
            *cell = cs_program_keys(program, keys->arena);
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
