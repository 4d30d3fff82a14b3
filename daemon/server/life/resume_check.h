/* Before a job leaves its rest its runner says whether it can go on (cornstarch-runner --check): its
 * checkpoints, data and disk. Hashing them takes a while, so the order waits and the daemon goes on. */
#ifndef CS_SERVER_RESUME_CHECK_H
#define CS_SERVER_RESUME_CHECK_H

#include "server/jobs/job.h"

struct cs_caller;

/* Takes the order job.resume: it is carried out, or refused with the runner's words, later. */
enum cs_status cs_resume_check_begin(struct cs_job *job, struct cs_caller *caller,
                                     const json_t *request, struct cs_err *err) CS_NODISCARD;
/* The job was stopped: who asked for a resume before is told that there is none. */
void cs_resume_check_withdraw(struct cs_job *job);
void cs_resume_check_ended(struct cs_job *job, int status); /* check_pid has ended */
void cs_resume_check_tick(struct cs_job *job); /* begins once the job's last runner is gone */

#endif
