/* run and submit: a script's job to the daemon, and watching it to the end. */
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/cli_screen.h"
#include "console/preflight/preflight.h"
#include "console/screen/plain.h"
#include "core/base/say.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"
#include "store/hf/export.h"

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

/* --- submit ----------------------------------------------------------------------------------- */

/* What would end the job is said before it is one, what is to be known goes with it. */
static enum cs_status look_first(const json_t *document, const struct cs_here *here,
                                 json_t **warnings, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_preflight_made made;
    struct cs_preflight preflight = {0};
    struct cs_buf text = {0};
    enum cs_status status = cs_preflight_make(document, true, here, arena, &made, err);
    if (status == CS_OK)
        status = cs_preflight_job(&made, arena, &preflight, err);
    if (status == CS_OK) {
        cs_preflight_warnings(&preflight, &text);
        cs_say_text(stderr, &text);
        *warnings = json_incref(preflight.warnings);
    }
    cs_buf_free(&text);
    cs_preflight_free(&preflight);
    cs_arena_free(arena);
    return status;
}

static json_t *submit_request(const struct cs_script_result *result, bool replans, json_t *warnings)
{
    json_t *request = cs_msg_new("job.submit");
    cs_msg_set_str(request, "plan_hash", cs_msg_str(result->document, "plan_hash", ""));
    cs_msg_set_bool(request, "replan", replans);
    if (result->ranks > 0)
        cs_msg_set_int(request, "ranks", result->ranks);
    cs_msg_set(request, "spec", json_incref(result->document));
    cs_msg_set(request, "warnings", warnings);
    return request;
}

static enum cs_status submit(struct cs_cmd *cmd, bool replans, int64_t *job, struct cs_err *err)
{
    struct cs_script_result result;
    json_t *reply = NULL, *request = NULL, *warnings = NULL;
    struct cs_here here;
    CS_TRY(cs_cmd_here(cmd, &here, err));
    CS_TRY(cs_cmd_eval(cmd->args[0], true, &here, &result, err));
    enum cs_status status = look_first(result.document, &here, &warnings, err);
    if (status == CS_OK)
        request = submit_request(&result, replans, warnings);
    cs_script_result_free(&result);
    CS_TRY(status);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    *job = cs_msg_int(reply, "job", 0);
    json_decref(reply);
    return CS_OK;
}

static enum cs_status show_job(struct cs_cmd *cmd, int64_t job, json_t **reply, struct cs_err *err)
{
    json_t *request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", job);
    return cs_cmd_call(cmd, request, reply, err);
}

static enum cs_status print_submitted(struct cs_cmd *cmd, int64_t job, struct cs_err *err)
{
    json_t *reply = NULL;
    if (!cmd->json) {
        cs_say(stdout,
               "job %lld is submitted; watch it with 'cornstarch-console', wait for it with "
               "'cornstarch-console wait %lld'\n",
               (long long)job, (long long)job);
        return CS_OK;
    }
    CS_TRY(show_job(cmd, job, &reply, err));
    json_t *doc = cs_doc_new("cornstarch.jobinfo/1");
    cs_msg_set(doc, "job", json_incref(cs_msg_obj(reply, "job")));
    json_decref(reply);
    return cs_cmd_print_doc(doc, err);
}

struct submit_values {
    struct cs_cmd_common common;
    bool replan;
};

/* clang-format off */
static const struct cs_option submit_options[] = {
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "accept another plan than the one that was previewed", offsetof(struct submit_values, replan)},
};

/* clang-format on */

static enum cs_status submit_job(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct submit_values *v = cmd->values;
    int64_t job;
    CS_TRY(submit(cmd, v->replan, &job, err));
    return print_submitted(cmd, job, err);
}

const struct cs_command cs_command_submit = {
    .name = "submit",
    .key = 's',
    .role = CS_ROLE_OWNER,
    .usage = "[options] SCRIPT",
    .help = "submit a job and return",
    .run = submit_job,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(submit_options, struct submit_values),
};

/* --- watch ------------------------------------------------------------------------------------ */

static bool has_settled(const json_t *job)
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
    if (has_settled(job))
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
    else if (strcmp(state, "PAUSED") == 0)
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
    enum cs_status status = show_job(w->cmd, w->job, &reply, err);
    if (status == CS_OK) {
        cs_store_message(w->store, reply);
        look_at(w, cs_msg_obj(reply, "job"));
    }
    json_decref(reply);
    return status;
}

static enum cs_status watch(struct cs_cmd *cmd, int64_t job, const char *script,
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

struct run_values {
    struct cs_cmd_common common;
    bool plain, detach, replan;
    const char *export_dir;
};

#define AT(field) offsetof(struct run_values, field)
/* clang-format off */
static const struct cs_option run_options[] = {
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "lines instead of the console", AT(plain)},
    {"detach", 'd', CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "submit and return", AT(detach)},
    {"replan", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "accept another plan than the one that was previewed", AT(replan)},
    {"export", 'o', CS_OPT_STRING, 0, 0, NULL, "DIR", NULL, "write the trained model to DIR at the end", AT(export_dir)},
};

/* clang-format on */
#undef AT

/* Whoever leaves before the end takes the export with them. */
static void say_unexported(int64_t job, const char *export_dir)
{
    if (export_dir)
        cs_say(stderr,
               "cornstarch-console: the job goes on; nothing is exported to %s. When it has ended: "
               "cornstarch-console export %lld %s\n",
               export_dir, (long long)job, export_dir);
}

static enum cs_status run(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct run_values *v = cmd->values;
    int64_t job;
    json_t *reply = NULL;
    if (v->export_dir && v->detach)
        return cs_fail(err, CS_INVALID,
                       "--export is done when the job has ended, and --detach does not wait for "
                       "that: wait for the job, then export it");
    if (v->export_dir) { /* before hours of training, not after them */
        enum cs_status status = cs_export_try(v->export_dir, err);
        if (status != CS_OK)
            return cs_wrap(err, status, "--export");
    }
    CS_TRY(submit(cmd, v->replan, &job, err));
    if (v->detach)
        return print_submitted(cmd, job, err);
    if (!v->plain && !cmd->json && cs_cli_has_screen()) {
        enum cs_status status = cs_cli_screen_on_job(cmd, job, err);
        if (status != CS_OK && status != CS_UNSUPPORTED)
            return status;
        if (status == CS_OK) { /* left: with the report when it has ended, else with the way back */
            CS_TRY(show_job(cmd, job, &reply, err));
            bool is_over = has_settled(cs_msg_obj(reply, "job"));
            json_decref(reply);
            if (!is_over) {
                say_unexported(job, v->export_dir);
                return CS_OK;
            }
        }
    }
    return watch(cmd, job, cmd->args[0], v->export_dir, err);
}

const struct cs_command cs_command_run = {
    .name = "run",
    .role = CS_ROLE_OWNER,
    .usage = "[options] SCRIPT",
    .help = "submit a job and watch it to the end",
    .run = run,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(run_options, struct run_values),
};
