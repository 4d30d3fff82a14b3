/* What the runner tells: journal, state file, daemon, log. */
#ifndef CS_RUNNER_RECORDS_H
#define CS_RUNNER_RECORDS_H

#include "runner/state/state.h"

void cs_run_emit(struct cs_runner *r, json_t *msg, bool is_kept); /* takes msg; kept: journal too */
void cs_run_note(struct cs_runner *r, enum cs_log_level level, const char *fmt, ...)
    CS_PRINTF(3, 4);
/* A line of a log, as it stands in the file, to who is connected. */
void cs_run_emit_log(struct cs_runner *r, int32_t rank, const char *line, size_t n);
/* the runner's own: a sink of its log */
void cs_run_on_log(void *runner, enum cs_log_level level, const char *line, size_t n);
/* Alarms are what the owner of a job should know although it goes on: one function raises them, whoever
 * notices; they are kept with the job and shown by everything that shows a job.
 *
 * Raises an alarm of a rule. step: the one it is about, -1 none. The text gives the values and what
 * to do. Alarms of a rule are counted; told are the first, the 10th, the 100th ... and each that is
 * more serious than those before. */
void cs_run_alarm(struct cs_runner *r, enum cs_alert rule, enum cs_log_level level, int64_t step,
                  const char *fmt, ...) CS_PRINTF(5, 6);
void cs_run_set_state(struct cs_runner *r, enum cs_job_state state, const char *reason);
json_t *cs_run_state_msg(const struct cs_runner *r); /* the caller's reference */
void cs_run_emit_state(struct cs_runner *r);
void cs_run_write_state(struct cs_runner *r); /* the state file alone */
/* where state.json lacks alarms: writes it and tells those who are connected; no row of the journal */
void cs_run_keep_state(struct cs_runner *r);
/* Once a second, and at the end: the journal goes to disk, and what it could not take is told. */
void cs_run_sync(struct cs_runner *r);
void cs_run_sync_last(struct cs_runner *r); /* what waits still is lost, and told */

#endif
