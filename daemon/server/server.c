/* Opens and runs the daemon: directories, locks, listening socket, signals, tick. */
#include "server/server.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/dirs.h"
#include "core/base/str.h"
#include "net/unix.h"
#include "server/caller.h"
#include "server/job_life.h"
#include "server/node.h"

enum { TICK_MS = 250 };

void cs_server_stop(struct cs_server *server)
{
    struct timeval soon = {0, 100000}; /* lets the answer to daemon.stop leave */
    server->is_stopping = true;
    event_base_loopexit(server->base, &soon);
}

static void on_accept(evutil_socket_t fd, short what, void *user)
{
    (void)what;
    struct cs_server *server = user;
    int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer != -1) {
        cs_caller_accept(server, peer);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
        cs_log(server->log, CS_ERROR, "daemon.accept",
               CS_KV("error", (const char *)strerror(errno)));
        event_del(server->listen_event); /* else the loop would spin on it */
        server->is_deaf = true;
    }
}

static void reopen_log(struct cs_server *server)
{
    if (!server->config.log_file)
        return;
    int fd = open(server->config.log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1) {
        cs_log(server->log, CS_ERROR, "log.reopen", CS_KV("error", (const char *)strerror(errno)));
        return;
    }
    int old = server->log_fd;
    server->log_fd = fd;
    cs_log_set_fd(server->log, old, fd);
    close(old);
}

/* Parse everything, then take over what may change while we run; a mistake changes nothing. */
static void reload(struct cs_server *server)
{
    struct cs_config fresh;
    struct cs_err err;
    bool wants_exit;
    if (cs_config_read(server->argc, server->argv, &fresh, &wants_exit, &err) != CS_OK) {
        cs_log(server->log, CS_ERROR, "config.reload", CS_KV("error", (const char *)err.text));
        return;
    }
    cs_config_take_reloadable(&server->config, &fresh);
    cs_config_free(&fresh);
    cs_log(server->log, CS_INFO, "config.reload");
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
    if (number == SIGHUP)
        reload(server);
    if (number == SIGHUP || number == SIGUSR1)
        reopen_log(server);
}

static bool has_work(const struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++)
        if (!cs_job_is_over(server->jobs[i]))
            return true;
    return false;
}

/* A private daemon ends by itself when nobody needs it any more. */
static void check_idle(struct cs_server *server)
{
    int64_t now = cs_now_ns();
    if (server->n_callers > 0 || has_work(server))
        server->idle_since_ns = now;
    if (server->config.idle_exit_ns == 0 ||
        now - server->idle_since_ns < server->config.idle_exit_ns)
        return;
    cs_log(server->log, CS_INFO, "daemon.idle");
    cs_server_stop(server);
}

/* Drained: every runner has ended. What is queued waits for the next daemon. */
static void check_drained(struct cs_server *server)
{
    for (size_t i = 0; i < server->n_jobs; i++)
        if (cs_job_is_live(server->jobs[i]) || server->jobs[i]->runner_pid)
            return;
    cs_server_stop(server);
}

static void on_tick(evutil_socket_t fd, short what, void *user)
{
    struct cs_server *server = user;
    (void)fd;
    (void)what;
    if (server->is_stopping)
        return;
    cs_jobs_tick(server);
    cs_callers_tick(server);
    cs_node_tick(server);
    if (server->is_deaf) {
        server->is_deaf = false;
        event_add(server->listen_event, NULL);
    }
    if (server->is_draining)
        check_drained(server);
    else
        check_idle(server);
}

/* Absolute, whatever directory the next daemon is started from. */
static enum cs_status make_absolute(char path[CS_PATH_CAP], struct cs_err *err)
{
    CS_TRY(cs_mkdirs(path, err));
    char *real = realpath(path, NULL);
    if (!real)
        return cs_fail_errno(err, "directory %s", path);
    enum cs_status status = cs_path(path, err, "%s", real);
    free(real);
    return status;
}

static enum cs_status choose_dirs(struct cs_server *server, struct cs_err *err)
{
    const struct cs_config *config = &server->config;
    if (config->runtime_dir) {
        CS_TRY(cs_path(server->runtime_dir, err, "%s", config->runtime_dir));
    } else {
        CS_TRY(cs_dir_runtime(server->runtime_dir, err));
    }
    if (config->state_dir)
        CS_TRY(cs_path(server->state_dir, err, "%s", config->state_dir));
    else
        CS_TRY(cs_dir_state(server->state_dir, err));
    CS_TRY(make_absolute(server->state_dir, err));
    CS_TRY(make_absolute(server->runtime_dir, err));
    return cs_path(server->socket_path, err, "%s/daemon.sock", server->runtime_dir);
}

/* One daemon per state directory (two would tear each other's jobs apart) and per runtime directory
 * (one would take the other's socket). A lock of the process, not of the open file: a child that
 * has not become a runner yet must not keep it when we are killed. */
static enum cs_status take_lock(const char *dir, int *fd, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/daemon.lock", dir));
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (*fd == -1)
        return cs_fail_errno(err, "opening %s", path);
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(*fd, F_SETLK, &whole) == -1)
        return cs_fail(err, CS_EXISTS, "another cornstarchd owns %s", dir);
    return CS_OK;
}

static enum cs_status take_locks(struct cs_server *server, struct cs_err *err)
{
    CS_TRY(take_lock(server->state_dir, &server->lock_fd, err));
    if (strcmp(server->state_dir, server->runtime_dir) == 0)
        return CS_OK;
    return take_lock(server->runtime_dir, &server->runtime_lock_fd, err);
}

/* Job directories that the history does not know keep their numbers. */
static enum cs_status reserve_numbers(struct cs_server *server, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    int64_t most = 0, number;
    CS_TRY(cs_path(path, err, "%s/jobs", server->state_dir));
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? CS_OK : cs_fail_errno(err, "reading %s", path);
    for (const struct dirent *entry; (entry = readdir(dir));)
        if (cs_str_to_i64(entry->d_name, &number) && number > most && number < INT32_MAX)
            most = number;
    closedir(dir);
    return cs_db_reserve_ids(server->db, most, err);
}

static enum cs_status listen_here(struct cs_server *server, struct cs_err *err)
{
    /* the file is ours: the lock is held */
    CS_TRY(cs_unix_listen(server->socket_path, &server->listen_fd, err));
    server->listen_event =
        event_new(server->base, server->listen_fd, EV_READ | EV_PERSIST, on_accept, server);
    event_add(server->listen_event, NULL);
    return CS_OK;
}

static void watch_signals(struct cs_server *server)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGCHLD, SIGHUP, SIGUSR1};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file over its limit is an error like a full disk */
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
    server->idle_since_ns = cs_now_ns();
    gethostname(server->node, sizeof(server->node) - 1);
    CS_TRY(choose_dirs(server, err));
    CS_TRY(take_locks(server, err));
    CS_TRY(cs_path(path, err, "%s/history.db", server->state_dir));
    CS_TRY(cs_db_open(path, &server->db, err));
    CS_TRY(reserve_numbers(server, err));
    server->base = event_base_new();
    if (!server->base)
        return cs_fail(err, CS_INTERNAL, "no event loop");
    watch_signals(server);
    CS_TRY(cs_node_open(server, err));
    CS_TRY(cs_jobs_load(server, err));
    server->tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
    event_add(server->tick, &tick);
    return listen_here(server, err);
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
    while (server->callers)
        cs_caller_free(server->callers); /* takes it off the list */
    cs_jobs_free(server);
    free_event(server->listen_event);
    free_event(server->tick);
    for (size_t i = 0; i < CS_ARRAY_LEN(server->signals); i++)
        free_event(server->signals[i]);
    if (server->listen_fd > 0) {
        unlink(server->socket_path);
        close(server->listen_fd);
    }
    cs_node_close(server); /* it has an event of the loop */
    if (server->base)
        event_base_free(server->base);
    cs_db_close(server->db);
    /* the runtime directory's last: consoles wait for it before they start the next daemon */
    const int locks[] = {server->lock_fd, server->runtime_lock_fd};
    for (size_t i = 0; i < CS_ARRAY_LEN(locks); i++)
        if (locks[i] > 0)
            close(locks[i]);
}
