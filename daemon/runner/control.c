/* The control socket: the daemon (any process of our user) connects, is told everything that
 * happens and may pause, stop or checkpoint. */
#include "runner/control.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/program/dirs.h"
#include "core/wire/wire.h"
#include "net/listener.h"
#include "net/unix.h"
#include "runner/life.h"
#include "runner/state/records.h"
#include "runner/state/subscribers.h"

static void send_status(struct cs_subscriber *peer, const json_t *request)
{
    struct cs_runner *r = peer->runner;
    json_t *msg = cs_msg_reply(request), *pids = json_array();
    for (int i = 0; i < r->generation.n_ranks; i++)
        json_array_append_new(pids, json_integer(r->child[i].pid));
    cs_msg_set_str(msg, "state", cs_job_state_row(r->state)->name);
    cs_msg_set_int(msg, "step", r->last_step);
    cs_msg_set_int(msg, "steps", r->job.spec->steps);
    cs_msg_set_int(msg, "generation", r->generation.id);
    cs_msg_set_int(msg, "checkpoint_step", r->checkpoint_step);
    cs_msg_set_str(msg, "plan_hash", r->generation.plan->hash);
    cs_msg_set_int(msg, "predicted_step_ns", r->predicted_step_ns);
    cs_msg_set(msg, "pids", pids);
    cs_msg_set_str(msg, "reason", r->reason);
    cs_subscriber_send(peer, msg);
}

static void on_status(struct cs_subscriber *peer, const json_t *msg)
{
    send_status(peer, msg);
}

static void on_ping(struct cs_subscriber *peer, const json_t *msg)
{
    json_t *pong = cs_msg_reply(msg);
    cs_msg_set_int(pong, "wall_ns", cs_wall_ns());
    cs_subscriber_send(peer, pong);
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
    cs_subscriber_send(peer, msg);
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

static void on_closed(void *user, const struct cs_err *why)
{
    (void)why;
    cs_subscriber_drop(user);
}

static const struct cs_conn_calls calls = {
    .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed};

static void greet(struct cs_subscriber *peer)
{
    struct cs_runner *r = peer->runner;
    json_t *hello = cs_msg_new("runner.hello");
    cs_msg_set_int(hello, "major", CS_PROTOCOL_MAJOR);
    cs_msg_set_int(hello, "minor", CS_PROTOCOL_MINOR);
    cs_msg_set_int(hello, "job", r->number);
    cs_msg_set_int(hello, "pid", getpid());
    cs_msg_set_int(hello, "generation", r->generation.id);
    cs_msg_set_str(hello, "version", CORNSTARCH_VERSION);
    cs_subscriber_send(peer, hello);
    json_t *state = cs_run_state_msg(r);
    cs_subscriber_send(peer, state);
}

static void on_peer(void *user, int fd)
{
    struct cs_runner *r = user;
    uid_t uid;
    if (fd == -1) {
        cs_log(r->log, CS_ERROR, "control.accept", CS_KV("error", (const char *)strerror(errno)));
        return;
    }
    if (!cs_unix_peer(fd, &uid) || uid != geteuid()) {
        close(fd);
        return;
    }
    struct cs_subscriber *peer = cs_subscriber_add(r, fd, &calls);
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

enum cs_status cs_control_open(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    if (r->number <= 0)
        return CS_OK; /* in the foreground, outside any job store */
    CS_TRY(find_path(r, path, err));
    /* a socket that nobody answers is left over from a runner that was killed */
    int fd;
    if (cs_unix_connect(path, true, "runner", &fd, NULL) == CS_OK) {
        close(fd);
        return cs_fail(err, CS_EXISTS, "another runner answers on %s", path);
    }
    return cs_listener_open(r->base, path, on_peer, r, &r->control, err);
}

/* Where it was; when its directory cannot be made again, where a runner of today would be. */
static enum cs_status listen_again(struct cs_runner *r, struct cs_err *err)
{
    char dir[CS_PATH_CAP], path[CS_PATH_CAP];
    const char *old = cs_listener_path(r->control);
    const char *slash = strrchr(old, '/');
    CS_TRY(cs_path(dir, err, "%.*s", slash ? (int)(slash - old) : 1, slash ? old : "."));
    if (cs_mkdirs(dir, err) == CS_OK && cs_dir_is_ours(dir) &&
        cs_listener_move(r->control, old, err) == CS_OK)
        return CS_OK;
    CS_TRY(cs_dir_runtime(dir, err));
    CS_TRY(cs_path(path, err, "%s/job-%lld.sock", dir, (long long)r->number));
    return cs_listener_move(r->control, path, err);
}

void cs_control_look(struct cs_runner *r)
{
    struct cs_err err = {0};
    if (!r->control)
        return;
    cs_listener_tick(r->control);
    if (cs_listener_is_there(r->control))
        return;
    if (listen_again(r, &err) == CS_OK) {
        r->is_control_lost = false;
        cs_run_note(r, CS_WARN, "the control socket was removed; it is at %s",
                    cs_listener_path(r->control));
        cs_run_write_state(r); /* it says where */
    } else if (!r->is_control_lost) {
        r->is_control_lost = true;
        cs_run_note(r, CS_ERROR, "the control socket was removed and cannot be made again: %s",
                    err.text);
    }
}

void cs_control_close(struct cs_runner *r)
{
    if (!r->control)
        return;
    cs_subscribers_close(r);
    cs_listener_close(r->control);
    r->control = NULL;
}
