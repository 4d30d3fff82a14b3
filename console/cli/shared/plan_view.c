/* The plan of a script in the Plan view, without a daemon: on the terminal, else as text. */
#include "console/cli/shared/plan_view.h"

#include "console/cli/shared/cli_screen.h"
#include "console/store/store.h"

enum { TEXT_COLS = 100, TEXT_ROWS = 30 }; /* without a terminal */

static enum cs_status eval_picked(const struct cs_cmd *cmd, const char *script, const char *devices,
                                  const struct cs_texts *set, int pick, struct cs_here *here,
                                  struct cs_script_result *out, struct cs_err *err)
{
    struct cs_lua_limits limits = {.set = set, .pick = pick};
    CS_TRY(cs_cmd_here_local(cmd, devices, here, err));
    limits.here = *here;
    CS_TRY(cs_cmd_eval_with(script, false, &limits, out, err));
    if (out->kind != CS_SCRIPT_SWEEP)
        return CS_OK;
    cs_script_result_free(out);
    return cs_fail(
        err, CS_INVALID,
        "%s returns many plans, and a view shows one; 'cornstarch-console plan %s' lists "
        "them, 'plan --view --pick N %s' shows one of a search",
        script, script, script);
}

enum cs_status cs_cmd_eval_plan(const struct cs_cmd *cmd, const char *script, const char *devices,
                                const struct cs_texts *set, struct cs_here *here,
                                struct cs_script_result *out, struct cs_err *err)
{
    return eval_picked(cmd, script, devices, set, 0, here, out, err);
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

static enum cs_status show(const json_t *spec, const struct cs_here *here, struct cs_err *err)
{
    struct cs_dump dump = {.spec = spec, .here = *here, .cols = TEXT_COLS, .rows = TEXT_ROWS};
    if (!cs_cli_has_screen())
        return cs_cmd_print_dump(&dump, err);
    struct cs_store *store = cs_store_new();
    store->here = *here;
    enum cs_status status = cs_store_script(store, spec, err);
    if (status == CS_OK)
        status = cs_cli_screen_on_store(store, err);
    cs_store_free(store);
    return status == CS_UNSUPPORTED ? cs_cmd_print_dump(&dump, err) : status;
}

enum cs_status cs_cmd_plan_view(const struct cs_cmd *cmd, const char *script, const char *devices,
                                const struct cs_texts *set, int pick, struct cs_err *err)
{
    struct cs_script_result result = {0};
    struct cs_here here;
    CS_TRY(eval_picked(cmd, script, devices, set, pick, &here, &result, err));
    enum cs_status status = show(result.document, &here, err);
    cs_script_result_free(&result);
    return status;
}
