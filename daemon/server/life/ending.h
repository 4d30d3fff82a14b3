/* The end of a job: what its runner left, or that it left nothing. A runner is alive as long as it
 * holds the lock on the job directory. */
#ifndef CS_SERVER_ENDING_H
#define CS_SERVER_ENDING_H

#include "server/jobs/job.h"

/* Never asked about a child of ours: the question takes the lock for a moment. */
bool cs_runner_is_alive(const struct cs_job *job);
bool cs_job_state_is_final(const struct cs_job_state_row *row); /* of a runner: the last it says */
void cs_job_fail(struct cs_job *job, const char *reason);
void cs_job_fail_gone(struct cs_job *job); /* its directory was removed */
void cs_job_import(
    struct cs_job *job); /* the news of its journal; else is_behind, and at the next tick again */
/* what runner.state, runner.status replies and state.json tell of a job; row: the state that they name */
void cs_job_take_state(struct cs_job *job, const struct cs_job_state_row *row,
                       const json_t *message);
/* The last line of logs/NAME, without "cornstarch-runner: ", "" nothing. Whether it had that: then it says why the runner
 * ended. */
bool cs_job_last_words(const struct cs_job *job, const char *name, char *out, size_t cap);
/* logs/NAME, before another runner is recorded or looks: what the last one said is not its. */
void cs_job_forget_words(const struct cs_job *job, const char *name);
/* Every second: a runner that was told to stop at once and has not is ended, with all that it has started. */
void cs_job_end_runner(struct cs_job *job);
/* The runner is gone; status: of our child, -1: it was not ours. */
void cs_job_settle(struct cs_job *job, int status);

#endif
