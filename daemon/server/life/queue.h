/* The queue: jobs start in the order in which they came, as their devices get free. */
#ifndef CS_SERVER_QUEUE_H
#define CS_SERVER_QUEUE_H

#include "server/jobs/job.h"

void cs_jobs_start_queued(struct cs_server *server);

#endif
