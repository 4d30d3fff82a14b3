/* A daemon of the test's own and connections to it. Failures end the test; every wait has a limit
 * of minutes, which is only there against hangs. */
#ifndef CS_TESTS_SUPPORT_DAEMON_H
#define CS_TESTS_SUPPORT_DAEMON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct test_daemon {
    char *dir; /* holds state/, run/ and log; made by the first start, removed by test_daemon_end */
    pid_t pid; /* 0: not running */
    char socket[256];
    const char *options[8]; /* more of its command line, NULL-terminated */
    const char *run;        /* its runtime directory in dir; NULL: "run" */
};

/* starts it (the fake runner behind it) and waits until it listens; may be called again after a
 * kill */
void test_daemon_start(struct test_daemon *daemon);
bool test_daemon_answers(const struct test_daemon *daemon); /* a socket may be there before */
void test_daemon_kill(struct test_daemon *daemon,
                      int signal);                /* and waits; returns when it is gone */
int test_daemon_wait(struct test_daemon *daemon); /* exit code; 128 + signal */
void test_daemon_end(
    struct test_daemon *daemon); /* its runners too; the log must hold no sanitizer report */
int test_daemon_fds(const struct test_daemon *daemon);
int64_t test_daemon_rss_bytes(const struct test_daemon *daemon);

struct test_client;
struct test_client *test_client_open(const struct test_daemon *daemon); /* has said hello */
struct test_client *test_client_raw(const struct test_daemon *daemon);  /* has not */
void test_client_close(struct test_client *client);
void test_client_send(struct test_client *client, const void *bytes,
                      size_t n); /* fails when refused */
bool test_client_try(struct test_client *client, const void *bytes,
                     size_t n);                                      /* false: peer closed */
void test_client_text(struct test_client *client, const char *line); /* and a newline */
/* next message; NULL at the end of the stream. The caller's reference. */
json_t *test_client_next(struct test_client *client);
/* sends {"type":type,"id":N, and what format packs (json_pack object body)} and returns its reply,
 * which may be an error; events that come before it are dropped */
json_t *test_client_call(struct test_client *client, const char *type, json_t *fields);
void test_expect_error(json_t *reply, const char *status); /* takes the reply */
int64_t test_submit(struct test_client *client, const char *name, int steps, int ranks);
/* A job of the fake runner with the word gate=N: it may do so many steps from now on. */
void test_let(const struct test_daemon *daemon, int64_t job, int64_t steps);
/* until its journal holds so many steps, whether or not a daemon runs */
void test_wait_steps(const struct test_daemon *daemon, int64_t job, int64_t steps);
/* until its runner is gone: nobody holds the lock on its directory. No daemon may run meanwhile,
 * which asks the same way. */
void test_wait_runner_gone(const struct test_daemon *daemon, int64_t job);
/* job.show until the state is one of the words; the job object, the caller's reference */
json_t *test_wait_state(struct test_client *client, int64_t job, const char *words);

#endif
