/* Cuts a stream into messages and queues what is sent. take_bytes and give_bytes are the only
 * functions that touch the socket: another transport replaces these two. */
#include "net/conn.h"

#include <errno.h>
#include <event2/buffer.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

/* is_ended: why holds the reason and nothing is read or written any more; lines that came before
 * are still delivered, then on_closed is called (is_told). is_mute: the socket takes nothing any more,
 * what is sent is dropped. depth counts the call-backs that are
 * under way: freed inside one, the connection is destroyed when the outermost returns. */
struct cs_conn {
    int fd;
    struct event *read_event, *write_event; /* NULL: without an event loop */
    struct evbuffer *out;
    struct cs_line_reader *lines;
    struct cs_conn_options options;
    const struct cs_conn_calls *calls;
    void *user;
    struct cs_conn_stats stats;
    struct cs_err why;
    bool is_finishing, is_ended, is_told, is_held, is_full, is_mute, is_freed;
    bool is_room_due; /* there is room, the owner has not been told yet */
    int depth;
};

/* --- the socket ------------------------------------------------------------------------------- */

enum { IO_NOTHING = -1, IO_FAILED = -2 }; /* nothing for now; errno says why */

/* bytes read, 0 at the end of the stream */
static ssize_t take_bytes(struct cs_conn *conn, void *bytes, size_t cap)
{
    for (;;) {
        ssize_t n = recv(conn->fd, bytes, cap, MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return errno == EAGAIN || errno == EWOULDBLOCK ? IO_NOTHING : IO_FAILED;
    }
}

/* bytes of the queue that the socket took */
static ssize_t give_bytes(struct cs_conn *conn)
{
    struct evbuffer_iovec piece[8];
    struct iovec at[CS_ARRAY_LEN(piece)];
    int n = evbuffer_peek(conn->out, -1, NULL, piece, (int)CS_ARRAY_LEN(piece));
    n = n < (int)CS_ARRAY_LEN(piece) ? n : (int)CS_ARRAY_LEN(piece);
    for (int i = 0; i < n; i++)
        at[i] = (struct iovec){piece[i].iov_base, piece[i].iov_len};
    const struct msghdr message = {.msg_iov = at, .msg_iovlen = (size_t)n};
    for (;;) {
        ssize_t sent = sendmsg(conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0)
            return sent;
        if (errno != EINTR)
            return errno == EAGAIN || errno == EWOULDBLOCK ? IO_NOTHING : IO_FAILED;
    }
}

/* --- life ------------------------------------------------------------------------------------- */

static void destroy(struct cs_conn *conn)
{
    if (conn->read_event != NULL)
        event_free(conn->read_event);
    if (conn->write_event != NULL)
        event_free(conn->write_event);
    evbuffer_free(conn->out);
    cs_line_reader_free(conn->lines);
    close(conn->fd);
    free(conn);
}

/* Does anybody take messages now? */
static bool can_deliver(const struct cs_conn *conn)
{
    return !conn->is_freed && !conn->is_finishing && !conn->is_held && !conn->is_full;
}

static bool can_read(const struct cs_conn *conn)
{
    return !conn->is_ended && can_deliver(conn);
}

static void arm(struct event *event, bool is_wanted)
{
    if (event == NULL)
        return;
    if (is_wanted)
        event_add(event, NULL);
    else
        event_del(event);
}

static void wake(struct cs_conn *conn)
{
    if (conn->read_event != NULL)
        event_active(conn->read_event, EV_READ, 0);
}

static bool has_news_out(const struct cs_conn *conn)
{
    return cs_conn_queued(conn) > 0 || conn->is_finishing || conn->is_room_due;
}

/* What the event loop is to watch. That the connection has ended is told by it, too. */
static void watch(struct cs_conn *conn)
{
    arm(conn->read_event, can_read(conn));
    arm(conn->write_event, !conn->is_ended && !conn->is_freed && has_news_out(conn));
    if (conn->is_ended && !conn->is_told && !conn->is_held && !conn->is_freed)
        wake(conn);
}

static void end_with(struct cs_conn *conn, const struct cs_err *why)
{
    if (conn->is_ended)
        return;
    conn->is_ended = true;
    conn->is_full = false;
    conn->why = *why;
    evbuffer_drain(conn->out, evbuffer_get_length(conn->out));
}

static void leave(struct cs_conn *conn)
{
    if (--conn->depth == 0 && conn->is_freed)
        destroy(conn);
}

void cs_conn_free(struct cs_conn *conn)
{
    if (conn == NULL)
        return;
    conn->is_freed = true;
    if (conn->depth > 0)
        watch(conn);
    else
        destroy(conn);
}

/* --- in --------------------------------------------------------------------------------------- */

static void tell_bad(struct cs_conn *conn, const struct cs_err *err)
{
    conn->stats.bad_lines++;
    if (conn->calls->on_bad != NULL)
        conn->calls->on_bad(conn->user, err);
}

/* The reader holds no more of a line that is too long: nothing after it can be understood. */
static void refuse_line(struct cs_conn *conn, const struct cs_err *err)
{
    tell_bad(conn, err);
    if (!conn->is_finishing)
        end_with(conn, err);
}

/* Whole lines, as long as somebody takes them. */
static void deliver(struct cs_conn *conn)
{
    while (can_deliver(conn)) {
        json_t *msg = NULL;
        struct cs_err err = {0};
        enum cs_status status = cs_line_next(conn->lines, &msg, &err);
        if (status == CS_OK && msg == NULL)
            return;
        if (cs_line_reader_is_broken(conn->lines)) {
            if (!conn->is_ended)
                refuse_line(conn, &err);
            return;
        }
        if (status == CS_OK && conn->options.checks_schema)
            status = cs_msg_check(msg, &err);
        conn->stats.lines_in++;
        if (status == CS_OK)
            conn->calls->on_message(conn->user, msg);
        else
            tell_bad(conn, &err);
        json_decref(msg);
    }
}

static void end_of_stream(struct cs_conn *conn)
{
    struct cs_err why = {0};
    const bool is_torn = cs_line_reader_pending(conn->lines) > 0;
    (void)cs_fail(&why, CS_PEER_GONE, "the peer closed the connection%s",
                  is_torn ? " in the middle of a line" : "");
    end_with(conn, &why);
}

/* One read and what it completes; false when there is nothing (more) to read for now. */
static bool read_some(struct cs_conn *conn)
{
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err = {0};
    ssize_t n = take_bytes(conn, bytes, sizeof bytes);
    if (n == IO_NOTHING)
        return false;
    if (n == IO_FAILED) {
        (void)cs_fail(&err, CS_PEER_GONE, "the peer is gone: %s", strerror(errno));
        end_with(conn, &err);
    } else if (n == 0) {
        end_of_stream(conn);
    } else {
        conn->stats.bytes_in += (uint64_t)n;
        if (cs_line_feed(conn->lines, bytes, (size_t)n, &err) == CS_OK)
            deliver(conn);
        else
            refuse_line(conn, &err);
    }
    return can_read(conn);
}

void cs_conn_drain(struct cs_conn *conn)
{
    conn->depth++;
    deliver(conn);
    while (can_read(conn) && read_some(conn))
        ;
    if (!conn->is_freed)
        watch(conn);
    leave(conn);
}

void cs_conn_line_max(struct cs_conn *conn, size_t bytes)
{
    cs_line_reader_limit(conn->lines, bytes);
}

void cs_conn_hold(struct cs_conn *conn, bool is_held)
{
    conn->is_held = is_held;
    watch(conn);
    if (!is_held && cs_line_reader_pending(conn->lines) > 0)
        wake(conn);
}

/* --- out -------------------------------------------------------------------------------------- */

size_t cs_conn_queued(const struct cs_conn *conn)
{
    return evbuffer_get_length(conn->out);
}

bool cs_conn_is_full(const struct cs_conn *conn)
{
    return conn->is_full;
}

void cs_conn_send_line(struct cs_conn *conn, const void *line, size_t n)
{
    if (conn->is_ended || conn->is_mute || conn->is_freed || conn->is_finishing)
        return;
    if (cs_conn_queued(conn) == 0)
        conn->stats.taken_ns = cs_now_ns();
    CS_ASSERT(evbuffer_add(conn->out, line, n) == 0);
    conn->stats.lines_out++;
    const size_t queued = cs_conn_queued(conn);
    if (queued > conn->stats.most_queued)
        conn->stats.most_queued = queued;
    if (conn->options.high > 0 && queued >= conn->options.high)
        conn->is_full = true;
    watch(conn);
}

enum cs_status cs_conn_send(struct cs_conn *conn, const json_t *msg, struct cs_err *err)
{
    struct cs_buf line = {0};
    enum cs_status status = cs_msg_encode(msg, &line, err);
    if (status == CS_OK)
        cs_conn_send_line(conn, line.data, line.len);
    cs_buf_free(&line);
    return status;
}

/* The peer takes nothing any more. What it still said is read, its end of stream is the end. */
static void fail_write(struct cs_conn *conn)
{
    conn->is_mute = true;
    conn->is_full = false;
    evbuffer_drain(conn->out, evbuffer_get_length(conn->out));
}

/* Bytes of the queue to the socket; false when it takes no more for now. */
static bool push(struct cs_conn *conn)
{
    ssize_t n = give_bytes(conn);
    if (n == IO_FAILED)
        fail_write(conn);
    if (n <= 0)
        return false;
    evbuffer_drain(conn->out, (size_t)n);
    conn->stats.bytes_out += (uint64_t)n;
    conn->stats.taken_ns = cs_now_ns();
    return true;
}

static bool has_room(const struct cs_conn *conn)
{
    return conn->options.low == 0 || cs_conn_queued(conn) < conn->options.low;
}

static void write_some(struct cs_conn *conn)
{
    if (cs_conn_queued(conn) > 0 && !push(conn) && !conn->is_mute)
        return;
    if (cs_conn_queued(conn) == 0 && conn->is_finishing) {
        end_with(conn, &(struct cs_err){.status = CS_OK});
        return;
    }
    if (!has_room(conn))
        return;
    conn->is_full = conn->is_room_due = false;
    if (conn->calls->on_room != NULL && !conn->is_freed)
        conn->calls->on_room(conn->user);
    deliver(conn); /* lines that waited for room */
}

/* why it has ended */
static enum cs_status reason(const struct cs_conn *conn, struct cs_err *err)
{
    if (conn->why.status == CS_OK)
        return cs_fail(err, CS_STATE, "the connection was closed");
    return cs_fail(err, conn->why.status, "%s", conn->why.text);
}

enum cs_status cs_conn_flush(struct cs_conn *conn, struct cs_err *err)
{
    conn->depth++;
    while (!conn->is_ended && cs_conn_queued(conn) > 0 && push(conn))
        ;
    if (conn->is_full && has_room(conn)) { /* nobody else would notice */
        conn->is_full = false;
        conn->is_room_due = true;
    }
    enum cs_status status = conn->is_ended  ? reason(conn, err)
                            : conn->is_mute ? cs_fail(err, CS_PEER_GONE, "the peer is gone")
                                            : CS_OK;
    if (!conn->is_freed)
        watch(conn);
    leave(conn);
    return status;
}

void cs_conn_finish(struct cs_conn *conn)
{
    conn->is_finishing = true;
    conn->is_full = false;
    watch(conn);
}

/* --- the event loop --------------------------------------------------------------------------- */

/* After each turn: say that it is over, once all messages are out; else watch on. */
static void settle(struct cs_conn *conn)
{
    if (conn->is_ended && !conn->is_told && !conn->is_held && !conn->is_freed) {
        conn->is_told = true;
        arm(conn->read_event, false);
        arm(conn->write_event, false);
        conn->calls->on_closed(conn->user, &conn->why);
    } else if (!conn->is_freed) {
        watch(conn);
    }
    leave(conn);
}

static void on_readable(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    (void)fd;
    (void)what;
    conn->depth++;
    deliver(conn);
    if (can_read(conn))
        read_some(conn);
    settle(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *user)
{
    struct cs_conn *conn = user;
    (void)fd;
    (void)what;
    conn->depth++;
    write_some(conn);
    settle(conn);
}

/* Waits for the socket once. A peer that is gone is always reported, whatever was asked for: each
 * turn must read or write then, or the caller would be called at once again, for ever. */
static enum cs_status wait_once(struct cs_conn *conn, int timeout_ms, struct cs_err *err)
{
    const bool writes = has_news_out(conn);
    struct pollfd p = {.fd = conn->fd,
                       .events = (short)((can_read(conn) ? POLLIN : 0) | (writes ? POLLOUT : 0))};
    const int n = poll(&p, 1, timeout_ms);
    if (n == 0)
        return cs_fail(err, CS_TIMEOUT, "the peer does not answer");
    if (n < 0)
        return CS_OK; /* a signal: the caller looks at its time */
    if (writes && p.revents != 0)
        write_some(conn);
    if ((p.revents & (POLLIN | POLLHUP | POLLERR)) != 0 && can_read(conn))
        read_some(conn);
    return CS_OK;
}

enum cs_status cs_conn_wait(struct cs_conn *conn, int timeout_ms, struct cs_err *err)
{
    enum cs_status status = CS_OK;
    conn->depth++;
    const uint64_t before = conn->stats.lines_in;
    deliver(conn);
    if (conn->stats.lines_in == before && !conn->is_ended)
        status = conn->is_held ? cs_fail(err, CS_STATE, "the connection is held")
                               : wait_once(conn, timeout_ms, err);
    if (conn->is_ended && conn->stats.lines_in == before)
        status = reason(conn, err);
    if (!conn->is_freed)
        watch(conn);
    leave(conn);
    return status;
}

struct cs_conn *cs_conn_new(int fd, const struct cs_conn_options *options,
                            const struct cs_conn_calls *calls, void *user)
{
    struct cs_conn *conn = calloc(1, sizeof *conn);
    CS_ASSERT(conn != NULL);
    evutil_make_socket_nonblocking(fd);
    conn->fd = fd;
    conn->options = *options;
    conn->calls = calls;
    conn->user = user;
    conn->stats.taken_ns = cs_now_ns();
    conn->lines = cs_line_reader_new();
    cs_line_reader_limit(conn->lines, options->line_max);
    conn->out = evbuffer_new();
    CS_ASSERT(conn->out != NULL);
    if (options->base != NULL) {
        conn->read_event = event_new(options->base, fd, EV_READ | EV_PERSIST, on_readable, conn);
        conn->write_event = event_new(options->base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
        CS_ASSERT(conn->read_event != NULL && conn->write_event != NULL);
    }
    watch(conn);
    return conn;
}

const struct cs_conn_stats *cs_conn_stats(const struct cs_conn *conn)
{
    return &conn->stats;
}
