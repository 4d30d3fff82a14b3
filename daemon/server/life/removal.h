/* Removes jobs that have ended. A job is gone from the moment its directory has another name,
 * NUMBER.gone: what is in it (checkpoints may be large) goes in a thread, or at the next start. */
#ifndef CS_SERVER_REMOVAL_H
#define CS_SERVER_REMOVAL_H

#include "server/jobs/job.h"

/* job is freed. CS_STATE: its state does not allow it, or its last runner still ends. */
enum cs_status cs_job_remove(struct cs_job *job, struct cs_err *err) CS_NODISCARD;
/* what a daemon before us could not finish */
void cs_removal_sweep(const struct cs_server *server);

#endif
