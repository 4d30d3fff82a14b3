/* The runner of one job: starts the feeder and one worker per rank, watches them, collects what
 * they report, commits checkpoints, answers the daemon. One thread, one event loop.
 *
 * Written beside the job: journal (runner/journal.h), trace (core/trace/tracefile.h), state.json,
 * logs/, ckpt/. Exit codes: 0 done, paused or stopped, 4 the plan is another, 6 the job failed. */
#ifndef CS_RUNNER_RUNNER_H
#define CS_RUNNER_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "runner/generation.h"

struct cs_runner_options {
    const char *job_dir;
    int64_t job;        /* number; 0: the last part of job_dir when it is one, else unknown */
    const char *socket; /* control socket; NULL: RUNTIME/job-NUMBER.sock, none without a number */
    bool is_replan, is_foreground;
    int64_t hang_ns; /* a rank without progress for so long (at least) is reported */
    struct cs_run_members members;
    int started_fd; /* gets one byte once the job is set up and its processes run; -1 none */
};

/* Runs the job to its end. Returns CS_OK when it is done, paused or stopped; err says why not. */
enum cs_status cs_runner_run(const struct cs_runner_options *options,
                             struct cs_err *err) CS_NODISCARD;

#endif
