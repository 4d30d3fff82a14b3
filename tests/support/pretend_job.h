/* A job of the runner whose worker and feeder compute nothing (support/pretend_ranks.h): vision on one rank, the LLM on
 * two. A test program that uses it calls pretend_main first thing in main. Failures end the test. */
#ifndef CS_TESTS_SUPPORT_PRETEND_JOB_H
#define CS_TESTS_SUPPORT_PRETEND_JOB_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/status.h"
#include "runner/runner.h"

struct pretend_job {
    char *dir; /* $XDG_RUNTIME_DIR of the test; the job is DIR/7 */
    char path[300];
    int steps;
    struct cs_runner_options options;
};

/* Of cmocka: *state becomes a pretend_job, and nothing goes wrong in it. */
int pretend_setup(void **state);
int pretend_teardown(void **state);
void pretend_write(struct pretend_job *job, int steps, int checkpoint_every, const char *plan_hash);
pid_t pretend_start(const struct pretend_job *job); /* the runner, in a process of its own */
enum cs_status pretend_wait_end(pid_t pid);
enum cs_status pretend_run(const struct pretend_job *job); /* both */
json_t *pretend_state(const struct pretend_job *job);      /* state.json, the caller's reference */
/* Rows of the journal of one type and kind (NULL: all), as a new array; every line must parse and check. */
json_t *pretend_journal(const struct pretend_job *job, const char *type, const char *kind);
bool pretend_has_note(const struct pretend_job *job, const char *part);
int64_t pretend_steps(const struct pretend_job *job); /* that the journal has */
/* Workers and feeders of this job that are there. */
int pretend_count_left(const struct pretend_job *job);
/* To every worker, in the order of the processes. */
void pretend_signal_workers(const struct pretend_job *job, int signal);

#endif
