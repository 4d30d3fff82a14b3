/* Starts a daemon for a test, connects to it and ends it with all that it started. */
#include "tests/support/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/system/clock.h"
#include "core/base/system/io.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "tests/support/spec.h"
#include "tests/support/tmpdir.h"

enum { LIMIT_MS = 180000, POLL_US = 5000 };

struct test_client {
    int fd;
    int64_t next_id;
    struct cs_line_reader *lines;
};

static const char *program(const char *name)
{
    static char paths[4][512];
    static int turn;
    const char *bin = getenv("CORNSTARCH_BIN");
    char *out = paths[turn++ % 4];
    snprintf(out, sizeof(paths[0]), "%s/%s", bin ? bin : "bin", name);
    return out;
}

/* Only to the daemon that was started: one that was killed while it started a runner leaves its
 * listening socket to the child until that has become the runner. */
static int dial(const char *path, pid_t pid)
{
    struct ucred peer;
    socklen_t n = sizeof(peer);
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    assert_true(strlen(path) < sizeof(at.sun_path));
    memcpy(at.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_not_equal(fd, -1);
    if (connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.pid == pid)
        return fd;
    close(fd);
    return -1;
}

static void exec_daemon(const struct test_daemon *daemon)
{
    char state[300], run[300], log[300];
    const char *argv[16] = {"cornstarchd", "--state-dir", state,  "--runtime-dir",
                            run,           "--log-level", "debug"};
    int n = 7;
    snprintf(state, sizeof(state), "%s/state", daemon->dir);
    snprintf(run, sizeof(run), "%s/%s", daemon->dir, daemon->run ? daemon->run : "run");
    snprintf(log, sizeof(log), "%s/log", daemon->dir);
    for (int i = 0; daemon->options[i]; i++)
        argv[n++] = daemon->options[i];
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, 1);
    dup2(fd, 2);
    setenv("CORNSTARCH_RUNNER", program("fake_runner"), 1);
    setenv("XDG_CONFIG_HOME", daemon->dir, 1);
    setenv("CORNSTARCH_NVML", "none", 0); /* CPU ranks, also on a machine with GPUs */
    /* memory is measured; what is freed is overwritten, so that libraries fall over it too */
    setenv("ASAN_OPTIONS", "quarantine_size_mb=1:max_free_fill_size=65536:free_fill_byte=85", 1);
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 0);
    setenv("MALLOC_PERTURB_", "85", 0);
    execv(program("cornstarchd"), (char *const *)(uintptr_t)argv);
    _exit(127);
}

static char *read_log(const struct test_daemon *daemon)
{
    size_t bytes;
    return tmpdir_read(tmpdir_path(daemon->dir, "log"), &bytes);
}

/* cmocka cuts what is long: the end says why */
static const char *end_of_log(const struct test_daemon *daemon)
{
    enum { MOST = 500 };

    const char *log = read_log(daemon);
    const size_t n = log ? strlen(log) : 0;
    return n > MOST ? log + n - MOST : log ? log : "";
}

void test_daemon_start(struct test_daemon *daemon)
{
    if (!daemon->dir)
        daemon->dir = tmpdir_new();
    snprintf(daemon->socket, sizeof(daemon->socket), "%s/%s/daemon.sock", daemon->dir,
             daemon->run ? daemon->run : "run");
    daemon->pid = fork();
    assert_int_not_equal(daemon->pid, -1);
    if (daemon->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        exec_daemon(daemon);
    }
    int64_t limit = cs_now_ns() + (int64_t)LIMIT_MS * 1000000;
    for (int fd; cs_now_ns() < limit; usleep(POLL_US)) {
        int status;
        if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
            daemon->pid = 0; /* nobody waits for it again */
            fail_msg("the daemon ended at its start: %s", end_of_log(daemon));
        }
        if ((fd = dial(daemon->socket, daemon->pid)) != -1) {
            close(fd);
            return;
        }
    }
    fail_msg("the daemon does not listen");
}

bool test_daemon_answers(const struct test_daemon *daemon)
{
    const int fd = dial(daemon->socket, daemon->pid);
    if (fd != -1)
        close(fd);
    return fd != -1;
}

int test_daemon_wait(struct test_daemon *daemon)
{
    int status;
    int64_t limit = cs_now_ns() + (int64_t)LIMIT_MS * 1000000;
    for (; cs_now_ns() < limit; usleep(POLL_US))
        if (waitpid(daemon->pid, &status, WNOHANG) == daemon->pid) {
            daemon->pid = 0;
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        }
    fail_msg("the daemon does not end");
    return -1;
}

void test_daemon_kill(struct test_daemon *daemon, int signal)
{
    assert_int_equal(kill(daemon->pid, signal), 0);
    test_daemon_wait(daemon);
}

/* Runners outlive the daemon; the test's must not outlive the test. */
static void end_runners(const char *dir)
{
    DIR *proc = opendir("/proc");
    for (const struct dirent *e; proc && (e = readdir(proc));) {
        char path[300], line[4096] = "";
        int pid = atoi(e->d_name);
        if (pid <= 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
        int fd = open(path, O_RDONLY);
        ssize_t n = fd == -1 ? 0 : read(fd, line, sizeof(line) - 1);
        if (fd != -1)
            close(fd);
        for (ssize_t i = 0; i < n; i++)
            if (line[i] == '\0')
                line[i] = ' ';
        if (strstr(line, "fake_runner") && strstr(line, dir))
            kill(pid, SIGKILL);
    }
    if (proc)
        closedir(proc);
}

void test_daemon_end(struct test_daemon *daemon)
{
    if (daemon->pid) {
        kill(daemon->pid, SIGTERM);
        assert_int_equal(test_daemon_wait(daemon), 0);
    }
    end_runners(daemon->dir);
    char *log = read_log(daemon);
    if (log &&
        (strstr(log, "Sanitizer") || strstr(log, "runtime error") || strstr(log, "assertion")))
        fail_msg("%s", log);
    free(log);
    tmpdir_free(daemon->dir);
    daemon->dir = NULL;
}

int test_daemon_fds(const struct test_daemon *daemon)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/fd", (int)daemon->pid);
    return tmpdir_count(path);
}

int64_t test_daemon_rss_bytes(const struct test_daemon *daemon)
{
    char path[64];
    long long pages = 0, skip = 0;
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)daemon->pid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lld %lld", &skip, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

struct test_client *test_client_raw(const struct test_daemon *daemon)
{
    struct test_client *client = calloc(1, sizeof(*client));
    assert_non_null(client);
    signal(SIGPIPE, SIG_IGN);
    client->fd = dial(daemon->socket, daemon->pid);
    assert_int_not_equal(client->fd, -1);
    client->lines = cs_line_reader_new();
    cs_line_reader_limit(client->lines, 0);
    return client;
}

void test_client_close(struct test_client *client)
{
    close(client->fd);
    cs_line_reader_free(client->lines);
    free(client);
}

bool test_client_try(struct test_client *client, const void *bytes, size_t n)
{
    const char *at = bytes;
    while (n > 0) {
        struct pollfd p = {.fd = client->fd, .events = POLLOUT};
        if (poll(&p, 1, LIMIT_MS) <= 0)
            fail_msg("the daemon does not read");
        ssize_t sent = send(client->fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent == -1 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent > 0) {
            at += sent;
            n -= (size_t)sent;
        }
    }
    return true;
}

void test_client_send(struct test_client *client, const void *bytes, size_t n)
{
    assert_true(test_client_try(client, bytes, n));
}

void test_client_text(struct test_client *client, const char *line)
{
    test_client_send(client, line, strlen(line));
    test_client_send(client, "\n", 1);
}

json_t *test_client_next(struct test_client *client)
{
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err = {0};
    json_t *message = NULL;
    for (;;) {
        if (cs_line_next(client->lines, &message, &err) != CS_OK)
            fail_msg("a bad line from the daemon: %s", err.text);
        if (message) {
            if (cs_msg_check(message, &err) != CS_OK)
                fail_msg("a message that breaks the schema: %s", err.text);
            return message;
        }
        struct pollfd p = {.fd = client->fd, .events = POLLIN};
        if (poll(&p, 1, LIMIT_MS) <= 0)
            fail_msg("no message within the limit");
        ssize_t n = read(client->fd, bytes, sizeof(bytes));
        if (n <= 0)
            return NULL;
        assert_int_equal(cs_line_feed(client->lines, bytes, (size_t)n, &err), CS_OK);
    }
}

json_t *test_client_call(struct test_client *client, const char *type, json_t *fields)
{
    struct cs_buf line = {0};
    struct cs_err err;
    int64_t id = ++client->next_id;
    json_t *request = cs_msg_request(type, id), *reply;
    if (fields)
        json_object_update(request, fields);
    json_decref(fields);
    assert_int_equal(cs_msg_encode(request, &line, &err), CS_OK);
    test_client_send(client, line.data, line.len);
    cs_buf_free(&line);
    json_decref(request);
    for (;;) {
        reply = test_client_next(client);
        if (!reply)
            fail_msg("the daemon closed instead of answering %s", type);
        if (cs_msg_is_reply(reply) && cs_msg_id(reply) == id)
            return reply;
        if (!cs_msg_is_reply(reply) && strcmp(cs_msg_type(reply), "error") == 0)
            fail_msg("%s", json_dumps(reply, 0));
        json_decref(reply);
    }
}

struct test_client *test_client_open(const struct test_daemon *daemon)
{
    struct test_client *client = test_client_raw(daemon);
    json_t *ok =
        test_client_call(client, "hello",
                         json_pack("{s:i, s:i, s:s, s:s}", "major", CS_PROTOCOL_MAJOR, "minor",
                                   CS_PROTOCOL_MINOR, "program", "test", "version", "1"));
    assert_string_equal(cs_msg_type(ok), "hello.ok");
    json_decref(ok);
    return client;
}

void test_expect_error(json_t *reply, const char *status)
{
    assert_non_null(reply);
    assert_string_equal(cs_msg_type(reply), "error");
    assert_string_equal(cs_msg_str(cs_msg_obj(reply, "error"), "status", ""), status);
    json_decref(reply);
}

int64_t test_submit(struct test_client *client, const char *name, int steps, int ranks)
{
    struct cs_test_spec options = {
        .steps = steps, .vision_pp = 1, .llm_pp = ranks - 1, .llm_layers = 8};
    if (ranks < 2)
        options = (struct cs_test_spec){.steps = steps, .n_encoders = -1, .llm_pp = 1};
    json_t *spec = cs_test_spec_json(&options);
    json_object_set_new(spec, "name", json_string(name));
    json_t *reply = test_client_call(client, "job.submit", json_pack("{s:o}", "spec", spec));
    if (strcmp(cs_msg_type(reply), "job.submit") != 0)
        fail_msg("%s", json_dumps(reply, 0));
    int64_t job = cs_msg_int(reply, "job", -1);
    json_decref(reply);
    return job;
}

static const char *job_path(const struct test_daemon *daemon, int64_t job, const char *name)
{
    char part[64];
    snprintf(part, sizeof(part), "state/jobs/%lld/%s", (long long)job, name);
    return tmpdir_path(daemon->dir, part);
}

void test_let(const struct test_daemon *daemon, int64_t job, int64_t steps)
{
    char text[32];
    struct cs_err err;
    int n = snprintf(text, sizeof(text), "%lld", (long long)steps);
    if (cs_write_file_atomic(job_path(daemon, job, "go"), text, (size_t)n, 0600, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static int64_t steps_in_journal(const struct test_daemon *daemon, int64_t job)
{
    size_t bytes;
    int64_t n = 0;
    char *text = tmpdir_read(job_path(daemon, job, "journal"), &bytes);
    for (const char *at = text; at && (at = strstr(at, "\"runner.step\"")); at++)
        n++;
    free(text);
    return n;
}

void test_wait_steps(const struct test_daemon *daemon, int64_t job, int64_t steps)
{
    int64_t limit = cs_now_ns() + (int64_t)LIMIT_MS * 1000000;
    for (; cs_now_ns() < limit; usleep(POLL_US))
        if (steps_in_journal(daemon, job) >= steps)
            return;
    fail_msg("job %lld does not get to %lld steps", (long long)job, (long long)steps);
}

void test_wait_runner_gone(const struct test_daemon *daemon, int64_t job)
{
    int64_t limit = cs_now_ns() + (int64_t)LIMIT_MS * 1000000;
    for (; cs_now_ns() < limit; usleep(POLL_US)) {
        int fd = open(job_path(daemon, job, ""), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_int_not_equal(fd, -1);
        bool is_gone = flock(fd, LOCK_SH | LOCK_NB) == 0;
        close(fd);
        if (is_gone)
            return;
    }
    fail_msg("the runner of job %lld does not end", (long long)job);
}

json_t *test_wait_state(struct test_client *client, int64_t job, const char *words)
{
    int64_t limit = cs_now_ns() + (int64_t)LIMIT_MS * 1000000;
    char have[64] = "";
    for (; cs_now_ns() < limit; usleep(POLL_US)) {
        json_t *reply =
            test_client_call(client, "job.show", json_pack("{s:I}", "job", (json_int_t)job));
        json_t *object = json_incref(cs_msg_obj(reply, "job"));
        json_decref(reply);
        snprintf(have, sizeof(have), " %s ", cs_msg_str(object, "state", ""));
        char all[256];
        snprintf(all, sizeof(all), " %s ", words);
        if (strstr(all, have))
            return object;
        json_decref(object);
    }
    fail_msg("job %lld is%sand not %s", (long long)job, have, words);
    return NULL;
}
