/* What the ranks' GPUs used. */
#ifndef CS_RUNNER_ENERGY_H
#define CS_RUNNER_ENERGY_H

#include "runner/state/state.h"

void cs_energy_begin(struct cs_runner *r);
int64_t cs_energy_take(struct cs_runner *r); /* mJ since the last call; -1 unknown */
/* memory in use on the GPU of the rank that has most of it; 0 unknown */
int64_t cs_energy_mem_bytes(struct cs_runner *r);
void cs_energy_end(struct cs_runner *r);

#endif
