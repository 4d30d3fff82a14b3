/* What a job raises an alarm about while it runs, one row a rule: the job's key `alerts`, its manual,
 * the runner's watch and everything that shows alarms read this table.
 *
 * A rule that is measured has a threshold, and `alerts` of the job sets it (false: off). A rule that
 * is told is of something that happened; it is always on. */
#ifndef CS_MODEL_ALERTS_H
#define CS_MODEL_ALERTS_H

/* id, slug, threshold by default, least, most, help */
/* clang-format off */
#define CS_ALERTS_MEASURED(X)                                                                      \
    X(SKIPPED_UPDATES, "skipped_updates", 5, 1, 1e12,                                              \
      "steps in a row whose loss or gradient is not finite, so that their update is skipped: the job fails, and any such step is told") \
    X(DIVERGENCE, "divergence", 1.5, 1.01, 1e12,                                                   \
      "the mean loss of the last 20 steps over the lowest that it was, a loss below 0.5 counting as 0.5") \
    X(GRAD_NORM, "grad_norm", 10, 1.01, 1e12,                                                      \
      "the norm of the gradient over its mean of the 20 steps before, where it is clipped")        \
    X(DATA_WAIT, "data_wait", 0.25, 0.001, 1,                                                       \
      "share of the last 20 steps that the rank which waits longest for data waits")               \
    X(UNTRAINED_STEPS, "untrained_steps", 1, 1, 1e12, "steps in a row without a token that is trained") \
    X(CHECKPOINT_AGE, "checkpoint_age", 7200, 1, 1e12, "seconds of training that no checkpoint holds")

/* id, slug, help */
#define CS_ALERTS_TOLD(X)                                                                          \
    X(LEARNED_NOTHING, "learned_nothing", "a run without a single update of its parameters")       \
    X(NONFINITE_WEIGHTS, "nonfinite_weights", "a checkpoint with parameters that are not finite")  \
    X(BAD_SAMPLES, "bad_samples", "samples that were set aside")                                   \
    X(EVALUATION, "evaluation", "an evaluation whose loss is not finite, or that counted no sample") \
    X(CHECKPOINT_FAILED, "checkpoint_failed", "a checkpoint that could not be written")            \
    X(CHECKPOINT_SKIPPED, "checkpoint_skipped", "a checkpoint that a resume could not use")        \
    X(ROWS_LOST, "rows_lost", "rows of the journal or steps of the trace that are missing")        \
    X(FILES_LOST, "files_lost", "the job's directory or a file in it that is gone")                \
    X(COPIES_DIFFER, "copies_differ", "ranks that should hold or compute the same and do not")     \
    X(STANDSTILL, "standstill", "a process that makes no progress, or a runner that was stopped")

/* clang-format on */

enum cs_alert {

#define X(id, ...) CS_ALERT_##id,
    CS_ALERTS_MEASURED(X) CS_ALERTS_TOLD(X)
#undef X
        CS_ALERT_COUNT
};

struct cs_alert_row {
    const char *slug, *help;
    double threshold, least, most; /* all 0: it is told, not measured */
};

const struct cs_alert_row *cs_alert_row(enum cs_alert alert);
/* CS_ALERT_COUNT: there is no such rule */
enum cs_alert cs_alert_find(const char *slug);

#endif
