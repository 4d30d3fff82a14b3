/* Reads the documents of a tokenizer and looks at every key of them. */
#include "input/tok/files/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/doc/json_text.h"
#include "core/doc/tokenizer_files.h"
#include "input/tok/files/keys.h"
#include "input/tok/files/made.h"

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

    *out = cs_json_parse(json, n_bytes, JSON_ALLOW_NUL, &where);
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

static enum cs_status read_one(const char *file, const struct cs_doc_table *table, json_t **out,
                               struct cs_findings *findings, struct cs_err *err)
{
    struct cs_buf bytes = {0};
    struct stat st;
    enum cs_status status = CS_OK;

    if (stat(file, &st) == -1 && errno == ENOENT)
        return CS_OK;
    status = cs_read_file(file, TOK_FILE_MAX_BYTES, &bytes, err);
    if (status == CS_OK)
        status = parse(cs_buf_str(&bytes), bytes.len, file, table, out, findings, err);
    cs_buf_free(&bytes);
    return status;
}

typedef enum cs_status make_fn(const struct cs_buf *file, const json_t *config, json_t **out,
                               struct cs_err *err);

/* The maker that a file needs, NULL: it is a tokenizer.json. Files of SentencePiece and tiktoken share
 * their names. */
static make_fn *maker_of(const char *name, const struct cs_buf *file)
{
    const size_t n = strlen(name);

    if (n >= 5 && strcmp(name + n - 5, ".json") == 0)
        return strncmp(name, "tekken", 6) == 0 ? tok_made_of_tekken : NULL;
    if (tok_is_tiktoken(file))
        return tok_made_of_tiktoken;
    if (strstr(name, ".model") != NULL || strstr(name, ".tiktoken") != NULL)
        return tok_made_of_sentencepiece;
    return NULL;
}

/* The file that holds the vocabulary. */
static enum cs_status read_main(const char *path, struct tok_files *out,
                                struct cs_findings *findings, struct cs_err *err)
{
    const char *slash = strrchr(path, '/');
    struct cs_buf bytes = {0};
    enum cs_status status = cs_read_file(path, TOK_FILE_MAX_BYTES, &bytes, err);
    make_fn *make = status != CS_OK ? NULL : maker_of(slash == NULL ? path : slash + 1, &bytes);

    out->is_made_here = make != NULL;
    if (make != NULL)
        status = make(&bytes, out->config, &out->tokenizer, err);
    else if (status == CS_OK)
        status = parse(cs_buf_str(&bytes), bytes.len, path, &tok_file_table, &out->tokenizer,
                       findings, err);
    cs_buf_free(&bytes);
    return make == NULL || status == CS_OK ? status : cs_wrap(err, status, "%s", path);
}

enum cs_status tok_files_find(const char *dir, char file[CS_PATH_CAP], struct cs_err *err)
{
    struct cs_buf all = {0};
    struct stat st;
    enum cs_status status = CS_OK;

    for (int i = 0; cs_tokenizer_vocabulary_file(i) != NULL; i++) {
        status = cs_path(file, err, "%s/%s", dir, cs_tokenizer_vocabulary_file(i));
        if (status != CS_OK || stat(file, &st) == 0 || errno != ENOENT)
            break;
        cs_buf_addf(&all, "%s%s", i == 0 ? "" : ", ", cs_tokenizer_vocabulary_file(i));
        status = CS_NOT_FOUND;
    }
    if (status == CS_NOT_FOUND)
        status = cs_fail(err, CS_NOT_FOUND, "%s holds no tokenizer: it has none of %s", dir,
                         cs_buf_str(&all));
    cs_buf_free(&all);
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
        {"tokenizer_config.json",   &tok_config_table,  &out->config },
        {"special_tokens_map.json", &tok_special_table, &out->special},
        {"added_tokens.json",       &tok_ids_table,     &out->ids    },
    };

    char file[CS_PATH_CAP], main[CS_PATH_CAP];
    struct stat st;

    *out = (struct tok_files){0};
    if (stat(path, &st) == -1)
        return cs_fail_errno(err, "tokenizer %s", path);
    if (!S_ISDIR(st.st_mode))
        return read_main(path, out, findings, err);
    CS_TRY(tok_files_find(path, main, err));
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        CS_TRY(cs_path(file, err, "%s/%s", path, rows[i].name));
        CS_TRY(read_one(file, rows[i].table, rows[i].to, findings, err));
    }
    return read_main(main, out, findings, err);
}
