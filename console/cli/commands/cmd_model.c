/* model init, show, check: Hugging Face model directories. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/preflight/findings.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/documents/documents.h"
#include "input/make/model_init.h"
#include "store/hf/hfdir.h"

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
    struct cs_findings findings = {.arena = cs_arena_new(0)};
    struct cs_buf warnings = {0};
    made.findings = &findings;
    enum cs_status status = cs_model_init_make(&made, err);
    cs_findings_text(&findings, false, &warnings);
    if (warnings.len > 0)
        cs_say(stderr, "%s", cs_buf_str(&warnings));
    cs_buf_free(&warnings);
    cs_arena_free(findings.arena);
    if (status != CS_OK)
        return status;
    snprintf(text, sizeof text, "wrote %s (seed %lld)", cmd->args[1], (long long)v->seed);
    return print_result(cmd, cmd->args[1], text, err);
}

/* --- show and check --------------------------------------------------------------------------- */

struct look {
    const char *path;
    bool is_deep; /* check: every tensor and every value, and what nothing reads */
    struct cs_arena *arena;
    struct cs_findings findings;
    json_t *parts; /* rows of those that are well */
};

static json_t *unread_row(const char *name, const char *why)
{
    json_t *row = json_object();
    cs_msg_set_str(row, "name", name);
    cs_msg_set_str(row, "why", why);
    return row;
}

enum { MOST_UNREAD = 100000 }; /* that a document holds */

/* Tensors beside those that the architecture reads. */
static json_t *list_unread(const struct look *look, const struct cs_hfdir *dir,
                           const struct cs_arch *arch, bool is_last)
{
    json_t *list = json_array();
    struct cs_unread *unread = NULL;
    int n = cs_hfdir_unread(dir, arch, look->arena, &unread);
    for (int i = 0; i < n && i < MOST_UNREAD; i++)
        json_array_append_new(list, unread_row(unread[i].name, unread[i].why));
    for (int i = 0;
         is_last && i < cs_hfdir_count_strays(dir) && json_array_size(list) < MOST_UNREAD;
         i++) /* the same for every part */
        json_array_append_new(
            list, unread_row(cs_hfdir_stray(dir, i)->name, "of no part, or not in the index"));
    return list;
}

static json_t *part_row(const struct cs_hfdir *dir, const char *part, const struct cs_arch *arch)
{
    int64_t params = 0;
    int n = cs_hfdir_count(dir);
    for (int i = 0; i < n; i++)
        params += cs_hfdir_at(dir, i)->count;
    json_t *row = json_object();
    cs_msg_set_str(row, "part", part);
    cs_msg_set_str(row, "family", arch->family);
    cs_msg_set_int(row, "layers", arch->n_layers);
    cs_msg_set_int(row, "width", arch->width);
    cs_msg_set_int(row, "params", params);
    cs_msg_set_int(row, "tensors", n);
    cs_msg_set_bool(row, "tokenizer", arch->kind == CS_MODULE_LLM && cs_hfdir_has_tokenizer(dir));
    cs_msg_set_bool(row, "tied", arch->is_tied);
    if (cs_hfdir_is_tie_broken(dir))
        cs_msg_set_str(row, "note",
                       "tie_word_embeddings asks for one matrix, but embedding and head are two "
                       "different ones: they stay two");
    return row;
}

static enum cs_status add_part(struct look *look, const char *part, bool is_last,
                               struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    struct cs_arch arch = {0};
    CS_TRY(cs_hfdir_open(look->path, part, &dir, err));
    enum cs_status status =
        cs_hfdir_arch(dir, look->is_deep ? &look->findings : NULL, look->arena, &arch, err);
    if (status == CS_OK && look->is_deep)
        status = cs_documents_review_beside(look->path, &arch, &look->findings, err);
    if (status == CS_OK && look->is_deep)
        status = cs_hfdir_check(dir, &arch, err);
    if (status == CS_OK && look->is_deep)
        status = cs_hfdir_check_values(dir, &arch, err);
    if (status == CS_OK) {
        json_t *row = part_row(dir, part, &arch);
        if (look->is_deep)
            cs_msg_set(row, "unread", list_unread(look, dir, &arch, is_last));
        json_array_append_new(look->parts, row);
    }
    cs_hfdir_close(dir);
    return status;
}

/* All parts are looked at; the first error counts. */
static enum cs_status collect(struct look *look, struct cs_err *err)
{
    const char *parts[CS_MODULE_KINDS];
    int n = 0;
    enum cs_status first = CS_OK;
    CS_TRY(cs_hfdir_list(look->path, parts, &n, err));
    for (int i = 0; i < n; i++) {
        struct cs_err said;
        enum cs_status status = add_part(look, parts[i], i == n - 1, &said);
        if (status == CS_OK || first != CS_OK)
            continue;
        first = status;
        if (err)
            *err = said;
        if (n > 1)
            first = cs_wrap(err, status, "part %s", parts[i]);
    }
    return first;
}

static void print_part(const json_t *part)
{
    char params[CS_UNITS_CAP];
    const char *name = cs_msg_str(part, "part", "");
    cs_count_print(params, sizeof params, (uint64_t)cs_msg_int(part, "params", 0));
    cs_say(stdout, "%-10s %-8s", name[0] ? name : "model", cs_msg_str(part, "family", ""));
    cs_say(stdout, " %lld layer%s x %lld,", (long long)cs_msg_int(part, "layers", 0),
           cs_msg_int(part, "layers", 0) == 1 ? "" : "s", (long long)cs_msg_int(part, "width", 0));
    cs_say(stdout, " %s parameters in %lld tensors%s\n", params,
           (long long)cs_msg_int(part, "tensors", 0),
           cs_msg_bool(part, "tokenizer", false) ? ", tokenizer" : "");
    if (cs_msg_str(part, "note", "")[0])
        cs_say(stdout, "  note: %s\n", cs_msg_str(part, "note", ""));
}

/* Tensors with one reason together: the first names, and how many more. */
static void print_unread(const json_t *unread)
{
    enum { SHOWN = 3 };

    size_t n = json_array_size(unread);
    for (size_t i = 0; i < n; i++) {
        const char *why = cs_msg_str(json_array_get(unread, i), "why", "");
        size_t n_alike = 0;
        bool is_said = false;
        for (size_t k = 0; k < i; k++)
            is_said = is_said || strcmp(cs_msg_str(json_array_get(unread, k), "why", ""), why) == 0;
        if (is_said)
            continue;
        cs_say(stdout, "  not read%s%s:", why[0] ? ", " : "", why);
        for (size_t k = i; k < n; k++) {
            const json_t *row = json_array_get(unread, k);
            if (strcmp(cs_msg_str(row, "why", ""), why) == 0 && n_alike++ < SHOWN)
                cs_say(stdout, " %s", cs_msg_str(row, "name", ""));
        }
        if (n_alike > SHOWN)
            cs_say(stdout, " and %zu more", n_alike - SHOWN);
        cs_say(stdout, "\n");
    }
}

static enum cs_status print_json(const struct look *look, struct cs_err *err)
{
    json_t *doc = cs_doc_new("cornstarch.model/1");
    cs_msg_set_str(doc, "dir", look->path);
    cs_msg_set(doc, "parts", json_incref(look->parts));
    if (look->is_deep)
        cs_msg_set(doc, "findings", cs_findings_json(&look->findings, false));
    return cs_cmd_print_doc(doc, err);
}

static void print_text(const struct look *look, bool is_well)
{
    json_t *part;
    size_t i;
    struct cs_buf text = {0};
    json_array_foreach(look->parts, i, part)
    {
        print_part(part);
        print_unread(json_object_get(part, "unread"));
    }
    cs_findings_text(&look->findings, false, &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
    if (look->is_deep && is_well)
        cs_say(stdout, "ok: every tensor is there with its shape, every value is a number\n");
}

static enum cs_status look_at(struct cs_cmd *cmd, bool is_deep, struct cs_err *err)
{
    struct look look = {cmd->args[0], is_deep, cs_arena_new(0), {0}, json_array()};
    look.findings.arena = look.arena;
    enum cs_status status = collect(&look, err);
    if (!cmd->json)
        print_text(&look, status == CS_OK);
    else if (status == CS_OK)
        status = print_json(&look, err);
    json_decref(look.parts);
    cs_arena_free(look.arena);
    return status;
}

static enum cs_status show(struct cs_cmd *cmd, struct cs_err *err)
{
    return look_at(cmd, false, err);
}

static enum cs_status check(struct cs_cmd *cmd, struct cs_err *err)
{
    return look_at(cmd, true, err);
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
    .help = "every tensor is there with its shape, every value is a number; what nothing reads",
    .run = check,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_NO_OPTIONS,
};
