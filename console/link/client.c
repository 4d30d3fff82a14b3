/* Talks to a daemon: connects, says hello, sends requests, delivers what comes, connects again. */
#include "console/link/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "console/link/paths.h"
#include "console/link/start.h"
#include "core/base/clock.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum {
    HELLO_MS = 5000,
    RETRY_FIRST_MS = 100,
    RETRY_MAX_MS = 5000,
    START_AFTER_MS = 2000,
    RETRY_GONE_MS = 20
};

struct cs_client {
    struct event_base *base;
    char path[CS_PATH_CAP];
    bool may_start; /* the daemon is ours to start */
    int fd;
    struct cs_line_reader *lines;
    struct cs_buf out;
    size_t sent; /* of out */
    struct event *read_event, *write_event, *retry;
    int retry_ms, waited_ms;
    int64_t last_id;
    json_t *hello;
    int64_t awaited; /* id a call waits for, 0: none */
    json_t *answer;
    cs_client_message *on_message;
    cs_client_state *on_state;
    void *message_user, *state_user;
};

/* --- bytes ----------------------------------------------------------------------------------- */

static void watch(struct cs_client *c, bool read, bool write)
{
    if (c->read_event && read)
        event_add(c->read_event, NULL);
    if (c->write_event && write)
        event_add(c->write_event, NULL);
    else if (c->write_event)
        event_del(c->write_event);
}

static void hang_up(struct cs_client *c)
{
    if (c->read_event)
        event_free(c->read_event);
    if (c->write_event)
        event_free(c->write_event);
    c->read_event = c->write_event = NULL;
    if (c->fd != -1)
        close(c->fd);
    c->fd = -1;
    cs_line_reader_free(c->lines);
    c->lines = NULL;
    cs_buf_reset(&c->out);
    c->sent = 0;
}

static enum cs_status flush(struct cs_client *c, struct cs_err *err)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.data + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n == -1 && errno == EINTR)
            continue;
        if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            watch(c, false, true);
            return CS_OK;
        }
        if (n == -1)
            return cs_fail(err, CS_PEER_GONE, "the daemon is gone: %s", strerror(errno));
        c->sent += (size_t)n;
    }
    cs_buf_reset(&c->out);
    c->sent = 0;
    watch(c, false, false);
    return CS_OK;
}

static enum cs_status receive(struct cs_client *c, struct cs_err *err)
{
    char bytes[CS_LINE_FEED_MAX];
    ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);
    if (n == -1 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return CS_OK;
    if (n == -1)
        return cs_fail(err, CS_PEER_GONE, "the daemon is gone: %s", strerror(errno));
    if (n == 0)
        return cs_fail(err, CS_PEER_GONE, "the daemon closed the connection");
    return cs_line_feed(c->lines, bytes, (size_t)n, err);
}

/* Messages that have arrived whole. An error without an id is the reason why the line ends. */
static enum cs_status take_messages(struct cs_client *c, struct cs_err *err)
{
    json_t *msg = NULL;
    for (;;) {
        CS_TRY(cs_line_next(c->lines, &msg, err));
        if (!msg)
            return CS_OK;
        bool is_awaited = c->awaited && cs_msg_id(msg) == c->awaited && !c->answer;
        if (is_awaited && (cs_msg_is_reply(msg) || strcmp(cs_msg_type(msg), "error") == 0)) {
            c->answer = msg;
            return CS_OK; /* what follows is taken after the caller has its answer */
        }
        if (strcmp(cs_msg_type(msg), "error") == 0 && cs_msg_id(msg) < 0) {
            enum cs_status st = cs_msg_to_err(msg, err);
            json_decref(msg);
            return st;
        }
        if (c->on_message)
            c->on_message(c->message_user, msg);
        json_decref(msg);
        if (!c->lines) /* the callback ended the connection */
            return cs_fail(err, CS_PEER_GONE, "the connection was closed");
    }
}

/* --- connection ------------------------------------------------------------------------------- */

/* Wait for the answer to id with poll; the loop's events stay as they are. */
static enum cs_status await(struct cs_client *c, int64_t id, int64_t timeout_ns, json_t **reply,
                            struct cs_err *err)
{
    int64_t end = cs_now_ns() + timeout_ns;
    enum cs_status st = CS_OK;
    c->awaited = id;
    c->answer = NULL;
    while (st == CS_OK) {
        st = take_messages(c, err);
        if (c->answer || st != CS_OK)
            break;
        int64_t left_ms = timeout_ns ? (end - cs_now_ns()) / 1000000 : 3600000;
        if (left_ms <= 0) {
            st = cs_fail(err, CS_TIMEOUT, "the daemon at %s does not answer", c->path);
            break;
        }
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        if (c->sent < c->out.len)
            p.events |= POLLOUT;
        int n = poll(&p, 1, (int)left_ms);
        if (n > 0 && (p.revents & POLLOUT))
            st = flush(c, err);
        if (st == CS_OK && n > 0 && (p.revents & (POLLIN | POLLHUP | POLLERR)))
            st = receive(c, err);
    }
    c->awaited = 0;
    *reply = c->answer;
    c->answer = NULL;
    return *reply ? CS_OK : st;
}

static void on_readable(evutil_socket_t fd, short what, void *user);
static void on_writable(evutil_socket_t fd, short what, void *user);
static void on_retry(evutil_socket_t fd, short what, void *user);

static enum cs_status greet(struct cs_client *c, struct cs_err *err)
{
    struct cs_peer peer;
    json_t *hello = cs_hello_new(++c->last_id, "cornstarch-console", CORNSTARCH_VERSION, "admin");
    json_t *answer = NULL;
    enum cs_status st = cs_msg_encode(hello, &c->out, err);
    json_decref(hello);
    CS_TRY(st);
    CS_TRY(flush(c, err));
    CS_TRY(await(c, c->last_id, (int64_t)HELLO_MS * 1000000, &answer, err));
    if (strcmp(cs_msg_type(answer), "error") == 0)
        st = cs_msg_to_err(answer, err);
    else
        st = cs_hello_check(answer, &peer, err);
    if (st != CS_OK) {
        json_decref(answer);
        return cs_wrap(err, st, "the daemon at %s", c->path);
    }
    json_decref(c->hello);
    c->hello = answer;
    cs_line_reader_limit(c->lines, 0);
    return CS_OK;
}

static enum cs_status dial(struct cs_client *c, bool may_start, struct cs_err *err)
{
    enum cs_status st = may_start ? cs_client_dial_or_start(c->path, &c->fd, err)
                                  : cs_client_dial(c->path, &c->fd, err);
    CS_TRY(st);
    c->lines = cs_line_reader_new();
    st = greet(c, err);
    if (st != CS_OK) {
        hang_up(c);
        return st;
    }
    if (c->base) {
        c->read_event = event_new(c->base, c->fd, EV_READ | EV_PERSIST, on_readable, c);
        c->write_event = event_new(c->base, c->fd, EV_WRITE | EV_PERSIST, on_writable, c);
        CS_ASSERT(c->read_event && c->write_event);
        watch(c, true, c->sent < c->out.len);
    }
    c->retry_ms = RETRY_FIRST_MS;
    c->waited_ms = 0;
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
    if (c->fd == -1)
        return;
    hang_up(c);
    retry_later(c);
    if (c->on_state)
        c->on_state(c->state_user, false);
}

static void on_readable(evutil_socket_t fd, short what, void *user)
{
    struct cs_client *c = user;
    (void)fd;
    (void)what;
    enum cs_status st = receive(c, NULL);
    enum cs_status taken = c->lines ? take_messages(c, NULL) : CS_PEER_GONE;
    if (st != CS_OK || taken != CS_OK)
        lose(c);
}

static void on_writable(evutil_socket_t fd, short what, void *user)
{
    struct cs_client *c = user;
    (void)fd;
    (void)what;
    if (flush(c, NULL) != CS_OK)
        lose(c);
}

/* Our own daemon is started again when it stays away; another one's owner decides. */
static void on_retry(evutil_socket_t fd, short what, void *user)
{
    struct cs_client *c = user;
    (void)fd;
    (void)what;
    if (c->fd != -1)
        return;
    if (dial(c, c->may_start && c->waited_ms >= START_AFTER_MS, NULL) != CS_OK) {
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
        enum cs_status st = dial(c, true, err);
        if (st != CS_PEER_GONE || ms >= START_AFTER_MS)
            return st;
        poll(NULL, 0, RETRY_GONE_MS);
    }
}

static enum cs_status connect_to(struct event_base *base, const char *socket_path, bool may_start,
                                 struct cs_client **out, struct cs_err *err)
{
    struct cs_client *c = calloc(1, sizeof(*c));
    if (!c)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a connection");
    c->base = base;
    c->fd = -1;
    c->may_start = may_start;
    c->retry_ms = RETRY_FIRST_MS;
    enum cs_status st =
        socket_path ? cs_path(c->path, err, "%s", socket_path) : cs_client_socket(c->path, err);
    if (st == CS_OK)
        st = may_start ? dial_ours(c, err) : dial(c, false, err);
    if (st != CS_OK) {
        cs_client_free(c);
        return st;
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
    cs_buf_free(&c->out);
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

bool cs_client_is_connected(const struct cs_client *c)
{
    return c->fd != -1;
}

const json_t *cs_client_hello(const struct cs_client *c)
{
    return c->hello;
}

const char *cs_client_path(const struct cs_client *c)
{
    return c->path;
}

static enum cs_status post(struct cs_client *c, json_t *request, int64_t *id, struct cs_err *err)
{
    enum cs_status st = CS_OK;
    *id = ++c->last_id;
    cs_msg_set_int(request, "id", *id);
    if (c->fd == -1)
        st = cs_fail(err, CS_UNREACHABLE, "there is no connection to the daemon at %s", c->path);
    if (st == CS_OK)
        st = cs_msg_encode(request, &c->out, err);
    json_decref(request);
    return st == CS_OK ? flush(c, err) : st;
}

int64_t cs_client_send(struct cs_client *c, json_t *request)
{
    int64_t id;
    bool was_connected = c->fd != -1;
    if (post(c, request, &id, NULL) == CS_OK)
        return id;
    if (was_connected && c->retry) { /* notice it from the loop, not under the caller's feet */
        event_active(c->read_event, EV_READ, 0);
    }
    return -1;
}

enum cs_status cs_client_call_for(struct cs_client *c, json_t *request, int64_t timeout_ns,
                                  json_t **reply, struct cs_err *err)
{
    int64_t id;
    json_t *answer = NULL;
    *reply = NULL;
    enum cs_status st = post(c, request, &id, err);
    if (st == CS_OK)
        st = await(c, id, timeout_ns, &answer, err);
    if (st == CS_PEER_GONE)
        lose(c);
    /* lines that came with the answer wait in the reader: let the loop deliver them */
    if (c->read_event && c->lines && cs_line_reader_pending(c->lines) > 0)
        event_active(c->read_event, EV_READ, 0);
    CS_TRY(st);
    if (strcmp(cs_msg_type(answer), "error") == 0) {
        st = cs_msg_to_err(answer, err);
        json_decref(answer);
        return st;
    }
    st = cs_msg_check(answer, err);
    if (st != CS_OK) {
        json_decref(answer);
        return cs_wrap(err, st, "the daemon's answer");
    }
    *reply = answer;
    return CS_OK;
}

enum cs_status cs_client_call(struct cs_client *c, json_t *request, json_t **reply,
                              struct cs_err *err)
{
    return cs_client_call_for(c, request, CS_CLIENT_CALL_NS, reply, err);
}
