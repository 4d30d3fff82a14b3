/* Notices when the job's directory or its journal is taken away while the job runs. */
#ifndef CS_RUNNER_LOST_FILES_H
#define CS_RUNNER_LOST_FILES_H

#include "runner/state/state.h"

/* Remembers which directory it is. */
enum cs_status cs_lost_files_begin(struct cs_runner *r, struct cs_err *err) CS_NODISCARD;
/* Every second and at the end: what is gone is an alarm, and is made anew as far as the runner knows
 * it, so that what follows is kept: the directory with spec.json, an empty journal. r->lost_files
 * then says what was lost. */
void cs_lost_files_look(struct cs_runner *r);

#endif
