/* model show, check: what a Hugging Face model directory is, part by part. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/preflight/findings.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/doc/doc.h"
#include "core/wire/wire.h"
#include "input/documents/documents.h"
#include "store/hf/hfdir.h"

struct look {
    const char *path;
    bool is_deep; /* check: every tensor and every value, and what nothing reads */
    struct cs_arena *arena;
    struct cs_findings findings;
    json_t *parts; /* rows of those that are well */
    char model_type[64];
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
    struct cs_hfdir_weights weights;
    const json_t *processor = cs_hfdir_processor(dir);
    cs_hfdir_weights(dir, &weights);
    for (int i = 0; i < n; i++)
        params += cs_hfdir_at(dir, i)->count;
    json_t *row = json_object();
    cs_msg_set_str(row, "part", part);
    cs_msg_set_str(row, "family", arch->family);
    cs_msg_set_int(row, "layers", arch->n_layers);
    cs_msg_set_int(row, "width", arch->width);
    cs_msg_set_int(row, "params", params);
    cs_msg_set_int(row, "tensors", n);
    cs_msg_set_int(row, "bytes", (int64_t)weights.bytes);
    cs_msg_set_int(row, "files", weights.n_files);
    cs_msg_set_str(row, "dtype", weights.n_types > 1 ? "mixed" : cs_dtype_name(weights.dtype));
    const char *class_name = json_string_value(
        cs_doc_get(processor, "image_processor_type|feature_extractor_type", NULL));
    if (arch->kind == CS_MODULE_ENCODER && class_name)
        cs_msg_set_str(row, "processor", class_name);
    cs_msg_set_bool(row, "tokenizer", arch->kind == CS_MODULE_LLM && cs_hfdir_has_tokenizer(dir));
    cs_msg_set_bool(row, "tied", arch->is_tied);
    if (cs_hfdir_is_bare(dir))
        cs_msg_set_str(row, "note", "not here: another projector stands behind the tower");
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
    if (status == CS_OK && look->is_deep && !cs_hfdir_is_bare(dir))
        status = cs_hfdir_check(dir, &arch, err);
    if (status == CS_OK && look->is_deep)
        status = cs_hfdir_check_values(dir, &arch, err);
    if (status == CS_OK) {
        json_t *row = part_row(dir, part, &arch);
        snprintf(look->model_type, sizeof look->model_type, "%s",
                 json_string_value(json_object_get(cs_hfdir_root_config(dir), "model_type")));
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
           CS_PLURAL(cs_msg_int(part, "layers", 0)), (long long)cs_msg_int(part, "width", 0));
    cs_say(stdout, " %s parameters in %lld tensor%s", params,
           (long long)cs_msg_int(part, "tensors", 0), CS_PLURAL(cs_msg_int(part, "tensors", 0)));
    if (cs_msg_int(part, "tensors", 0) > 0)
        cs_say(stdout, " (%s)", cs_msg_str(part, "dtype", ""));
    if (cs_msg_str(part, "processor", "")[0])
        cs_say(stdout, ", %s", cs_msg_str(part, "processor", ""));
    cs_say(stdout, "%s\n", cs_msg_bool(part, "tokenizer", false) ? ", tokenizer" : "");
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

/* All parts together, where there are several. */
static void print_total(const struct look *look)
{
    char params[CS_UNITS_CAP], bytes[CS_UNITS_CAP];
    const json_t *part;
    int64_t n_params = 0, n_bytes = 0, n_files = 0;
    size_t i;
    json_array_foreach(look->parts, i, part)
    {
        n_params += cs_msg_int(part, "params", 0);
        n_bytes += cs_msg_int(part, "bytes", 0);
        n_files = cs_msg_int(part, "files", 0);
    }
    cs_count_print(params, sizeof params, (uint64_t)n_params);
    cs_bytes_print(bytes, sizeof bytes, (uint64_t)n_bytes);
    if (n_files > 0)
        cs_say(stdout, "together   %s, %s parameters, %s in %lld file%s\n", look->model_type,
               params, bytes, (long long)n_files, CS_PLURAL(n_files));
}

static enum cs_status print_json(const struct look *look, struct cs_err *err)
{
    json_t *doc = cs_doc_new("cornstarch.model/1");
    cs_msg_set_str(doc, "dir", look->path);
    cs_msg_set_str(doc, "model_type", look->model_type);
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
    print_total(look);
    cs_findings_text(&look->findings, false, &text);
    cs_cmd_print(&text);
    cs_buf_free(&text);
    if (look->is_deep && is_well)
        cs_say(stdout, "ok: every tensor is there with its shape, every value is a number\n");
}

static enum cs_status look_at(struct cs_cmd *cmd, bool is_deep, struct cs_err *err)
{
    struct look look = {cmd->args[0], is_deep, cs_arena_new(0), {0}, json_array(), ""};
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
