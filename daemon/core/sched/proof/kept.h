/* What a program keeps between forward and backward, from the order of its actions alone. */
#ifndef CS_SCHED_PROOF_KEPT_H
#define CS_SCHED_PROOF_KEPT_H

#include "core/sched/kept.h"

/* Activations that a rank keeps when it keeps most; held (n_stages), NULL: see core/sched/kept.h. change: what each
 * action of its compute stream adds and takes away, in that order; NULL: not asked for. */
int64_t cs_program_kept_bytes(const struct cs_program *program, int32_t rank, const int64_t *held,
                              struct cs_kept_change *change, struct cs_arena *arena);

#endif
