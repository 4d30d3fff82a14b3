/* model init, show, check: Hugging Face model directories. */
#include <stdio.h>
#include <string.h>

#include "console/cli/cmd.h"
#include "console/cli/registry.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/make/model_init.h"
#include "store/hfdir.h"

static enum cs_status print_result(const struct cs_cmd *cmd, const char *dir, const char *text,
                                   struct cs_err *err)
{
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "dir", dir);
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

struct init_values {
    struct cs_cmd_common common;
    int64_t seed, vocab;
    const char *text;
};

#define AT(field) offsetof(struct init_values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "0", NULL, NULL, "decides the weights", AT(seed)},
    {"text", 0, CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "build a tokenizer from this text (language models)", AT(text)},
    {"vocab", 0, CS_OPT_INT, 260, 1 << 20, "4096", NULL, NULL, "largest vocabulary of that tokenizer", AT(vocab)},
};

/* clang-format on */
#undef AT

static enum cs_status init(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct init_values *v = cmd->values;
    char text[CS_PATH_CAP + 64];
    struct cs_model_init made = {.config = cmd->args[0],
                                 .dir = cmd->args[1],
                                 .text = v->text,
                                 .max_vocab = (int)v->vocab,
                                 .seed = (uint64_t)v->seed};
    CS_TRY(cs_model_init_make(&made, err));
    snprintf(text, sizeof text, "wrote %s (seed %lld)", cmd->args[1], (long long)v->seed);
    return print_result(cmd, cmd->args[1], text, err);
}

/* --- show and check --------------------------------------------------------------------------- */

static bool is_composite(const struct cs_hfdir *dir)
{
    const json_t *root = cs_hfdir_root_config(dir);
    return json_object_get(root, "vision_config") && json_object_get(root, "text_config");
}

/* Parameters as the architecture has them; is_deep: every tensor must be there. */
static enum cs_status add_part(const char *path, const char *part, bool is_deep,
                               struct cs_arena *arena, json_t *parts, struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    struct cs_arch arch = {0};
    int64_t params = 0;
    CS_TRY(cs_hfdir_open(path, part, &dir, err));
    int n = cs_hfdir_count(dir);
    for (int i = 0; i < n; i++)
        params += cs_hfdir_at(dir, i)->count;
    bool is_projector = strcmp(part, "projector") == 0;
    enum cs_status status = CS_OK;
    if (!is_projector)
        status = cs_arch_from_config(cs_hfdir_config(dir), arena, &arch, err);
    if (status == CS_OK && is_deep && !is_projector)
        status = cs_hfdir_check(dir, &arch, err);
    if (status == CS_OK) {
        json_t *row = json_object();
        cs_msg_set_str(row, "part", part);
        cs_msg_set_str(row, "family", is_projector ? "mlp" : arch.family);
        cs_msg_set_int(row, "layers", arch.n_layers);
        cs_msg_set_int(row, "width", arch.width);
        cs_msg_set_int(row, "params", params);
        cs_msg_set_int(row, "tensors", n);
        cs_msg_set_bool(row, "tokenizer",
                        !is_projector && arch.kind == CS_MODULE_LLM && cs_hfdir_has_tokenizer(dir));
        json_array_append_new(parts, row);
    }
    cs_hfdir_close(dir);
    return status;
}

static enum cs_status collect(const char *path, bool is_deep, json_t *parts, struct cs_err *err)
{
    static const char *const names[] = {"vision", "projector", "llm"};
    struct cs_hfdir *dir = NULL;
    struct cs_err plain;
    bool whole = cs_hfdir_open(path, "", &dir, &plain) == CS_OK && !is_composite(dir);
    cs_hfdir_close(dir);
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = CS_OK;
    if (whole)
        status = add_part(path, "", is_deep, arena, parts, err);
    for (size_t i = 0; !whole && i < CS_ARRAY_LEN(names) && status == CS_OK; i++) {
        status = add_part(path, names[i], is_deep, arena, parts, err);
        if (status != CS_OK && i == 0 &&
            err) /* no composite: why it is no plain directory either */
            *err = plain;
    }
    cs_arena_free(arena);
    return status == CS_OK ? CS_OK : err ? err->status : status;
}

static void print_part(const json_t *part)
{
    char params[CS_UNITS_CAP];
    const char *name = cs_msg_str(part, "part", "");
    cs_count_print(params, sizeof params, (uint64_t)cs_msg_int(part, "params", 0));
    cs_say(stdout, "%-10s %-8s", name[0] ? name : "model", cs_msg_str(part, "family", ""));
    if (cs_msg_int(part, "layers", 0) > 0)
        cs_say(stdout, " %lld layers x %lld,", (long long)cs_msg_int(part, "layers", 0),
               (long long)cs_msg_int(part, "width", 0));
    cs_say(stdout, " %s parameters in %lld tensors%s\n", params,
           (long long)cs_msg_int(part, "tensors", 0),
           cs_msg_bool(part, "tokenizer", false) ? ", tokenizer" : "");
}

static enum cs_status look(struct cs_cmd *cmd, bool is_deep, struct cs_err *err)
{
    json_t *parts = json_array(), *part;
    size_t i;
    enum cs_status status = collect(cmd->args[0], is_deep, parts, err);
    if (status == CS_OK && cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.model/1");
        cs_msg_set_str(doc, "dir", cmd->args[0]);
        cs_msg_set(doc, "parts", json_incref(parts));
        status = cs_cmd_print_doc(doc, err);
    } else if (status == CS_OK) {
        json_array_foreach(parts, i, part) print_part(part);
        if (is_deep)
            cs_say(stdout, "ok: every tensor is there with its shape\n");
    }
    json_decref(parts);
    return status;
}

static enum cs_status show(struct cs_cmd *cmd, struct cs_err *err)
{
    return look(cmd, false, err);
}

static enum cs_status check(struct cs_cmd *cmd, struct cs_err *err)
{
    return look(cmd, true, err);
}

const struct cs_command cs_command_model_init = {
    .name = "model init",
    .role = CS_ROLE_OWNER,
    .usage = "[options] CONFIG DIR",
    .help = "make a model directory with fresh weights",
    .run = init,
    .min_args = 2,
    .max_args = 2,
    CS_COMMAND_OPTIONS(options, struct init_values),
};

const struct cs_command cs_command_model_show = {
    .name = "model show",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] DIR",
    .help = "family, sizes and tensors of a model directory",
    .run = show,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};

const struct cs_command cs_command_model_check = {
    .name = "model check",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] DIR",
    .help = "every tensor is there with its shape",
    .run = check,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};
