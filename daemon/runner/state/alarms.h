/* The alarms of a job (raised by cs_run_alarm of runner/state/records.h) as they are kept and shown. */
#ifndef CS_RUNNER_ALARMS_H
#define CS_RUNNER_ALARMS_H

#include "runner/state/state.h"

/* a list of the wire's alarm objects, one per rule that had any; the caller's reference */
json_t *cs_run_alarms(const struct cs_runner *r);
/* takes over those of an earlier run of the job, from its state.json; none: nothing happens */
void cs_run_alarms_read(struct cs_runner *r);

#endif
