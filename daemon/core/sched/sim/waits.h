/* What steps take beside the work that was measured: messages wake ranks up, and feeder, runner and threads of
 * communication have cores too. */
#ifndef CS_SCHED_SIM_WAITS_H
#define CS_SCHED_SIM_WAITS_H

#include "core/sched/sim/calibrate.h"

/* First sets, of stages that several ranks run, what of the time between begin and end of their actions that they did
 * not compute they wait for each other inside (inside_us): no more than makes the simulated step as long as below. Then
 * sets what a message takes beside its transfer (hop_ns) such that the simulated step is as long as the lower
 * quartile of those that were noted (cs_measured_note_step); where messages cannot make up for it, for there are few or none,
 * the rest belongs to the step (rest_ns). Nothing is set where none was noted, or the simulated step is as long
 * without. cores: as in cs_sim_options. */
enum cs_status cs_measured_fit_waits(struct cs_measured *m, const struct cs_program *program,
                                     int32_t cores, struct cs_err *err) CS_NODISCARD;

#endif
