/* Counts what a program keeps between forward and backward. */
#include "core/sched/proof/kept.h"

#include "core/sched/traits.h"

/* The most that live slots of the rank's stages come to, each worth bytes[stage], and held[stage]
 * more after the input half of its backward. */
static int64_t most(const struct cs_program *program, int32_t rank, const int64_t *bytes,
                    const int64_t *held, struct cs_arena *arena)
{
    const struct cs_rank_program *p = &program->rank[rank];
    const struct cs_stage_traits *traits =
        cs_traits_make(program->plan, program->is_eval, program->share, arena);
    int64_t now = 0, peak = 0;
    for (uint32_t i = 0; i < p->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        if (a->stage < 0)
            continue;
        const struct cs_stage_traits *t = &traits[a->stage];
        const bool is_split = held != NULL && t->has_input_part && t->has_weight_part;
        if (is_split && a->op == CS_OP_BWD_INPUT)
            now += held[a->stage];
        peak = now > peak ? now : peak;
        if (is_split && a->op == CS_OP_BWD_WEIGHT)
            now -= held[a->stage];
        now += cs_live_change(t, a) * bytes[a->stage];
        peak = now > peak ? now : peak;
    }
    return peak;
}

int64_t cs_program_kept_bytes(const struct cs_program *program, int32_t rank, const int64_t *held,
                              struct cs_arena *arena)
{
    const struct cs_plan *plan = program->plan;
    int64_t *bytes = CS_NEW_ARRAY(arena, int64_t, plan->n_stages + 1);
    for (int32_t s = 0; s < plan->n_stages; s++)
        bytes[s] = plan->stages[s].saved_bytes;
    return most(program, rank, bytes, held, arena);
}

int32_t cs_program_live_slots(const struct cs_program *program, int32_t stage,
                              struct cs_arena *arena)
{
    int64_t *bytes = CS_NEW_ARRAY(arena, int64_t, program->plan->n_stages + 1);
    bytes[stage] = 1;
    return (int32_t)most(program, program->plan->stages[stage].rank, bytes, NULL, arena);
}
