/* Opening and closing a model directory; see hfdir.h. */
#include "store/hf/hfdir_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/doc/tokenizer_files.h"

static enum cs_status open_dir(struct cs_hfdir *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_hfdir_read_document(dir->path, &dir->root, err));
    CS_TRY(cs_hfdir_pick_config(dir, err));
    CS_TRY(cs_hfdir_read_processor(dir, err));
    for (int i = 0; cs_tokenizer_vocabulary_file(i) != NULL; i++) {
        CS_TRY(cs_path(path, err, "%s/%s", dir->path, cs_tokenizer_vocabulary_file(i)));
        dir->has_tokenizer |= cs_fs_exists(path);
    }
    CS_TRY(cs_hfdir_open_weights(dir, err));
    CS_TRY(cs_hfdir_cut_wholes(dir, err));
    return cs_hfdir_tie(dir, err);
}

/* the literal that equals part, so that callers need not keep theirs; NULL for anything else */
static const char *known_part(const char *part)
{
    static const char *const parts[] = {"", "vision", "audio", "llm", "projector"};
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++)
        if (strcmp(part, parts[i]) == 0)
            return parts[i];
    return NULL;
}

static char *document_of(const char *path)
{
    static const char name[] = "/config.json";
    char *document = malloc(strlen(path) + sizeof name);
    if (document)
        strcat(strcpy(document, path), name);
    return document;
}

enum cs_status cs_hfdir_open(const char *dir, const char *part, struct cs_hfdir **out,
                             struct cs_err *err)
{
    struct cs_hfdir *made = calloc(1, sizeof *made);
    enum cs_status status;
    size_t len = strlen(dir);
    *out = NULL;
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (!made || !(made->path = strndup(dir, len)) || !(made->document = document_of(made->path))) {
        cs_hfdir_close(made);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", dir);
    }
    made->part = known_part(part);
    if (made->part)
        status = open_dir(made, err);
    else
        status = cs_fail(err, CS_INVALID,
                         "part \"%s\" of %s: vision, audio, llm and projector exist", part, dir);
    if (status != CS_OK)
        cs_hfdir_close(made);
    else
        *out = made;
    return status;
}

enum cs_status cs_hfdir_open_kind(const char *dir, enum cs_module_kind kind, struct cs_hfdir **out,
                                  struct cs_err *err)
{
    json_t *root = NULL;
    *out = NULL;
    CS_TRY(cs_hfdir_read_document(dir, &root, err));
    const struct cs_composite_family *family = cs_composite_of(root);
    const char *part = family ? cs_hfdir_part(family, kind) : "";
    json_decref(root);
    if (!part)
        return cs_fail(err, CS_INVALID, "%s holds a %s without a language model", dir,
                       family->model_type);
    return cs_hfdir_open(dir, part, out, err);
}

void cs_hfdir_close(struct cs_hfdir *dir)
{
    if (!dir)
        return;
    for (int i = 0; i < dir->n_tensors; i++)
        free(dir->name[i]);
    for (int i = 0; i < dir->n_shards; i++)
        cs_st_close(dir->shard[i]);
    free(dir->tensor);
    free(dir->name);
    free(dir->shard);
    free(dir->stray);
    json_decref(dir->root);
    json_decref(dir->config);
    json_decref(dir->processor);
    json_decref(dir->video);
    free(dir->path);
    free(dir->document);
    free(dir);
}
