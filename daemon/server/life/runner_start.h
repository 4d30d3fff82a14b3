/* The start of a job's runner. */
#ifndef CS_SERVER_RUNNER_START_H
#define CS_SERVER_RUNNER_START_H

#include <stdint.h>
#include <sys/types.h>

#include "core/base/status.h"

struct cs_runner_start {
    int64_t job;
    const char *dir, *socket;
    const char *visible; /* what CUDA_VISIBLE_DEVICES says; "": as it is, CPU ranks */
    const char *lease;   /* devices of the ranks, "cpu:0,cpu:1" */
    const char *here;    /* what cs.cluster "here" is */
    bool
        is_check; /* only says whether the job can go on; output to logs/check.err, nothing else needed */
    int lock_fd; /* holds the lock on dir, which goes to the runner (close yours); -1: none */
};

/* Forks and executes cornstarch-runner in a session of its own; it outlives the daemon. */
enum cs_status cs_runner_start(const struct cs_runner_start *start, pid_t *pid,
                               struct cs_err *err) CS_NODISCARD;

#endif
