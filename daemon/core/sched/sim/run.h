/* One run of the engine over a program under the simulator's inputs: what results and forecasts are
 * read from. Private to core/sched. */
#ifndef CS_SCHED_SIM_RUN_H
#define CS_SCHED_SIM_RUN_H

#include "core/sched/sim/engine.h"
#include "core/sched/sim/repeat.h"
#include "core/sched/sim/sim.h"

struct cs_sim_run {
    struct cs_repeat repeat;
    struct cs_precedence graph; /* of repeat.program */
    struct cs_engine_result result;
};

enum cs_status cs_sim_run(const struct cs_program *program, const struct cs_sim_options *options,
                          struct cs_arena *arena, struct cs_sim_run *out,
                          struct cs_err *err) CS_NODISCARD;

#endif
