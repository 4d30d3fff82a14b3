/* Connected consoles: takes their lines, keeps what waits for them, sends it as fast as they read.
 * libevent's write watermark does not limit what is queued, so bytes are counted here before
 * anything is appended. */
#include "server/caller.h"

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

struct cs_caller {
    struct cs_caller *next;
    struct cs_server *server;
    cs_request_handler *handle;
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

static void pump(struct cs_caller *caller);

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

void cs_caller_free(struct cs_caller *caller)
{
    struct cs_caller **at = &caller->server->callers;
    while (*at && *at != caller)
        at = &(*at)->next;
    if (*at) {
        *at = caller->next;
        caller->server->n_callers--;
    }
    for (int i = 0; i < caller->n_subs; i++)
        free_queue(&caller->subs[i]);
    for (struct gauge *g = caller->gauges; g;) {
        struct gauge *next = g->next;
        json_decref(g->message);
        free(g);
        g = next;
    }
    for (struct waiter *w = caller->waiters; w;) {
        struct waiter *next = w->next;
        json_decref(w->request);
        free(w);
        w = next;
    }
    event_free(caller->read_event);
    event_free(caller->write_event);
    event_free(caller->hello_timer);
    evbuffer_free(caller->out);
    cs_line_reader_free(caller->lines);
    close(caller->fd);
    free(caller);
}

/* A message over the line limit becomes an error with its id, so that a request is always answered.
 */
static void append(struct cs_caller *caller, const json_t *message)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(message, &line, &err) != CS_OK) {
        cs_log(caller->server->log, CS_ERROR, "conn.encode",
               CS_KV("error", (const char *)err.text));
        json_t *error = cs_msg_error(message, &err);
        CS_ASSERT(cs_msg_encode(error, &line, &err) == CS_OK);
        json_decref(error);
    }
    if (evbuffer_get_length(caller->out) == 0)
        caller->taken_ns = cs_now_ns();
    CS_ASSERT(evbuffer_add(caller->out, line.data, line.len) == 0);
    cs_buf_free(&line);
}

uid_t cs_caller_uid(const struct cs_caller *caller)
{
    return caller->uid;
}

void cs_caller_reply(struct cs_caller *caller, json_t *message)
{
    append(caller, message);
    json_decref(message);
    pump(caller);
}

void cs_caller_fail(struct cs_caller *caller, const json_t *request, const struct cs_err *err)
{
    cs_caller_reply(caller, cs_msg_error(request, err));
}

/* --- subscriptions --------------------------------------------------------------------------- */

int64_t cs_caller_subscribe(struct cs_caller *caller, int64_t job, const struct cs_sub_wants *wants)
{
    if (caller->n_subs == MAX_SUBS)
        return -1;
    struct sub *sub = &caller->subs[caller->n_subs++];
    *sub = (struct sub){.id = ++caller->next_sub, .job = job, .wants = *wants};
    sub->tail = &sub->head;
    return sub->id;
}

static void drop_gauges(struct cs_caller *caller, int64_t sub)
{
    for (struct gauge **at = &caller->gauges; *at;) {
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

bool cs_caller_unsubscribe(struct cs_caller *caller, int64_t id)
{
    for (int i = 0; i < caller->n_subs; i++) {
        if (caller->subs[i].id != id)
            continue;
        free_queue(&caller->subs[i]);
        drop_gauges(caller, id);
        caller->subs[i] = caller->subs[--caller->n_subs];
        if (!caller->subs[i].head) /* the moved entry's tail points into its old place */
            caller->subs[i].tail = &caller->subs[i].head;
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

static void put_gauge(struct cs_caller *caller, const struct sub *sub, int64_t job,
                      const json_t *message)
{
    char series[64];
    snprintf(series, sizeof(series), "%s %s", cs_msg_type(message),
             cs_msg_str(message, "kind", ""));
    struct gauge *g = caller->gauges;
    while (g && !(g->job == job && g->sub == sub->id && strcmp(g->series, series) == 0))
        g = g->next;
    if (!g) {
        g = calloc(1, sizeof(*g));
        if (!g)
            return;
        g->job = job;
        g->sub = sub->id;
        memcpy(g->series, series, sizeof(series));
        g->next = caller->gauges;
        caller->gauges = g;
    }
    json_decref(g->message);
    g->message = addressed(message, sub->id);
}

static void put_event(struct cs_caller *caller, struct sub *sub, const json_t *message)
{
    struct queued *q = calloc(1, sizeof(*q));
    if (!q)
        return;
    q->message = addressed(message, sub->id);
    *sub->tail = q;
    sub->tail = &q->next;
    sub->n++;
    if (sub->n > caller->server->config.queue_entries) {
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
    for (struct cs_caller *caller = server->callers, *next; caller; caller = next) {
        bool is_new = false;
        next = caller->next;
        for (int i = 0; i < caller->n_subs; i++) {
            struct sub *sub = &caller->subs[i];
            const bool wanted[] = {sub->wants.gauges, sub->wants.events, sub->wants.logs,
                                   sub->wants.gpus};
            if (!wanted[class] || (sub->job != 0 && sub->job != job && class != CS_CLASS_GPUS))
                continue;
            if (class == CS_CLASS_GAUGE || class == CS_CLASS_GPUS)
                put_gauge(caller, sub, job, message);
            else
                put_event(caller, sub, message);
            is_new = true;
        }
        if (is_new)
            pump(caller);
    }
}

bool cs_callers_watch_gpus(const struct cs_server *server)
{
    for (const struct cs_caller *caller = server->callers; caller; caller = caller->next)
        for (int i = 0; i < caller->n_subs; i++)
            if (caller->subs[i].wants.gpus)
                return true;
    return false;
}

static void flush_events(struct cs_caller *caller)
{
    for (int i = 0; i < caller->n_subs; i++) {
        struct sub *sub = &caller->subs[i];
        if (sub->dropped && evbuffer_get_length(caller->out) < LOW_BYTES) {
            json_t *gap = cs_msg_new("gap");
            cs_msg_set_int(gap, "sub", sub->id);
            cs_msg_set_int(gap, "count", sub->dropped);
            append(caller, gap);
            json_decref(gap);
            sub->dropped = 0;
        }
        while (sub->head && evbuffer_get_length(caller->out) < LOW_BYTES) {
            struct queued *q = sub->head;
            append(caller, q->message);
            sub->head = q->next;
            if (!sub->head)
                sub->tail = &sub->head;
            sub->n--;
            json_decref(q->message);
            free(q);
        }
    }
    while (caller->gauges && evbuffer_get_length(caller->out) < LOW_BYTES) {
        struct gauge *g = caller->gauges;
        append(caller, g->message);
        caller->gauges = g->next;
        json_decref(g->message);
        free(g);
    }
}

/* --- waiting --------------------------------------------------------------------------------- */

enum cs_status cs_caller_wait(struct cs_caller *caller, const json_t *request, int64_t job,
                              struct cs_err *err)
{
    if (caller->n_waiters == MAX_WAITERS)
        return cs_fail(err, CS_LIMIT, "more than %d requests wait on this connection", MAX_WAITERS);
    struct waiter *w = calloc(1, sizeof(*w));
    if (!w)
        return cs_fail(err, CS_NO_MEMORY, "no memory to wait");
    caller->n_waiters++;
    w->job = job;
    w->request = json_incref((json_t *)(uintptr_t)request);
    w->next = caller->waiters;
    caller->waiters = w;
    return CS_OK;
}

void cs_callers_job_ended(struct cs_server *server, int64_t job, const json_t *job_object)
{
    for (struct cs_caller *caller = server->callers, *next; caller; caller = next) {
        next = caller->next;
        for (struct waiter **at = &caller->waiters; *at;) {
            struct waiter *w = *at;
            if (w->job != job) {
                at = &w->next;
                continue;
            }
            json_t *reply = cs_msg_reply(w->request);
            json_object_set(reply, "job", (json_t *)(uintptr_t)job_object);
            append(caller, reply);
            json_decref(reply);
            *at = w->next;
            caller->n_waiters--;
            json_decref(w->request);
            free(w);
        }
        pump(caller);
    }
}

/* Takes out one request that waits for the GPUs; NULL: none does. The caller's reference. */
static json_t *take_gpu_waiter(struct cs_server *server, struct cs_caller **out)
{
    for (struct cs_caller *caller = server->callers; caller; caller = caller->next)
        for (struct waiter **at = &caller->waiters, *w; (w = *at); at = &w->next) {
            if (w->job != 0)
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
void cs_callers_gpus_read(struct cs_server *server)
{
    struct cs_caller *caller;
    for (json_t *request; (request = take_gpu_waiter(server, &caller));) {
        caller->handle(server, caller, request);
        json_decref(request);
    }
}

/* --- bytes ----------------------------------------------------------------------------------- */

static void set_interest(struct cs_caller *caller)
{
    size_t waiting = evbuffer_get_length(caller->out);
    bool want_read = waiting < HIGH_BYTES && !caller->is_closing;
    if (want_read != caller->is_reading) {
        caller->is_reading = want_read;
        if (want_read)
            event_add(caller->read_event, NULL);
        else
            event_del(caller->read_event);
    }
    if ((waiting > 0) != caller->is_writing) {
        caller->is_writing = waiting > 0;
        if (caller->is_writing)
            event_add(caller->write_event, NULL);
        else
            event_del(caller->write_event);
    }
}

/* Only queue here; the write event sends, so that nobody's connection dies under a caller's feet.
 */
static void pump(struct cs_caller *caller)
{
    flush_events(caller);
    set_interest(caller);
}

static void end_with(struct cs_caller *caller, const struct cs_err *err)
{
    json_t *message = cs_msg_error(NULL, err);
    append(caller, message);
    json_decref(message);
    caller->is_closing = true;
}

/* The first line must be a console's hello. Another major is told so before anything else of its
 * message is looked at: it may have another schema. */
static void greet(struct cs_caller *caller, const json_t *message)
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
        cs_log(caller->server->log, CS_INFO, "conn.hello", CS_KV("error", (const char *)err.text));
        caller->is_closing = true;
        cs_caller_fail(caller, message, &err);
        return;
    }
    caller->is_greeted = true;
    event_del(caller->hello_timer);
    cs_line_reader_limit(caller->lines, 0);
    json_t *ok = cs_hello_ok_new(message, CORNSTARCH_VERSION, caller->server->node, getpid());
    cs_msg_set_str(ok, "role", cs_role_name(CS_ROLE_ADMIN)); /* one user's daemon: everything */
    cs_caller_reply(caller, ok);
}

static void take_message(struct cs_caller *caller, const json_t *message)
{
    struct cs_err err;
    if (!caller->is_greeted) {
        greet(caller, message);
    } else if (strcmp(cs_msg_type(message), "error") == 0) {
        cs_log(caller->server->log, CS_INFO,
               "conn.error"); /* an answer to an error would go on forever */
    } else if (cs_msg_check(message, &err) != CS_OK) {
        cs_caller_fail(caller, message, &err);
    } else if (cs_msg_is_reply(message)) {
        (void)cs_fail(&err, CS_INVALID, "%s: a daemon takes no replies", cs_msg_type(message));
        cs_caller_fail(caller, message, &err);
    } else {
        caller->handle(caller->server, caller, message);
    }
}

/* Lines that have arrived, as long as their answers are taken: a peer that asks and does not read
 * must not fill our memory. */
static void take_lines(struct cs_caller *caller)
{
    struct cs_err err;
    json_t *message = NULL;
    while (!caller->is_closing && evbuffer_get_length(caller->out) < HIGH_BYTES) {
        enum cs_status st = cs_line_next(caller->lines, &message, &err);
        if (st != CS_OK) {
            end_with(caller, &err); /* a peer that sends garbage is not worth guessing about */
            return;
        }
        if (!message)
            return;
        take_message(caller, message);
        json_decref(message);
    }
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_caller *caller = user;
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    (void)what;
    ssize_t n = read(fd, bytes, sizeof(bytes));
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        cs_caller_free(caller);
        return;
    }
    if (cs_line_feed(caller->lines, bytes, (size_t)n, &err) != CS_OK)
        end_with(caller, &err);
    take_lines(caller);
    pump(caller);
}

static void on_write(evutil_socket_t fd, short what, void *user)
{
    struct cs_caller *caller = user;
    (void)what;
    int n = evbuffer_write(caller->out, fd);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        cs_caller_free(caller);
        return;
    }
    if (n > 0)
        caller->taken_ns = cs_now_ns();
    if (caller->is_closing && evbuffer_get_length(caller->out) == 0) {
        cs_caller_free(caller);
        return;
    }
    take_lines(caller); /* those that waited for room */
    pump(caller);
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
    end_with(caller, &err);
    pump(caller);
}

void cs_callers_tick(struct cs_server *server)
{
    int64_t limit_ns = cs_now_ns() - (int64_t)STALL_S * 1000000000;
    for (struct cs_caller *caller = server->callers, *next; caller; caller = next) {
        size_t waiting = evbuffer_get_length(caller->out);
        next = caller->next;
        if ((waiting >= HIGH_BYTES || caller->is_closing) && caller->taken_ns < limit_ns) {
            cs_log(server->log, CS_WARN, "conn.stalled", CS_KV("bytes", waiting));
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

void cs_caller_accept(struct cs_server *server, int fd, cs_request_handler *handle)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1 ||
        (peer.uid != geteuid() && peer.uid != 0)) {
        refuse(server, fd, CS_REFUSED, "this daemon serves its own user only");
        return;
    }
    if (server->n_callers >= server->config.max_connections) {
        refuse(server, fd, CS_LIMIT, "too many connections; see --max-connections of cornstarchd");
        return;
    }
    struct cs_caller *caller = calloc(1, sizeof(*caller));
    CS_ASSERT(caller != NULL);
    int64_t timeout = server->config.hello_timeout_ns;
    struct timeval tv = {timeout / 1000000000, (timeout % 1000000000) / 1000};
    caller->server = server;
    caller->handle = handle;
    caller->fd = fd;
    caller->uid = peer.uid;
    caller->taken_ns = cs_now_ns();
    caller->out = evbuffer_new();
    caller->lines = cs_line_reader_new();
    caller->read_event = event_new(server->base, fd, EV_READ | EV_PERSIST, on_read, caller);
    caller->write_event = event_new(server->base, fd, EV_WRITE | EV_PERSIST, on_write, caller);
    caller->hello_timer = event_new(server->base, -1, 0, on_hello_timeout, caller);
    CS_ASSERT(caller->out && caller->lines && caller->read_event && caller->write_event &&
              caller->hello_timer);
    event_add(caller->hello_timer, &tv);
    caller->next = server->callers;
    server->callers = caller;
    server->n_callers++;
    set_interest(caller);
}
