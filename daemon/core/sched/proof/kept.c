/* Counts what a program keeps between forward and backward. */
#include "core/sched/proof/kept.h"

int64_t cs_program_kept_bytes(const struct cs_program *program, int32_t rank, const int64_t *held,
                              struct cs_kept_change *change, struct cs_arena *arena)
{
    const struct cs_rank_program *p = &program->rank[rank];
    const uint32_t n = p->n_fifo[CS_STREAM_COMPUTE];
    const struct cs_kept_of of = {
        program->plan, cs_traits_make(program->plan, program->is_eval, program->share, arena),
        held};
    struct cs_kept_item *item = CS_NEW_ARRAY(arena, struct cs_kept_item, (size_t)n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        item[i] = (struct cs_kept_item){a->op, a->stage};
    }
    return cs_kept_most(&of, item, n, change, arena);
}
