/* Reads the documents of a tokenizer and looks at every key of them. */
#include "input/tok/files.h"

#include <errno.h>
#include <sys/stat.h>

#include "core/base/io.h"
#include "input/tok/keys.h"
#include "input/tok/tok.h"

void tok_files_free(struct tok_files *files)
{
    json_decref(files->tokenizer);
    json_decref(files->config);
    json_decref(files->special);
    json_decref(files->ids);
    *files = (struct tok_files){0};
}

static enum cs_status parse(const char *json, size_t n_bytes, const char *name,
                            const struct cs_doc_table *table, json_t **out,
                            struct cs_findings *findings, struct cs_err *err)
{
    json_error_t where;
    json_t *shown = NULL;
    const char *key = NULL;
    json_t *value = NULL;
    void *next = NULL;
    enum cs_status status = CS_OK;

    *out = json_loadb(json, n_bytes, JSON_ALLOW_NUL, &where);
    if (*out == NULL)
        return cs_fail(err, CS_CORRUPT, "%s: line %d: %s", name, where.line, where.text);
    /* tokens of this model alone have names of their own: no table has them */
    shown = json_copy(*out);
    json_object_foreach_safe(shown, next, key, value)
    {
        if (table != &tok_ids_table && tok_is_own_key(key) &&
            (json_is_string(value) || json_is_object(value)))
            json_object_del(shown, key);
    }
    status = cs_doc_review(
        &(struct cs_doc){.name = name, .where = "", .json = shown, .table = table}, findings, err);
    json_decref(shown);
    return status == CS_INVALID ? cs_wrap(err, CS_CORRUPT, "tokenizer") : status;
}

enum cs_status tok_files_parse(const char *json, size_t n_bytes, const char *name,
                               struct tok_files *out, struct cs_err *err)
{
    *out = (struct tok_files){0};
    return parse(json, n_bytes, name, &tok_file_table, &out->tokenizer, NULL, err);
}

static enum cs_status read_one(const char *file, bool is_needed, const struct cs_doc_table *table,
                               json_t **out, struct cs_findings *findings, struct cs_err *err)
{
    struct cs_buf bytes = {0};
    struct stat st;
    enum cs_status status = CS_OK;

    if (!is_needed && stat(file, &st) == -1 && errno == ENOENT)
        return CS_OK;
    status = cs_read_file(file, CS_TOKENIZER_MAX_BYTES, &bytes, err);
    if (status == CS_OK)
        status = parse(cs_buf_str(&bytes), bytes.len, file, table, out, findings, err);
    cs_buf_free(&bytes);
    return status;
}

enum cs_status tok_files_read(const char *path, struct tok_files *out, struct cs_findings *findings,
                              struct cs_err *err)
{
    const struct {
        const char *name;
        const struct cs_doc_table *table;
        json_t **to;
    } rows[] = {
        {"tokenizer.json",          &tok_file_table,    &out->tokenizer},
        {"tokenizer_config.json",   &tok_config_table,  &out->config   },
        {"special_tokens_map.json", &tok_special_table, &out->special  },
        {"added_tokens.json",       &tok_ids_table,     &out->ids      },
    };

    char file[CS_PATH_CAP];
    struct stat st;

    *out = (struct tok_files){0};
    if (stat(path, &st) == -1)
        return cs_fail_errno(err, "tokenizer %s", path);
    if (!S_ISDIR(st.st_mode))
        return read_one(path, true, rows[0].table, rows[0].to, findings, err);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        CS_TRY(cs_path(file, err, "%s/%s", path, rows[i].name));
        CS_TRY(read_one(file, i == 0, rows[i].table, rows[i].to, findings, err));
    }
    return CS_OK;
}
