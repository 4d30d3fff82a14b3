/* What the actions of a program are, as the span keys that core/trace reads events with. */
#ifndef CS_SCHED_SIM_KEYS_H
#define CS_SCHED_SIM_KEYS_H

#include "core/sched/program.h"
#include "core/trace/span.h"

/* (n_ranks of all replicas) tables, one key per action id, peers among all ranks and slots of the
 * whole step; they live in arena */
const struct cs_span_keys *cs_program_keys(const struct cs_program *program,
                                           struct cs_arena *arena);

#endif
