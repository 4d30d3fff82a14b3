/* Listens on a socket in the file system, and knows its own file by device and number. */
#include "net/listener.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "net/unix.h"

struct cs_listener {
    struct event_base *base;
    cs_listener_peer *on_peer;
    void *user;
    int fd;
    struct event *event;
    char path[CS_PATH_CAP];
    dev_t dev; /* of the file that was made at path */
    ino_t ino;
    bool is_deaf; /* out of descriptors */
};

static void on_accept(evutil_socket_t fd, short what, void *user)
{
    struct cs_listener *l = user;
    (void)what;
    const int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer == -1 && errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS)
        return; /* it left again */
    if (peer == -1) {
        event_del(l->event); /* else the loop would spin on it */
        l->is_deaf = true;
    }
    l->on_peer(l->user, peer);
}

static void shut(struct cs_listener *l)
{
    if (l->event != NULL)
        event_free(l->event);
    if (l->fd != -1)
        close(l->fd);
    l->event = NULL;
    l->fd = -1;
}

enum cs_status cs_listener_move(struct cs_listener *l, const char *path, struct cs_err *err)
{
    struct stat sb;
    int fd;
    char copy[CS_PATH_CAP];
    CS_TRY(cs_path(copy, err, "%s", path));
    CS_TRY(cs_unix_listen(copy, &fd, err));
    if (lstat(copy, &sb) == -1) {
        enum cs_status status = cs_fail_errno(err, "looking at %s", copy);
        close(fd);
        return status;
    }
    shut(l);
    memcpy(l->path, copy, sizeof copy);
    l->fd = fd;
    l->dev = sb.st_dev;
    l->ino = sb.st_ino;
    l->is_deaf = false;
    l->event = event_new(l->base, fd, EV_READ | EV_PERSIST, on_accept, l);
    CS_ASSERT(l->event != NULL);
    event_add(l->event, NULL);
    return CS_OK;
}

enum cs_status cs_listener_open(struct event_base *base, const char *path,
                                cs_listener_peer *on_peer, void *user, struct cs_listener **out,
                                struct cs_err *err)
{
    struct cs_listener *l = calloc(1, sizeof *l);
    if (l == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a socket");
    *l = (struct cs_listener){.base = base, .on_peer = on_peer, .user = user, .fd = -1};
    enum cs_status status = cs_listener_move(l, path, err);
    if (status != CS_OK) {
        free(l);
        return status;
    }
    *out = l;
    return CS_OK;
}

const char *cs_listener_path(const struct cs_listener *l)
{
    return l->path;
}

bool cs_listener_is_there(const struct cs_listener *l)
{
    struct stat sb;
    return lstat(l->path, &sb) == 0 && sb.st_dev == l->dev && sb.st_ino == l->ino;
}

void cs_listener_tick(struct cs_listener *l)
{
    if (!l->is_deaf)
        return;
    l->is_deaf = false;
    event_add(l->event, NULL);
}

void cs_listener_close(struct cs_listener *l)
{
    if (l == NULL)
        return;
    if (cs_listener_is_there(l))
        unlink(l->path);
    shut(l);
    free(l);
}
