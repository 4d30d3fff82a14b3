/* Connected consoles: greets them, checks and passes on their requests, answers, sends events. */
#include "server/callers/caller.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "net/conn.h"
#include "net/unix.h"

enum {
    LOW_BYTES = 64 * 1024,   /* events flow while less than this waits */
    HIGH_BYTES = 256 * 1024, /* requests are read while less than this waits */
    MAX_WAITERS = 1024,
    STALL_S = 10 /* nothing taken for so long while HIGH_BYTES wait, or while closing: the end */
};

struct waiter {
    struct waiter *next;
    int64_t job;
    json_t *request;
};

/* On the server's list until it is freed. is_closing: the reason has been sent, nothing more is
 * read. */
struct cs_caller {
    struct cs_caller *next;
    struct cs_server *server;
    struct cs_conn *conn;
    uid_t uid;
    enum cs_role role; /* granted by uid, lowered by hello */
    struct event *hello_timer;
    bool is_greeted, is_closing;
    struct cs_feed *feed;
    struct waiter *waiters;
    int n_waiters;
};

void cs_caller_free(struct cs_caller *caller)
{
    struct cs_caller **at = &caller->server->callers;
    while (*at && *at != caller)
        at = &(*at)->next;
    if (*at) {
        *at = caller->next;
        caller->server->n_callers--;
    }
    cs_feed_free(caller->feed);
    for (struct waiter *w = caller->waiters; w;) {
        struct waiter *next = w->next;
        json_decref(w->request);
        free(w);
        w = next;
    }
    event_free(caller->hello_timer);
    cs_conn_free(caller->conn);
    free(caller);
}

uid_t cs_caller_uid(const struct cs_caller *caller)
{
    return caller->uid;
}

enum cs_role cs_caller_role(const struct cs_caller *caller)
{
    return caller->role;
}

struct cs_feed *cs_caller_feed(struct cs_caller *caller)
{
    return caller->feed;
}

/* --- out ------------------------------------------------------------------------------------- */

/* A message over the line limit becomes an error with its id: every request is answered. */
static void append_error(struct cs_caller *caller, const json_t *message, struct cs_err *err)
{
    cs_log(caller->server->log, CS_ERROR, "conn.encode", CS_KV("error", (const char *)err->text));
    json_t *error = cs_msg_error(message, err);
    CS_ASSERT(cs_conn_send(caller->conn, error, err) == CS_OK);
    json_decref(error);
}

static void append(struct cs_caller *caller, const json_t *message)
{
    struct cs_err err = {0};
    if (cs_conn_send(caller->conn, message, &err) != CS_OK)
        append_error(caller, message, &err);
}

static void append_news(struct cs_caller *caller, struct cs_news *news, int64_t sub)
{
    struct cs_err err = {0};
    struct cs_buf line = {0};
    if (cs_news_line(news, sub, &line, &err) == CS_OK)
        cs_conn_send_line(caller->conn, line.data, line.len);
    else
        append_error(caller, cs_news_message(news), &err);
    cs_buf_free(&line);
}

/* Events, as long as the caller takes them. */
static void send_events(struct cs_caller *caller)
{
    while (!caller->is_closing && cs_conn_queued(caller->conn) < LOW_BYTES) {
        int64_t sub;
        struct cs_news *news = cs_feed_take(caller->feed, cs_now_ns(), &sub);
        if (news == NULL)
            return;
        append_news(caller, news, sub);
        cs_news_drop(news);
    }
}

void cs_caller_reply(struct cs_caller *caller, json_t *message)
{
    append(caller, message);
    json_decref(message);
}

void cs_caller_flush(struct cs_caller *caller)
{
    struct cs_err gone; /* on_closed tells of it */
    (void)!cs_conn_flush(caller->conn, &gone);
}

void cs_caller_fail(struct cs_caller *caller, const json_t *request, const struct cs_err *err)
{
    cs_caller_reply(caller, cs_msg_error(request, err));
}

/* The reason, then the end. */
static void end_with(struct cs_caller *caller, const json_t *request, const struct cs_err *err)
{
    cs_caller_fail(caller, request, err);
    caller->is_closing = true;
    cs_conn_finish(caller->conn);
}

void cs_callers_end(struct cs_server *server)
{
    json_t *message = cs_msg_new("daemon.end");
    for (struct cs_caller *caller = server->callers; caller; caller = caller->next)
        if (caller->is_greeted && !caller->is_closing)
            append(caller, message);
    json_decref(message);
}

void cs_publish(struct cs_server *server, enum cs_event_class class, int64_t job,
                const json_t *message)
{
    struct cs_news *news = cs_news_new(message);
    for (struct cs_caller *caller = server->callers; caller; caller = caller->next)
        if (cs_feed_put(caller->feed, class, job, news, server->config.queue_entries))
            send_events(caller);
    cs_news_drop(news);
}

bool cs_callers_watch_gpus(const struct cs_server *server)
{
    for (const struct cs_caller *caller = server->callers; caller; caller = caller->next)
        if (cs_feed_wants_gpus(caller->feed))
            return true;
    return false;
}

/* --- waiting --------------------------------------------------------------------------------- */

enum cs_status cs_caller_wait(struct cs_caller *caller, const json_t *request, int64_t job,
                              struct cs_err *err)
{
    if (caller->n_waiters == MAX_WAITERS)
        return cs_fail(err, CS_LIMIT, "more than %d requests wait on this connection", MAX_WAITERS);
    struct waiter *w = calloc(1, sizeof *w);
    if (!w)
        return cs_fail(err, CS_NO_MEMORY, "no memory to wait");
    caller->n_waiters++;
    w->job = job;
    w->request = json_incref((json_t *)(uintptr_t)request);
    w->next = caller->waiters;
    caller->waiters = w;
    return CS_OK;
}

/* Takes out one request of this type that waits for the job; NULL: none does. The caller's reference. */
static json_t *take_waiter(struct cs_server *server, int64_t job, const char *type,
                           struct cs_caller **out)
{
    for (struct cs_caller *caller = server->callers; caller; caller = caller->next)
        for (struct waiter **at = &caller->waiters, *w; (w = *at); at = &w->next) {
            if (w->job != job || (type != NULL && strcmp(cs_msg_type(w->request), type) != 0))
                continue;
            json_t *request = w->request;
            *at = w->next;
            *out = caller;
            caller->n_waiters--;
            free(w);
            return request;
        }
    return NULL;
}

/* An answer may end its connection: looked for anew each time. */
void cs_callers_job_ended(struct cs_server *server, int64_t job, const json_t *job_object)
{
    struct cs_caller *caller;
    for (json_t *request; (request = take_waiter(server, job, "job.wait", &caller));) {
        json_t *reply = cs_msg_reply(request);
        json_object_set(reply, "job", (json_t *)(uintptr_t)job_object);
        cs_caller_reply(caller, reply);
        json_decref(request);
    }
}

void cs_callers_resumed(struct cs_server *server, int64_t job, const struct cs_err *err)
{
    struct cs_caller *caller;
    for (json_t *request; (request = take_waiter(server, job, "job.resume", &caller));) {
        json_t *reply = err ? cs_msg_error(request, err) : cs_msg_reply(request);
        if (!err)
            cs_msg_set_int(reply, "job", job);
        cs_caller_reply(caller, reply);
        json_decref(request);
    }
}

/* An answer may end its connection: looked for anew each time. */
void cs_callers_gpus_read(struct cs_server *server)
{
    struct cs_caller *caller;
    for (json_t *request; (request = take_waiter(server, 0, NULL, &caller));) {
        server->handle_request(server, caller, request);
        json_decref(request);
    }
}

/* --- in -------------------------------------------------------------------------------------- */

/* The first line must be a console's hello. Another major is told so before anything else of its
 * message is looked at: it may have another schema. */
static void greet(struct cs_caller *caller, const json_t *message)
{
    struct cs_err err;
    struct cs_peer peer;
    enum cs_status status = CS_OK;
    if (strcmp(cs_msg_type(message), "hello") != 0 || cs_msg_is_reply(message))
        status = cs_fail(&err, CS_STATE, "the first message must be hello, not '%.100s'",
                         cs_msg_type(message));
    if (status == CS_OK)
        status = cs_hello_check(message, &peer, &err);
    if (status != CS_OK) {
        cs_log(caller->server->log, CS_INFO, "conn.hello", CS_KV("error", (const char *)err.text));
        end_with(caller, message, &err);
        return;
    }
    if (peer.has_role && peer.role < caller->role)
        caller->role = peer.role;
    caller->is_greeted = true;
    event_del(caller->hello_timer);
    cs_conn_line_max(caller->conn, 0);
    json_t *ok = cs_hello_ok_new(message, CORNSTARCH_VERSION, caller->server->node, getpid());
    cs_msg_set_str(ok, "role", cs_role_name(caller->role));
    cs_caller_reply(caller, ok);
}

static void on_message(void *user, const json_t *message)
{
    struct cs_caller *caller = user;
    struct cs_server *server = caller->server;
    struct cs_err err;
    if (!caller->is_greeted) {
        greet(caller, message);
    } else if (strcmp(cs_msg_type(message), "error") == 0) {
        cs_log(server->log, CS_INFO, "conn.error"); /* an answer to it would go on forever */
    } else if (cs_msg_check(message, &err) != CS_OK) {
        cs_caller_fail(caller, message, &err);
    } else if (cs_msg_is_reply(message)) {
        (void)cs_fail(&err, CS_INVALID, "%s: a daemon takes no replies", cs_msg_type(message));
        cs_caller_fail(caller, message, &err);
    } else {
        server->handle_request(server, caller, message);
    }
}

/* A peer that sends garbage is not worth guessing about. */
static void on_bad(void *user, const struct cs_err *err)
{
    end_with(user, NULL, err);
}

static void on_room(void *user)
{
    send_events(user);
}

static void on_closed(void *user, const struct cs_err *why)
{
    const struct cs_caller *caller = user;
    const struct cs_conn_stats *stats = cs_conn_stats(caller->conn);
    cs_log(caller->server->log, CS_DEBUG, "conn.closed", CS_KV("why", (const char *)why->text),
           CS_KV("lines_in", (int64_t)stats->lines_in), CS_KV("bytes_in", (int64_t)stats->bytes_in),
           CS_KV("lines_out", (int64_t)stats->lines_out),
           CS_KV("bytes_out", (int64_t)stats->bytes_out),
           CS_KV("most_queued", (int64_t)stats->most_queued));
    cs_caller_free(user);
}

static void on_hello_timeout(evutil_socket_t fd, short what, void *user)
{
    struct cs_caller *caller = user;
    struct cs_err err;
    (void)fd;
    (void)what;
    if (caller->is_closing)
        return;
    (void)cs_fail(&err, CS_TIMEOUT, "no hello within the time limit");
    end_with(caller, NULL, &err);
}

void cs_callers_tick(struct cs_server *server)
{
    int64_t limit_ns = cs_now_ns() - (int64_t)STALL_S * 1000000000;
    for (struct cs_caller *caller = server->callers, *next; caller; caller = next) {
        next = caller->next;
        send_events(caller); /* what was held back */
        if ((cs_conn_is_full(caller->conn) || caller->is_closing) &&
            cs_conn_stats(caller->conn)->taken_ns < limit_ns) {
            cs_log(server->log, CS_WARN, "conn.stalled",
                   CS_KV("bytes", cs_conn_queued(caller->conn)));
            cs_caller_free(caller);
        }
    }
}

/* Say why and close; a peer too slow for one line does not get to know. */
static void refuse(struct cs_server *server, int fd, enum cs_status status, const char *text)
{
    struct cs_buf line = {0};
    struct cs_err err;
    (void)cs_fail(&err, status, "%s", text);
    json_t *message = cs_msg_error(NULL, &err);
    if (cs_msg_encode(message, &line, &err) == CS_OK)
        (void)!send(fd, line.data, line.len, MSG_DONTWAIT | MSG_NOSIGNAL);
    cs_log(server->log, CS_WARN, "conn.refused", CS_KV("reason", text));
    json_decref(message);
    cs_buf_free(&line);
    close(fd);
}

void cs_caller_accept(struct cs_server *server, int fd)
{
    static const struct cs_conn_calls calls = {on_message, on_bad, on_room, on_closed};
    const struct cs_conn_options options = {.base = server->base,
                                            .line_max = CS_LINE_MAX_BEFORE_HELLO,
                                            .low = LOW_BYTES,
                                            .high = HIGH_BYTES};
    uid_t uid;
    if (!cs_unix_peer(fd, &uid) || (uid != geteuid() && uid != 0)) {
        refuse(server, fd, CS_REFUSED, "this daemon serves its own user only");
        return;
    }
    if (server->n_callers >= server->config.max_connections) {
        refuse(server, fd, CS_LIMIT, "too many connections; see --max-connections of cornstarchd");
        return;
    }
    struct cs_caller *caller = calloc(1, sizeof *caller);
    CS_ASSERT(caller != NULL);
    int64_t timeout = server->config.hello_timeout_ns;
    struct timeval tv = {timeout / 1000000000, (timeout % 1000000000) / 1000};
    caller->server = server;
    caller->uid = uid;
    caller->role = CS_ROLE_ADMIN;
    caller->feed = cs_feed_new();
    caller->conn = cs_conn_new(fd, &options, &calls, caller);
    caller->hello_timer = event_new(server->base, -1, 0, on_hello_timeout, caller);
    CS_ASSERT(caller->hello_timer != NULL);
    event_add(caller->hello_timer, &tv);
    caller->next = server->callers;
    server->callers = caller;
    server->n_callers++;
}
