/* Opens and runs the daemon: directories, locks, listening socket, signals, tick. */
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "server/callers/caller.h"
#include "server/life/history.h"
#include "server/life/job_life.h"
#include "server/node/node.h"
#include "server/place.h"
#include "server/records/db.h"
#include "server/scrape/scrape.h"

enum { TICK_MS = 250 };

void cs_server_stop(struct cs_server *server)
{
    struct timeval soon = {0, 100000}; /* lets the answer to daemon.stop leave */
    if (!server->is_stopping)
        cs_callers_end(server);
    server->is_stopping = true;
    event_base_loopexit(server->base, &soon);
}

static void on_peer(void *user, int fd)
{
    struct cs_server *server = user;
    if (fd != -1)
        cs_caller_accept(server, fd);
    else
        cs_log(server->log, CS_ERROR, "daemon.accept",
               CS_KV("error", (const char *)strerror(errno)));
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
    if (number == SIGUSR1)
        cs_place_tick(server);
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
    cs_place_tick(server);
    if (server->is_draining)
        check_drained(server);
    else
        check_idle(server);
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
    struct timeval tick = {0, TICK_MS * 1000};
    server->started_ns = cs_wall_ns();
    server->idle_since_ns = cs_now_ns();
    gethostname(server->node, sizeof(server->node) - 1);
    CS_TRY(cs_place_choose(server, err));
    CS_TRY(cs_place_claim(server, err));
    CS_TRY(cs_history_open(server, err));
    server->base = event_base_new();
    if (!server->base)
        return cs_fail(err, CS_INTERNAL, "no event loop");
    watch_signals(server);
    CS_TRY(cs_node_open(server, err));
    CS_TRY(cs_jobs_load(server, err));
    server->tick = event_new(server->base, -1, EV_PERSIST, on_tick, server);
    event_add(server->tick, &tick);
    CS_TRY(cs_scrape_open(server, err));
    return cs_place_listen(server, on_peer, err);
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
    free_event(server->tick);
    for (size_t i = 0; i < CS_ARRAY_LEN(server->signals); i++)
        free_event(server->signals[i]);
    cs_listener_close(server->listener);
    cs_scrape_close(server);
    cs_node_close(server); /* it has an event of the loop */
    if (server->base)
        event_base_free(server->base);
    cs_db_close(server->db);
    cs_claim_drop(&server->state_claim);
    cs_claim_drop(&server->runtime_claim);
}
