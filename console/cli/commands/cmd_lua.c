/* lua: evaluate a file, a text or what is typed, print types and reference. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/repl/repl.h"
#include "core/base/say.h"
#include "core/wire/wire.h"

static void print_line(void *user, const char *text)
{
    (void)user;
    cs_say(stdout, "%s\n", text);
}

/* With --json the result is the only output: what print writes goes to standard error. */
static void print_aside(void *user, const char *text)
{
    (void)user;
    cs_say(stderr, "%s\n", text);
}

struct values {
    struct cs_cmd_common common;
    bool meta, manual;
    const char *code, *devices;
    int64_t memory, instructions, time;
    struct cs_texts set;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"execute", 'e', CS_OPT_STRING, 0, 0, NULL, "CODE", NULL, "run this text", AT(code)},
    {"meta", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print the types for editors", AT(meta)},
    {"manual", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "print the reference part of cornstarch-lua(7)", AT(manual)},
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, AT(set)},
    CS_OPTION_DEVICES(0, struct values),
    {"memory", 0, CS_OPT_SIZE, 1 << 20, INT64_C(1) << 40, "64MiB", NULL, NULL, "memory a script may use", AT(memory)},
    {"instructions", 0, CS_OPT_INT, 1000, INT64_MAX, "50000000", NULL, NULL, "instructions a script may use", AT(instructions)},
    {"time", 0, CS_OPT_DURATION, 1000000, INT64_C(86400000000000), "30s", NULL, NULL, "wall-clock time a script may use, but for cs.search", AT(time)},
};

/* clang-format on */
#undef AT

static enum cs_status evaluate(struct cs_cmd *cmd, struct cs_lua *lua,
                               struct cs_script_result *result, struct cs_err *err)
{
    const struct values *v = cmd->values;
    if (v->code) {
        CS_TRY(cs_lua_run_text(lua, "-e", v->code, result, err));
        return cs_lua_check_set(lua, err);
    }
    return cs_lua_run_file(lua, cmd->args[0], result, err);
}

/* A job, plan or sweep is a document of its own. */
static enum cs_status print_json(struct cs_lua *lua, const struct cs_script_result *result,
                                 struct cs_err *err)
{
    struct cs_buf text = {0};
    if (result->document) {
        cs_json_pretty(result->document, &text);
        cs_cmd_print(&text);
        cs_buf_free(&text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.values/1"), *values = json_array();
    cs_msg_set(doc, "values", values);
    enum cs_status status = cs_lua_results_json(lua, values, err);
    if (status == CS_OK)
        return cs_cmd_print_doc(doc, err);
    json_decref(doc);
    return status;
}

static enum cs_status print_text(struct cs_lua *lua, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = cs_lua_results_text(lua, &text, err);
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return status;
}

static enum cs_status print_reference(void (*write)(struct cs_buf *))
{
    struct cs_buf text = {0};
    write(&text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return CS_OK;
}

static enum cs_status lua(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_lua *lua = NULL;
    struct cs_script_result result = {0};
    struct cs_lua_limits limits = {.memory_bytes = (size_t)v->memory,
                                   .instructions = v->instructions,
                                   .time_ns = v->time,
                                   .set = &v->set,
                                   .ask = cs_repl_ask,
                                   .ask_user = cmd};
    if (v->meta || v->manual)
        return print_reference(v->meta ? cs_lua_meta : cs_lua_manual);
    if (v->code != NULL && cmd->n > 0)
        return cs_fail(err, CS_USAGE, "give either a FILE or -e CODE");
    const bool is_typed = v->code == NULL && cmd->n == 0;
    limits.stop = is_typed ? cs_repl_stop() : NULL;
    if (is_typed && cmd->json)
        return cs_fail(err, CS_USAGE, "--json goes with a FILE or with -e CODE");
    CS_TRY(cs_cmd_here_local(cmd, v->devices, &limits.here, err));
    CS_TRY(cs_lua_open(&limits, cmd->json ? print_aside : print_line, NULL, &lua, err));
    enum cs_status status =
        is_typed ? cs_repl_run(cmd, lua, err) : evaluate(cmd, lua, &result, err);
    if (status == CS_OK && cmd->json)
        status = print_json(lua, &result, err);
    else if (status == CS_OK && v->code)
        status = print_text(lua, err);
    cs_lua_close(lua);
    cs_script_result_free(&result);
    return status;
}

const struct cs_command cs_command_lua = {
    .name = "lua",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] [FILE]",
    .help = "evaluate a script or a text; without one what is typed, with history, completion and "
            "live jobs",
    .run = lua,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
