/* Buffers of a rank's edges in a program: which rows lie in the same one is proved from its order
 * (core/sched/buffers.h). */
#include "core/sched/proof/kept.h"
#include "worker/memory/plan.h"

enum { FLOWS = 2 }; /* rows, gradients */

enum cs_status cs_memory_buffers(const struct cs_program *program, int rank, int32_t *buffer,
                                 int32_t *n_buffers, struct cs_err *err)
{
    const struct cs_plan *plan = program->plan;
    const size_t per_edge = (size_t)program->n_slots * FLOWS;
    struct cs_arena *scratch = cs_arena_new(0);
    const struct cs_buffers of = cs_program_buffers(program, scratch);
    (void)err;
    for (size_t i = 0; i < (size_t)plan->n_edges * per_edge; i++)
        buffer[i] = -1;
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const bool is_mine = plan->stages[plan->edges[e].from].rank == rank ||
                             plan->stages[plan->edges[e].to].rank == rank;
        n_buffers[e] = is_mine ? cs_buffers_share(&of, e, rank, buffer + (size_t)e * per_edge) : 0;
    }
    cs_arena_free(scratch);
    return CS_OK;
}
