/* A daemon that is stopped and started again, with a connection to it, and what tests ask it about its jobs. */
#ifndef CS_TESTS_SUPPORT_RESTARTS_H
#define CS_TESTS_SUPPORT_RESTARTS_H

#include "tests/support/daemon.h"

struct test_node {
    struct test_daemon d; /* its options are set before the first start */
    struct test_client *c;
};

void test_node_begin(struct test_node *node); /* a fresh one with 8 CPU devices, started */
void test_node_start(struct test_node *node);
void test_node_stop(struct test_node *node, int signal);
void test_node_end(struct test_node *node); /* whether or not it runs */
/* A path in its state directory; as of tmpdir_path. */
const char *test_node_state(const struct test_node *node, const char *name);
void test_node_remove_history(const struct test_node *node);

/* Four jobs: one has ended, one runs, one was stopped, one waits for the devices of the second. */
struct test_four {
    int64_t done, runs, stopped, waits;
};

struct test_four test_submit_four(const struct test_node *node);

/* The reply to a request that names a job, the caller's reference. */
json_t *test_ask(struct test_client *client, const char *type, int64_t job);
/* reason: part of what is said of it */
void test_expect_state(struct test_client *client, int64_t job, const char *state,
                       const char *reason);
int64_t test_rows(struct test_client *client, int64_t job);
void test_wait_rows(struct test_client *client, int64_t job, int64_t n);
int64_t test_count_events(struct test_client *client, int64_t job, const char *text);
void test_expect_warning(struct test_client *client, const char *text);

#endif
