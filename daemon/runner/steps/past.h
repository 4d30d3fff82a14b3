/* What runs before this one have left: evaluated_step, is_eval_first, exact_match. */
#ifndef CS_RUNNER_PAST_H
#define CS_RUNNER_PAST_H

#include "runner/state/state.h"

enum cs_status cs_past_read(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
bool cs_past_has_weights(const struct cs_runner *r); /* weights.json is of the last step */
bool cs_run_is_complete(const struct cs_runner *r);  /* all steps, and the evaluation after them */

#endif
