/* Connects to sockets in the file system and listens on them. */
#include "net/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/system/io.h"

enum { BACKLOG = 64 };

/* An address holds 107 bytes; a longer path is reached through a descriptor of its directory. */
struct address {
    struct sockaddr_un at;
    int dir_fd; /* -1: not needed */
};

static enum cs_status address_of(const char *path, struct address *out, struct cs_err *err)
{
    char dir[CS_PATH_CAP];
    const size_t cap = sizeof out->at.sun_path;
    *out = (struct address){.at.sun_family = AF_UNIX, .dir_fd = -1};
    if (strlen(path) < cap) {
        memcpy(out->at.sun_path, path, strlen(path) + 1);
        return CS_OK;
    }
    const char *slash = strrchr(path, '/');
    if (slash == NULL || strlen(slash) > cap / 2)
        return cs_fail(err, CS_LIMIT, "the socket path %s is longer than %zu bytes", path, cap - 1);
    CS_TRY(cs_path(dir, err, "%.*s", (int)(slash - path), path));
    out->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (out->dir_fd == -1)
        return errno == ENOENT ? cs_fail(err, CS_UNREACHABLE, "there is no directory %s", dir)
                               : cs_fail_errno(err, "opening directory %s", dir);
    snprintf(out->at.sun_path, cap, "/proc/self/fd/%d/%s", out->dir_fd, slash + 1);
    return CS_OK;
}

static void free_address(const struct address *address)
{
    if (address->dir_fd != -1)
        close(address->dir_fd);
}

static enum cs_status connect_to(int s, const char *path, const char *who, struct cs_err *err)
{
    struct address address;
    CS_TRY(address_of(path, &address, err));
    const bool is_there = connect(s, (const struct sockaddr *)&address.at, sizeof address.at) == 0;
    const int error = errno;
    free_address(&address);
    if (is_there)
        return CS_OK;
    errno = error;
    return error == ENOENT || error == ECONNREFUSED
               ? cs_fail(err, CS_UNREACHABLE, "no %s answers at %s: %s", who, path, strerror(error))
               : cs_fail_errno(err, "no %s answers at %s", who, path);
}

enum cs_status cs_unix_connect(const char *path, bool may_block, const char *who, int *fd,
                               struct cs_err *err)
{
    *fd = -1;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (may_block ? 0 : SOCK_NONBLOCK), 0);
    if (s == -1)
        return cs_fail_errno(err, "cannot make a socket");
    const struct timeval longest = {.tv_sec = 10}; /* a listener that was stopped takes nobody */
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
    enum cs_status status = connect_to(s, path, who, err);
    if (status == CS_OK && may_block && fcntl(s, F_SETFL, O_NONBLOCK) == -1)
        status = cs_fail_errno(err, "cannot set up a socket");
    if (status != CS_OK) {
        close(s);
        return status;
    }
    *fd = s;
    return CS_OK;
}

static enum cs_status bind_to(int s, const char *path, struct cs_err *err)
{
    struct address address;
    CS_TRY(address_of(path, &address, err));
    unlink(path);
    const mode_t old = umask(0177);
    const int rc = bind(s, (const struct sockaddr *)&address.at, sizeof address.at);
    enum cs_status status = CS_OK;
    if (rc == -1 || listen(s, BACKLOG) == -1)
        status = cs_fail_errno(err, "cannot listen on %s", path);
    umask(old);
    free_address(&address);
    return status;
}

enum cs_status cs_unix_listen(const char *path, int *fd, struct cs_err *err)
{
    *fd = -1;
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s == -1)
        return cs_fail_errno(err, "cannot make a socket");
    enum cs_status status = bind_to(s, path, err);
    if (status != CS_OK) {
        close(s);
        return status;
    }
    *fd = s;
    return CS_OK;
}

bool cs_unix_peer(int fd, uid_t *uid)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == -1)
        return false;
    *uid = peer.uid;
    return true;
}
