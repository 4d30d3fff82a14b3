/* Lines over a socket on the event loop; see conn.h. */
#include "runner/conn.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

struct cs_conn {
    int fd;
    struct event *read_event, *write_event;
    struct evbuffer *out;
    struct cs_line_reader *reader;
    const struct cs_conn_calls *calls;
    void *user;
    bool is_closed;
};

static void deliver(struct cs_conn *conn)
{
    for (;;) {
        json_t *msg = NULL;
        struct cs_err err = {0};
        enum cs_status status = cs_line_next(conn->reader, &msg, &err);
        if (status == CS_OK && !msg)
            return;
        if (status == CS_OK)
            status = cs_msg_check(msg, &err);
        if (status == CS_OK)
            conn->calls->on_message(conn->user, msg);
        else
            conn->calls->on_bad(conn->user, &err);
        json_decref(msg);
        if (cs_line_reader_is_broken(conn->reader))
            return;
    }
}

/* One read; false when there is nothing (more) to read for now. */
static bool read_some(struct cs_conn *conn)
{
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err = {0};
    ssize_t n = recv(conn->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return errno == EINTR;
    if (n <= 0) {
        conn->is_closed = true;
        return false;
    }
    if (cs_line_feed(conn->reader, bytes, (size_t)n, &err) != CS_OK)
        conn->calls->on_bad(conn->user, &err);
    else
        deliver(conn);
    conn->is_closed = cs_line_reader_is_broken(conn->reader);
    return !conn->is_closed;
}

static void close_now(struct cs_conn *conn)
{
    event_del(conn->read_event);
    event_del(conn->write_event);
    conn->calls->on_closed(conn->user);
}

static void on_readable(evutil_socket_t fd, short what, void *user)
{
    (void)fd;
    (void)what;
    struct cs_conn *conn = user;
    read_some(conn);
    if (conn->is_closed)
        close_now(conn);
}

static void on_writable(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    struct cs_conn *conn = user;
    if (evbuffer_get_length(conn->out) && evbuffer_write(conn->out, fd) < 0 && errno != EAGAIN &&
        errno != EINTR) {
        /* the peer is gone: what it still said is read first, its end of stream closes */
        evbuffer_drain(conn->out, evbuffer_get_length(conn->out));
    }
    if (evbuffer_get_length(conn->out) == 0)
        event_del(conn->write_event);
}

struct cs_conn *cs_conn_new(struct event_base *base, int fd, const struct cs_conn_calls *calls,
                            void *user)
{
    struct cs_conn *conn = calloc(1, sizeof *conn);
    CS_ASSERT(conn);
    evutil_make_socket_nonblocking(fd);
    conn->fd = fd;
    conn->calls = calls;
    conn->user = user;
    conn->reader = cs_line_reader_new();
    cs_line_reader_limit(conn->reader, 0);
    conn->out = evbuffer_new();
    conn->read_event = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, conn);
    conn->write_event = event_new(base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
    CS_ASSERT(conn->out && conn->read_event && conn->write_event);
    event_add(conn->read_event, NULL);
    return conn;
}

void cs_conn_free(struct cs_conn *conn)
{
    if (!conn)
        return;
    event_free(conn->read_event);
    event_free(conn->write_event);
    evbuffer_free(conn->out);
    cs_line_reader_free(conn->reader);
    close(conn->fd);
    free(conn);
}

void cs_conn_send_bytes(struct cs_conn *conn, const void *bytes, size_t n)
{
    if (conn->is_closed)
        return;
    CS_ASSERT(evbuffer_add(conn->out, bytes, n) == 0);
    event_add(conn->write_event, NULL);
}

void cs_conn_send(struct cs_conn *conn, const json_t *msg)
{
    struct cs_buf line = {0};
    if (cs_msg_encode(msg, &line, NULL) == CS_OK)
        cs_conn_send_bytes(conn, line.data, line.len);
    cs_buf_free(&line);
}

size_t cs_conn_queued(const struct cs_conn *conn)
{
    return evbuffer_get_length(conn->out);
}

void cs_conn_drain(struct cs_conn *conn)
{
    while (!conn->is_closed && read_some(conn))
        ;
}
