/* The queue: jobs start in the order in which they came, as their devices get free. */
#ifndef CS_SERVER_QUEUE_H
#define CS_SERVER_QUEUE_H

#include "server/jobs/job.h"

void cs_jobs_start_queued(struct cs_server *server);
/* A runner gets its lock from us, so that one that is only coming up counts as alive. false: the job's
 * last runner still holds it. *fd -1: the directory cannot be opened; the runner will say so. */
bool cs_job_take_lock(const struct cs_job *job, int *fd);

#endif
