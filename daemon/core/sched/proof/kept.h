/* What a program keeps between forward and backward, from the order of its actions alone. */
#ifndef CS_SCHED_PROOF_KEPT_H
#define CS_SCHED_PROOF_KEPT_H

#include "core/sched/program.h"

/* Activations that a rank keeps when it keeps most, by the plan's bytes of a slot; held (n_stages),
 * may be NULL: bytes more between the halves of a split backward. Slots of one stage that are alive
 * together at most. */
int64_t cs_program_kept_bytes(const struct cs_program *program, int32_t rank, const int64_t *held,
                              struct cs_arena *arena);
int32_t cs_program_live_slots(const struct cs_program *program, int32_t stage,
                              struct cs_arena *arena);

#endif
