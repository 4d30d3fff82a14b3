/* proxy: the daemon's socket on standard input and output, for ssh. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/link/start.h"

static enum cs_status write_fd(int fd, const char *bytes, size_t n, struct cs_err *err)
{
    while (n > 0) {
        ssize_t w = write(fd, bytes, n);
        if (w == -1 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            poll(&p, 1, -1);
        } else if (w == -1 && errno != EINTR) {
            return cs_fail_errno(err, "passing bytes on");
        } else if (w > 0) {
            bytes += w;
            n -= (size_t)w;
        }
    }
    return CS_OK;
}

/* One direction once; *open false at its end. */
static enum cs_status pump(int from, int to, bool *open, struct cs_err *err)
{
    char bytes[65536];
    ssize_t n = read(from, bytes, sizeof bytes);
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return CS_OK;
    if (n == -1)
        return cs_fail_errno(err, "reading");
    *open = n > 0;
    return write_fd(to, bytes, (size_t)n, err);
}

static enum cs_status proxy(struct cs_cmd *cmd, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    int fd = -1;
    bool has_input = true, has_socket = true, is_started;
    CS_TRY(cmd->socket ? cs_client_dial(cmd->socket, &fd, err)
                       : cs_client_dial_or_start(path, &fd, &is_started, err));
    enum cs_status status = CS_OK;
    while (status == CS_OK && has_socket) {
        struct pollfd p[] = {
            {.fd = fd,                 .events = POLLIN},
            {.fd = has_input ? 0 : -1, .events = POLLIN},
        };
        if (poll(p, 2, -1) == -1 && errno != EINTR)
            status = cs_fail_errno(err, "waiting");
        if (status == CS_OK && p[0].revents)
            status = pump(fd, 1, &has_socket, err);
        if (status == CS_OK && has_socket && p[1].revents) {
            status = pump(0, fd, &has_input, err);
            if (!has_input)
                shutdown(fd, SHUT_WR); /* what is under way still comes back */
        }
    }
    close(fd);
    return status;
}

const struct cs_command cs_command_proxy = {
    .name = "proxy",
    .role = CS_ROLE_ADMIN,
    .usage = "[options]",
    .help = "the daemon's socket on standard input and output, for ssh",
    .run = proxy,
    CS_COMMAND_NO_OPTIONS,
};
