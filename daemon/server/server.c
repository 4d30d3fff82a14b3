/* See server.h: directories, lock, listener, signals, tick. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "server/conn.h"
#include "server/job.h"

enum { TICK_MS = 250, BACKLOG = 64 };

void cs_server_stop(struct cs_server *server)
{
    struct timeval soon = {0, 100000}; /* lets the answer to daemon.stop leave */
    server->is_stopping = true;
    event_base_loopexit(server->base, &soon);
}

static void on_accept(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer != -1)
        cs_conn_accept(user, peer);
}

static void on_signal(evutil_socket_t number, short what, void *user)
{
    struct cs_server *server = user;
    (void)what;
    if (number == SIGCHLD) {
        cs_jobs_reap(server);
        return;
    }
    cs_log(server->log, CS_INFO, "daemon.signal", CS_KV("signal", (int)number));
    if (number == SIGTERM || number == SIGINT)
        cs_server_stop(server);
}

static void on_tick(evutil_socket_t fd, short what, void *user)
{
    struct cs_server *server = user;
    (void)fd;
    (void)what;
    cs_jobs_tick(server);
    if (!server->is_draining || server->is_stopping)
        return;
    for (size_t i = 0; i < server->n_jobs; i++)
        if (!cs_job_is_over(server->jobs[i]) && strcmp(server->jobs[i]->row.state, "QUEUED") != 0)
            return;
    cs_server_stop(server);
}

static enum cs_status choose_dirs(struct cs_server *server, struct cs_err *err)
{
    const struct cs_config *config = &server->config;
    if (config->runtime_dir) {
        CS_TRY(cs_path(server->runtime_dir, err, "%s", config->runtime_dir));
        CS_TRY(cs_mkdirs(server->runtime_dir, err));
    } else {
        CS_TRY(cs_dir_runtime(server->runtime_dir, err));
    }
    if (config->state_dir)
        CS_TRY(cs_path(server->state_dir, err, "%s", config->state_dir));
    else
        CS_TRY(cs_dir_state(server->state_dir, err));
    CS_TRY(cs_mkdirs(server->state_dir, err));
    return cs_path(server->socket_path, err, "%s/daemon.sock", server->runtime_dir);
}

/* One daemon per state directory: two would tear each other's jobs apart. */
static enum cs_status take_lock(struct cs_server *server, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/daemon.lock", server->state_dir));
    server->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (server->lock_fd == -1)
        return cs_fail_errno(err, "opening %s", path);
    if (flock(server->lock_fd, LOCK_EX | LOCK_NB) == -1)
        return cs_fail(err, CS_EXISTS, "another cornstarchd owns %s", server->state_dir);
    return CS_OK;
}

static enum cs_status listen_unix(struct cs_server *server, struct cs_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(server->socket_path) >= sizeof(address.sun_path))
        return cs_fail(err, CS_LIMIT, "socket path %s is longer than %zu bytes; use --runtime-dir",
                       server->socket_path, sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, server->socket_path);
    unlink(server->socket_path); /* ours: the lock is held */
    server->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t old = umask(0177);
    int rc = server->listen_fd == -1
                 ? -1
                 : bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address));
    umask(old);
    if (rc == -1 || listen(server->listen_fd, BACKLOG) == -1)
        return cs_fail_errno(err, "listening on %s", server->socket_path);
    server->listen_event =
        event_new(server->base, server->listen_fd, EV_READ | EV_PERSIST, on_accept, server);
    event_add(server->listen_event, NULL);
    return CS_OK;
}

static void watch_signals(struct cs_server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGCHLD, SIGHUP};
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < CS_ARRAY_LEN(numbers); i++) {
        server->signals[i] = evsignal_new(server->base, numbers[i], on_signal, server);
        event_add(server->signals[i], NULL);
    }
}

enum cs_status cs_server_open(struct cs_server *server, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct timeval tick = {0, TICK_MS * 1000};
    server->started_ns = cs_wall_ns();
    gethostname(server->node, sizeof(server->node) - 1);
    CS_TRY(choose_dirs(server, err));
    CS_TRY(take_lock(server, err));
    CS_TRY(cs_path(path, err, "%s/history.db", server->state_dir));
    CS_TRY(cs_db_open(path, &server->db, err));
    server->base = event_base_new();
    if (!server->base)
        return cs_fail(err, CS_INTERNAL, "no event loop");
    watch_signals(server);
    CS_TRY(cs_jobs_load(server, err));
    server->tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
    event_add(server->tick, &tick);
    return listen_unix(server, err);
}

enum cs_status cs_server_run(struct cs_server *server, struct cs_err *err)
{
    cs_log(server->log, CS_INFO, "daemon.start", CS_KV("version", CORNSTARCH_VERSION),
           CS_KV("socket", (const char *)server->socket_path),
           CS_KV("state", (const char *)server->state_dir));
    if (event_base_dispatch(server->base) == -1)
        return cs_fail(err, CS_INTERNAL, "the event loop failed");
    cs_log(server->log, CS_INFO, "daemon.stop");
    return CS_OK;
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

void cs_server_close(struct cs_server *server)
{
    while (server->conns)
        cs_conn_free(server->conns); /* takes it off the list */
    cs_jobs_free(server);
    free_event(server->listen_event);
    free_event(server->tick);
    for (size_t i = 0; i < CS_ARRAY_LEN(server->signals); i++)
        free_event(server->signals[i]);
    if (server->listen_fd > 0) {
        unlink(server->socket_path);
        close(server->listen_fd);
    }
    if (server->base)
        event_base_free(server->base);
    cs_db_close(server->db);
    if (server->lock_fd > 0)
        close(server->lock_fd);
}
