/* Talks to a daemon: connects, says hello, sends requests, delivers what comes, connects again. */
#include "console/link/client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "console/link/start.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "net/conn.h"

enum {
    HELLO_MS = 5000,
    RETRY_FIRST_MS = 100,
    RETRY_MAX_MS = 5000,
    START_AFTER_MS = 2000,
    RETRY_GONE_MS = 20,
    FOR_EVER_MS = 3600000,
    STOP_MS = 50 /* between looks at whether to stop */
};

/* conn is NULL while there is no connection. A call sets awaited; its answer is kept in answer and
 * the connection held until the caller has it, so that messages keep their order. */
struct cs_client {
    struct event_base *base;
    char path[CS_PATH_CAP];
    bool is_own;     /* the user's daemon, wherever it is; else the one at path */
    bool may_start;  /* ... and ours to start */
    bool is_started; /* we have */
    bool was_ended;  /* it was asked to end: nobody wants another in its place */
    struct cs_conn *conn;
    struct event *retry;
    int retry_ms, waited_ms;
    int64_t last_id;
    json_t *hello;
    int64_t awaited; /* id a call waits for, 0: none */
    json_t *answer;
    struct cs_err end; /* the reason the daemon gave, status CS_OK: none */
    cs_client_message *on_message;
    cs_client_state *on_state;
    void *message_user, *state_user;
    const atomic_bool *stop;
};

/* --- what arrives ------------------------------------------------------------------------------ */

static void hang_up(struct cs_client *c)
{
    cs_conn_free(c->conn);
    c->conn = NULL;
    c->end.status = CS_OK;
}

static void lose(struct cs_client *c);

/* An error without an id is the reason why the connection ends. */
static void on_message(void *user, const json_t *msg)
{
    struct cs_client *c = user;
    const bool is_error = strcmp(cs_msg_type(msg), "error") == 0;
    const bool is_awaited = c->awaited && cs_msg_id(msg) == c->awaited;
    if (strcmp(cs_msg_type(msg), "daemon.end") == 0)
        c->was_ended = true;
    if (is_awaited && (cs_msg_is_reply(msg) || is_error)) {
        c->answer = json_incref((json_t *)(uintptr_t)msg);
        cs_conn_hold(c->conn, true);
    } else if (is_error && cs_msg_id(msg) < 0) {
        (void)cs_msg_to_err(msg, &c->end);
        if (!c->awaited)
            lose(c);
    } else if (c->on_message) {
        c->on_message(c->message_user, msg);
    }
}

/* what a daemon sends is JSON, or it is no daemon */
static void on_bad(void *user, const struct cs_err *err)
{
    struct cs_client *c = user;
    c->end = *err;
    if (!c->awaited)
        lose(c);
}

static void on_closed(void *user, const struct cs_err *why)
{
    (void)why;
    lose(user);
}

/* --- connection ------------------------------------------------------------------------------- */

/* Wait for the answer to id without the event loop. */
static enum cs_status await(struct cs_client *c, int64_t id, int64_t timeout_ns, json_t **reply,
                            struct cs_err *err)
{
    const int64_t end_ns = cs_now_ns() + timeout_ns;
    enum cs_status status = CS_OK;
    c->awaited = id;
    c->answer = NULL;
    while (status == CS_OK && c->answer == NULL) {
        int64_t left_ms = timeout_ns ? (end_ns - cs_now_ns()) / 1000000 : FOR_EVER_MS;
        const int64_t wait_ms = c->stop && left_ms > STOP_MS ? STOP_MS : left_ms;
        status = left_ms > 0 ? cs_conn_wait(c->conn, (int)wait_ms, err) : CS_TIMEOUT;
        if (status == CS_TIMEOUT && wait_ms < left_ms)
            status = atomic_load(c->stop) ? cs_fail(err, CS_REFUSED, "stopped") : CS_OK;
        if (c->answer == NULL && c->end.status != CS_OK)
            status = cs_fail(err, c->end.status, "%s", c->end.text);
        else if (status == CS_TIMEOUT)
            status = timeout_ns
                         ? cs_fail(err, CS_TIMEOUT, "the daemon at %s does not answer", c->path)
                         : CS_OK;
        else if (status == CS_PEER_GONE)
            status = cs_fail(err, CS_PEER_GONE, "the daemon closed the connection");
    }
    c->awaited = 0;
    *reply = c->answer;
    c->answer = NULL;
    cs_conn_hold(c->conn, false); /* what came with the answer is delivered by the loop */
    return *reply ? CS_OK : status;
}

static void on_retry(evutil_socket_t fd, short what, void *user);

/* a request; takes the reference */
static enum cs_status post(struct cs_client *c, json_t *request, struct cs_err *err)
{
    enum cs_status status = cs_conn_send(c->conn, request, err);
    json_decref(request);
    CS_TRY(status);
    if (cs_conn_flush(c->conn, NULL) != CS_OK)
        return cs_fail(err, CS_PEER_GONE, "the daemon closed the connection");
    return CS_OK;
}

static enum cs_status greet(struct cs_client *c, struct cs_err *err)
{
    struct cs_peer peer;
    json_t *answer = NULL;
    const int64_t id = ++c->last_id;
    enum cs_status status =
        post(c, cs_hello_new(id, "cornstarch-console", CORNSTARCH_VERSION, "admin"), err);
    if (status == CS_OK || status == CS_PEER_GONE) /* gone: it may have said why */
        status = await(c, id, (int64_t)HELLO_MS * 1000000, &answer, err);
    CS_TRY(status);
    status = strcmp(cs_msg_type(answer), "error") == 0 ? cs_msg_to_err(answer, err)
                                                       : cs_hello_check(answer, &peer, err);
    if (status != CS_OK) {
        json_decref(answer);
        return cs_wrap(err, status, "the daemon at %s", c->path);
    }
    json_decref(c->hello);
    c->hello = answer;
    cs_conn_line_max(c->conn, 0);
    return CS_OK;
}

static enum cs_status reach(struct cs_client *c, bool may_start, int *fd, struct cs_err *err)
{
    bool is_deaf;
    if (!c->is_own)
        return cs_client_dial(c->path, fd, err);
    return may_start ? cs_client_dial_or_start(c->path, fd, &c->is_started, err)
                     : cs_client_dial_own(c->path, fd, &is_deaf, err);
}

static enum cs_status dial(struct cs_client *c, bool may_start, struct cs_err *err)
{
    static const struct cs_conn_calls calls = {
        .on_message = on_message, .on_bad = on_bad, .on_closed = on_closed};
    const struct cs_conn_options options = {.base = c->base, .line_max = CS_LINE_MAX_BEFORE_HELLO};
    int fd;
    CS_TRY(reach(c, may_start, &fd, err));
    c->conn = cs_conn_new(fd, &options, &calls, c);
    enum cs_status status = greet(c, err);
    if (status != CS_OK) {
        hang_up(c);
        return status == CS_TIMEOUT && c->is_own ? cs_client_tell_deaf(c->path, err) : status;
    }
    c->retry_ms = RETRY_FIRST_MS;
    c->waited_ms = 0;
    c->was_ended = false;
    return CS_OK;
}

static void retry_later(struct cs_client *c)
{
    struct timeval tv = {.tv_sec = c->retry_ms / 1000, .tv_usec = c->retry_ms % 1000 * 1000};
    if (!c->retry)
        return;
    event_add(c->retry, &tv);
    c->waited_ms += c->retry_ms;
    c->retry_ms = c->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : c->retry_ms * 2;
}

static void lose(struct cs_client *c)
{
    if (c->conn == NULL)
        return;
    hang_up(c);
    retry_later(c);
    if (c->on_state)
        c->on_state(c->state_user, false);
}

/* Our own daemon is started again when it stays away, unless it was asked to; another one's owner
 * decides. */
static void on_retry(evutil_socket_t fd, short what, void *user)
{
    struct cs_client *c = user;
    (void)fd;
    (void)what;
    if (c->conn != NULL)
        return;
    const bool may_start = c->may_start && !c->was_ended && c->waited_ms >= START_AFTER_MS;
    if (dial(c, may_start, NULL) != CS_OK) {
        retry_later(c);
        return;
    }
    if (c->on_state)
        c->on_state(c->state_user, true);
}

/* A daemon of ours that is just ending takes connections until it is gone, and answers none: the
 * next one does. */
static enum cs_status dial_ours(struct cs_client *c, struct cs_err *err)
{
    for (int ms = 0;; ms += RETRY_GONE_MS) {
        enum cs_status status = dial(c, true, err);
        if (status != CS_PEER_GONE || ms >= START_AFTER_MS)
            return status;
        poll(NULL, 0, RETRY_GONE_MS);
    }
}

static enum cs_status connect_to(struct event_base *base, const char *socket_path, bool may_start,
                                 struct cs_client **out, struct cs_err *err)
{
    struct cs_client *c = calloc(1, sizeof *c);
    if (!c)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a connection");
    c->base = base;
    c->is_own = socket_path == NULL;
    c->may_start = may_start;
    c->retry_ms = RETRY_FIRST_MS;
    enum cs_status status = socket_path ? cs_path(c->path, err, "%s", socket_path) : CS_OK;
    if (status == CS_OK)
        status = may_start ? dial_ours(c, err) : dial(c, false, err);
    if (status != CS_OK) {
        cs_client_free(c);
        return status;
    }
    c->retry = base ? event_new(base, -1, 0, on_retry, c) : NULL;
    *out = c;
    return CS_OK;
}

enum cs_status cs_client_connect(struct event_base *base, const char *socket_path,
                                 struct cs_client **out, struct cs_err *err)
{
    return connect_to(base, socket_path, socket_path == NULL, out, err);
}

enum cs_status cs_client_connect_running(struct event_base *base, const char *socket_path,
                                         struct cs_client **out, struct cs_err *err)
{
    return connect_to(base, socket_path, false, out, err);
}

void cs_client_free(struct cs_client *c)
{
    if (!c)
        return;
    hang_up(c);
    if (c->retry)
        event_free(c->retry);
    json_decref(c->hello);
    json_decref(c->answer);
    free(c);
}

/* --- use -------------------------------------------------------------------------------------- */

void cs_client_on_message(struct cs_client *c, cs_client_message *fn, void *user)
{
    c->on_message = fn;
    c->message_user = user;
}

void cs_client_on_state(struct cs_client *c, cs_client_state *fn, void *user)
{
    c->on_state = fn;
    c->state_user = user;
}

void cs_client_set_stop(struct cs_client *c, const atomic_bool *stop)
{
    c->stop = stop;
}

bool cs_client_is_connected(const struct cs_client *c)
{
    return c->conn != NULL;
}

bool cs_client_has_started(const struct cs_client *c)
{
    return c->is_started;
}

bool cs_client_was_ended(const struct cs_client *c)
{
    return c->was_ended;
}

const json_t *cs_client_hello(const struct cs_client *c)
{
    return c->hello;
}

const char *cs_client_path(const struct cs_client *c)
{
    return c->path;
}

/* Gives the request its id and sends it; takes the reference. */
static enum cs_status send_request(struct cs_client *c, json_t *request, int64_t *id,
                                   struct cs_err *err)
{
    *id = ++c->last_id;
    cs_msg_set_int(request, "id", *id);
    if (c->conn != NULL)
        return post(c, request, err);
    json_decref(request);
    return cs_fail(err, CS_UNREACHABLE, "there is no connection to the daemon at %s", c->path);
}

/* A connection that breaks here is noticed from the loop, not under the caller's feet. */
int64_t cs_client_send(struct cs_client *c, json_t *request)
{
    int64_t id;
    return send_request(c, request, &id, NULL) == CS_OK ? id : -1;
}

enum cs_status cs_client_call_for(struct cs_client *c, json_t *request, int64_t timeout_ns,
                                  json_t **reply, struct cs_err *err)
{
    int64_t id;
    json_t *answer = NULL;
    *reply = NULL;
    enum cs_status status = send_request(c, request, &id, err);
    if (status == CS_OK || status == CS_PEER_GONE) /* gone: it may have said why */
        status = await(c, id, timeout_ns, &answer, err);
    if (status == CS_PEER_GONE || c->end.status != CS_OK)
        lose(c);
    CS_TRY(status);
    if (strcmp(cs_msg_type(answer), "error") == 0) {
        status = cs_msg_to_err(answer, err);
        json_decref(answer);
        return status;
    }
    status = cs_msg_check(answer, err);
    if (status != CS_OK) {
        json_decref(answer);
        return cs_wrap(err, status, "the daemon's answer");
    }
    *reply = answer;
    return CS_OK;
}

enum cs_status cs_client_call(struct cs_client *c, json_t *request, json_t **reply,
                              struct cs_err *err)
{
    return cs_client_call_for(c, request, CS_CLIENT_CALL_NS, reply, err);
}
