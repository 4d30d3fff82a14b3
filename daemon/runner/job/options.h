/* What a runner is started with. */
#ifndef CS_RUNNER_OPTIONS_H
#define CS_RUNNER_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/job/generation.h"

struct cs_runner_options {
    const char *job_dir;
    int64_t job;        /* number; 0: the last part of job_dir when it is one, else unknown */
    const char *socket; /* control socket; NULL: RUNTIME/job-NUMBER.sock, none without a number */
    bool is_replan, is_foreground;
    int64_t hang_ns; /* a rank without progress for so long (at least) is reported */
    struct cs_run_members members;
    int started_fd; /* gets one byte once the job is set up and its processes run; -1 none */
};

#endif
