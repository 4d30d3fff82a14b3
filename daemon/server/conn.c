/* See conn.h. libevent's write watermark does not limit what is queued, so bytes are counted here
 * before anything is appended. */
#include "server/conn.h"

#include <errno.h>
#include <event2/buffer.h>
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
    MAX_SUBS = 16,
    MAX_WAITERS = 1024,
    STALL_S = 10 /* nothing taken for so long while HIGH_BYTES wait, or while closing: the end */
};

struct queued {
    struct queued *next;
    json_t *message; /* shared */
};

struct sub {
    int64_t id, job; /* job 0: all */
    struct cs_sub_wants wants;
    struct queued *head, **tail;
    int64_t n, dropped;
};

struct gauge {
    struct gauge *next;
    int64_t job, sub;
    char series[64]; /* type and kind: an evaluation does not hide behind the next step */
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
    int n_waiters;
    int64_t taken_ns; /* when the peer last took bytes, or when nothing waited */
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

/* A message over the line limit becomes an error with its id, so that a request is always answered.
 */
static void append(struct cs_conn *conn, const json_t *message)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(message, &line, &err) != CS_OK) {
        cs_log(conn->server->log, CS_ERROR, "conn.encode", CS_KV("error", (const char *)err.text));
        json_t *error = cs_msg_error(message, &err);
        CS_ASSERT(cs_msg_encode(error, &line, &err) == CS_OK);
        json_decref(error);
    }
    if (evbuffer_get_length(conn->out) == 0)
        conn->taken_ns = cs_now_ns();
    CS_ASSERT(evbuffer_add(conn->out, line.data, line.len) == 0);
    cs_buf_free(&line);
}

uid_t cs_conn_uid(const struct cs_conn *conn)
{
    return conn->uid;
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

int64_t cs_conn_subscribe(struct cs_conn *conn, int64_t job, const struct cs_sub_wants *wants)
{
    if (conn->n_subs == MAX_SUBS)
        return -1;
    struct sub *sub = &conn->subs[conn->n_subs++];
    *sub = (struct sub){.id = ++conn->next_sub, .job = job, .wants = *wants};
    sub->tail = &sub->head;
    return sub->id;
}

static void drop_gauges(struct cs_conn *conn, int64_t sub)
{
    for (struct gauge **at = &conn->gauges; *at;) {
        struct gauge *g = *at;
        if (g->sub != sub) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        json_decref(g->message);
        free(g);
    }
}

bool cs_conn_unsubscribe(struct cs_conn *conn, int64_t id)
{
    for (int i = 0; i < conn->n_subs; i++) {
        if (conn->subs[i].id != id)
            continue;
        free_queue(&conn->subs[i]);
        drop_gauges(conn, id);
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

static void put_gauge(struct cs_conn *conn, const struct sub *sub, int64_t job,
                      const json_t *message)
{
    char series[64];
    snprintf(series, sizeof(series), "%s %s", cs_msg_type(message),
             cs_msg_str(message, "kind", ""));
    struct gauge *g = conn->gauges;
    while (g && !(g->job == job && g->sub == sub->id && strcmp(g->series, series) == 0))
        g = g->next;
    if (!g) {
        g = calloc(1, sizeof(*g));
        if (!g)
            return;
        g->job = job;
        g->sub = sub->id;
        memcpy(g->series, series, sizeof(series));
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
            const bool wanted[] = {sub->wants.gauges, sub->wants.events, sub->wants.logs,
                                   sub->wants.gpus};
            if (!wanted[class] || (sub->job != 0 && sub->job != job && class != CS_CLASS_GPUS))
                continue;
            if (class == CS_CLASS_GAUGE || class == CS_CLASS_GPUS)
                put_gauge(conn, sub, job, message);
            else
                put_event(conn, sub, message);
            is_new = true;
        }
        if (is_new)
            pump(conn);
    }
}

bool cs_conns_watch_gpus(const struct cs_server *server)
{
    for (const struct cs_conn *conn = server->conns; conn; conn = conn->next)
        for (int i = 0; i < conn->n_subs; i++)
            if (conn->subs[i].wants.gpus)
                return true;
    return false;
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

enum cs_status cs_conn_wait(struct cs_conn *conn, const json_t *request, int64_t job,
                            struct cs_err *err)
{
    if (conn->n_waiters == MAX_WAITERS)
        return cs_fail(err, CS_LIMIT, "more than %d requests wait on this connection", MAX_WAITERS);
    struct waiter *w = calloc(1, sizeof(*w));
    if (!w)
        return cs_fail(err, CS_NO_MEMORY, "no memory to wait");
    conn->n_waiters++;
    w->job = job;
    w->request = json_incref((json_t *)(uintptr_t)request);
    w->next = conn->waiters;
    conn->waiters = w;
    return CS_OK;
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
            conn->n_waiters--;
            json_decref(w->request);
            free(w);
        }
        pump(conn);
    }
}

/* Takes out one request that waits for the GPUs; NULL: none does. The caller's reference. */
static json_t *take_gpu_waiter(struct cs_server *server, struct cs_conn **out)
{
    for (struct cs_conn *conn = server->conns; conn; conn = conn->next)
        for (struct waiter **at = &conn->waiters, *w; (w = *at); at = &w->next) {
            if (w->job != 0)
                continue;
            json_t *request = w->request;
            *at = w->next;
            *out = conn;
            conn->n_waiters--;
            free(w);
            return request;
        }
    return NULL;
}

/* An answer may end its connection: looked for anew each time. */
void cs_conns_gpus_read(struct cs_server *server)
{
    struct cs_conn *conn;
    for (json_t *request; (request = take_gpu_waiter(server, &conn));) {
        cs_rpc_handle(server, conn, request);
        json_decref(request);
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

/* Only queue here; the write event sends, so that nobody's connection dies under a caller's feet.
 */
static void pump(struct cs_conn *conn)
{
    flush_events(conn);
    set_interest(conn);
}

static void end_with(struct cs_conn *conn, const struct cs_err *err)
{
    json_t *message = cs_msg_error(NULL, err);
    append(conn, message);
    json_decref(message);
    conn->is_closing = true;
}

/* The first line must be a console's hello. Another major is told so before anything else of its
 * message is looked at: it may have another schema. */
static void greet(struct cs_conn *conn, const json_t *message)
{
    struct cs_err err;
    struct cs_peer peer;
    enum cs_status st = CS_OK;
    if (strcmp(cs_msg_type(message), "hello") != 0 || cs_msg_is_reply(message))
        st = cs_fail(&err, CS_STATE, "the first message must be hello, not '%.100s'",
                     cs_msg_type(message));
    if (st == CS_OK)
        st = cs_hello_check(message, &peer, &err);
    if (st != CS_OK) {
        cs_log(conn->server->log, CS_INFO, "conn.hello", CS_KV("error", (const char *)err.text));
        conn->is_closing = true;
        cs_conn_fail(conn, message, &err);
        return;
    }
    conn->is_greeted = true;
    event_del(conn->hello_timer);
    cs_line_reader_limit(conn->lines, 0);
    json_t *ok = cs_hello_ok_new(message, CORNSTARCH_VERSION, conn->server->node, getpid());
    cs_msg_set_str(ok, "role", cs_role_name(CS_ROLE_ADMIN)); /* one user's daemon: everything */
    cs_conn_reply(conn, ok);
}

static void handle(struct cs_conn *conn, const json_t *message)
{
    struct cs_err err;
    if (!conn->is_greeted) {
        greet(conn, message);
    } else if (strcmp(cs_msg_type(message), "error") == 0) {
        cs_log(conn->server->log, CS_INFO,
               "conn.error"); /* an answer to an error would go on forever */
    } else if (cs_msg_check(message, &err) != CS_OK) {
        cs_conn_fail(conn, message, &err);
    } else if (cs_msg_is_reply(message)) {
        (void)cs_fail(&err, CS_INVALID, "%s: a daemon takes no replies", cs_msg_type(message));
        cs_conn_fail(conn, message, &err);
    } else {
        cs_rpc_handle(conn->server, conn, message);
    }
}

/* Lines that have arrived, as long as their answers are taken: a peer that asks and does not read
 * must not fill our memory. */
static void take_lines(struct cs_conn *conn)
{
    struct cs_err err;
    json_t *message = NULL;
    while (!conn->is_closing && evbuffer_get_length(conn->out) < HIGH_BYTES) {
        enum cs_status st = cs_line_next(conn->lines, &message, &err);
        if (st != CS_OK) {
            end_with(conn, &err); /* a peer that sends garbage is not worth guessing about */
            return;
        }
        if (!message)
            return;
        handle(conn, message);
        json_decref(message);
    }
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    (void)what;
    ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        cs_conn_free(conn);
        return;
    }
    if (cs_line_feed(conn->lines, bytes, (size_t)n, &err) != CS_OK)
        end_with(conn, &err);
    take_lines(conn);
    pump(conn);
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
    if (n > 0)
        conn->taken_ns = cs_now_ns();
    if (conn->is_closing && evbuffer_get_length(conn->out) == 0) {
        cs_conn_free(conn);
        return;
    }
    take_lines(conn); /* those that waited for room */
    pump(conn);
}

static void on_hello_timeout(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    struct cs_err err;
    (void)fd;
    (void)what;
    if (conn->is_closing)
        return;
    (void)cs_fail(&err, CS_TIMEOUT, "no hello within the time limit");
    end_with(conn, &err);
    pump(conn);
}

void cs_conns_tick(struct cs_server *server)
{
    int64_t limit_ns = cs_now_ns() - (int64_t)STALL_S * 1000000000;
    for (struct cs_conn *conn = server->conns, *next; conn; conn = next) {
        size_t waiting = evbuffer_get_length(conn->out);
        next = conn->next;
        if ((waiting >= HIGH_BYTES || conn->is_closing) && conn->taken_ns < limit_ns) {
            cs_log(server->log, CS_WARN, "conn.stalled", CS_KV("bytes", waiting));
            cs_conn_free(conn);
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

void cs_conn_accept(struct cs_server *server, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1 ||
        (peer.uid != geteuid() && peer.uid != 0)) {
        refuse(server, fd, CS_REFUSED, "this daemon serves its own user only");
        return;
    }
    if (server->n_conns >= server->config.max_connections) {
        refuse(server, fd, CS_LIMIT, "too many connections; see --max-connections of cornstarchd");
        return;
    }
    struct cs_conn *conn = calloc(1, sizeof(*conn));
    CS_ASSERT(conn != NULL);
    int64_t timeout = server->config.hello_timeout_ns;
    struct timeval tv = {timeout / 1000000000, (timeout % 1000000000) / 1000};
    conn->server = server;
    conn->fd = fd;
    conn->uid = peer.uid;
    conn->taken_ns = cs_now_ns();
    conn->out = evbuffer_new();
    conn->lines = cs_line_reader_new();
    conn->read_event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_read, conn);
    conn->write_event = event_new(server->base, fd, EV_WRITE | EV_PERSIST, on_write, conn);
    conn->hello_timer = event_new(server->base, -1, 0, on_hello_timeout, conn);
    CS_ASSERT(conn->out && conn->lines && conn->read_event && conn->write_event &&
              conn->hello_timer);
    event_add(conn->hello_timer, &tv);
    conn->next = server->conns;
    server->conns = conn;
    server->n_conns++;
    set_interest(conn);
}
