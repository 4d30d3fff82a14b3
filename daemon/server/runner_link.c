/* See runner_link.h. */
#include "server/runner_link.h"

#include "server/node.h"

#include <errno.h>
#include <event2/buffer.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/str.h"
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

/* Messages that have arrived. A bad line is told and skipped: it must not take the others with it.
 */
static void deliver(struct cs_runner_link *link)
{
    struct cs_err err;
    json_t *message = NULL;
    while (!link->is_dead && !cs_line_reader_is_broken(link->lines)) {
        enum cs_status st = cs_line_next(link->lines, &message, &err);
        if (st == CS_OK && !message)
            return;
        if (st == CS_OK)
            st = cs_msg_check(message, &err);
        if (st == CS_OK)
            cs_job_runner_message(link->job, message);
        else
            cs_log(link->job->server->log, CS_WARN, "runner.message",
                   CS_KV("job", link->job->row.id), CS_KV("error", (const char *)err.text));
        json_decref(message);
    }
}

/* One read; false: nothing more for now. *is_lost: nothing more ever. */
static bool read_some(struct cs_runner_link *link, bool *is_lost)
{
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    ssize_t n = recv(link->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    *is_lost = n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR);
    if (n <= 0)
        return false;
    if (cs_line_feed(link->lines, bytes, (size_t)n, &err) == CS_OK)
        deliver(link);
    *is_lost = cs_line_reader_is_broken(link->lines);
    return !*is_lost && !link->is_dead;
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_runner_link *link = user;
    bool is_lost;
    (void)fd;
    (void)what;
    link->is_busy = true;
    read_some(link, &is_lost);
    link->is_busy = false;
    if (link->is_dead)
        cs_runner_link_close(link);
    else if (is_lost)
        lost(link);
}

void cs_runner_link_drain(struct cs_runner_link *link)
{
    bool is_lost;
    if (!link)
        return;
    link->is_busy = true;
    while (read_some(link, &is_lost))
        ;
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
        return cs_fail(err, CS_LIMIT,
                       "the socket path of job %lld is too long; use a shorter --runtime-dir",
                       (long long)job->row.id);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return cs_fail_errno(err, "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1) {
        enum cs_status st =
            errno == ENOENT || errno == ECONNREFUSED
                ? cs_fail(err, CS_UNREACHABLE, "the runner of job %lld does not answer",
                          (long long)job->row.id)
                : cs_fail_errno(err, "connecting to %s", address.sun_path);
        close(fd);
        return st;
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

struct runner_command {
    char program[CS_PATH_CAP], socket[CS_PATH_CAP + 16], output[CS_PATH_CAP], number[32];
    char here[64]; /* "" leave it: CPU ranks */
    const char *dir, **env;
    int lock_fd;
};

enum { LOCK_FD = 3 }; /* in the runner */

static const char lock_fd_text[] = "3";

/* Ours, with the GPUs it shall see ("NAME=value"; "" CPU ranks: as it is). Made before the fork:
 * the thread that reads the GPUs may hold a lock that a child would wait for. */
static const char **make_environment(const char *visible)
{
    static const char order[] = "CUDA_DEVICE_ORDER=PCI_BUS_ID"; /* as NVML counts */
    size_t n = 0, used = 0;
    while (environ[n])
        n++;
    const char **env = calloc(n + 3, sizeof(*env));
    CS_ASSERT(env != NULL);
    for (size_t i = 0; i < n; i++)
        if (!visible[0] || (!cs_str_starts(environ[i], "CUDA_DEVICE_ORDER=") &&
                            !cs_str_starts(environ[i], "CUDA_VISIBLE_DEVICES=")))
            env[used++] = environ[i];
    if (visible[0]) {
        env[used++] = order;
        env[used] = visible;
    }
    return env;
}

/* In the child: a session of its own, no descriptors of the daemon, output beside the job's logs
 * (the runner's log is its own; here end its last words). */
static _Noreturn void become_runner(const struct runner_command *c)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    setsid();
    int null = open("/dev/null", O_RDONLY);
    int out = open(c->output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
    if (null != -1)
        dup2(null, 0);
    if (out != -1) {
        dup2(out, 1);
        dup2(out, 2);
    }
    const bool has_lock = c->lock_fd == LOCK_FD
                              ? fcntl(LOCK_FD, F_SETFD, 0) != -1
                              : c->lock_fd != -1 && dup2(c->lock_fd, LOCK_FD) != -1;
    close_range(has_lock ? LOCK_FD + 1 : LOCK_FD, ~0U, 0);
    const char *argv[16] = {c->program, "--foreground", "--job", c->number, "--socket", c->socket};
    int n = 6;
    if (has_lock) {
        argv[n++] = "--lock";
        argv[n++] = lock_fd_text;
    }
    if (c->here[0]) {
        argv[n++] = "--devices";
        argv[n++] = c->here;
    }
    argv[n] = c->dir;
    execve(c->program, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)c->env);
    dprintf(2, "cornstarch-runner: cannot run %s: %s\n", c->program, strerror(errno));
    _exit(127);
}

/* Beside us, or where $CORNSTARCH_RUNNER says (tests put a runner of their own there). */
static enum cs_status find_program(char out[CS_PATH_CAP], struct cs_err *err)
{
    char self[CS_PATH_CAP];
    const char *other = getenv("CORNSTARCH_RUNNER");
    if (other && other[0])
        return cs_path(out, err, "%s", other);
    CS_TRY(cs_dir_self(self, err));
    return cs_path(out, err, "%s/cornstarch-runner", self);
}

enum cs_status cs_runner_start(struct cs_job *job, int lock_fd, struct cs_err *err)
{
    struct runner_command c = {.dir = job->row.dir, .lock_fd = lock_fd};
    CS_TRY(find_program(c.program, err));
    if (access(c.program, X_OK) == -1)
        return cs_fail_errno(err, "cannot run %s", c.program);
    CS_TRY(cs_path(c.output, err, "%s/logs", job->row.dir));
    CS_TRY(cs_mkdirs(c.output, err));
    CS_TRY(cs_path(c.output, err, "%s/logs/runner.err", job->row.dir));
    snprintf(c.number, sizeof(c.number), "%lld", (long long)job->row.id);
    snprintf(c.socket, sizeof(c.socket), "%s/job-%s.sock", job->server->runtime_dir, c.number);
    char visible[4096] = "CUDA_VISIBLE_DEVICES=";
    const size_t name_len = strlen(visible);
    cs_node_visible(job, visible + name_len, sizeof(visible) - name_len);
    if (!visible[name_len])
        visible[0] = '\0';
    if (cs_node_here(job->server)->device)
        cs_here_print(cs_node_here(job->server), c.here, sizeof(c.here));
    c.env = make_environment(visible);
    pid_t pid = fork();
    if (pid == 0)
        become_runner(&c);
    free(c.env);
    if (pid == -1)
        return cs_fail_errno(err, "fork");
    job->runner_pid = pid;
    return CS_OK;
}
