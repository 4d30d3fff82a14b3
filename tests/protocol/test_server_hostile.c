/* The daemon against peers that are wrong, slow, many or malicious. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"
#include "tests/support/daemon.h"
#include "tests/support/tmpdir.h"

static int start(void **state)
{
    static struct test_daemon daemon;
    daemon = (struct test_daemon){
        .options = {"--max-connections", "64", "--queue-entries", "64"}
    };
    test_daemon_start(&daemon);
    *state = &daemon;
    return 0;
}

static int end(void **state)
{
    test_daemon_end(*state);
    return 0;
}

/* whatever a test did to it, the daemon still serves */
static void expect_alive(const struct test_daemon *daemon)
{
    struct test_client *c = test_client_open(daemon);
    json_t *pong = test_client_call(c, "ping", NULL);
    assert_string_equal(cs_msg_type(pong), "pong");
    json_decref(pong);
    test_client_close(c);
}

static void expect_end(struct test_client *c, const char *status, const char *text)
{
    json_t *m = test_client_next(c);
    assert_non_null(m);
    if (!strstr(cs_msg_str(cs_msg_obj(m, "error"), "text", ""), text))
        fail_msg("'%s' is not in the error '%s'", text,
                 cs_msg_str(cs_msg_obj(m, "error"), "text", ""));
    test_expect_error(m, status);
    assert_null(test_client_next(c)); /* one answer, then the end */
    test_client_close(c);
}

static void first_line(void **state, const char *line, const char *status, const char *text)
{
    struct test_client *c = test_client_raw(*state);
    test_client_text(c, line);
    expect_end(c, status, text);
    expect_alive(*state);
}

static void garbage_is_answered_once_and_ended(void **state)
{
    first_line(state, "\xff\xfe\x01 GET / HTTP/1.1", "invalid", "not JSON");
    first_line(state, "[1,2,3]", "invalid", "not a JSON object");
    first_line(state, "{\"type\":\"hello\",\"type\":\"hello\"}", "invalid", "not JSON");
}

static void another_first_message_than_hello_is_refused(void **state)
{
    first_line(state, "{\"type\":\"jobs.list\",\"id\":1}", "state", "must be hello");
    first_line(state, "{\"type\":\"hello.ok\",\"reply\":true,\"major\":1,\"minor\":0}", "state",
               "must be hello");
    first_line(
        state,
        "{\"type\":\"runner.hello\",\"major\":1,\"minor\":0,\"job\":1,\"pid\":1,\"generation\":0}",
        "state", "must be hello");
    first_line(state, "{\"id\":4}", "state", "must be hello");
    first_line(state, "{\"type\":\"hello\",\"id\":1,\"major\":1}", "invalid", "minor is missing");
    first_line(
        state,
        "{\"type\":\"hello\",\"id\":1,\"major\":1,\"minor\":0,\"program\":\"x\",\"version\":\"\","
        "\"role\":\"king\"}",
        "invalid", "unknown role");
}

static void another_major_is_told_clearly_whatever_its_schema(void **state)
{
    first_line(state, "{\"type\":\"hello\",\"id\":1,\"major\":0,\"old_field\":[]}", "unsupported",
               "install the same release");
    first_line(state, "{\"type\":\"hello\",\"id\":1,\"major\":2}", "unsupported",
               "protocol 2, we speak 1");
}

static void another_minor_is_fine_and_the_smaller_one_is_used(void **state)
{
    struct test_client *c = test_client_raw(*state);
    json_t *ok =
        test_client_call(c, "hello",
                         json_pack("{s:i, s:i, s:s, s:s, s:s}", "major", CS_PROTOCOL_MAJOR, "minor",
                                   99, "program", "future", "version", "9", "unheard", "of"));
    assert_string_equal(cs_msg_type(ok), "hello.ok");
    assert_int_equal(cs_msg_int(ok, "minor", -1), CS_PROTOCOL_MINOR);
    json_decref(ok);
    test_client_close(c);
}

static void a_second_hello_is_refused_and_the_connection_lives(void **state)
{
    struct test_client *c = test_client_open(*state);
    test_expect_error(test_client_call(c, "hello",
                                       json_pack("{s:i, s:i, s:s, s:s}", "major", 1, "minor", 0,
                                                 "program", "x", "version", "1")),
                      "state");
    json_decref(test_client_call(c, "ping", NULL));
    test_client_close(c);
}

static struct test_client *open_as(const struct test_daemon *daemon, const char *role,
                                   const char *granted)
{
    struct test_client *c = test_client_raw(daemon);
    json_t *hello = json_pack("{s:i, s:i, s:s, s:s}", "major", CS_PROTOCOL_MAJOR, "minor", 0,
                              "program", "x", "version", "1");
    if (role)
        cs_msg_set_str(hello, "role", role);
    json_t *ok = test_client_call(c, "hello", hello);
    assert_string_equal(cs_msg_str(ok, "role", ""), granted);
    json_decref(ok);
    return c;
}

static void expect_refused(struct test_client *c, const char *type, json_t *fields,
                           const char *text)
{
    json_t *m = test_client_call(c, type, fields);
    if (!strstr(cs_msg_str(cs_msg_obj(m, "error"), "text", ""), text))
        fail_msg("'%s' is not in the answer to %s", text, type);
    test_expect_error(m, "refused");
}

static void a_role_asked_for_lowers_what_is_allowed(void **state)
{
    struct test_client *c = open_as(*state, "viewer", "viewer");
    expect_refused(c, "job.submit", json_pack("{s:{}}", "spec"),
                   "job.submit is for the role owner; this connection has the role viewer");
    expect_refused(c, "job.pause", json_pack("{s:i}", "job", 1), "for the role owner");
    expect_refused(c, "job.stop", json_pack("{s:i}", "job", 1), "for the role owner");
    expect_refused(c, "daemon.stop", NULL, "for the role admin");
    json_t *jobs = test_client_call(c, "jobs.list", NULL); /* looking is fine */
    assert_non_null(cs_msg_arr(jobs, "jobs"));
    json_decref(jobs);
    test_client_close(c);
    c = open_as(*state, "owner", "owner");
    expect_refused(c, "daemon.drain", NULL,
                   "for the role admin; this connection has the role owner");
    test_expect_error(test_client_call(c, "job.pause", json_pack("{s:i}", "job", 1)), "not_found");
    test_client_close(c);
    test_client_close(open_as(*state, NULL, "admin")); /* its own user's */
    test_client_close(open_as(*state, "admin", "admin"));
    expect_alive(*state);
}

static void half_a_line_waits_for_its_other_half(void **state)
{
    struct test_client *c = test_client_open(*state);
    static const char line[] = "{\"type\":\"ping\",\"id\":77}\n";
    for (size_t i = 0; i < sizeof(line) - 1; i++)
        test_client_send(c, line + i, 1);
    json_t *pong = test_client_next(c);
    assert_int_equal(cs_msg_id(pong), 77);
    json_decref(pong);
    test_client_text(c, "{\"type\":\"ping\",\"id\":");
    test_client_close(c); /* and one that never comes */
    expect_alive(*state);
}

static void an_endless_line_is_cut_while_it_arrives(void **state)
{
    char chunk[4096];
    memset(chunk, 'a', sizeof(chunk));
    struct test_client *before = test_client_raw(*state);
    size_t sent = 0;
    while (sent < (1u << 20) && test_client_try(before, chunk, sizeof(chunk)))
        sent += sizeof(chunk);
    expect_end(before, "limit", "longer than 4096");
    struct test_client *after = test_client_open(*state);
    int64_t rss = test_daemon_rss_bytes(*state);
    for (sent = 0; sent < (64u << 20) && test_client_try(after, chunk, sizeof(chunk));)
        sent += sizeof(chunk);
    assert_true(sent < (20u << 20));
    expect_end(after, "limit", "longer than");
    assert_true(test_daemon_rss_bytes(*state) - rss < (64 << 20));
    expect_alive(*state);
}

static void nesting_and_counts_are_limited(void **state)
{
    struct test_client *c = test_client_open(*state);
    char line[300] = "{\"type\":\"ping\",\"id\":1,\"x\":";
    size_t n = strlen(line);
    memset(line + n, '[', 200);
    line[n + 200] = '\0';
    test_client_text(c, line);
    expect_end(c, "limit", "nested deeper");
    c = test_client_open(*state);
    char *many = malloc(2000002);
    assert_non_null(many);
    for (size_t i = 0; i < 2000000; i += 2)
        memcpy(many + i, "1,", 2);
    test_client_send(c, "{\"type\":\"ping\",\"x\":[", 20);
    if (test_client_try(c, many, 2000000))
        (void)test_client_try(c, "1]}\n", 4);
    free(many);
    expect_end(c, "limit", "more than");
    expect_alive(*state);
}

static void bad_requests_are_answered_with_their_id(void **state)
{
    static const struct {
        const char *line, *status;
    } cases[] = {
        {"{\"type\":\"make.coffee\",\"id\":5}",                          "unsupported"},
        {"{\"type\":\"job.show\",\"id\":5}",                             "invalid"    },
        {"{\"type\":\"job.show\",\"id\":5,\"job\":\"one\"}",             "invalid"    },
        {"{\"type\":\"job.show\",\"id\":5,\"job\":0}",                   "invalid"    },
        {"{\"type\":\"job.show\",\"id\":5,\"job\":9007199254740992}",    "invalid"    },
        {"{\"type\":\"job.show\",\"id\":5,\"job\":4711}",                "not_found"  },
        {"{\"type\":\"job.log\",\"id\":5,\"job\":4711}",                 "not_found"  },
        {"{\"type\":\"sub.open\",\"id\":5,\"job\":4711}",                "not_found"  },
        {"{\"type\":\"sub.close\",\"id\":5,\"sub\":4711}",               "not_found"  },
        {"{\"type\":\"job.submit\",\"id\":5,\"spec\":{}}",               "invalid"    },
        {"{\"type\":\"job.submit\",\"id\":5,\"spec\":[]}",               "invalid"    },
        {"{\"type\":\"runner.status\",\"id\":5}",                        "unsupported"},
        {"{\"type\":\"pong\",\"reply\":true,\"id\":5}",                  "invalid"    },
        {"{\"type\":\"jobs.list\",\"reply\":true,\"jobs\":[],\"id\":5}", "invalid"    },
        {"{\"type\":\"ping\",\"reply\":\"yes\",\"id\":5}",               "invalid"    },
    };
    struct test_client *c = test_client_open(*state);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        test_client_text(c, cases[i].line);
        json_t *m = test_client_next(c);
        if (!m || cs_msg_id(m) != 5 ||
            strcmp(cs_msg_str(cs_msg_obj(m, "error"), "status", ""), cases[i].status) != 0)
            fail_msg("%s: %s", cases[i].line, m ? json_dumps(m, 0) : "closed");
        json_decref(m);
    }
    test_client_text(c, "{\"type\":\"error\",\"error\":{\"status\":\"io\",\"text\":\"mine\"}}");
    json_decref(test_client_call(c, "ping", NULL)); /* an error is not answered */
    test_client_close(c);
}

static void equal_ids_are_answered_each(void **state)
{
    struct test_client *c = test_client_open(*state);
    for (int i = 0; i < 3; i++)
        test_client_text(c, "{\"type\":\"ping\",\"id\":9}");
    for (int i = 0; i < 3; i++) {
        json_t *m = test_client_next(c);
        assert_string_equal(cs_msg_type(m), "pong");
        assert_int_equal(cs_msg_id(m), 9);
        json_decref(m);
    }
    test_client_close(c);
}

static void a_peer_that_asks_and_does_not_read_is_not_served_on(void **state)
{
    enum { ASKED = 20000 };
    struct test_client *c = test_client_open(*state);
    static const char ask[] = "{\"type\":\"node.show\",\"id\":3}\n";
    char *all = malloc(ASKED * (sizeof(ask) - 1));
    assert_non_null(all);
    for (size_t i = 0; i < ASKED; i++)
        memcpy(all + i * (sizeof(ask) - 1), ask, sizeof(ask) - 1);
    int64_t rss = test_daemon_rss_bytes(*state);
    pid_t writer = fork(); /* the pipe fills: somebody has to block on it */
    if (writer == 0)
        _exit(test_client_try(c, all, ASKED * (sizeof(ask) - 1)) ? 0 : 1);
    for (int i = 0; i < 20; i++) {
        expect_alive(*state);
        assert_true(test_daemon_rss_bytes(*state) - rss < (16 << 20));
    }
    for (int i = 0; i < ASKED; i++) {
        json_t *m = test_client_next(c);
        assert_string_equal(cs_msg_type(m), "node.show");
        json_decref(m);
    }
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    free(all);
    test_client_close(c);
}

/* of the runner's flood; others say what state the job is in */
static bool is_flood(const json_t *m)
{
    return strcmp(cs_msg_type(m), "event.note") == 0 && cs_msg_str(m, "text", "")[0] == 'x';
}

static void slow_subscriber_gets_gap_marker(void **state)
{
    enum { STEPS = 60, NOTES = 20, BYTES = 4000, ALL = STEPS * NOTES };
    struct test_client *slow = test_client_open(*state), *c = test_client_open(*state);
    json_t *sub = test_client_call(slow, "sub.open", json_pack("{s:b}", "gauges", 0));
    assert_int_equal(cs_msg_int(sub, "sub", -1), 1);
    json_decref(sub);
    int64_t rss = test_daemon_rss_bytes(*state);
    char name[64];
    snprintf(name, sizeof(name), "ms=5,hold,flood=%d,big=%d", NOTES, BYTES);
    int64_t job = test_submit(c, name, STEPS, 2);
    json_decref(test_wait_state(c, job, "DONE"));
    assert_true(test_daemon_rss_bytes(*state) - rss < (8 << 20)); /* the cap: 64 entries of 4 KB */
    int64_t notes = 0, gaps = 0, dropped = 0, jobs = 0;
    const char *last = "";
    bool is_done = false;
    while (!is_done) {
        json_t *m = test_client_next(slow);
        const char *type = cs_msg_type(m);
        assert_int_equal(cs_msg_int(m, "sub", -1), 1);
        if (strcmp(type, "gap") == 0) {
            gaps++;
            dropped += cs_msg_int(m, "count", 0);
        } else if (strcmp(type, "event.note") == 0) {
            notes++;
        } else {
            assert_string_equal(type, "event.job");
            jobs++;
            last = cs_msg_str(cs_msg_obj(m, "job"), "state", "");
            is_done = strcmp(last, "DONE") == 0;
        }
        json_decref(m);
    }
    assert_true(gaps >= 1);
    assert_true(notes < ALL);
    /* every note is here or counted; the rest of the count are event.job */
    assert_true(notes + dropped >= ALL);
    assert_true(notes + dropped <= ALL + 600);
    assert_true(jobs >= 1);
    test_client_close(slow);
    test_client_close(c);
}

static void a_fast_subscriber_gets_every_event_and_the_latest_gauge(void **state)
{
    enum { STEPS = 20, NOTES = 5 };
    struct test_client *c = test_client_open(*state), *fast = test_client_open(*state);
    json_decref(test_client_call(fast, "sub.open", NULL));
    int64_t notes = 0, step = -1;
    test_submit(c, "ms=20,hold,flood=5", STEPS, 2);
    for (bool is_done = false; !is_done;) {
        json_t *m = test_client_next(fast);
        assert_string_not_equal(cs_msg_type(m), "gap");
        notes += is_flood(m);
        if (strcmp(cs_msg_type(m), "event.step") == 0) {
            assert_true(cs_msg_int(m, "step", -1) > step);
            step = cs_msg_int(m, "step", -1);
        }
        is_done = strcmp(cs_msg_str(cs_msg_obj(m, "job"), "state", ""), "DONE") == 0;
        json_decref(m);
    }
    assert_int_equal(notes, STEPS * NOTES);
    assert_true(step >= 0);
    test_expect_error(test_client_call(fast, "sub.close", json_pack("{s:i}", "sub", 2)),
                      "not_found");
    json_decref(test_client_call(fast, "sub.close", json_pack("{s:i}", "sub", 1)));
    for (int i = 0; i < 16; i++)
        json_decref(test_client_call(fast, "sub.open", NULL));
    test_expect_error(test_client_call(fast, "sub.open", NULL), "limit");
    test_client_close(fast);
    test_client_close(c);
}

static void too_many_connections_are_told_so(void **state)
{
    enum { N = 300, MAX = 64 };
    static struct test_client *c[N];
    int refused = 0;
    for (int i = 0; i < N; i++)
        c[i] = test_client_raw(*state);
    static const char hello[] =
        "{\"type\":\"hello\",\"id\":1,\"major\":1,\"minor\":0,\"program\":\"x\","
        "\"version\":\"1\"}\n";
    for (int i = 0; i < N; i++)
        (void)test_client_try(c[i], hello, sizeof(hello) - 1);
    for (int i = 0; i < N; i++) {
        json_t *m = test_client_next(c[i]);
        if (strcmp(cs_msg_type(m), "error") == 0)
            refused++;
        json_decref(m);
    }
    assert_int_equal(refused, N - MAX);
    for (int i = 0; i < N; i++)
        test_client_close(c[i]);
    expect_alive(*state);
}

static void a_thousand_connections_leave_nothing_behind(void **state)
{
    for (int i = 0; i < 100; i++)
        expect_alive(*state);
    int fds = test_daemon_fds(*state);
    int64_t rss = test_daemon_rss_bytes(*state);
    for (int i = 0; i < 1000; i++) {
        struct test_client *c = test_client_open(*state);
        if (i % 2)
            json_decref(test_client_call(c, "sub.open", NULL));
        if (i % 3)
            test_client_text(c, "{\"type\":\"jobs.list\",\"id\":1}");
        if (i % 5 == 0)
            test_client_send(c, "{\"half\":", 8);
        test_client_close(c);
    }
    expect_alive(*state);
    for (int i = 0; i < 100 && test_daemon_fds(*state) > fds; i++)
        usleep(20000);
    assert_true(test_daemon_fds(*state) <= fds);
    assert_true(test_daemon_rss_bytes(*state) - rss <
                (24 << 20)); /* ASan's quarantine is in there */
}

static void silence_before_hello_ends_after_the_limit(void **state)
{
    (void)state;
    struct test_daemon daemon = {
        .options = {"--hello-timeout", "200ms"}
    };
    test_daemon_start(&daemon);
    expect_end(test_client_raw(&daemon), "timeout", "no hello");
    struct test_client *half = test_client_raw(&daemon);
    test_client_send(half, "{\"type\":\"hel", 12);
    expect_end(half, "timeout", "no hello");
    struct test_client *greeted = test_client_open(&daemon);
    usleep(400000);
    json_decref(test_client_call(greeted, "ping", NULL));
    test_client_close(greeted);
    test_daemon_end(&daemon);
}

static void another_user_is_refused(void **state)
{
    const struct test_daemon *daemon = *state;
    if (geteuid() != 0)
        skip(); /* only root can be somebody else */
    char run[300];
    snprintf(run, sizeof(run), "%s/run", daemon->dir);
    chmod(daemon->dir, 0755);
    chmod(run, 0755);
    chmod(daemon->socket, 0666);
    pid_t other = fork();
    if (other == 0) {
        char line[1000] = "";
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        memcpy(at.sun_path, daemon->socket, strlen(daemon->socket) + 1);
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setgid(65534) == -1 || setuid(65534) == -1 ||
            connect(fd, (struct sockaddr *)&at, sizeof(at)) == -1)
            _exit(2);
        _exit(read(fd, line, sizeof(line) - 1) > 0 && strstr(line, "\"refused\"") &&
                      strstr(line, "own user") && read(fd, line, 1) <= 0
                  ? 0
                  : 3);
    }
    int status;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    chmod(daemon->dir, 0700);
    expect_alive(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_answered_once_and_ended),
        cmocka_unit_test(another_first_message_than_hello_is_refused),
        cmocka_unit_test(another_major_is_told_clearly_whatever_its_schema),
        cmocka_unit_test(another_minor_is_fine_and_the_smaller_one_is_used),
        cmocka_unit_test(a_second_hello_is_refused_and_the_connection_lives),
        cmocka_unit_test(a_role_asked_for_lowers_what_is_allowed),
        cmocka_unit_test(half_a_line_waits_for_its_other_half),
        cmocka_unit_test(an_endless_line_is_cut_while_it_arrives),
        cmocka_unit_test(nesting_and_counts_are_limited),
        cmocka_unit_test(bad_requests_are_answered_with_their_id),
        cmocka_unit_test(equal_ids_are_answered_each),
        cmocka_unit_test(a_peer_that_asks_and_does_not_read_is_not_served_on),
        cmocka_unit_test(slow_subscriber_gets_gap_marker),
        cmocka_unit_test(a_fast_subscriber_gets_every_event_and_the_latest_gauge),
        cmocka_unit_test(too_many_connections_are_told_so),
        cmocka_unit_test(a_thousand_connections_leave_nothing_behind),
        cmocka_unit_test(silence_before_hello_ends_after_the_limit),
        cmocka_unit_test(another_user_is_refused),
    };
    return cmocka_run_group_tests(tests, start, end);
}
