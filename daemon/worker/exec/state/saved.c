/* Sets of activations that a stage keeps of a slot, from its forward to the end of its backward.
 * Each lies where the running program's memory plan says, and is used again for a later slot. */
#include "worker/exec/state/saved.h"

#include <stdlib.h>

void cs_exec_free_saved(struct cs_exec *exec)
{
    const int32_t n = exec->config.plan->n_stages;
    for (int32_t i = 0; exec->saved != NULL && i < exec->saved_room * n; i++)
        cs_saved_free(exec->saved[i]);
    for (int32_t s = 0; exec->spare != NULL && s < n; s++) {
        for (int32_t i = 0; i < exec->n_spare[s]; i++)
            cs_saved_free(exec->spare[s][i]);
        free(exec->spare[s]);
    }
    free(exec->saved);
    free(exec->spare);
    free(exec->n_spare);
}

enum cs_status cs_exec_reserve_saved(struct cs_exec *exec, int32_t n_slots, struct cs_err *err)
{
    const size_t n = (size_t)exec->config.plan->n_stages;
    if (n_slots <= exec->saved_room)
        return CS_OK;
    struct cs_saved **saved = calloc((size_t)n_slots * n + 1, sizeof *saved);
    if (saved == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the activations of %d slots", n_slots);
    free(exec->saved); /* empty between steps */
    exec->saved = saved;
    for (size_t s = 0; s < n; s++) {
        void *grown = realloc(exec->spare[s], (size_t)n_slots * sizeof(struct cs_saved *));
        if (grown == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for the activations of %d slots", n_slots);
        exec->spare[s] = grown;
    }
    exec->saved_room = n_slots;
    return CS_OK;
}

static void place(struct cs_exec *exec, struct cs_saved *saved, int32_t stage, int32_t slot)
{
    const struct cs_memory_plan *m = exec->planned;
    const struct cs_memory_place *place = &m->place[slot * m->n_stages + stage];
    char *kept = exec->arena + m->scratch;
    cs_scratch_bind(&saved->memory, kept + place->keep, m->stage[stage].keep);
    cs_scratch_bind(&saved->held, kept + place->held, m->stage[stage].held);
}

struct cs_saved *cs_exec_take_saved(struct cs_exec *exec, int32_t stage, int32_t slot)
{
    struct cs_saved *s = exec->n_spare[stage] > 0 ? exec->spare[stage][--exec->n_spare[stage]]
                                                  : calloc(1, sizeof *s);
    CS_ASSERT(s != NULL);
    s->memory.device = s->held.device = exec->config.device;
    place(exec, s, stage, slot);
    exec->saved[slot * exec->config.plan->n_stages + stage] = s;
    return s;
}

void cs_exec_give_saved(struct cs_exec *exec, int32_t stage, int32_t slot)
{
    struct cs_saved **at = &exec->saved[slot * exec->config.plan->n_stages + stage];
    struct cs_saved *s = *at;
    *at = NULL;
    s->is_split = false;
    exec->saved_bytes -= s->memory.used + s->held.used;
    exec->spare[stage][exec->n_spare[stage]++] = s;
}

void cs_exec_count_saved(struct cs_exec *exec, size_t bytes)
{
    exec->saved_bytes += bytes;
    if (exec->saved_bytes > exec->saved_peak)
        exec->saved_peak = exec->saved_bytes;
}
