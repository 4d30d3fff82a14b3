/* Steps in the runner's log: a line every so many, and one of each evaluation. */
#ifndef CS_RUNNER_STEP_LOG_H
#define CS_RUNNER_STEP_LOG_H

#include "runner/state/state.h"

enum { CS_LOG_EVERY_STEPS = 10 /* and the first and the last of the job */ };

void cs_step_log_train(const struct cs_runner *r, const struct cs_step_report *report,
                       int64_t step_ns);
/* an evaluation that counted something, after the step */
void cs_step_log_eval(const struct cs_runner *r, int64_t step, const struct cs_eval *eval);

#endif
