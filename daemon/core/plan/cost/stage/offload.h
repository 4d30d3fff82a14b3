/* Times of activations that wait in the host's memory (core/plan/offload.h). */
#ifndef CS_PLAN_COST_OFFLOAD_H
#define CS_PLAN_COST_OFFLOAD_H

#include "core/plan/offload.h"

/* Times of a stage of which so many slots are alive grow by what copies take longer than its work. */
void cs_offload_times(struct cs_stage *stage, int32_t alive);

#endif
