/* What a job raises an alarm about while it runs, one row a rule: the job's key `alerts`, its manual,
 * the runner's watch and everything that shows alarms read this table.
 *
 * A rule with a threshold is measured after every step, and `alerts` of the job sets the threshold
 * (false: off). A rule without one (0) tells of something that happened; it is always on. */
#ifndef CS_MODEL_ALERTS_H
#define CS_MODEL_ALERTS_H

/* id, slug, threshold by default, least, most, help */
/* clang-format off */
#define CS_ALERTS(X)                                                                               \
    X(SKIPPED_UPDATES, "skipped_updates", 5, 1, 1e12,                                              \
      "steps in a row whose gradient or loss is not finite, so that their update is skipped: the job fails") \
    X(DIVERGENCE, "divergence", 1.5, 1.01, 1e12,                                                   \
      "the mean loss of about 20 steps over the lowest it had, a loss below 0.5 counting as 0.5")  \
    X(GRAD_NORM, "grad_norm", 10, 1.01, 1e12,                                                      \
      "the norm of a step's gradient over its mean of about 20 steps, where it is clipped")        \
    X(DATA_WAIT, "data_wait", 0.5, 0.001, 1,                                                       \
      "the share of about 20 steps in which the rank that waits longest for data waits")           \
    X(UNTRAINED_STEPS, "untrained_steps", 1, 1, 1e12, "steps in a row without a token that is trained") \
    X(BAD_SAMPLES, "bad_samples", 0.1, 1e-9, 1, "the share of the samples read that were set aside") \
    X(CHECKPOINT_AGE, "checkpoint_age", 7200, 1, 1e12,                                             \
      "seconds of training that no checkpoint holds")                                              \
    X(EVALUATION, "evaluation", 0, 0, 0, "an evaluation whose loss is not finite, or that counted no sample") \
    X(CHECKPOINT_FAILED, "checkpoint_failed", 0, 0, 0, "a checkpoint that could not be written")   \
    X(CHECKPOINT_SKIPPED, "checkpoint_skipped", 0, 0, 0,                                           \
      "a checkpoint that a resume could not use")                                                  \
    X(ROWS_LOST, "rows_lost", 0, 0, 0, "rows of the journal or steps of the trace that are missing") \
    X(FILES_LOST, "files_lost", 0, 0, 0, "the job's directory or a file in it that is gone")       \
    X(COPIES_DIFFER, "copies_differ", 0, 0, 0, "ranks that should hold or compute the same and do not") \
    X(STANDSTILL, "standstill", 0, 0, 0, "a process that makes no progress, or a runner that was stopped")

/* clang-format on */

enum cs_alert {

#define X(id, slug, threshold, least, most, help) CS_ALERT_##id,
    CS_ALERTS(X)
#undef X
        CS_ALERT_COUNT
};

struct cs_alert_row {
    const char *slug, *help;
    double threshold, least, most; /* threshold 0: none, the others 0 too */
};

const struct cs_alert_row *cs_alert_row(enum cs_alert alert);
/* CS_ALERT_COUNT: there is no such rule */
enum cs_alert cs_alert_find(const char *slug);

#endif
