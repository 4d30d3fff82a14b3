/* The simulated step in the trace: from costs of the plan, then for slots as full as the first step's, then from
 * measured ones. */
#ifndef CS_RUNNER_PREDICT_H
#define CS_RUNNER_PREDICT_H

#include "runner/state/state.h"

enum cs_status cs_run_predict(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
/* of the first step that is announced: before that plans count on full slots */
void cs_run_predict_filled(struct cs_runner *r, const struct cs_step_report *report);
/* of a training step, which took step_ns from the first rank's begin to the last one's end; events: (n_ranks) */
void cs_run_measure(struct cs_runner *r, int64_t step, int64_t step_ns,
                    const struct cs_span_keys *keys, const struct cs_span_events *events);

#endif
