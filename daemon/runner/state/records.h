/* What the runner tells: journal, state file, daemon, log. */
#ifndef CS_RUNNER_RECORDS_H
#define CS_RUNNER_RECORDS_H

#include "runner/state/state.h"

void cs_run_emit(struct cs_runner *r, json_t *msg, bool is_kept); /* takes msg; kept: journal too */
void cs_run_note(struct cs_runner *r, enum cs_log_level level, const char *fmt, ...)
    CS_PRINTF(3, 4);
/* the same, logged but not told yet: the caller adds to it and emits it */
json_t *cs_run_note_msg(struct cs_runner *r, enum cs_log_level level, const char *text);
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
