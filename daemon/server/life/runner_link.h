/* The daemon's connection to the runner of a job: orders out, reports in. */
#ifndef CS_SERVER_RUNNER_LINK_H
#define CS_SERVER_RUNNER_LINK_H

#include "server/jobs/job.h"

/* where a runner is told to listen */
void cs_runner_socket(const struct cs_job *job, char *out, size_t cap);
/* job->link, when it is time to try. A runner that is not ours and is gone settles the job. */
void cs_runner_connect(struct cs_job *job);
/* What row.stop says: at once, or when the runner can be reached. */
void cs_job_send_stop(struct cs_job *job);

#endif
