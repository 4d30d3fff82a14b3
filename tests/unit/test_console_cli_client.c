/* The client against a scripted daemon: a child process that answers lines as told. */
#include "console/link/client.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/wire/wire.h"

static char folder[64], path[96];

static const char ok_line[] =
    "{\"type\":\"hello.ok\",\"id\":1,\"reply\":true,\"major\":1,\"minor\":0,"
    "\"version\":\"0\",\"node\":\"n\",\"pid\":7}\n";

static int listen_here(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    unlink(path);
    snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

/* One connection after the other; each answers its n-th line with script[n]. "" answers nothing,
 * NULL closes. */
static pid_t serve(const char *const *const *connections, int n)
{
    int fd = listen_here();
    pid_t pid = fork();
    if (pid != 0) {
        close(fd);
        return pid;
    }
    alarm(20);
    for (int c = 0; c < n; c++) {
        int peer = accept(fd, NULL, NULL);
        FILE *in = fdopen(peer, "r");
        char line[65536];
        for (int i = 0; connections[c][i] && fgets(line, sizeof(line), in); i++)
            if (write(peer, connections[c][i], strlen(connections[c][i])) < 0)
                _exit(1);
        fclose(in);
    }
    _exit(0);
}

static void end(pid_t pid)
{
    int status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/cs-client-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/daemon.sock", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void remember(void *user, const json_t *msg)
{
    char *seen = user;
    strncat(seen, cs_msg_type(msg), 200 - strlen(seen));
    strncat(seen, " ", 200 - strlen(seen));
}

static void nobody_listening_is_unreachable(void **state)
{
    struct cs_client *client = NULL;
    struct cs_err err;
    (void)state;
    unlink(path);
    assert_int_equal(cs_client_connect(NULL, path, &client, &err), CS_UNREACHABLE);
    assert_non_null(strstr(err.text, path));
    assert_null(client);
}

static void another_major_is_told(void **state)
{
    const char *const script[] = {"{\"type\":\"hello.ok\",\"id\":1,\"reply\":true,\"major\":2,"
                                  "\"minor\":0,\"version\":\"0\",\"node\":\"n\",\"pid\":7}\n",
                                  NULL};
    const char *const *const connections[] = {script};
    struct cs_client *client = NULL;
    struct cs_err err;
    (void)state;
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(NULL, path, &client, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "speaks protocol 2, we speak 1"));
    end(pid);
}

static void answers_are_told_from_events(void **state)
{
    const char *const script[] = {
        ok_line,
        "{\"type\":\"event.note\",\"level\":\"info\",\"text\":\"a\"}\n"
        "{\"type\":\"pong\",\"id\":1,\"reply\":true}\n" /* not ours */
        "{\"type\":\"pong\",\"id\":2,\"reply\":true,\"wall_ns\":5}\n"
        "{\"type\":\"gap\",\"sub\":1,\"count\":3}\n",
        "{\"type\":\"error\",\"id\":3,\"reply\":true,\"error\":{\"status\":\"not_found\",\"text\":"
        "\"no\"}}\n",
        "{\"type\":\"jobs.list\",\"id\":4,\"reply\":true,\"jobs\":7}\n", NULL};
    const char *const *const connections[] = {script};
    struct event_base *base = event_base_new();
    struct cs_client *client = NULL;
    struct cs_err err;
    json_t *reply = NULL;
    char seen[256] = "";
    (void)state;
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(base, path, &client, &err), CS_OK);
    cs_client_on_message(client, remember, seen);
    assert_int_equal(cs_client_call(client, cs_msg_new("ping"), &reply, &err), CS_OK);
    assert_int_equal(cs_msg_int(reply, "wall_ns", 0), 5);
    json_decref(reply);
    assert_string_equal(seen, "event.note pong ");
    /* an error is the call's status; a reply that breaks the schema is no reply */
    assert_int_equal(cs_client_call(client, cs_msg_new("ping"), &reply, &err), CS_NOT_FOUND);
    assert_null(reply);
    assert_string_equal(seen, "event.note pong gap ");
    assert_int_equal(cs_client_call(client, cs_msg_new("jobs.list"), &reply, &err), CS_INVALID);
    assert_null(reply);
    cs_client_free(client);
    event_base_free(base);
    end(pid);
}

static void a_lost_line_ends_the_call(void **state)
{
    const char *const script[] = {ok_line, NULL};
    const char *const *const connections[] = {script};
    struct cs_client *client = NULL;
    struct cs_err err;
    json_t *reply = NULL;
    (void)state;
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(NULL, path, &client, &err), CS_OK);
    assert_int_equal(cs_client_call(client, cs_msg_new("ping"), &reply, &err), CS_PEER_GONE);
    assert_false(cs_client_is_connected(client));
    assert_int_equal(cs_client_send(client, cs_msg_new("ping")), -1);
    cs_client_free(client);
    end(pid);
}

static void silence_times_out(void **state)
{
    const char *const script[] = {ok_line, "", "", NULL};
    const char *const *const connections[] = {script};
    struct cs_client *client = NULL;
    struct cs_err err;
    json_t *reply = NULL;
    (void)state;
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(NULL, path, &client, &err), CS_OK);
    assert_int_equal(
        cs_client_call_for(client, cs_msg_new("ping"), INT64_C(50000000), &reply, &err),
        CS_TIMEOUT);
    cs_client_free(client);
    end(pid);
}

static void garbage_ends_the_call(void **state)
{
    const char *const script[] = {ok_line, "garbage\n", NULL};
    const char *const *const connections[] = {script};
    struct cs_client *client = NULL;
    struct cs_err err;
    json_t *reply = NULL;
    (void)state;
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(NULL, path, &client, &err), CS_OK);
    assert_int_equal(cs_client_call(client, cs_msg_new("ping"), &reply, &err), CS_INVALID);
    cs_client_free(client);
    end(pid);
}

struct states {
    struct event_base *base;
    struct cs_client *client;
    char seen[64];
};

static void on_state(void *user, bool is_connected)
{
    struct states *s = user;
    strcat(s->seen, is_connected ? "up " : "down ");
    if (is_connected)
        event_base_loopbreak(s->base);
}

static void a_daemon_that_comes_back_is_found(void **state)
{
    const char *const first[] = {ok_line, "", NULL};
    const char *const second[] = {
        "{\"type\":\"hello.ok\",\"id\":3,\"reply\":true,\"major\":1,\"minor\":0,\"version\":\"0\","
        "\"node\":\"again\",\"pid\":8}\n",
        "{\"type\":\"pong\",\"id\":4,\"reply\":true,\"wall_ns\":9}\n", NULL};
    const char *const *const connections[] = {first, second};
    struct states s = {.base = event_base_new()};
    struct cs_err err;
    json_t *reply = NULL;
    (void)state;
    pid_t pid = serve(connections, 2);
    assert_int_equal(cs_client_connect(s.base, path, &s.client, &err), CS_OK);
    cs_client_on_state(s.client, on_state, &s);
    assert_int_equal(cs_client_send(s.client, cs_msg_new("ping")), 2); /* it closes after that */
    event_base_dispatch(s.base);
    assert_string_equal(s.seen, "down up ");
    assert_string_equal(cs_msg_str(cs_client_hello(s.client), "node", ""), "again");
    assert_int_equal(cs_client_call(s.client, cs_msg_new("ping"), &reply, &err), CS_OK);
    assert_int_equal(cs_msg_int(reply, "wall_ns", 0), 9);
    json_decref(reply);
    cs_client_free(s.client);
    event_base_free(s.base);
    end(pid);
}

/* An open console must not start the daemon again that somebody has stopped. */
static void a_daemon_that_was_asked_to_end_stays_away(void **state)
{
    const char *const script[] = {ok_line, "{\"type\":\"daemon.end\"}\n", NULL};
    const char *const *const connections[] = {script};
    struct states s = {.base = event_base_new()};
    struct cs_err err;
    char where[300];
    const struct timeval longer = {.tv_sec = 5}; /* than it waits before it would start one */
    (void)state;
    snprintf(where, sizeof where, "%s/state", folder);
    setenv("CORNSTARCH_RUNTIME_DIR", folder, 1);
    setenv("CORNSTARCH_STATE_DIR", where, 1);
    pid_t pid = serve(connections, 1);
    assert_int_equal(cs_client_connect(s.base, NULL, &s.client, &err), CS_OK);
    cs_client_on_state(s.client, on_state, &s);
    assert_int_equal(cs_client_send(s.client, cs_msg_new("ping")), 2);
    event_base_loopexit(s.base, &longer);
    event_base_dispatch(s.base);
    assert_string_equal(s.seen, "down ");
    assert_true(cs_client_was_ended(s.client));
    assert_int_equal(access(where, F_OK), -1); /* nothing was prepared for a start */
    cs_client_free(s.client);
    event_base_free(s.base);
    unsetenv("CORNSTARCH_RUNTIME_DIR");
    unsetenv("CORNSTARCH_STATE_DIR");
    end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_listening_is_unreachable),
        cmocka_unit_test(another_major_is_told),
        cmocka_unit_test(answers_are_told_from_events),
        cmocka_unit_test(a_lost_line_ends_the_call),
        cmocka_unit_test(silence_times_out),
        cmocka_unit_test(garbage_ends_the_call),
        cmocka_unit_test(a_daemon_that_comes_back_is_found),
        cmocka_unit_test(a_daemon_that_was_asked_to_end_stays_away),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, setup, teardown);
}
