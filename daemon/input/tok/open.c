/* Opens and closes a tokenizer: from the documents of a directory to one that encodes. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/tok.h"

static void keep_names(struct cs_tokenizer *tok, json_t *named)
{
    const char *key = NULL;
    json_t *token = NULL;

    tok->names = CS_NEW_ARRAY(tok->arena, struct tok_name, json_object_size(named) + 1);
    json_object_foreach(named, key, token) tok->names[tok->n_names++] = (struct tok_name){
        cs_arena_strdup(tok->arena, key),
        cs_arena_strdup(tok->arena, json_string_value(json_object_get(token, "content")))};
}

/* Takes the files. */
static enum cs_status make(struct tok_files *files, const char *name, struct cs_tokenizer **out,
                           struct cs_err *err)
{
    struct cs_tokenizer *tok = calloc(1, sizeof *tok);
    json_t *added = NULL, *named = NULL;
    enum cs_status status = CS_OK;

    CS_ASSERT(tok != NULL);
    tok->arena = cs_arena_new(0);
    status = tok_files_added(files, &added, &named, err);
    if (status == CS_OK)
        status = tok_load_model(
            tok, &(struct tok_source){files->tokenizer, added, files->is_made_here}, err);
    if (status == CS_OK) {
        keep_names(tok, named);
        status = tok_load_around(tok, files, err);
    }
    if (status == CS_OK) {
        *out = tok;
    } else {
        cs_tokenizer_close(tok);
        status = cs_wrap(err, status, "%s", name);
    }
    json_decref(added);
    json_decref(named);
    return status;
}

enum cs_status cs_tokenizer_parse(const char *json, size_t n_bytes, const char *name,
                                  struct cs_tokenizer **out, struct cs_err *err)
{
    struct tok_files files = {0};
    enum cs_status status = tok_files_parse(json, n_bytes, name, &files, err);

    *out = NULL;
    if (status == CS_OK)
        status = make(&files, name, out, err);
    tok_files_free(&files);
    return status;
}

enum cs_status cs_tokenizer_open(const char *path, struct cs_tokenizer **out, struct cs_err *err)
{
    return cs_tokenizer_review(path, out, NULL, err);
}

enum cs_status cs_tokenizer_review(const char *path, struct cs_tokenizer **out,
                                   struct cs_findings *findings, struct cs_err *err)
{
    struct tok_files files = {0};
    enum cs_status status = tok_files_read(path, &files, findings, err);

    *out = NULL;
    if (status == CS_OK)
        status = make(&files, path, out, err);
    tok_files_free(&files);
    return status;
}

bool cs_tokenizer_is_in(const char *dir)
{
    char file[CS_PATH_CAP];

    return tok_files_find(dir, file, NULL) == CS_OK;
}

void cs_tokenizer_close(struct cs_tokenizer *tok)
{
    if (tok == NULL)
        return;
    for (int i = 0; i < tok->n_ops; i++)
        tok_regex_free(&tok->ops[i].split);
    for (int i = 0; i < tok->n_steps; i++)
        tok_regex_free(&tok->steps[i].regex);
    tok_trie_free(&tok->pieces);
    tok_trie_free(&tok->kept);
    tok_trie_free(&tok->raw.trie);
    tok_trie_free(&tok->normalized.trie);
    cs_arena_free(tok->arena);
    free(tok);
}
