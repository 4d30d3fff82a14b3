/* What a rank holds over the time of a simulated step. Private to core/sched. */
#ifndef CS_SCHED_SIM_MEMORY_CURVE_H
#define CS_SCHED_SIM_MEMORY_CURVE_H

#include "core/sched/sim/forecast.h"
#include "core/sched/sim/run.h"

/* Fills memory and n_points of every rank; points at one time are one, what is released then counts
 * before what is taken. held (n_stages of the repeated plan), NULL: see sched/kept.h. */
void cs_memory_curves(const struct cs_sim_run *run, const int64_t *held, int element_bytes,
                      struct cs_arena *scratch, struct cs_arena *arena,
                      struct cs_forecast_rank *rank);

#endif
