/* Private to job.c (states, orders) and job_life.c (runners, time). */
#ifndef CS_SERVER_JOB_PARTS_H
#define CS_SERVER_JOB_PARTS_H

#include "server/job.h"

struct cs_job_change {
    const char *state, *reason; /* reason NULL: none */
    int64_t exit_code;
    bool is_in_journal; /* the runner has written it there: the note is imported from it */
};

/* saves, notes, publishes, answers waiters */
void cs_job_set_state(struct cs_job *job, const struct cs_job_change *to);
void cs_job_save(struct cs_job *job);
void cs_job_publish(struct cs_job *job);
struct cs_job *cs_job_add(struct cs_server *server, const struct cs_job_row *row);
bool cs_job_is_state(const char *name, bool *is_over); /* false: no such state */
void cs_job_send_stop(struct cs_job *job);             /* the pending one; needs a link */
void cs_jobs_start_queued(struct cs_server *server);

#endif
