/* Carries messages between the daemon and one runner. */
#include "server/runner_link.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

struct cs_runner_link {
    const struct cs_runner_link_calls *calls;
    void *user;
    int fd;
    struct event *read_event, *write_event;
    struct evbuffer *out;
    struct cs_line_reader *lines;
    bool is_busy, is_dead; /* inside a callback: freed at its end */
};

void cs_runner_link_close(struct cs_runner_link *link)
{
    if (!link)
        return;
    if (link->is_busy) {
        link->is_dead = true;
        return;
    }
    event_free(link->read_event);
    event_free(link->write_event);
    evbuffer_free(link->out);
    cs_line_reader_free(link->lines);
    close(link->fd);
    free(link);
}

static void lost(struct cs_runner_link *link)
{
    const struct cs_runner_link_calls *calls = link->calls;
    void *user = link->user;
    link->is_busy = false;
    cs_runner_link_close(link);
    calls->on_lost(user);
}

/* Messages that have arrived. A bad line is told and skipped: it must not take the others with it.
 */
static void deliver(struct cs_runner_link *link)
{
    struct cs_err err;
    json_t *message = NULL;
    while (!link->is_dead && !cs_line_reader_is_broken(link->lines)) {
        enum cs_status st = cs_line_next(link->lines, &message, &err);
        if (st == CS_OK && !message)
            return;
        if (st == CS_OK)
            st = cs_msg_check(message, &err);
        if (st == CS_OK)
            link->calls->on_message(link->user, message);
        else
            link->calls->on_bad(link->user, &err);
        json_decref(message);
    }
}

/* One read; false: nothing more for now. *is_lost: nothing more ever. */
static bool read_some(struct cs_runner_link *link, bool *is_lost)
{
    char bytes[CS_LINE_FEED_MAX];
    struct cs_err err;
    ssize_t n = recv(link->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    *is_lost = n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR);
    if (n <= 0)
        return false;
    if (cs_line_feed(link->lines, bytes, (size_t)n, &err) == CS_OK)
        deliver(link);
    *is_lost = cs_line_reader_is_broken(link->lines);
    return !*is_lost && !link->is_dead;
}

static void on_read(evutil_socket_t fd, short what, void *user)
{
    struct cs_runner_link *link = user;
    bool is_lost;
    (void)fd;
    (void)what;
    link->is_busy = true;
    read_some(link, &is_lost);
    link->is_busy = false;
    if (link->is_dead)
        cs_runner_link_close(link);
    else if (is_lost)
        lost(link);
}

void cs_runner_link_drain(struct cs_runner_link *link)
{
    bool is_lost;
    if (!link)
        return;
    link->is_busy = true;
    while (read_some(link, &is_lost))
        ;
    link->is_busy = false;
    if (link->is_dead)
        cs_runner_link_close(link);
}

static void on_write(evutil_socket_t fd, short what, void *user)
{
    struct cs_runner_link *link = user;
    (void)what;
    int n = evbuffer_write(link->out, fd);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        lost(link);
    else if (evbuffer_get_length(link->out) == 0)
        event_del(link->write_event);
}

void cs_runner_link_send(struct cs_runner_link *link, json_t *message)
{
    struct cs_buf line = {0};
    struct cs_err err;
    if (cs_msg_encode(message, &line, &err) == CS_OK)
        evbuffer_add(link->out, line.data, line.len);
    event_add(link->write_event, NULL);
    cs_buf_free(&line);
    json_decref(message);
}

enum cs_status cs_runner_link_open(struct event_base *base, const char *path,
                                   const struct cs_runner_link_calls *calls, void *user,
                                   struct cs_runner_link **out, struct cs_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return cs_fail(err, CS_LIMIT, "the socket path %s is too long; use a shorter --runtime-dir",
                       path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd == -1)
        return cs_fail_errno(err, "socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == -1) {
        enum cs_status st = errno == ENOENT || errno == ECONNREFUSED
                                ? cs_fail(err, CS_UNREACHABLE, "nobody answers on %s", path)
                                : cs_fail_errno(err, "connecting to %s", address.sun_path);
        close(fd);
        return st;
    }
    struct cs_runner_link *link = calloc(1, sizeof(*link));
    CS_ASSERT(link != NULL);
    link->calls = calls;
    link->user = user;
    link->fd = fd;
    link->out = evbuffer_new();
    link->lines = cs_line_reader_new();
    cs_line_reader_limit(link->lines, 0);
    link->read_event = event_new(base, fd, EV_READ | EV_PERSIST, on_read, link);
    link->write_event = event_new(base, fd, EV_WRITE | EV_PERSIST, on_write, link);
    CS_ASSERT(link->out && link->read_event && link->write_event);
    event_add(link->read_event, NULL);
    *out = link;
    return CS_OK;
}
