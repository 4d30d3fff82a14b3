/* What a program keeps between forward and backward, and its buffers for what is on its way, from the order of its actions alone. */
#ifndef CS_SCHED_PROOF_KEPT_H
#define CS_SCHED_PROOF_KEPT_H

#include "core/sched/buffers.h"

/* held (n_stages), NULL: see core/sched/kept.h; as long as the program and the arena */
struct cs_kept_of cs_program_kept_of(const struct cs_program *program, const int64_t *held,
                                     struct cs_arena *arena);
/* Activations that a rank keeps when it keeps most. change: what each action of its compute stream adds and takes
 * away, in that order; NULL: not asked for. */
int64_t cs_program_kept_bytes(const struct cs_program *program, const struct cs_kept_of *of,
                              int32_t rank, struct cs_kept_change *change,
                              struct cs_arena *scratch);
/* see core/sched/buffers.h; as long as the program and the arena */
struct cs_buffers cs_program_buffers(const struct cs_program *program, struct cs_arena *scratch);

#endif
