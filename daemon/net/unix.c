/* Connects to sockets in the file system and listens on them. */
#include "net/unix.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 64 };

static enum cs_status address_of(const char *path, struct sockaddr_un *out, struct cs_err *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof out->sun_path)
        return cs_fail(err, CS_LIMIT, "the socket path %s is longer than %zu bytes", path,
                       sizeof out->sun_path - 1);
    memcpy(out->sun_path, path, strlen(path) + 1);
    return CS_OK;
}

enum cs_status cs_unix_connect(const char *path, bool may_block, const char *who, int *fd,
                               struct cs_err *err)
{
    struct sockaddr_un address;
    *fd = -1;
    CS_TRY(address_of(path, &address, err));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (may_block ? 0 : SOCK_NONBLOCK), 0);
    if (s == -1)
        return cs_fail_errno(err, "cannot make a socket");
    if (connect(s, (const struct sockaddr *)&address, sizeof address) == -1) {
        const bool is_nobody = errno == ENOENT || errno == ECONNREFUSED;
        enum cs_status status = is_nobody ? cs_fail(err, CS_UNREACHABLE, "no %s answers at %s: %s",
                                                    who, path, strerror(errno))
                                          : cs_fail_errno(err, "no %s answers at %s", who, path);
        close(s);
        return status;
    }
    if (may_block && fcntl(s, F_SETFL, O_NONBLOCK) == -1) {
        enum cs_status status = cs_fail_errno(err, "cannot set up a socket");
        close(s);
        return status;
    }
    *fd = s;
    return CS_OK;
}

enum cs_status cs_unix_listen(const char *path, int *fd, struct cs_err *err)
{
    struct sockaddr_un address;
    *fd = -1;
    CS_TRY(address_of(path, &address, err));
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s == -1)
        return cs_fail_errno(err, "cannot make a socket");
    unlink(path);
    const mode_t old = umask(0177);
    int rc = bind(s, (const struct sockaddr *)&address, sizeof address);
    umask(old);
    if (rc == -1 || listen(s, BACKLOG) == -1) {
        enum cs_status status = cs_fail_errno(err, "cannot listen on %s", path);
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
