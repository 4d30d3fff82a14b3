/* See conn.h. libevent's write watermark does not limit what is queued, so bytes are counted here
 * before anything is appended. */
#include "server/conn.h"

#include <errno.h>
#include <event2/buffer.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum {
    LOW_BYTES = 64 * 1024,   /* events flow while less than this waits */
    HIGH_BYTES = 256 * 1024, /* requests are read while less than this waits */
    MAX_SUBS = 16
};

struct queued {
    struct queued *next;
    json_t *message; /* shared */
};

struct sub {
    int64_t id, job; /* job 0: all */
    bool gauges, events, logs;
    struct queued *head, **tail;
    int64_t n, dropped;
};

struct gauge {
    struct gauge *next;
    int64_t job, sub;
    char type[24];
    json_t *message;
};

struct waiter {
    struct waiter *next;
    int64_t job;
    json_t *request;
};

struct cs_conn {
    struct cs_conn *next;
    struct cs_server *server;
    int fd;
    uid_t uid;
    struct event *read_event, *write_event, *hello_timer;
    struct evbuffer *out;
    struct cs_line_reader *lines;
    bool is_greeted, is_reading, is_writing, is_closing;
    struct sub subs[MAX_SUBS];
    int n_subs;
    int64_t next_sub;
    struct gauge *gauges;
    struct waiter *waiters;
};

static void pump(struct cs_conn *conn);

static void free_queue(struct sub *sub)
{
    for (struct queued *q = sub->head; q;) {
        struct queued *next = q->next;
        json_decref(q->message);
        free(q);
        q = next;
    }
    sub->head = NULL;
    sub->tail = &sub->head;
    sub->n = 0;
}

void cs_conn_free(struct cs_conn *conn)
{
    struct cs_conn **at = &conn->server->conns;
    while (*at && *at != conn)
        at = &(*at)->next;
    if (*at) {
        *at = conn->next;
        conn->server->n_conns--;
    }
    for (int i = 0; i < conn->n_subs; i++)
        free_queue(&conn->subs[i]);
    for (struct gauge *g = conn->gauges; g;) {
        struct gauge *next = g->next;
        json_decref(g->message);
        free(g);
        g = next;
    }
    for (struct waiter *w = conn->waiters; w;) {
        struct waiter *next = w->next;
        json_decref(w->request);
        free(w);
        w = next;
    }
    event_free(conn->read_event);
    event_free(conn->write_event);
    event_free(conn->hello_timer);
    evbuffer_free(conn->out);
    cs_line_reader_free(conn->lines);
    close(conn->fd);
    free(conn);
}

static void append(struct cs_conn *conn, const json_t *message)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(message, &line, &err) == CS_OK)
        evbuffer_add(conn->out, line.data, line.len);
    else
        cs_log(conn->server->log, CS_ERROR, "conn.encode", CS_KV("error", (const char *)err.text));
    cs_buf_free(&line);
}

void cs_conn_reply(struct cs_conn *conn, json_t *message)
{
    append(conn, message);
    json_decref(message);
    pump(conn);
}

void cs_conn_fail(struct cs_conn *conn, const json_t *request, const struct cs_err *err)
{
    cs_conn_reply(conn, cs_msg_error(request, err));
}

/* --- subscriptions --------------------------------------------------------------------------- */

int64_t cs_conn_subscribe(struct cs_conn *conn, int64_t job, bool gauges, bool events, bool logs)
{
    if (conn->n_subs == MAX_SUBS)
        return -1;
    struct sub *sub = &conn->subs[conn->n_subs++];
    *sub = (struct sub){.id = ++conn->next_sub, .job = job, .gauges = gauges, .events = events, .logs = logs};
    sub->tail = &sub->head;
    return sub->id;
}

bool cs_conn_unsubscribe(struct cs_conn *conn, int64_t id)
{
    for (int i = 0; i < conn->n_subs; i++) {
        if (conn->subs[i].id != id)
            continue;
        free_queue(&conn->subs[i]);
        conn->subs[i] = conn->subs[--conn->n_subs];
        if (!conn->subs[i].head) /* the moved entry's tail points into its old place */
            conn->subs[i].tail = &conn->subs[i].head;
        return true;
    }
    return false;
}

static json_t *addressed(const json_t *message, int64_t sub)
{
    json_t *copy = json_copy((json_t *)(uintptr_t)message);
    cs_msg_set_int(copy, "sub", sub);
    return copy;
}

static void put_gauge(struct cs_conn *conn, const struct sub *sub, int64_t job, const json_t *message)
{
    const char *type = cs_msg_type(message);
    struct gauge *g = conn->gauges;
    while (g && !(g->job == job && g->sub == sub->id && strcmp(g->type, type) == 0))
        g = g->next;
    if (!g) {
        g = calloc(1, sizeof(*g));
        if (!g)
            return;
        g->job = job;
        g->sub = sub->id;
        snprintf(g->type, sizeof(g->type), "%s", type);
        g->next = conn->gauges;
        conn->gauges = g;
    }
    json_decref(g->message);
    g->message = addressed(message, sub->id);
}

static void put_event(struct cs_conn *conn, struct sub *sub, const json_t *message)
{
    struct queued *q = calloc(1, sizeof(*q));
    if (!q)
        return;
    q->message = addressed(message, sub->id);
    *sub->tail = q;
    sub->tail = &q->next;
    sub->n++;
    if (sub->n > conn->server->config.queue_entries) {
        struct queued *oldest = sub->head;
        sub->head = oldest->next;
        json_decref(oldest->message);
        free(oldest);
        sub->n--;
        sub->dropped++;
    }
}

void cs_publish(struct cs_server *server, enum cs_event_class class, int64_t job,
                const json_t *message)
{
    for (struct cs_conn *conn = server->conns, *next; conn; conn = next) {
        bool is_new = false;
        next = conn->next;
        for (int i = 0; i < conn->n_subs; i++) {
            struct sub *sub = &conn->subs[i];
            const bool wanted[] = {sub->gauges, sub->events, sub->logs};
            if (!wanted[class] || (sub->job != 0 && sub->job != job))
                continue;
            if (class == CS_CLASS_GAUGE)
                put_gauge(conn, sub, job, message);
            else
                put_event(conn, sub, message);
            is_new = true;
        }
        if (is_new)
            pump(conn);
    }
}

static void flush_events(struct cs_conn *conn)
{
    for (int i = 0; i < conn->n_subs; i++) {
        struct sub *sub = &conn->subs[i];
        if (sub->dropped && evbuffer_get_length(conn->out) < LOW_BYTES) {
            json_t *gap = cs_msg_new("gap");
            cs_msg_set_int(gap, "sub", sub->id);
            cs_msg_set_int(gap, "count", sub->dropped);
            append(conn, gap);
            json_decref(gap);
            sub->dropped = 0;
        }
        while (sub->head && evbuffer_get_length(conn->out) < LOW_BYTES) {
            struct queued *q = sub->head;
            append(conn, q->message);
            sub->head = q->next;
            if (!sub->head)
                sub->tail = &sub->head;
            sub->n--;
            json_decref(q->message);
            free(q);
        }
    }
    while (conn->gauges && evbuffer_get_length(conn->out) < LOW_BYTES) {
        struct gauge *g = conn->gauges;
        append(conn, g->message);
        conn->gauges = g->next;
        json_decref(g->message);
        free(g);
    }
}

/* --- waiting --------------------------------------------------------------------------------- */

void cs_conn_wait(struct cs_conn *conn, const json_t *request, int64_t job)
{
    struct waiter *w = calloc(1, sizeof(*w));
    if (!w)
        return;
    w->job = job;
    w->request = json_incref((json_t *)(uintptr_t)request);
    w->next = conn->waiters;
    conn->waiters = w;
}

void cs_conn_job_ended(struct cs_server *server, int64_t job, const json_t *job_object)
{
    for (struct cs_conn *conn = server->conns, *next; conn; conn = next) {
        next = conn->next;
        for (struct waiter **at = &conn->waiters; *at;) {
            struct waiter *w = *at;
            if (w->job != job) {
                at = &w->next;
                continue;
            }
            json_t *reply = cs_msg_reply(w->request);
            json_object_set(reply, "job", (json_t *)(uintptr_t)job_object);
            append(conn, reply);
            json_decref(reply);
            *at = w->next;
            json_decref(w->request);
            free(w);
        }
        pump(conn);
    }
}

/* --- bytes ----------------------------------------------------------------------------------- */

static void set_interest(struct cs_conn *conn)
{
    size_t waiting = evbuffer_get_length(conn->out);
    bool want_read = waiting < HIGH_BYTES && !conn->is_closing;
    if (want_read != conn->is_reading) {
        conn->is_reading = want_read;
        if (want_read)
            event_add(conn->read_event, NULL);
        else
            event_del(conn->read_event);
    }
    if ((waiting > 0) != conn->is_writing) {
        conn->is_writing = waiting > 0;
        if (conn->is_writing)
            event_add(conn->write_event, NULL);
        else
            event_del(conn->write_event);
    }
}

/* Only queue here; the write event sends, so that nobody's connection dies under a caller's feet. */
static void pump(struct cs_conn *conn)
{
    flush_events(conn);
    set_interest(conn);
}

static void on_write(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    (void)what;
    int n = evbuffer_write(conn->out, fd);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        cs_conn_free(conn);
        return;
    }
    if (conn->is_closing && evbuffer_get_length(conn->out) == 0) {
        cs_conn_free(conn);
        return;
    }
    pump(conn);
}

static void end_with(struct cs_conn *conn, const struct cs_err *err)
{
    json_t *message = cs_msg_error(NULL, err);
    append(conn, message);
    json_decref(message);
    conn->is_closing = true;
}

static void greet(struct cs_conn *conn, const json_t *message)
{
    struct cs_err err;
    struct cs_peer peer;
    if (cs_hello_check(message, &peer, &err) != CS_OK) {
        cs_conn_fail(conn, message, &err);
        conn->is_closing = true;
        return;
    }
    conn->is_greeted = true;
    event_del(conn->hello_timer);
    cs_line_reader_limit(conn->lines, 0);
    cs_conn_reply(conn,
                  cs_hello_ok_new(message, CORNSTARCH_VERSION, conn->server->node, getpid()));
}

static void handle(struct cs_conn *conn, const json_t *message)
{
    struct cs_err err;
    if (cs_msg_check(message, &err) != CS_OK) {
        cs_conn_fail(conn, message, &err);
        conn->is_closing = conn->is_closing || !conn->is_greeted;
    } else if (!conn->is_greeted) {
        greet(conn, message);
    } else {
        cs_rpc_handle(conn->server, conn, message);
    }
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    json_t *message = NULL;
    (void)what;
    ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR)) {
        cs_conn_free(conn);
        return;
    }
    if (n == -1)
        return;
    if (cs_line_feed(conn->lines, bytes, (size_t)n, &err) != CS_OK)
        end_with(conn, &err);
    while (!conn->is_closing) {
        enum cs_status st = cs_line_next(conn->lines, &message, &err);
        if (st == CS_OK && !message)
            break;
        if (st == CS_OK) {
            handle(conn, message);
            json_decref(message);
        } else {
            end_with(conn, &err); /* a peer that sends garbage is not worth guessing about */
        }
    }
    pump(conn);
}

static void on_hello_timeout(evutil_socket_t fd, short what, void *user)
{
    struct cs_err err;
    (void)fd;
    (void)what;
    (void)cs_fail(&err, CS_TIMEOUT, "no hello within the time limit");
    end_with(user, &err);
    pump(user);
}

void cs_conn_accept(struct cs_server *server, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1 ||
        (peer.uid != getuid() && peer.uid != 0) ||
        server->n_conns >= server->config.max_connections) {
        cs_log(server->log, CS_WARN, "conn.refused", CS_KV("connections", server->n_conns));
        close(fd);
        return;
    }
    struct cs_conn *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        close(fd);
        return;
    }
    int64_t timeout = server->config.hello_timeout_ns;
    struct timeval tv = {timeout / 1000000000, (timeout % 1000000000) / 1000};
    conn->server = server;
    conn->fd = fd;
    conn->uid = peer.uid;
    conn->out = evbuffer_new();
    conn->lines = cs_line_reader_new();
    conn->read_event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_read, conn);
    conn->write_event = event_new(server->base, fd, EV_WRITE | EV_PERSIST, on_write, conn);
    conn->hello_timer = event_new(server->base, -1, 0, on_hello_timeout, conn);
    CS_ASSERT(conn->out && conn->lines && conn->read_event && conn->write_event && conn->hello_timer);
    event_add(conn->hello_timer, &tv);
    conn->next = server->conns;
    server->conns = conn;
    server->n_conns++;
    set_interest(conn);
}
