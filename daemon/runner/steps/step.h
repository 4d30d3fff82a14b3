/* A finished step: journal, daemon, trace, spans, alarms. */
#ifndef CS_RUNNER_STEP_H
#define CS_RUNNER_STEP_H

#include "runner/state/state.h"

/* *is_save_through: a checkpoint has become complete or has failed. CS_JOB_FAILED: what the step
 * shows makes it senseless to go on. */
enum cs_status cs_step_done(struct cs_runner *r, const struct cs_step_report *report,
                            bool *is_save_through, struct cs_err *err) CS_NODISCARD;

#endif
