/* Watches what the steps of a job show against the thresholds of its alerts. */
#ifndef CS_RUNNER_WATCH_H
#define CS_RUNNER_WATCH_H

#include "runner/state/state.h"

/* A finished step, as the rules see it. */
struct cs_watched {
    int64_t step, samples, trained_tokens, step_ns;
    bool is_skipped;
    double loss, grad_norm; /* NaN also where the step has none: has_... tells */
    bool has_loss, has_norm;
    double lr,
        data_share; /* of the step that the rank which waits longest waits for data; NaN: not known */
};

/* Measures all rules and raises their alarms. CS_JOB_FAILED: it makes no sense to go on, and why. */
enum cs_status cs_watch_step(struct cs_runner *r, const struct cs_watched *step,
                             struct cs_err *err) CS_NODISCARD;
/* a checkpoint was written: what was trained up to now is held */
void cs_watch_saved(struct cs_runner *r);
/* CS_JOB_FAILED: all steps are done and not one of them has changed a parameter */
enum cs_status cs_watch_end(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;

#endif
