/* The processes of a job: sockets between them, start, output, death. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/wire/wire.h"
#include "runner/parts.h"
#include "runner/spawn.h"

enum { FIRST_FD = 3, LOG_ROTATE_BYTES = 4 * 1024 * 1024 };

struct cs_child *cs_feeder(struct cs_runner *r)
{
    return &r->child[r->n_ranks];
}

static void on_log_line(void *user, const char *line, size_t n)
{
    struct cs_child *child = user;
    json_t *msg = cs_msg_new("runner.log");
    cs_msg_set_int(msg, "rank", child->rank);
    cs_msg_set(msg, "line", cs_json_bytes(line, n));
    cs_run_emit(child->runner, msg, false);
}

/* Everything the pipe holds now. */
static void read_log(struct cs_child *child)
{
    char bytes[8192];
    ssize_t n;
    while ((n = read(child->log_fd, bytes, sizeof bytes)) > 0)
        cs_logfile_write(child->log, bytes, (size_t)n);
    if (n == 0)
        event_del(child->log_event);
}

static void on_log(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    read_log(user);
}

static void on_exit_event(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    struct cs_child *child = user;
    siginfo_t info = {0};
    if (waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) == -1 || info.si_pid == 0)
        return;
    cs_conn_drain(child->conn); /* its last words came before its end */
    read_log(child);
    child->has_exited = true;
    if (info.si_code == CLD_EXITED)
        child->exit_code = info.si_status;
    else
        child->signal = info.si_status;
    event_del(child->exit_event);
    cs_log(child->runner->log, CS_INFO, "child.exit", CS_KV("rank", child->rank),
           CS_KV("code", child->exit_code), CS_KV("signal", child->signal));
    if (child->exit_code != 0 || child->signal != 0 || !child->is_done)
        cs_run_trouble(child->runner);
    cs_run_check_end(child->runner);
}

static void on_message(void *user, const json_t *msg)
{
    cs_child_message(user, msg);
}

static void on_bad(void *user, const struct cs_err *err)
{
    struct cs_child *child = user;
    cs_run_note(child->runner, CS_ERROR, "%s %d sent what is no message: %s",
                child->rank < 0 ? "feeder" : "rank", child->rank, err->text);
}

static void on_closed(void *user)
{
    (void)user; /* the pidfd tells of the death */
}

static const struct cs_conn_calls calls = {on_message, on_bad, on_closed};

/* mesh[a * n + b]: the descriptor rank a talks to rank b with */
static enum cs_status make_mesh(int n, int *mesh, struct cs_err *err)
{
    for (int a = 0; a < n; a++) {
        for (int b = a + 1; b < n; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
                return cs_fail_errno(err, "cannot connect rank %d with rank %d", a, b);
            mesh[a * n + b] = pair[0];
            mesh[b * n + a] = pair[1];
        }
    }
    return CS_OK;
}

static void close_all(int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] != -1)
            close(fds[i]);
}

static enum cs_status open_log(struct cs_runner *r, struct cs_child *child, int *output_fd,
                               struct cs_err *err)
{
    char path[CS_PATH_CAP + 32];
    int ends[2];
    if (child->rank < 0)
        snprintf(path, sizeof path, "%s/logs/feeder.log", r->job.dir);
    else
        snprintf(path, sizeof path, "%s/logs/%d.log", r->job.dir, child->rank);
    CS_TRY(cs_logfile_open(path, LOG_ROTATE_BYTES, on_log_line, child, &child->log, err));
    if (pipe2(ends, O_CLOEXEC) == -1)
        return cs_fail_errno(err, "cannot make a pipe for the output of a child");
    child->log_fd = ends[0];
    *output_fd = ends[1];
    evutil_make_socket_nonblocking(child->log_fd);
    child->log_event = event_new(r->base, child->log_fd, EV_READ | EV_PERSIST, on_log, child);
    event_add(child->log_event, NULL);
    return CS_OK;
}

/* fds: what the child gets after its control socket */
static enum cs_status start(struct cs_runner *r, struct cs_child *child, const int *fds, int n_fds,
                            struct cs_err *err)
{
    const char *name = child->rank < 0 ? "cornstarch-feeder" : "cornstarch-worker";
    char path[CS_PATH_CAP];
    int pair[2] = {-1, -1}, output = -1, all[CS_TRACE_MAX_RANKS + 8];
    CS_TRY(cs_spawn_path(name, child->rank < 0 ? "CORNSTARCH_FEEDER" : "CORNSTARCH_WORKER", path,
                         sizeof path, err));
    CS_TRY(open_log(r, child, &output, err));
    enum cs_status status = CS_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
        status = cs_fail_errno(err, "cannot make a control socket");
    if (status == CS_OK) {
        all[0] = pair[1];
        memcpy(all + 1, fds, (size_t)n_fds * sizeof *fds);
        const struct cs_spawn spawn = {
            .path = path, .name = name, .fds = all, .n_fds = n_fds + 1, .output_fd = output};
        status = cs_spawn(&spawn, &child->pid, &child->pidfd, err);
        child->conn = cs_conn_new(r->base, pair[0], &calls, child);
        close(pair[1]);
    }
    close(output);
    if (status != CS_OK)
        return status;
    child->exit_event =
        event_new(r->base, child->pidfd, EV_READ | EV_PERSIST, on_exit_event, child);
    event_add(child->exit_event, NULL);
    return CS_OK;
}

static void send_boot(struct cs_runner *r, struct cs_child *child)
{
    bool is_worker = child->rank >= 0;
    json_t *msg = cs_msg_new(is_worker ? "worker.boot" : "feeder.boot");
    cs_msg_set(msg, "spec", json_incref(r->job.spec_json));
    cs_msg_set(msg, "plan", json_incref(r->job.plan_json));
    cs_msg_set_str(msg, "job_dir", r->job.dir);
    cs_msg_set_int(msg, "pool_fd", FIRST_FD + 1);
    if (is_worker) {
        json_t *peers = json_array();
        for (int b = 0, fd = FIRST_FD + 3; b < r->n_ranks; b++)
            if (b != child->rank)
                json_array_append_new(peers, json_pack("[i,i]", b, fd++));
        cs_msg_set_int(msg, "rank", child->rank);
        cs_msg_set_int(msg, "ranks", r->n_ranks);
        cs_msg_set_int(msg, "generation", r->job.generation);
        cs_msg_set_str(msg, "resume", r->job.resume);
        if (r->job.first_step >= r->job.spec->steps && !r->is_eval_first)
            cs_msg_set_bool(msg, "is_over", true);
        cs_msg_set_int(msg, "ring_fd", FIRST_FD + 2);
        cs_msg_set(msg, "peers", peers);
        char device[32];
        const bool is_cpu = strcmp(r->job.cluster.device->name, "cpu") == 0;
        snprintf(device, sizeof device, "%s:%d", is_cpu ? "cpu" : "cuda", child->rank);
        cs_msg_set_str(msg, "device", device);
        if (r->job.spec->precision[0] != '\0')
            cs_msg_set_str(msg, "precision", r->job.spec->precision);
    } else {
        cs_msg_set_int(msg, "first_step", r->job.first_step);
        if (r->is_eval_first)
            cs_msg_set_bool(msg, "eval_first", true);
        if (r->job.cursor)
            cs_msg_set(msg, "cursor", json_incref(r->job.cursor));
    }
    cs_conn_send(child->conn, msg);
    json_decref(msg);
}

enum cs_status cs_children_start(struct cs_runner *r, struct cs_err *err)
{
    int n = r->n_ranks, ring_fds[CS_TRACE_MAX_RANKS], fds[CS_TRACE_MAX_RANKS + 2];
    int *mesh = malloc((size_t)(n * n) * sizeof *mesh);
    CS_ASSERT(mesh);
    for (int i = 0; i < n * n; i++)
        mesh[i] = -1;
    for (int i = 0; i < n; i++)
        ring_fds[i] = -1;
    enum cs_status status = cs_memory_make(r, ring_fds, err);
    if (status == CS_OK)
        status = make_mesh(n, mesh, err);
    for (int a = 0; a < n && status == CS_OK; a++) {
        int used = 0;
        fds[used++] = r->pool_fd;
        fds[used++] = ring_fds[a];
        for (int b = 0; b < n; b++)
            if (b != a)
                fds[used++] = mesh[a * n + b];
        status = start(r, &r->child[a], fds, used, err);
    }
    if (status == CS_OK)
        status = start(r, cs_feeder(r), &r->pool_fd, 1, err);
    for (int i = 0; i <= n && status == CS_OK; i++)
        send_boot(r, &r->child[i]);
    close_all(ring_fds, n);
    close_all(mesh, n * n); /* a dead rank's sockets must close with it */
    free(mesh);
    return status;
}

void cs_children_signal(struct cs_runner *r, int signal)
{
    for (int i = 0; i <= r->n_ranks; i++)
        if (r->child[i].pid > 0 && !r->child[i].has_exited)
            kill(r->child[i].pid, signal);
}

bool cs_children_all_exited(const struct cs_runner *r)
{
    for (int i = 0; i <= r->n_ranks; i++)
        if (r->child[i].pid > 0 && !r->child[i].has_exited)
            return false;
    return true;
}

static void free_child(struct cs_child *child)
{
    if (child->pid > 0 && !child->has_exited) {
        kill(child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) == -1 && errno == EINTR)
            ;
    }
    if (child->exit_event)
        event_free(child->exit_event);
    if (child->log_event) {
        read_log(child);
        event_free(child->log_event);
        close(child->log_fd);
    }
    if (child->pidfd > 0)
        close(child->pidfd);
    cs_conn_free(child->conn);
    cs_logfile_close(child->log);
    free(child->events);
}

void cs_children_free(struct cs_runner *r)
{
    for (int i = 0; r->child && i <= r->n_ranks; i++)
        free_child(&r->child[i]);
}
