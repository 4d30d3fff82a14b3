/* Where a job goes on: the newest checkpoint of its directory that is whole, of this training, and of
 * the files that the job still reads. What stands against it is refused here, before anything starts,
 * with what differs and what to do; only `from-start` begins anew.
 *
 * The trainer.json of a checkpoint says for this: "trained" (cs_spec_trained), "inputs"
 * (runner/job/inputs.h), "precision", "job", "cursor" and the counters. */
#ifndef CS_RUNNER_RESUME_H
#define CS_RUNNER_RESUME_H

#include "runner/job/job.h"

/* A file of this name in the job directory: begin at step 0, what is there is put aside. */
#define CS_RUN_FROM_START "from-start"

/* Takes the checkpoint directory of the job and finds the place to go on from: resume, first_step and
 * the counters, or nothing where there was none. Touches no checkpoint. CS_REFUSED, CS_CORRUPT,
 * CS_NO_SPACE and what the file system says: why the job cannot go on. */
enum cs_status cs_run_resume_find(struct cs_run_job *job, struct cs_err *err) CS_NODISCARD;
/* Carries out what was found: damaged checkpoints are put aside, all of them where the job begins
 * anew. */
enum cs_status cs_run_resume_settle(struct cs_run_job *job, struct cs_err *err) CS_NODISCARD;
/* trainer.json's keys that the next resume compares; number: of the job */
void cs_run_resume_describe(const struct cs_run_job *job, const char *device, int64_t number,
                            json_t *trainer);

#endif
