/* Shared memory of a generation: event rings and the slot pool. */
#ifndef CS_RUNNER_MEMORY_H
#define CS_RUNNER_MEMORY_H

#include "runner/state/state.h"

/* ring_fds: (n_ranks), the caller closes them */
enum cs_status cs_memory_make(struct cs_runner *r, int *ring_fds, struct cs_err *err) CS_NODISCARD;
void cs_memory_free(struct cs_runner *r);

#endif
