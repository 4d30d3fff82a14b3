/* daemon start, stop, drain, status; proxy; raw. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "console/cli/cli.h"
#include "console/link/paths.h"
#include "console/link/start.h"
#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

static enum cs_status say(const struct cs_cmd *cmd, const char *text, struct cs_err *err)
{
    if (!cmd->v.json) {
        printf("%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

/* a connection to a daemon that runs already */
static enum cs_status connect_running(struct cs_cmd *cmd, struct cs_err *err)
{
    cmd->base = event_base_new();
    if (!cmd->base)
        return cs_fail(err, CS_NO_MEMORY, "no event loop");
    return cs_client_connect_running(cmd->base, cmd->v.socket, &cmd->client, err);
}

static void status_text(const struct cs_cmd *cmd, const json_t *node, char *out, size_t cap)
{
    char since[CS_ISO_CAP];
    cs_iso_print(since, sizeof(since), cs_msg_int(node, "started_ns", 0));
    snprintf(out, cap, "cornstarchd %s, process %lld, since %s, at %s%s",
             cs_msg_str(node, "version", "?"), (long long)cs_msg_int(node, "pid", 0), since,
             cs_client_path(cmd->client), cs_msg_bool(node, "draining", false) ? ", draining" : "");
}

static enum cs_status print_status(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *node = NULL;
    char text[CS_PATH_CAP + 200];
    CS_TRY(cs_client_call(cmd->client, cs_msg_new("node.show"), &node, err));
    status_text(cmd, node, text, sizeof(text));
    json_decref(node);
    return say(cmd, text, err);
}

enum cs_status cs_cmd_daemon_start(struct cs_cmd *cmd, struct cs_err *err)
{
    if (cmd->v.socket)
        return cs_fail(err, CS_USAGE,
                       "daemon start starts your own daemon: leave --socket out, or "
                       "set CORNSTARCH_RUNTIME_DIR");
    CS_TRY(cs_cmd_connect(cmd, err));
    return print_status(cmd, err);
}

enum cs_status cs_cmd_daemon_status(struct cs_cmd *cmd, struct cs_err *err)
{
    CS_TRY(connect_running(cmd, err));
    return print_status(cmd, err);
}

enum cs_status cs_cmd_daemon_stop(struct cs_cmd *cmd, struct cs_err *err)
{
    json_t *reply = NULL;
    CS_TRY(connect_running(cmd, err));
    CS_TRY(cs_client_call(cmd->client, cs_msg_new("daemon.stop"), &reply, err));
    json_decref(reply);
    /* the next command must not meet the daemon that is leaving */
    CS_TRY(cs_client_await_gone(cs_client_path(cmd->client), NULL, err));
    return say(cmd, "the daemon has ended; running jobs go on and are found again by the next one",
               err);
}

enum cs_status cs_cmd_daemon_drain(struct cs_cmd *cmd, struct cs_err *err)
{
    char text[160];
    json_t *reply = NULL;
    CS_TRY(connect_running(cmd, err));
    CS_TRY(cs_client_call(cmd->client, cs_msg_new("daemon.drain"), &reply, err));
    snprintf(text, sizeof(text), "the daemon takes no more jobs; %lld still run and pause",
             (long long)cs_msg_int(reply, "jobs", 0));
    json_decref(reply);
    return say(cmd, text, err);
}

/* --- proxy ------------------------------------------------------------------------------------ */

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
    ssize_t n = read(from, bytes, sizeof(bytes));
    if (n == -1 && (errno == EAGAIN || errno == EINTR))
        return CS_OK;
    if (n == -1)
        return cs_fail_errno(err, "reading");
    *open = n > 0;
    return write_fd(to, bytes, (size_t)n, err);
}

enum cs_status cs_cmd_proxy(struct cs_cmd *cmd, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    int fd = -1;
    bool has_input = true, has_socket = true;
    CS_TRY(cmd->v.socket ? cs_path(path, err, "%s", cmd->v.socket) : cs_client_socket(path, err));
    CS_TRY(cmd->v.socket ? cs_client_dial(path, &fd, err)
                         : cs_client_dial_or_start(path, &fd, err));
    enum cs_status st = CS_OK;
    while (st == CS_OK && has_socket) {
        struct pollfd p[] = {
            {.fd = fd,                 .events = POLLIN},
            {.fd = has_input ? 0 : -1, .events = POLLIN},
        };
        if (poll(p, 2, -1) == -1 && errno != EINTR)
            st = cs_fail_errno(err, "waiting");
        if (st == CS_OK && p[0].revents)
            st = pump(fd, 1, &has_socket, err);
        if (st == CS_OK && has_socket && p[1].revents) {
            st = pump(0, fd, &has_input, err);
            if (!has_input)
                shutdown(fd, SHUT_WR); /* what is under way still comes back */
        }
    }
    close(fd);
    return st;
}

/* --- raw -------------------------------------------------------------------------------------- */

static void print_message(void *user, const json_t *msg)
{
    struct cs_buf line = {0};
    (void)user;
    if (cs_msg_encode(msg, &line, NULL) == CS_OK)
        cs_cmd_print(&line);
    fflush(stdout);
    cs_buf_free(&line);
}

/* An answer is printed whatever it is; a refusal is the answer to that line, not our failure. */
static enum cs_status raw_line(struct cs_cmd *cmd, const char *line, size_t n, struct cs_err *err)
{
    json_t *request = NULL, *reply = NULL;
    struct cs_err refused = {.text = ""};
    CS_TRY(cs_line_parse(line, n, &request, err));
    enum cs_status st = cs_client_call(cmd->client, request, &reply, &refused);
    if (st == CS_PEER_GONE || st == CS_UNREACHABLE || st == CS_TIMEOUT) {
        *err = refused;
        return st;
    }
    if (st != CS_OK)
        reply = cs_msg_error(NULL, &refused);
    print_message(NULL, reply);
    json_decref(reply);
    return CS_OK;
}

enum cs_status cs_cmd_raw(struct cs_cmd *cmd, struct cs_err *err)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    CS_TRY(cs_cmd_connect(cmd, err));
    cs_client_on_message(cmd->client, print_message, NULL);
    enum cs_status st = CS_OK;
    while (st == CS_OK && (n = getline(&line, &cap, stdin)) > 0) {
        if (line[n - 1] == '\n')
            line[--n] = '\0';
        if (n > 0)
            st = raw_line(cmd, line, (size_t)n, err);
    }
    free(line);
    return st;
}
