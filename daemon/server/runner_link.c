/* See runner_link.h. */
#include "server/runner_link.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

struct cs_runner_link {
    struct cs_job *job;
    int fd;
    struct event *read_event, *write_event;
    struct evbuffer *out;
    struct cs_line_reader *lines;
    bool is_busy, is_dead; /* inside a callback: freed at its end */
};

void cs_runner_link_close(struct cs_runner_link *link)
{
    if (!link)
        return;
    if (link->is_busy) {
        link->is_dead = true;
        return;
    }
    event_free(link->read_event);
    event_free(link->write_event);
    evbuffer_free(link->out);
    cs_line_reader_free(link->lines);
    close(link->fd);
    free(link);
}

static void lost(struct cs_runner_link *link)
{
    struct cs_job *job = link->job;
    link->is_busy = false;
    job->link = NULL;
    cs_runner_link_close(link);
    cs_job_runner_lost(job);
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_runner_link *link = user;
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    json_t *message = NULL;
    (void)what;
    ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || cs_line_feed(link->lines, bytes, (size_t)n, &err) != CS_OK) {
        lost(link);
        return;
    }
    link->is_busy = true;
    while (!link->is_dead && cs_line_next(link->lines, &message, &err) == CS_OK && message) {
        if (cs_msg_check(message, &err) == CS_OK)
            cs_job_runner_message(link->job, message);
        else
            cs_log(link->job->server->log, CS_WARN, "runner.message",
                   CS_KV("job", link->job->row.id), CS_KV("error", (const char *)err.text));
        json_decref(message);
    }
    link->is_busy = false;
    if (link->is_dead)
        cs_runner_link_close(link);
}

static void on_write(evutil_socket_t fd, short what, void *user)
{
    struct cs_runner_link *link = user;
    (void)what;
    int n = evbuffer_write(link->out, fd);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        lost(link);
    else if (evbuffer_get_length(link->out) == 0)
        event_del(link->write_event);
}

void cs_runner_link_send(struct cs_runner_link *link, json_t *message)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(message, &line, &err) == CS_OK)
        evbuffer_add(link->out, line.data, line.len);
    event_add(link->write_event, NULL);
    cs_buf_free(&line);
    json_decref(message);
}

enum cs_status cs_runner_link_open(struct cs_job *job, struct cs_runner_link **out,
                                   struct cs_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path, sizeof(address.sun_path), "%s/job-%lld.sock",
                     job->server->runtime_dir, (long long)job->row.id);
    if (n < 0 || (size_t)n >= sizeof(address.sun_path))
        return cs_fail(err, CS_LIMIT, "the socket path of job %lld is too long; use a shorter --runtime-dir",
                       (long long)job->row.id);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return cs_fail_errno(err, "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1) {
        close(fd);
        return cs_fail(err, CS_UNREACHABLE, "the runner of job %lld does not answer",
                       (long long)job->row.id);
    }
    struct cs_runner_link *link = calloc(1, sizeof(*link));
    CS_ASSERT(link != NULL);
    link->job = job;
    link->fd = fd;
    link->out = evbuffer_new();
    link->lines = cs_line_reader_new();
    cs_line_reader_limit(link->lines, 0);
    link->read_event = event_new(job->server->base, fd, EV_READ | EV_PERSIST, on_read, link);
    link->write_event = event_new(job->server->base, fd, EV_WRITE | EV_PERSIST, on_write, link);
    CS_ASSERT(link->out && link->read_event && link->write_event);
    event_add(link->read_event, NULL);
    *out = link;
    return CS_OK;
}

/* In the child: a session of its own, no descriptors of the daemon, output to the job's log. */
static _Noreturn void become_runner(const char *program, const char *dir, const char *log)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setsid();
    int null = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (null != -1)
        dup2(null, 0);
    if (out != -1) {
        dup2(out, 1);
        dup2(out, 2);
    }
    close_range(3, ~0U, 0);
    execl(program, program, dir, (char *)NULL);
    _exit(127);
}

enum cs_status cs_runner_start(struct cs_job *job, struct cs_err *err)
{
    char program[CS_PATH_CAP], self[CS_PATH_CAP], log[CS_PATH_CAP];
    CS_TRY(cs_dir_self(self, err));
    CS_TRY(cs_path(program, err, "%s/cornstarch-runner", self));
    CS_TRY(cs_path(log, err, "%s/logs", job->row.dir));
    CS_TRY(cs_mkdirs(log, err));
    CS_TRY(cs_path(log, err, "%s/logs/runner.log", job->row.dir));
    if (access(program, X_OK) == -1)
        return cs_fail_errno(err, "cannot run %s", program);
    setenv("CORNSTARCH_RUNTIME_DIR", job->server->runtime_dir, 1);
    pid_t pid = fork();
    if (pid == -1)
        return cs_fail_errno(err, "fork");
    if (pid == 0)
        become_runner(program, job->row.dir, log);
    job->runner_pid = pid;
    return CS_OK;
}
