/* Lua beside the screen: one thread has the state and its own connection to a daemon that runs (the screen starts one). Questions go in one
 * at a time, answers wait in a list until the screen takes them; a descriptor says that there are some. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "console/cli/shared/repl/repl.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "core/wire/schema.h"
#include "core/wire/wire.h"
#include "lua/help.h"

enum {
    MOST_WAITING = 2 * CS_LUA_LINES /* answers; a loop that prints waits for nobody */,
    END_S = 2
};

struct waiting {
    enum cs_lua_answer what;
    char *text;
};

struct engine {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    int fd;
    atomic_bool stop; /* what runs */

    /* under the lock */
    enum cs_lua_want want;
    char *text; /* of want */
    struct waiting waiting[MOST_WAITING];
    int n_waiting, n_lost;
    bool is_over, has_ended;

    /* of the thread */
    char socket[CS_PATH_CAP]; /* "" the user's own daemon */
    bool is_read_only;
    struct cs_client *client;
    struct cs_lua *lua;
    struct cs_repl repl;
};

/* --- answers ---------------------------------------------------------------------------------- */

static void put(struct engine *e, enum cs_lua_answer what, const char *text)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&e->lock);
    if (e->n_waiting < MOST_WAITING) {
        e->waiting[e->n_waiting] = (struct waiting){what, strdup(text)};
        CS_ASSERT(e->waiting[e->n_waiting].text);
        e->n_waiting++;
    } else {
        e->n_lost++;
    }
    pthread_mutex_unlock(&e->lock);
    (void)!write(e->fd, &one, sizeof one);
}

static void out(void *user, enum cs_lua_answer what, const char *text)
{
    put(user, what, text);
}

static void print(void *user, const char *text)
{
    put(user, CS_LUA_SAID, text[0] ? text : " ");
}

/* What ends an answer always has room: the last of the lines that wait goes. */
static void put_end(struct engine *e, enum cs_lua_answer what)
{
    char note[80] = "";
    pthread_mutex_lock(&e->lock);
    if (e->n_lost > 0)
        snprintf(note, sizeof note, "%d more line%s came too fast to be kept", e->n_lost,
                 CS_PLURAL(e->n_lost));
    e->n_lost = 0;
    for (int room = 2; e->n_waiting > MOST_WAITING - room;)
        free(e->waiting[--e->n_waiting].text);
    pthread_mutex_unlock(&e->lock);
    if (note[0])
        put(e, CS_LUA_WRONG, note);
    put(e, what, "");
}

/* --- the daemon ------------------------------------------------------------------------------- */

static enum cs_status may_ask(const struct engine *e, const json_t *request, struct cs_err *err)
{
    const struct cs_message *message = cs_schema_find(cs_msg_type(request), false);
    if (e->is_read_only && message && message->role != CS_ROLE_VIEWER)
        return cs_fail(err, CS_REFUSED, "this console is read-only");
    return CS_OK;
}

static enum cs_status connect_again(struct engine *e, struct cs_err *err)
{
    if (e->client && cs_client_is_connected(e->client))
        return CS_OK;
    cs_client_free(e->client);
    e->client = NULL;
    CS_TRY(cs_client_connect_running(NULL, e->socket[0] ? e->socket : NULL, &e->client, err));
    cs_client_set_stop(e->client, &e->stop);
    return CS_OK;
}

static enum cs_status ask(void *user, json_t *request, json_t **reply, struct cs_err *err)
{
    struct engine *e = user;
    const bool waits = strcmp(cs_msg_type(request), "job.wait") == 0;
    enum cs_status status = may_ask(e, request, err);
    if (status == CS_OK)
        status = connect_again(e, err);
    if (status == CS_OK)
        return cs_client_call_for(e->client, request, waits ? 0 : CS_CLIENT_CALL_NS, reply, err);
    json_decref(request);
    return status;
}

/* --- questions -------------------------------------------------------------------------------- */

static enum cs_status open_state(struct engine *e, struct cs_err *err)
{
    const struct cs_cmd cmd = {.socket = e->socket[0] ? e->socket : NULL};
    struct cs_lua_limits limits = {.ask = ask, .ask_user = e, .stop = &e->stop};
    if (e->lua)
        return CS_OK;
    struct cs_buf notes = {0};
    enum cs_status status = cs_cmd_here_noted(&cmd, NULL, &limits.here, &notes, err);
    if (notes.len > 0)
        put(e, CS_LUA_WRONG, cs_buf_str(&notes));
    cs_buf_free(&notes);
    CS_TRY(status);
    CS_TRY(cs_lua_open(&limits, print, e, &e->lua, err));
    CS_TRY(cs_lua_prepare_typing(e->lua, err));
    e->repl = (struct cs_repl){.lua = e->lua, .out = out, .user = e};
    return CS_OK;
}

static void run(struct engine *e, const char *line)
{
    struct cs_err err = {.text = ""};
    if (open_state(e, &err) != CS_OK) {
        put(e, CS_LUA_WRONG, err.text);
        put_end(e, CS_LUA_DONE);
        return;
    }
    const enum cs_lua_answer answer = cs_repl_line(&e->repl, line);
    e->repl.is_over = false; /* the view is left, the state stays */
    put_end(e, answer);
}

static void complete(struct engine *e, const char *line)
{
    struct cs_buf text = {0};
    json_t *names = json_array(), *name;
    size_t i;
    if (open_state(e, NULL) == CS_OK) {
        cs_buf_adds(&text, cs_buf_str(&e->repl.begun));
        cs_buf_adds(&text, line);
        cs_lua_complete(e->lua, cs_buf_str(&text), names);
    }
    json_array_foreach(names, i, name) put(e, CS_LUA_OFFER, json_string_value(name));
    put_end(e, CS_LUA_OFFERED);
    json_decref(names);
    cs_buf_free(&text);
}

static bool next(struct engine *e, enum cs_lua_want *want, char **text)
{
    pthread_mutex_lock(&e->lock);
    while (e->want == CS_LUA_NOTHING && !e->is_over)
        pthread_cond_wait(&e->asked, &e->lock);
    const bool is_over = e->is_over;
    *want = e->want;
    *text = e->text;
    e->want = CS_LUA_NOTHING;
    e->text = NULL;
    if (!is_over)
        atomic_store(&e->stop, false);
    pthread_mutex_unlock(&e->lock);
    return !is_over;
}

static void *work(void *user)
{
    struct engine *e = user;
    enum cs_lua_want want;
    char *text;
    while (next(e, &want, &text)) {
        if (want == CS_LUA_RUN)
            run(e, text);
        else
            complete(e, text);
        free(text);
    }
    free(text);
    cs_client_free(e->client);
    cs_buf_free(&e->repl.begun);
    cs_lua_close(e->lua);
    return NULL;
}

/* --- for the screen --------------------------------------------------------------------------- */

static void ask_engine(void *self, enum cs_lua_want want, const char *text)
{
    struct engine *e = self;
    if (want == CS_LUA_STOP) {
        atomic_store(&e->stop, true);
        return;
    }
    pthread_mutex_lock(&e->lock);
    free(e->text);
    e->text = strdup(text);
    CS_ASSERT(e->text);
    e->want = want;
    pthread_cond_signal(&e->asked);
    pthread_mutex_unlock(&e->lock);
}

static void take(void *self, void (*fn)(void *, enum cs_lua_answer, const char *), void *user)
{
    struct engine *e = self;
    struct waiting *list = calloc(MOST_WAITING, sizeof *list);
    uint64_t n_writes;
    CS_ASSERT(list);
    (void)!read(e->fd, &n_writes, sizeof n_writes);
    pthread_mutex_lock(&e->lock);
    const int n = e->n_waiting;
    memcpy(list, e->waiting, (size_t)n * sizeof *list);
    e->n_waiting = 0;
    pthread_mutex_unlock(&e->lock);
    for (int i = 0; i < n; i++) {
        fn(user, list[i].what, list[i].text);
        free(list[i].text);
    }
    free(list);
}

/* Signals are the screen's. */
static int start_thread(struct engine *e)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const int rc = pthread_create(&e->thread, NULL, work, e);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

enum cs_status cs_repl_engine_new(const char *socket, bool is_read_only, struct cs_engine *out_,
                                  struct cs_err *err)
{
    struct engine *e = calloc(1, sizeof *e);
    if (!e)
        return cs_fail(err, CS_NO_MEMORY, "no memory for Lua beside the screen");
    e->is_read_only = is_read_only;
    snprintf(e->socket, sizeof e->socket, "%s", socket ? socket : "");
    e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->asked, NULL);
    const int rc = e->fd < 0 ? errno : start_thread(e);
    if (rc != 0) {
        if (e->fd >= 0)
            close(e->fd);
        free(e);
        return cs_fail(err, CS_INTERNAL, "no thread for Lua beside the screen: %s", strerror(rc));
    }
    *out_ = (struct cs_engine){.self = e, .fd = e->fd, .ask = ask_engine, .take = take};
    return CS_OK;
}

void cs_repl_engine_free(struct cs_engine *engine)
{
    struct engine *e = engine->self;
    struct timespec end;
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->is_over = true;
    atomic_store(&e->stop, true);
    pthread_cond_signal(&e->asked);
    pthread_mutex_unlock(&e->lock);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += END_S;
    engine->self = NULL;
    if (pthread_timedjoin_np(e->thread, NULL, &end) != 0) {
        pthread_detach(e->thread);
        return; /* it still uses what it has */
    }
    for (int i = 0; i < e->n_waiting; i++)
        free(e->waiting[i].text);
    close(e->fd);
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->asked);
    free(e);
}
