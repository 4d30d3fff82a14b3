/* Job directories for tests of the screens: a plan made from a tiny specification, its prediction
 * and a few "measured" steps, both from the simulator, as a runner would have left them. The same
 * on every machine: no clock is read. */
#ifndef CS_TESTS_SUPPORT_REPLAY_H
#define CS_TESTS_SUPPORT_REPLAY_H

#include "core/plan/plan.h"
#include "core/sched/sim/sim.h"
#include "tests/support/spec.h"

struct cs_test_replay {
    struct cs_arena *arena;
    json_t *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_program *program;
    struct cs_sim_result predicted, measured; /* measured: of the last step */
    int64_t last_step;
    struct cs_buf trace; /* the file's bytes */
};

/* Plans, simulates and encodes. n_steps: STEP records, from step 40 on; the cost of every action in
 * a measured step is the predicted one plus 2 %, plus 10 % more on the last stage. */
void cs_test_replay_new(struct cs_test_replay *replay, const struct cs_test_spec *spec,
                        int n_steps);
void cs_test_replay_free(struct cs_test_replay *replay);
/* DIR/trace, spec.json, plan.json, journal, logs/0.log ...; returns the path of the trace in one of
 * the buffers of tmpdir_path */
const char *cs_test_replay_write(const struct cs_test_replay *replay, const char *dir);
/* the specification that golden screens are made from: vision on one rank, an llm of 3 stages, the
 * vision encoder frozen */
struct cs_test_spec cs_test_replay_spec(void);

#endif
