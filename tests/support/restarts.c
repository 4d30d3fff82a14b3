/* Stops and starts a daemon; asks it about its jobs. */
#include "tests/support/restarts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "tests/support/tmpdir.h"

void test_node_start(struct test_node *n)
{
    test_daemon_start(&n->d);
    n->c = test_client_open(&n->d);
}

void test_node_begin(struct test_node *n)
{
    *n = (struct test_node){.d = {.options = {"--cpu-devices", "8"}}};
    test_node_start(n);
}

void test_node_stop(struct test_node *n, int signal)
{
    test_client_close(n->c);
    n->c = NULL;
    test_daemon_kill(&n->d, signal);
}

void test_node_end(struct test_node *n)
{
    if (n->c != NULL)
        test_client_close(n->c);
    n->c = NULL;
    test_daemon_end(&n->d);
}

const char *test_node_state(const struct test_node *n, const char *name)
{
    char part[300];

    snprintf(part, sizeof part, "state/%s", name);
    return tmpdir_path(n->d.dir, part);
}

void test_node_remove_history(const struct test_node *n)
{
    static const char *const parts[] = {"history.db", "history.db-wal", "history.db-shm"};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        (void)!unlink(test_node_state(n, parts[i]));
}

struct test_four test_submit_four(const struct test_node *n)
{
    struct test_four j;

    j.done = test_submit(n->c, "ms=0", 12, 2);
    test_expect_state(n->c, j.done, "DONE", "");
    j.runs = test_submit(n->c, "ms=1,gate=20", 40, 8);
    test_wait_steps(&n->d, j.runs, 20);
    j.stopped = test_submit(n->c, "ms=1", 7, 2);
    json_decref(test_ask(n->c, "job.stop", j.stopped));
    j.waits = test_submit(n->c, "ms=0", 5, 3);
    return j;
}

json_t *test_ask(struct test_client *c, const char *type, int64_t job)
{
    return test_client_call(c, type, json_pack("{s:I}", "job", (json_int_t)job));
}

void test_expect_state(struct test_client *c, int64_t job, const char *state, const char *reason)
{
    json_t *o = test_wait_state(c, job, state);

    if (!strstr(cs_msg_str(o, "reason", ""), reason))
        fail_msg("job %lld is %s because '%s', not '%s'", (long long)job, state,
                 cs_msg_str(o, "reason", ""), reason);
    json_decref(o);
}

int64_t test_rows(struct test_client *c, int64_t job)
{
    json_t *reply = test_ask(c, "job.metrics", job);
    int64_t n = (int64_t)json_array_size(cs_msg_arr(reply, "rows"));

    json_decref(reply);
    return n;
}

void test_wait_rows(struct test_client *c, int64_t job, int64_t n)
{
    for (int i = 0; i < 4000 && test_rows(c, job) < n; i++)
        usleep(5000);
    assert_int_equal(test_rows(c, job), n);
}

int64_t test_count_events(struct test_client *c, int64_t job, const char *text)
{
    json_t *reply = test_ask(c, "job.events", job), *events = cs_msg_arr(reply, "events");
    int64_t n = 0;

    for (size_t i = 0; i < json_array_size(events); i++)
        n += strstr(json_string_value(json_array_get(json_array_get(events, i), 2)), text) != NULL;
    json_decref(reply);
    return n;
}

void test_expect_warning(struct test_client *c, const char *text)
{
    json_t *node = test_client_call(c, "node.show", NULL);

    if (!strstr(cs_msg_str(node, "warning", ""), text))
        fail_msg("the daemon warns '%s', not '%s'", cs_msg_str(node, "warning", ""), text);
    json_decref(node);
}
