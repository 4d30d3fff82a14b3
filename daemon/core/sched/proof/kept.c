/* Counts what a program keeps between forward and backward. */
#include "core/sched/proof/kept.h"

static struct cs_kept_order order_of(const struct cs_program *program, int32_t rank,
                                     struct cs_arena *arena)
{
    const struct cs_rank_program *p = &program->rank[rank];
    const uint32_t n = p->n_fifo[CS_STREAM_COMPUTE];
    struct cs_kept_item *item = CS_NEW_ARRAY(arena, struct cs_kept_item, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        item[i] = (struct cs_kept_item){a->op, a->stage, a->slot};
    }
    return (struct cs_kept_order){item, n};
}

struct cs_kept_of cs_program_kept_of(const struct cs_program *program, const int64_t *held,
                                     struct cs_arena *arena)
{
    const struct cs_plan *plan = program->plan;
    return cs_kept_of_make(plan, cs_traits_make(plan, program->is_eval, program->share, arena),
                           held, arena);
}

int64_t cs_program_kept_bytes(const struct cs_program *program, const struct cs_kept_of *of,
                              int32_t rank, struct cs_kept_change *change, struct cs_arena *scratch)
{
    const struct cs_kept_order order = order_of(program, rank, scratch);
    return cs_kept_most(of, &order, change);
}

struct cs_buffers cs_program_buffers(const struct cs_program *program, struct cs_arena *scratch)
{
    struct cs_kept_order *order =
        CS_NEW_ARRAY(scratch, struct cs_kept_order, (size_t)program->n_ranks + 1);
    for (int32_t r = 0; r < program->n_ranks; r++)
        order[r] = order_of(program, r, scratch);
    return cs_buffers_make(program->plan, order, program->n_slots, scratch);
}
