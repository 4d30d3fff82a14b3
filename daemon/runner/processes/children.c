/* Starts the processes of a job with the sockets between them, and ends them. */
#include "runner/processes/children.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/program/process.h"
#include "core/wire/wire.h"
#include "runner/processes/lost_ranks.h"
#include "runner/processes/memory.h"
#include "runner/processes/output.h"
#include "runner/processes/spawn.h"
#include "runner/state/records.h"

enum {
    FIRST_FD = 3,
    FILES_PER_CHILD = 6, /* control socket, output, ring, process, log and what it takes to start */
    OWN_FILES = 48       /* journal, trace, checkpoints, sockets of who listens */
};

static void on_message(void *user, const json_t *msg)
{
    struct cs_child *child = user;
    child->runner->calls->on_message(child, msg);
}

static void on_bad(void *user, const struct cs_err *err)
{
    struct cs_child *child = user;
    cs_run_note(child->runner, CS_ERROR, "%s %d sent what is no message: %s",
                child->rank < 0 ? "feeder" : "rank", child->rank, err->text);
}

static void on_closed(void *user, const struct cs_err *why)
{
    (void)user; /* the pidfd tells of the death */
    (void)why;
}

static const struct cs_conn_calls calls = {
    .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed};

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

/* "cornstarch-worker: job 7 rank 2 llm.1": whoever looks at processes sees whose they are */
static void title_of(const struct cs_runner *r, const struct cs_child *child, const char *name,
                     char *out, size_t cap)
{
    char stages[120] = "", rank[160] = "";
    if (child->rank >= 0) {
        cs_run_rank_stages(r->generation.plan, child->rank, stages, sizeof stages);
        snprintf(rank, sizeof rank, " rank %d %s", child->rank, stages);
    }
    snprintf(out, cap, "%s: job %lld%s", name, (long long)r->options->job, rank);
}

/* fds: what the child gets after its control socket */
static enum cs_status start(struct cs_runner *r, struct cs_child *child, const int *fds, int n_fds,
                            struct cs_err *err)
{
    const char *name = child->rank < 0 ? "cornstarch-feeder" : "cornstarch-worker";
    char path[CS_PATH_CAP], title[240];
    int pair[2] = {-1, -1}, output = -1, all[CS_TRACE_MAX_RANKS + 8];
    CS_TRY(cs_spawn_path(name, child->rank < 0 ? CS_VAR_FEEDER : CS_VAR_WORKER, path, sizeof path,
                         err));
    CS_TRY(cs_output_open(child, &output, err));
    enum cs_status status = CS_OK;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1)
        status = cs_fail_errno(err, "cannot make a control socket");
    if (status == CS_OK) {
        all[0] = pair[1];
        memcpy(all + 1, fds, (size_t)n_fds * sizeof *fds);
        title_of(r, child, name, title, sizeof title);
        const struct cs_spawn spawn = {.path = path,
                                       .name = name,
                                       .title = title,
                                       .fds = all,
                                       .n_fds = n_fds + 1,
                                       .output_fd = output};
        status = cs_spawn(&spawn, &child->pid, &child->pidfd, err);
        child->conn =
            cs_conn_new(pair[0], &(struct cs_conn_options){.base = r->base, .checks_schema = true},
                        &calls, child);
        close(pair[1]);
    }
    close(output);
    if (status != CS_OK)
        return status;
    cs_lost_ranks_add(child);
    return CS_OK;
}

static void send_boot(struct cs_runner *r, struct cs_child *child)
{
    bool is_worker = child->rank >= 0;
    json_t *msg = cs_msg_new(is_worker ? "worker.boot" : "feeder.boot");
    cs_msg_set(msg, "spec", json_incref(r->job.spec_json));
    cs_msg_set(msg, "plan", json_incref(r->generation.plan_json));
    cs_msg_set_str(msg, "job_dir", r->job.dir);
    cs_msg_set_int(msg, "pool_fd", FIRST_FD + 1);
    if (is_worker) {
        json_t *peers = json_array();
        for (int b = 0, fd = FIRST_FD + 3; b < r->generation.n_ranks; b++)
            if (b != child->rank)
                json_array_append_new(peers, json_pack("[i,i]", b, fd++));
        cs_msg_set_int(msg, "rank", child->rank);
        cs_msg_set_int(msg, "ranks", r->generation.n_ranks);
        cs_msg_set_int(msg, "generation", r->generation.id);
        cs_msg_set_str(msg, "resume", r->job.resume);
        if (r->job.first_step >= r->job.spec->steps && !r->is_eval_first)
            cs_msg_set_bool(msg, "is_over", true);
        cs_msg_set_int(msg, "ring_fd", FIRST_FD + 2);
        cs_msg_set(msg, "peers", peers);
        cs_msg_set_str(msg, "device", r->generation.device[child->rank].name);
        if (r->job.spec->precision[0] != '\0')
            cs_msg_set_str(msg, "precision", r->job.spec->precision);
    } else {
        cs_msg_set_int(msg, "threads", r->data_threads);
        cs_msg_set_int(msg, "first_step", r->job.first_step);
        if (r->is_eval_first)
            cs_msg_set_bool(msg, "eval_first", true);
        if (r->job.cursor)
            cs_msg_set(msg, "cursor", json_incref(r->job.cursor));
    }
    cs_child_send(child, msg);
}

void cs_child_send(struct cs_child *child, json_t *msg)
{
    struct cs_err err = {0};
    if (cs_conn_send(child->conn, msg, &err) != CS_OK)
        cs_run_note(child->runner, CS_ERROR, "%s cannot be sent to a child: %s", cs_msg_type(msg),
                    err.text);
    json_decref(msg);
}

void cs_child_drain(struct cs_child *child)
{
    if (child->conn != NULL)
        cs_conn_drain(child->conn);
}

/* Every pair of ranks has a socket with two ends; said before any process is started. */
static enum cs_status check_files(int n, struct cs_err *err)
{
    const int64_t needed = (int64_t)n * (n - 1) + (int64_t)FILES_PER_CHILD * (n + 1) + OWN_FILES;
    const int64_t limit = cs_process_files();
    if (needed <= limit)
        return CS_OK;
    return cs_fail(
        err, CS_LIMIT,
        "%d rank%s about %lld open file%s and this process may have %lld: raise "
        "the hard limit (ulimit -Hn) of the shell that starts cornstarchd, or plan fewer "
        "ranks",
        n, CS_NOUN(n, " needs", "s need"), (long long)needed, CS_PLURAL(needed), (long long)limit);
}

enum cs_status cs_children_start(struct cs_runner *r, struct cs_err *err)
{
    CS_TRY(check_files(r->generation.n_ranks, err));
    int n = r->generation.n_ranks, ring_fds[CS_TRACE_MAX_RANKS], fds[CS_TRACE_MAX_RANKS + 2];
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
        status = start(r, &r->child[n], &r->pool_fd, 1, err);
    for (int i = 0; i <= n && status == CS_OK; i++)
        send_boot(r, &r->child[i]);
    close_all(ring_fds, n);
    close_all(mesh, n * n); /* a dead rank's sockets must close with it */
    free(mesh);
    return status;
}

void cs_children_signal(struct cs_runner *r, int signal)
{
    for (int i = 0; i <= r->generation.n_ranks; i++)
        if (r->child[i].pid > 0 && !r->child[i].has_exited)
            kill(r->child[i].pid, signal);
}

bool cs_children_all_exited(const struct cs_runner *r)
{
    for (int i = 0; i <= r->generation.n_ranks; i++)
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
    cs_lost_ranks_remove(child);
    cs_output_close(child);
    if (child->pidfd > 0)
        close(child->pidfd);
    cs_conn_free(child->conn);
    free(child->events);
}

void cs_children_free(struct cs_runner *r)
{
    for (int i = 0; r->child && i <= r->generation.n_ranks; i++)
        free_child(&r->child[i]);
}
