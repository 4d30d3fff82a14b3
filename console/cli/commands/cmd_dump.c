/* dump: a screen as text, from a trace, of a script's plan, or of the daemon's GPUs. */
#include <string.h>
#include <unistd.h>

#include "console/cli/command/registry.h"
#include "console/cli/shared/plan_view.h"
#include "console/views/state/view.h"
#include "core/wire/wire.h"

static const char *const glyph_sets[] = {"utf8", "ascii", NULL}; /* as enum cs_glyph_set */

struct values {
    struct cs_cmd_common common;
    const char *replay, *script, *view, *size, *keys, *devices;
    int glyphs; /* enum cs_glyph_set */
    bool plain;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
#define NAME(id, name) #name ", "
static const struct cs_option options[] = {
    {"replay", 0, CS_OPT_STRING, 0, 0, NULL, "TRACE", NULL, "the trace of a job, in its directory", AT(replay)},
    {"script", 0, CS_OPT_STRING, 0, 0, NULL, "SCRIPT", NULL, "instead of a trace: the plan of a script", AT(script)},
    {"view", 0, CS_OPT_STRING, 0, 0, NULL, "NAME", NULL, CS_VIEW_TABLE(NAME) "by default pipeline of a trace and plan of a script", AT(view)},
    CS_OPTION_DEVICES(0, struct values),
    {"size", 0, CS_OPT_STRING, 0, 0, "100x30", "COLSxROWS", NULL, "size of the screen", AT(size)},
    {"glyphs", 0, CS_OPT_ENUM, 0, 0, "utf8", NULL, glyph_sets, "characters to draw with", AT(glyphs)},
    {"plain", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "lines to be read one after the other, as a screen reader does, without columns and charts", AT(plain)},
    {"keys", 0, CS_OPT_STRING, 0, 0, NULL, "KEYS", NULL, "keys that are typed before the screen is taken", AT(keys)},
};

/* clang-format on */
#undef AT
#undef NAME

/* A view of the daemon's node needs neither trace nor script. */
static bool is_of_node(const char *name)
{
    enum cs_view view;
    return name && cs_view_find(name, &view) && cs_view_ops(view)->subscribe;
}

static enum cs_status ask_devices(struct cs_cmd *cmd, const char *kind, bool is_wanted,
                                  json_t **node, struct cs_err *err)
{
    json_t *request = cs_msg_new("node.show");
    cs_msg_set_bool(request, kind, is_wanted);
    return cs_cmd_call(cmd, request, node, err);
}

/* Its GPUs; where there are none, its CPU ranks. */
static enum cs_status ask_node(struct cs_cmd *cmd, const char *name, json_t **node,
                               struct cs_err *err)
{
    enum cs_view view = CS_VIEW_COUNT;
    const char *kind = cs_view_find(name, &view) ? cs_view_ops(view)->subscribe : "gpus";
    CS_TRY(ask_devices(cmd, kind, true, node, err));
    if (json_array_size(cs_msg_arr(*node, "devices")) > 0)
        return CS_OK;
    json_decref(*node);
    return ask_devices(cmd, kind, false, node, err);
}

/* Of a job by its number: the daemon says where its directory is. */
static enum cs_status ask_job(struct cs_cmd *cmd, char path[CS_PATH_CAP], json_t **reply,
                              struct cs_err *err)
{
    json_t *request = NULL;
    CS_TRY(cs_cmd_job_request(cmd, "job.show", &request, err));
    CS_TRY(cs_cmd_call(cmd, request, reply, err));
    const json_t *job = cs_msg_obj(*reply, "job");
    CS_TRY(cs_path(path, err, "%s/trace", cs_msg_str(job, "dir", "")));
    if (access(path, R_OK) == 0)
        return CS_OK;
    return cs_fail(err, CS_NOT_FOUND,
                   "job %lld has no trace yet (%s): it begins with the job's first step",
                   (long long)cs_msg_int(job, "id", 0), path);
}

static enum cs_status print_document(struct cs_dump *dump, struct cs_err *err)
{
    struct cs_buf text = {0};
    enum cs_status status = cs_dump_replay(dump, &text, err);
    json_t *doc = cs_doc_new("cornstarch.screen/1"), *lines = json_array();
    for (const char *at = cs_buf_str(&text); status == CS_OK && *at;) {
        const size_t n = strcspn(at, "\n");
        json_array_append_new(lines, json_stringn(at, n));
        at += n + (at[n] == '\n');
    }
    cs_msg_set_int(doc, "cols", dump->cols);
    cs_msg_set_int(doc, "rows", dump->rows);
    cs_msg_set(doc, "lines", lines);
    cs_buf_free(&text);
    if (status == CS_OK)
        return cs_cmd_print_doc(doc, err);
    json_decref(doc);
    return status;
}

static enum cs_status dump_screen(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_script_result result = {0};
    struct cs_dump dump = {.trace = v->replay,
                           .view = v->view,
                           .keys = v->keys,
                           .is_read = v->plain,
                           .glyphs = (enum cs_glyph_set)v->glyphs};
    json_t *node = NULL, *job = NULL;
    char path[CS_PATH_CAP];
    enum cs_status status = CS_OK;
    if (cmd->n > 0 && (dump.trace || v->script))
        return cs_fail(err, CS_USAGE,
                       "dump takes a job's number, --replay or --script, one of them");
    if (cmd->n > 0) {
        status = ask_job(cmd, path, &job, err);
        dump.trace = path;
        dump.job = cs_msg_obj(job, "job");
    } else if (!dump.trace && !v->script && is_of_node(dump.view)) {
        CS_TRY(ask_node(cmd, dump.view, &node, err));
        dump.node = node;
    } else if (!dump.trace == !v->script) {
        return cs_fail(err, CS_USAGE,
                       "dump needs the number of a job, --replay TRACE, a job directory's trace "
                       "file, or --script SCRIPT; --view gpus alone asks the daemon");
    }
    if (status == CS_OK)
        status = cs_dump_size(v->size, &dump.cols, &dump.rows, err);
    if (status == CS_OK && v->script)
        status = cs_cmd_eval_plan(cmd, v->script, v->devices, NULL, &dump.here, &result, err);
    dump.spec = result.document;
    if (status == CS_OK)
        status = cmd->json ? print_document(&dump, err) : cs_cmd_print_dump(&dump, err);
    json_decref(node);
    json_decref(job);
    cs_script_result_free(&result);
    return status;
}

const struct cs_command cs_command_dump = {
    .name = "dump",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] [ID]",
    .help =
        "a screen as text: of a job, of a recorded trace, of a script's plan or, with --view gpus "
        "alone, of the daemon's node",
    .run = dump_screen,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
