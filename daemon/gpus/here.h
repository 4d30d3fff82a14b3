/* What "here" is to a planner on a machine with GPUs. */
#ifndef CS_GPUS_HERE_H
#define CS_GPUS_HERE_H

#include "core/plan/cluster.h"
#include "gpus/gpus.h"

/* The first n GPUs as devices of a cluster; n 0: here->device stays NULL, CPU cores. Of unlike
 * cards the one with the least memory decides: a plan must fit everywhere. note: what a reader
 * should know, "" nothing. */
void cs_gpus_here(const struct cs_gpus *gpus, int32_t n, struct cs_here *here, char *note,
                  size_t cap);

#endif
