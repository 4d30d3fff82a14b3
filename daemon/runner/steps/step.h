/* A finished step: journal, daemon, trace, spans. */
#ifndef CS_RUNNER_STEP_H
#define CS_RUNNER_STEP_H

#include "runner/state/state.h"

/* true: a checkpoint has become complete or has failed */
bool cs_step_done(struct cs_runner *r, const struct cs_step_report *report);

#endif
