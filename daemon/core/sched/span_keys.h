/* What the actions of a program are, as the span keys that core/trace reads events with, and such a
 * key in words. */
#ifndef CS_SCHED_SPAN_KEYS_H
#define CS_SCHED_SPAN_KEYS_H

#include "core/sched/program.h"
#include "core/trace/span.h"

/* (n_ranks of all replicas) tables, one key per action id, peers among all ranks and slots of the
 * whole step; they live in arena */
const struct cs_span_keys *cs_program_keys(const struct cs_program *program,
                                           struct cs_arena *arena);
/* "B of slot 3", "send of slot 1 to rank 2", "receive of a gradient of slot 0 from rank 1",
 * "optimizer step" */
void cs_program_key_text(const struct cs_span_key *key, char *out, size_t cap);

#endif
