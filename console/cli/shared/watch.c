/* Watches a job: every message becomes a sentence or moves the progress line. */
#include "console/cli/shared/watch.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/shared/submit.h"
#include "console/screen/plain.h"
#include "core/base/say.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

struct watch {
    struct cs_cmd *cmd;
    int64_t job;
    struct cs_store *store;
    struct cs_plain *plain;
    struct event *interrupt;
    bool is_detached;
    enum cs_status status; /* why the watch ended, when it failed */
    struct cs_err *err;
    json_t *last; /* newest job object */
};

bool cs_cmd_has_settled(const json_t *job)
{
    const char *state = cs_msg_str(job, "state", "");
    return cs_state_is_over(state) || cs_job_state_is(state, CS_PHASE_RESTING);
}

static void look_at(struct watch *w, json_t *job)
{
    if (!job || cs_msg_int(job, "id", 0) != w->job)
        return;
    json_decref(w->last);
    w->last = json_incref(job);
    if (cs_cmd_has_settled(job))
        event_base_loopbreak(w->cmd->base);
}

static void on_message(void *user, const json_t *msg)
{
    struct watch *w = user;
    cs_store_message(w->store, msg);
    cs_plain_message(w->plain, msg);
    if (strcmp(cs_msg_type(msg), "event.job") == 0 || strcmp(cs_msg_type(msg), "job.show") == 0)
        look_at(w, cs_msg_obj(msg, "job"));
    if (strcmp(cs_msg_type(msg), "job.show") == 0)
        cs_plain_job(w->plain, cs_msg_obj(msg, "job"));
    if (w->store->wants_show) {
        json_t *request = cs_msg_new("job.show");
        cs_msg_set_int(request, "job", w->job);
        w->store->wants_show = false;
        cs_client_send(w->cmd->client, request);
    }
}

/* after every (re)connection: events from now on, then where the job stands */
static void subscribe(struct watch *w)
{
    json_t *open = cs_msg_new("sub.open"), *show = cs_msg_new("job.show");
    cs_msg_set_int(open, "job", w->job);
    cs_msg_set_bool(open, "gauges", true);
    cs_msg_set_bool(open, "events", true);
    cs_msg_set_bool(open, "logs", false);
    cs_msg_set_int(show, "job", w->job);
    cs_client_send(w->cmd->client, open);
    cs_client_send(w->cmd->client, show);
}

static void on_state(void *user, bool is_connected)
{
    struct watch *w = user;
    cs_store_connected(w->store, is_connected);
    if (is_connected) {
        cs_plain_say(w->plain, "The daemon is back.");
        subscribe(w);
    } else if (cs_client_was_ended(w->cmd->client)) {
        cs_plain_say(w->plain,
                     "The daemon was stopped; training goes on without it. 'daemon start' "
                     "brings the figures back.");
    } else {
        cs_plain_say(w->plain, "The daemon is gone; training goes on without it. Trying again.");
    }
}

static void on_interrupt(evutil_socket_t signal, short what, void *user)
{
    struct watch *w = user;
    (void)signal;
    (void)what;
    w->is_detached = true;
    event_base_loopbreak(w->cmd->base);
}

static void say_detached(struct watch *w)
{
    cs_plain_say(
        w->plain,
        "Detached: job %lld goes on. Come back with 'cornstarch-console', wait for its end "
        "with 'cornstarch-console wait %lld', end it with 'cornstarch-console stop %lld'.",
        (long long)w->job, (long long)w->job, (long long)w->job);
}

/* STEM-*.lua beside STEM.lua is the next lesson; else look at what was written */
static void next_command(const char *script, const char *export_dir, int64_t job, char *out,
                         size_t cap)
{
    char pattern[CS_PATH_CAP];
    glob_t found = {0};
    const char *dot = script ? strrchr(script, '.') : NULL;
    if (!export_dir) {
        snprintf(out, cap, "cornstarch-console export %lld DIR", (long long)job);
        return;
    }
    snprintf(out, cap, "cornstarch-console model show %s/llm", export_dir);
    if (!dot || strpbrk(script, "*?[") ||
        cs_path(pattern, NULL, "%.*s-*.lua", (int)(dot - script), script) != CS_OK)
        return;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0)
        snprintf(out, cap, "cornstarch-console run %s", found.gl_pathv[0]);
    globfree(&found);
}

static enum cs_status export_result(struct watch *w, const char *export_dir, struct cs_err *err)
{
    struct cs_buf report = {0};
    const struct cs_cmd_exporting how = {.dtype = "float32"};
    enum cs_status status =
        cs_cmd_export_dir(cs_msg_str(w->last, "dir", ""), NULL, export_dir, &how, &report, err);
    cs_buf_free(&report);
    return status;
}

/* The job has settled: report, export, exit code. */
static enum cs_status finish(struct watch *w, const char *script, const char *export_dir,
                             struct cs_err *err)
{
    char next[CS_PATH_CAP + 64];
    const char *state = cs_msg_str(w->last, "state", "");
    bool is_done = strcmp(state, "DONE") == 0;
    enum cs_status status = CS_OK;
    w->cmd->exit_code = cs_cmd_job_exit(w->last);
    if (is_done && export_dir)
        status = export_result(w, export_dir, err);
    if (is_done)
        next_command(script, status == CS_OK ? export_dir : NULL, w->job, next, sizeof next);
    else if (cs_job_state_mood(state) != CS_MOOD_BAD) /* paused, or stopped */
        snprintf(next, sizeof next, "cornstarch-console resume %lld", (long long)w->job);
    else
        snprintf(next, sizeof next, "cornstarch-console logs %lld --rank runner",
                 (long long)w->job);
    const struct cs_plain_end end = {.alarms = cs_msg_arr(w->last, "alarms"),
                                     .result_dir = is_done && status == CS_OK ? export_dir : NULL,
                                     .next_command = next};
    cs_plain_report(w->plain, w->store, &end);
    if (w->cmd->json && status == CS_OK) {
        json_t *doc = cs_doc_new("cornstarch.jobinfo/1");
        cs_msg_set(doc, "job", json_incref(w->last));
        status = cs_cmd_print_doc(doc, err);
    }
    return status;
}

static enum cs_status watch_loop(struct watch *w, struct cs_err *err)
{
    json_t *reply = NULL;
    cs_store_select(w->store, w->job);
    cs_store_connected(w->store, true);
    cs_client_on_message(w->cmd->client, on_message, w);
    cs_client_on_state(w->cmd->client, on_state, w);
    subscribe(w);
    if (event_base_dispatch(w->cmd->base) == -1)
        return cs_fail(err, CS_INTERNAL, "the event loop failed");
    cs_client_on_state(w->cmd->client, NULL, NULL);
    if (w->is_detached || !cs_client_is_connected(w->cmd->client))
        return CS_OK;
    /* the last word on the job, with what the step series knows */
    enum cs_status status = cs_cmd_show_job(w->cmd, w->job, &reply, err);
    if (status == CS_OK) {
        cs_store_message(w->store, reply);
        look_at(w, cs_msg_obj(reply, "job"));
    }
    json_decref(reply);
    return status;
}

enum cs_status cs_cmd_watch(struct cs_cmd *cmd, int64_t job, const char *script,
                            const char *export_dir, struct cs_err *err)
{
    FILE *out = cmd->json ? stderr : stdout;
    struct watch w = {.cmd = cmd, .job = job, .err = err};
    w.store = cs_store_new();
    w.plain = cs_plain_new(out, isatty(fileno(out)), cs_cmd_width());
    w.interrupt = evsignal_new(cmd->base, SIGINT, on_interrupt, &w);
    enum cs_status status = CS_OK;
    if (!w.interrupt || event_add(w.interrupt, NULL) == -1)
        status = cs_fail(err, CS_INTERNAL, "cannot watch for Ctrl-C");
    if (status == CS_OK)
        status = watch_loop(&w, err);
    if (status == CS_OK && w.is_detached)
        say_detached(&w);
    else if (status == CS_OK)
        status = finish(&w, script, export_dir, err);
    cs_client_on_message(cmd->client, NULL, NULL);
    cs_client_on_state(cmd->client, NULL, NULL);
    if (w.interrupt)
        event_free(w.interrupt);
    cs_plain_free(w.plain);
    cs_store_free(w.store);
    json_decref(w.last);
    return status;
}
