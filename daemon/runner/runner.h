/* The runner of one job: starts the feeder and one worker per rank, watches them, collects what
 * they report, commits checkpoints, answers the daemon. One thread, one event loop.
 *
 * Written beside the job: journal (runner/files/journal.h), trace (core/trace/tracefile.h), state.json,
 * logs/, ckpt/. Exit codes: 0 done, paused or stopped, 4 the plan is another, 6 the job failed. */
#ifndef CS_RUNNER_RUNNER_H
#define CS_RUNNER_RUNNER_H

#include "core/base/status.h"
#include "runner/job/options.h"

/* Runs the job to its end. Returns CS_OK when it is done, paused or stopped; err says why not. */
enum cs_status cs_runner_run(const struct cs_runner_options *options,
                             struct cs_err *err) CS_NODISCARD;
/* Whether it could go on, without running it: the checks of runner/job/resume.h. */
enum cs_status cs_runner_check(const char *job_dir, struct cs_err *err) CS_NODISCARD;

#endif
