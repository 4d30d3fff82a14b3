/* Finds the chat template of a tokenizer's directory and makes a table of it. */
#include "input/chat/own.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/system/io.h"
#include "core/doc/json_text.h"
#include "input/chat/builtin.h"
#include "input/chat/learn.h"

enum { TEMPLATE_MAX_BYTES = 256 * 1024 * 1024 }; /* it may stand in a large configuration */

/* The text of a template and where it was found. */
struct found {
    const char *text, *file;
    size_t n;
};

/* A file of the directory; out->text NULL: there is none. */
static enum cs_status read_file(const char *dir, const char *name, struct cs_arena *arena,
                                struct found *out, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf bytes = {0};
    struct stat st;
    enum cs_status status = CS_OK;

    *out = (struct found){0};
    CS_TRY(cs_path(path, err, "%s/%s", dir, name));
    if (stat(path, &st) == -1 && (errno == ENOENT || errno == ENOTDIR))
        return CS_OK;
    status = cs_read_file(path, TEMPLATE_MAX_BYTES, &bytes, err);
    if (status == CS_OK)
        *out = (struct found){cs_arena_strndup(arena, cs_buf_str(&bytes), bytes.len),
                              cs_arena_strdup(arena, path), bytes.len};
    cs_buf_free(&bytes);
    return status;
}

/* "chat_template" of a document: a text, or a list of named ones. */
static enum cs_status take_key(const json_t *root, const char *file, struct cs_arena *arena,
                               struct found *out, struct cs_err *err)
{
    const json_t *value = json_object_get(root, "chat_template"), *item = NULL;
    size_t i = 0;

    json_array_foreach(value, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name != NULL && strcmp(name, "default") == 0)
            value = json_object_get(item, "template");
    }
    *out = (struct found){0};
    if (value == NULL || json_is_null(value))
        return CS_OK;
    if (!json_is_string(value))
        return cs_fail(err, CS_CORRUPT,
                       "%s: chat_template is neither a text nor a list with a "
                       "\"default\"",
                       file);
    *out =
        (struct found){cs_arena_strndup(arena, json_string_value(value), json_string_length(value)),
                       file, json_string_length(value)};
    return CS_OK;
}

static enum cs_status find(const char *dir, struct cs_arena *arena, struct found *out,
                           struct cs_err *err)
{
    static const char *const documents[] = {"chat_template.json", "tokenizer_config.json"};

    CS_TRY(read_file(dir, "chat_template.jinja", arena, out, err));
    for (size_t i = 0; out->text == NULL && i < CS_ARRAY_LEN(documents); i++) {
        struct found file = {0};
        json_error_t where;
        json_t *root = NULL;
        enum cs_status status = CS_OK;
        CS_TRY(read_file(dir, documents[i], arena, &file, err));
        if (file.text == NULL)
            continue;
        root = cs_json_parse(file.text, file.n, JSON_ALLOW_NUL, &where);
        if (root == NULL)
            return cs_fail(err, CS_CORRUPT, "%s: line %d: %s", file.file, where.line, where.text);
        status = take_key(root, file.file, arena, out, err);
        json_decref(root);
        CS_TRY(status);
    }
    return CS_OK;
}

enum cs_status cs_template_text(const char *dir, struct cs_arena *arena, const char **text,
                                const char **file, struct cs_err *err)
{
    struct found found = {0};
    enum cs_status status = find(dir, arena, &found, err);

    *text = found.text;
    *file = found.file;
    return status;
}

/* A table in one of the ways in which templates treat thoughts. The first error tells most. */
static enum cs_status learn_any(struct learn *l, struct cs_template *out, struct cs_err *err)
{
    enum cs_status status = learn_table(l, out, err);
    struct cs_template table = *out;

    if (status != CS_OK)
        return status;
    for (int i = 0; learn_thinking(l, i, &table.thinking); i++) {
        struct cs_err *why = status == CS_OK ? err : NULL;
        *out = table;
        status = learn_check(l, out, why);
        if (status == CS_OK)
            return CS_OK;
    }
    return status != CS_OK
               ? status
               : cs_fail(err, CS_UNSUPPORTED, "the last answer begins otherwise than the first");
}

enum cs_status cs_template_of_jinja(const char *text, size_t n, const struct cs_tokenizer *tok,
                                    struct cs_arena *arena, struct cs_template *out,
                                    struct cs_err *err)
{
    struct cs_jinja *jinja = NULL;
    enum cs_status status = cs_jinja_parse(text, n, &jinja, err);
    struct learn l = {.jinja = jinja, .tok = tok, .arena = arena};

    if (status == CS_OK) {
        struct cs_err why = {0};
        status = learn_any(&l, out, &why);
        if (status != CS_OK) { /* templates of models with pictures read lists of parts */
            l = (struct learn){.jinja = jinja, .tok = tok, .arena = arena, .is_in_parts = true};
            if (learn_any(&l, out, NULL) == CS_OK)
                status = CS_OK;
            else
                status = cs_fail(err, status, "%s", why.text);
        }
    }
    if (status == CS_OK)
        learn_media(&l, out);
    cs_jinja_free(jinja);
    return status;
}

enum cs_status cs_template_own(const char *dir, const struct cs_tokenizer *tok,
                               struct cs_arena *arena, struct cs_template *out, bool *has,
                               struct cs_err *err)
{
    struct found found = {0};
    enum cs_status status = find(dir, arena, &found, err);

    *has = found.text != NULL;
    if (status != CS_OK || !*has)
        return status;
    status = cs_template_of_jinja(found.text, found.n, tok, arena, out, err);
    if (status == CS_OK) {
        out->name = cs_template_name_of(out);
        out->source = cs_arena_printf(arena, "%s", found.file);
        return CS_OK;
    }
    (void)cs_wrap(err, status, "%s: the model's chat template cannot be made a table", found.file);
    if (err != NULL) {
        struct cs_buf all = {0};
        cs_template_list(&all);
        (void)!cs_fail(err, status,
                       "%.500s; give the data a template: a built-in one (%s) or turns of your own",
                       cs_arena_strdup(arena, err->text), cs_buf_str(&all));
        cs_buf_free(&all);
    }
    return status;
}

enum cs_status cs_template_choose(const json_t *node, const char *dir,
                                  const struct cs_tokenizer *tok, struct cs_arena *arena,
                                  struct cs_template *out, struct cs_err *err)
{
    struct cs_template base;
    bool has = false;

    if (json_object_get(node, "name") != NULL) {
        CS_TRY(cs_template_read(node, arena, out, err));
        out->source = "the job";
        return CS_OK;
    }
    CS_TRY(cs_template_own(dir, tok, arena, &base, &has, err));
    if (!has) {
        CS_TRY(cs_template_read(NULL, arena, &base, err));
        base.source = "default: the tokenizer has no chat template";
    }
    return cs_template_read_over(node, &base, arena, out, err);
}
