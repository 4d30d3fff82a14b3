/* The plan of a script in the Plan view, without a daemon: on the terminal, else as text. */
#include "console/cli/shared/plan_view.h"

#include "console/cli/shared/cli_screen.h"
#include "console/store/store.h"
#include "core/base/say.h"

enum { TEXT_COLS = 100, TEXT_ROWS = 30 }; /* without a terminal */

/* A script whose state stays, so that plans of its search can be picked. */
struct viewed {
    struct cs_lua *lua;
    struct cs_script_result result;
    struct cs_here here;
};

static void print(void *user, const char *text)
{
    (void)user;
    cs_say(stderr, "%s\n", text);
}

static void close_script(struct viewed *v)
{
    cs_script_result_free(&v->result);
    cs_lua_close(v->lua);
}

static enum cs_status open_script(const struct cs_cmd *cmd, const char *script,
                                  const struct cs_plan_view *view, struct viewed *v,
                                  struct cs_err *err)
{
    struct cs_lua_limits limits = {.set = view->set, .pick = view->pick};
    CS_TRY(cs_cmd_here_local(cmd, view->devices, &v->here, err));
    limits.here = v->here;
    CS_TRY(cs_lua_open(&limits, print, NULL, &v->lua, err));
    CS_TRY(cs_lua_run_file(v->lua, script, &v->result, err));
    const bool is_search = v->result.kind == CS_SCRIPT_SWEEP || v->result.found;
    if (view->pick > 0 && !is_search)
        return cs_fail(err, CS_USAGE, "--pick %d: %s returns no search", view->pick, script);
    if (is_search || v->result.kind == CS_SCRIPT_JOB || v->result.kind == CS_SCRIPT_PLAN)
        return CS_OK;
    return cs_fail(err, CS_INVALID, "%s returns %s; a view shows a plan, a job's plan or a search",
                   script,
                   v->result.kind == CS_SCRIPT_JOBS ? "a sweep of jobs" : "no job, plan or search");
}

enum cs_status cs_cmd_eval_plan(const struct cs_cmd *cmd, const char *script, const char *devices,
                                const struct cs_texts *set, struct cs_here *here,
                                struct cs_script_result *out, struct cs_err *err)
{
    struct cs_lua_limits limits = {.set = set};
    CS_TRY(cs_cmd_here_local(cmd, devices, here, err));
    limits.here = *here;
    CS_TRY(cs_cmd_eval_with(script, false, &limits, out, err));
    if (out->kind != CS_SCRIPT_SWEEP)
        return CS_OK;
    cs_script_result_free(out);
    return cs_fail(
        err, CS_INVALID,
        "%s returns many plans, and a screen of text shows one; 'cornstarch-console plan %s' "
        "lists them, 'plan --view %s' looks at them",
        script, script, script);
}

enum cs_status cs_cmd_print_dump(struct cs_dump *dump, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = cs_dump_replay(dump, &text, err);
    if (status == CS_OK)
        cs_cmd_print(&text);
    cs_buf_free(&text);
    return status;
}

/* Plan number n, or what the script returns when it was not asked for one: into the store. */
static enum cs_status pick(void *user, struct cs_store *store, int n, struct cs_err *err)
{
    struct viewed *v = user;
    struct cs_script_result picked = {0};
    CS_TRY(cs_lua_pick_plan(v->lua, n, &picked, err));
    json_t *name = json_object_get(v->result.document, "name");
    if (v->result.found && name) /* a plan alone has its model's; the job keeps its own */
        json_object_set(picked.document, "name", name);
    enum cs_status status = cs_store_script(store, picked.document, err);
    store->found.picked = picked.picked;
    cs_script_result_free(&picked);
    return status;
}

static void add_word(struct cs_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == ' ' || *text == '\\')
            cs_buf_addc(out, '\\');
        cs_buf_addc(out, *text);
    }
}

/* what runs the same script; nothing where it was planned for devices that are not those here */
static void add_words(const char *script, const struct cs_plan_view *view, struct cs_buf *out)
{
    for (int i = 0; view->set && i < view->set->n; i++) {
        cs_buf_adds(out, "--set ");
        add_word(out, view->set->item[i]);
        cs_buf_addc(out, ' ');
    }
    add_word(out, script);
    if (view->devices)
        cs_buf_reset(out);
}

static enum cs_status fill(struct viewed *v, const char *words, int n, struct cs_store *store,
                           struct cs_err *err)
{
    const bool is_job = v->result.kind == CS_SCRIPT_JOB;
    const json_t *document = v->result.document;
    store->here = v->here;
    if (v->result.found) {
        cs_store_found(store, v->result.found, words, true);
        store->found.picked = v->result.picked;
    } else if (!is_job && v->result.kind == CS_SCRIPT_SWEEP) {
        cs_store_found(store, document, words, false);
        enum cs_status status = pick(v, store, n, err);
        return n > 0 ? status : CS_OK; /* none of them runs, or they are a sweep's: a list */
    }
    return cs_store_script(store, document, err);
}

static enum cs_status show(const struct cs_cmd *cmd, struct cs_store *store, struct viewed *v,
                           bool is_plain, struct cs_err *err)
{
    struct cs_dump dump = {
        .store = store, .cols = TEXT_COLS, .rows = TEXT_ROWS, .is_read = is_plain};
    enum cs_status status = CS_UNSUPPORTED;
    if (cs_cli_has_screen() && !is_plain)
        status = cs_cli_screen_on_store(cmd, store, pick, v, err);
    return status == CS_UNSUPPORTED ? cs_cmd_print_dump(&dump, err) : status;
}

enum cs_status cs_cmd_plan_view(const struct cs_cmd *cmd, const char *script,
                                const struct cs_plan_view *view, struct cs_err *err)
{
    struct viewed v = {.lua = NULL};
    struct cs_store *store = cs_store_new();
    struct cs_buf words = {0};
    add_words(script, view, &words);
    enum cs_status status = open_script(cmd, script, view, &v, err);
    if (status == CS_OK)
        status = fill(&v, cs_buf_str(&words), view->pick, store, err);
    if (status == CS_OK)
        status = show(cmd, store, &v, view->is_plain, err);
    cs_buf_free(&words);
    cs_store_free(store);
    close_script(&v);
    return status;
}
