/* A job's life with its runner: start, first contact, reports, end. */
#ifndef CS_SERVER_JOB_LIFE_H
#define CS_SERVER_JOB_LIFE_H

#include "server/jobs/job.h"

enum cs_status cs_jobs_load(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
void cs_jobs_free(struct cs_server *server);
void cs_jobs_reap(struct cs_server *server); /* children have ended */
/* every 250 ms: import journals, start queued jobs, retry connections, save again what failed */
void cs_jobs_tick(struct cs_server *server);

#endif
