/* Alarms: what the owner of a job should know although it goes on. One function raises them, whoever
 * notices; they are kept with the job and shown by everything that shows a job. */
#ifndef CS_RUNNER_ALARMS_H
#define CS_RUNNER_ALARMS_H

#include "runner/state/state.h"

/* Raises an alarm of a rule. step: the one it is about, -1 none. The text gives the values and what
 * to do. Alarms of a rule are counted; told are the first, the 10th, the 100th ... and each that is
 * more serious than those before. */
void cs_run_alarm(struct cs_runner *r, enum cs_alert rule, enum cs_log_level level, int64_t step,
                  const char *fmt, ...) CS_PRINTF(5, 6);
/* a list of the wire's alarm objects, one per rule that had any; the caller's reference */
json_t *cs_run_alarms(const struct cs_runner *r);
/* takes over those of an earlier run of the job, from its state.json; none: nothing happens */
void cs_run_alarms_read(struct cs_runner *r);

#endif
