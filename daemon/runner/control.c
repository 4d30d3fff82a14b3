/* The control socket: the daemon (any process of our user) connects, is told everything that
 * happens and may pause, stop or checkpoint. */
#include "runner/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/wire/wire.h"
#include "runner/life.h"
#include "runner/records.h"
#include "runner/subscribers.h"

struct cs_control_socket {
    int fd;
    char path[CS_PATH_CAP];
    struct event *accept_event;
};

static void send_status(struct cs_subscriber *peer, const json_t *request)
{
    struct cs_runner *r = peer->runner;
    json_t *msg = cs_msg_reply(request), *pids = json_array();
    for (int i = 0; i < r->n_ranks; i++)
        json_array_append_new(pids, json_integer(r->child[i].pid));
    cs_msg_set_str(msg, "state", cs_run_state_name(r->state));
    cs_msg_set_int(msg, "step", r->last_step);
    cs_msg_set_int(msg, "steps", r->job.spec->steps);
    cs_msg_set_int(msg, "generation", r->job.generation);
    cs_msg_set_int(msg, "checkpoint_step", r->checkpoint_step);
    cs_msg_set_str(msg, "plan_hash", r->job.plan->hash);
    cs_msg_set_int(msg, "predicted_step_ns", r->predicted_step_ns);
    cs_msg_set(msg, "pids", pids);
    cs_msg_set_str(msg, "reason", r->reason);
    cs_conn_send(peer->conn, msg);
    json_decref(msg);
}

static void on_status(struct cs_subscriber *peer, const json_t *msg)
{
    send_status(peer, msg);
}

static void on_ping(struct cs_subscriber *peer, const json_t *msg)
{
    json_t *pong = cs_msg_reply(msg);
    cs_msg_set_int(pong, "wall_ns", cs_wall_ns());
    cs_conn_send(peer->conn, pong);
    json_decref(pong);
}

static void on_pause(struct cs_subscriber *peer, const json_t *msg)
{
    (void)msg;
    cs_life_ask_pause(peer->runner);
}

static void on_stop(struct cs_subscriber *peer, const json_t *msg)
{
    cs_life_ask_stop(peer->runner, cs_msg_bool(msg, "now", false));
}

static void on_checkpoint(struct cs_subscriber *peer, const json_t *msg)
{
    (void)msg;
    cs_life_ask_checkpoint(peer->runner);
}

static const struct {
    const char *type;
    void (*handle)(struct cs_subscriber *peer, const json_t *msg);
} handlers[] = {
    {"runner.status",     on_status    },
    {"runner.pause",      on_pause     },
    {"runner.stop",       on_stop      },
    {"runner.checkpoint", on_checkpoint},
    {"ping",              on_ping      },
};

static void send_error(struct cs_subscriber *peer, const json_t *request, const struct cs_err *err)
{
    json_t *msg = cs_msg_error(request, err);
    cs_conn_send(peer->conn, msg);
    json_decref(msg);
}

static void on_message(void *user, const json_t *msg)
{
    struct cs_subscriber *peer = user;
    const char *type = cs_msg_type(msg);
    for (size_t i = 0; i < CS_ARRAY_LEN(handlers); i++) {
        if (strcmp(handlers[i].type, type) == 0) {
            handlers[i].handle(peer, msg);
            return;
        }
    }
    struct cs_err err = {0};
    (void)cs_fail(&err, CS_UNSUPPORTED, "E_UNKNOWN_TYPE: a runner does not take \"%.64s\"", type);
    send_error(peer, msg, &err);
}

static void on_bad(void *user, const struct cs_err *err)
{
    send_error(user, NULL, err);
}

static void on_closed(void *user)
{
    cs_subscriber_drop(user);
}

static const struct cs_conn_calls calls = {on_message, on_bad, on_closed};

static void greet(struct cs_subscriber *peer)
{
    struct cs_runner *r = peer->runner;
    json_t *hello = cs_msg_new("runner.hello");
    cs_msg_set_int(hello, "major", CS_PROTOCOL_MAJOR);
    cs_msg_set_int(hello, "minor", CS_PROTOCOL_MINOR);
    cs_msg_set_int(hello, "job", r->number);
    cs_msg_set_int(hello, "pid", getpid());
    cs_msg_set_int(hello, "generation", r->job.generation);
    cs_msg_set_str(hello, "version", CORNSTARCH_VERSION);
    cs_conn_send(peer->conn, hello);
    json_decref(hello);
    json_t *state = cs_run_state_msg(r);
    cs_conn_send(peer->conn, state);
    json_decref(state);
}

static bool is_our_user(int fd)
{
    struct ucred who;
    socklen_t n = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid();
}

static void on_accept(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    struct cs_runner *r = user;
    int peer_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
    if (peer_fd == -1)
        return;
    if (!is_our_user(peer_fd)) {
        close(peer_fd);
        return;
    }
    struct cs_subscriber *peer = cs_subscriber_add(r, peer_fd, &calls);
    if (peer != NULL)
        greet(peer);
}

static enum cs_status find_path(const struct cs_runner *r, char out[CS_PATH_CAP],
                                struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    if (r->options->socket)
        return cs_path(out, err, "%s", r->options->socket);
    CS_TRY(cs_dir_runtime(dir, err));
    return cs_path(out, err, "%s/job-%lld.sock", dir, (long long)r->number);
}

/* A socket that nobody answers is left over from a runner that was killed. */
static enum cs_status bind_path(int fd, const char *path, struct cs_err *err)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof at.sun_path)
        return cs_fail(err, CS_LIMIT, "the socket path %s is longer than %zu bytes", path,
                       sizeof at.sun_path - 1);
    memcpy(at.sun_path, path, strlen(path) + 1);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_taken = connect(probe, (struct sockaddr *)&at, sizeof at) == 0;
    close(probe);
    if (is_taken)
        return cs_fail(err, CS_EXISTS, "another runner answers on %s", path);
    unlink(path);
    if (bind(fd, (struct sockaddr *)&at, sizeof at) == -1 || listen(fd, 16) == -1)
        return cs_fail_errno(err, "cannot listen on %s", path);
    return CS_OK;
}

enum cs_status cs_control_open(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    if (r->number <= 0)
        return CS_OK; /* in the foreground, outside any job store */
    CS_TRY(find_path(r, path, err));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return cs_fail_errno(err, "cannot make the control socket");
    enum cs_status status = bind_path(fd, path, err);
    if (status != CS_OK) {
        close(fd);
        return status;
    }
    struct cs_control_socket *control = calloc(1, sizeof *control);
    CS_ASSERT(control);
    control->fd = fd;
    snprintf(control->path, sizeof control->path, "%s", path);
    control->accept_event = event_new(r->base, fd, EV_READ | EV_PERSIST, on_accept, r);
    event_add(control->accept_event, NULL);
    r->control = control;
    return CS_OK;
}

void cs_control_close(struct cs_runner *r)
{
    struct cs_control_socket *control = r->control;
    if (!control)
        return;
    event_free(control->accept_event);
    cs_subscribers_close(r);
    close(control->fd);
    unlink(control->path);
    free(control);
    r->control = NULL;
}
