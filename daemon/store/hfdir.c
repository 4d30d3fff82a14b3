/* Opening a model directory: configuration, weights under component names, checks; see hfdir.h. */
#include "store/hfdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/model/composite.h"
#include "store/fsio.h"

enum { MAX_SHARDS = 4096 };

/* Names on disk -> names in the component's own directory. The first row of the part that fits
 * wins. */
static const struct {
    const char *part, *disk, *component;
} renames[] = {
    {"vision",    "vision_tower.",                ""        }, /* as saved */
    {"vision",    "model.vision_tower.",          ""        }, /* as in memory since transformers 4.52 */
    {"llm",       "language_model.",              ""        },
    {"llm",       "model.language_model.",        "model."  },
    {"llm",       "lm_head.",                     "lm_head."},
    {"projector", "multi_modal_projector.",       ""        },
    {"projector", "model.multi_modal_projector.", ""        },
};

struct cs_hfdir {
    char *path;
    const char *part;
    json_t *root, *config, *processor;
    struct cs_composite composite; /* where part is not "" */
    bool has_tokenizer;
    struct cs_st_file **shard;
    int n_shards;
    struct cs_st_tensor *tensor; /* copies under component names, sorted by name */
    int n_tensors;
    char **name; /* what tensor[].name points at, in order of adding */
};

static enum cs_status read_optional(const struct cs_hfdir *dir, const char *name, json_t **out,
                                    struct cs_err *err)
{
    char path[CS_PATH_CAP];
    *out = NULL;
    CS_TRY(cs_path(path, err, "%s/%s", dir->path, name));
    return cs_fs_exists(path) ? cs_fs_read_json(path, out, err) : CS_OK;
}

/* As in transformers 5: what processor_config.json nests holds over preprocessor_config.json. */
static enum cs_status read_processor(struct cs_hfdir *dir, struct cs_err *err)
{
    json_t *all = NULL;
    CS_TRY(read_optional(dir, "processor_config.json", &all, err));
    json_t *nested = json_object_get(all, "image_processor");
    dir->processor = json_is_null(nested) ? NULL : json_incref(nested);
    json_decref(all);
    if (dir->processor)
        return CS_OK;
    return read_optional(dir, "preprocessor_config.json", &dir->processor, err);
}

/* LLaVA keeps no configuration of the projector: made from what fixes it. */
static json_t *projector_config(const struct cs_composite *composite, const json_t *root)
{
    return json_pack(
        "{s:s, s:i, s:s, s:b, s:O?, s:O?}", "model_type", "mlp", "n_layers", 2, "activation",
        composite->activation, "bias", (int)composite->has_bias, "in_width",
        json_object_get(json_object_get(root, "vision_config"), "hidden_size"), "out_width",
        json_object_get(json_object_get(root, "text_config"), "hidden_size"));
}

/* text_config with the flag that root and text_config have together */
static json_t *text_config(const struct cs_composite *composite, const json_t *root)
{
    const json_t *text = json_object_get(root, "text_config");
    json_t *copy = json_is_object(text) ? json_copy((json_t *)(uintptr_t)text) : NULL;
    if (copy && composite->is_tied)
        json_object_set_new(copy, "tie_word_embeddings", json_true());
    return copy;
}

static enum cs_status pick_config(struct cs_hfdir *dir, struct cs_err *err)
{
    bool is_part = *dir->part != '\0';
    const char *key = strcmp(dir->part, "vision") == 0 ? "vision_config" : "text_config";
    if (cs_composite_is(dir->root) != is_part)
        return cs_fail(err, CS_INVALID,
                       is_part ? "%s: part \"%s\" was asked for, but its config.json is not of "
                                 "model_type llava: open the directory as a whole"
                               : "%s holds a composite llava model%s: open its part vision, llm or "
                                 "projector",
                       dir->path, dir->part);
    if (is_part) {
        char document[CS_PATH_CAP];
        CS_TRY(cs_path(document, err, "%s/config.json", dir->path));
        CS_TRY(cs_composite_read(&(struct cs_config_source){document, "", dir->root, NULL},
                                 strcmp(dir->part, "llm") != 0, &dir->composite, err));
    }
    if (!is_part)
        dir->config = json_incref(dir->root);
    else if (strcmp(dir->part, "projector") == 0)
        dir->config = projector_config(&dir->composite, dir->root);
    else if (strcmp(dir->part, "llm") == 0)
        dir->config = text_config(&dir->composite, dir->root);
    else
        dir->config = json_incref(json_object_get(dir->root, key));
    if (!json_is_object(dir->config))
        return cs_fail(err, CS_CORRUPT, "%s/config.json: %s is missing or not an object", dir->path,
                       is_part ? key : "the configuration");
    return CS_OK;
}

/* component name of a tensor, or NULL when it belongs to another part; prefix points to
 * the new one */
static const char *component_name(const char *part, const char *disk, const char **prefix)
{
    *prefix = "";
    if (*part == '\0')
        return disk;
    for (size_t i = 0; i < CS_ARRAY_LEN(renames); i++) {
        size_t len = strlen(renames[i].disk);
        if (strcmp(part, renames[i].part) == 0 && strncmp(disk, renames[i].disk, len) == 0 &&
            disk[len] != '\0') {
            *prefix = renames[i].component;
            return disk + len;
        }
    }
    return NULL;
}

static enum cs_status add_tensor(struct cs_hfdir *dir, const struct cs_st_tensor *tensor,
                                 struct cs_err *err)
{
    const char *prefix, *rest = component_name(dir->part, tensor->name, &prefix);
    if (!rest)
        return CS_OK;
    size_t room = strlen(prefix) + strlen(rest) + 1;
    char *name = malloc(room);
    if (!name)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the tensors of %s", dir->path);
    snprintf(name, room, "%s%s", prefix, rest);
    dir->name[dir->n_tensors] = name;
    dir->tensor[dir->n_tensors] = *tensor;
    dir->tensor[dir->n_tensors++].name = name;
    return CS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct cs_st_tensor *)a)->name, ((const struct cs_st_tensor *)b)->name);
}

static enum cs_status sort_tensors(struct cs_hfdir *dir, struct cs_err *err)
{
    qsort(dir->tensor, (size_t)dir->n_tensors, sizeof *dir->tensor, by_name);
    for (int i = 1; i < dir->n_tensors; i++)
        if (strcmp(dir->tensor[i - 1].name, dir->tensor[i].name) == 0)
            return cs_fail(err, CS_CORRUPT, "%s holds tensor %s twice, in %s and in %s", dir->path,
                           dir->tensor[i].name, cs_st_path(dir->tensor[i - 1].file),
                           cs_st_path(dir->tensor[i].file));
    return CS_OK;
}

static enum cs_status reserve(struct cs_hfdir *dir, size_t tensors, size_t shards,
                              struct cs_err *err)
{
    free(dir->tensor);
    free(dir->name);
    dir->tensor = calloc(tensors + 1, sizeof *dir->tensor);
    dir->name = calloc(tensors + 1, sizeof *dir->name);
    if (!dir->shard)
        dir->shard = calloc(shards + 1, sizeof *dir->shard);
    if (!dir->tensor || !dir->name || !dir->shard)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the tensors of %s", dir->path);
    return CS_OK;
}

static enum cs_status open_single(struct cs_hfdir *dir, const char *path, struct cs_err *err)
{
    CS_TRY(reserve(dir, 0, 1, err));
    CS_TRY(cs_st_open(path, &dir->shard[0], err));
    dir->n_shards = 1;
    int n = cs_st_count(dir->shard[0]);
    CS_TRY(reserve(dir, (size_t)n, 1, err));
    for (int i = 0; i < n; i++)
        CS_TRY(add_tensor(dir, cs_st_at(dir->shard[0], i), err));
    return sort_tensors(dir, err);
}

/* the shard called name, opened on first use */
static enum cs_status shard_at(struct cs_hfdir *dir, const char *name, struct cs_st_file **out,
                               struct cs_err *err)
{
    char path[CS_PATH_CAP];
    size_t len = strlen(name);
    if (!cs_fs_is_plain_name(name) || len < 13 || strcmp(name + len - 12, ".safetensors") != 0)
        return cs_fail(err, CS_REFUSED,
                       "%s/model.safetensors.index.json: \"%.80s\" is not the plain name of a "
                       ".safetensors file in the directory",
                       dir->path, name);
    CS_TRY(cs_path(path, err, "%s/%s", dir->path, name));
    for (int i = 0; i < dir->n_shards; i++)
        if (strcmp(cs_st_path(dir->shard[i]), path) == 0) {
            *out = dir->shard[i];
            return CS_OK;
        }
    if (dir->n_shards == MAX_SHARDS)
        return cs_fail(err, CS_LIMIT, "%s has more than %d shards", dir->path, MAX_SHARDS);
    enum cs_status status = cs_st_open(path, &dir->shard[dir->n_shards], err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s/model.safetensors.index.json", dir->path);
    *out = dir->shard[dir->n_shards++];
    return CS_OK;
}

static enum cs_status open_sharded(struct cs_hfdir *dir, const char *path, struct cs_err *err)
{
    json_t *index = NULL, *file;
    const char *name;
    CS_TRY(cs_fs_read_json(path, &index, err));
    json_t *map = json_object_get(index, "weight_map");
    enum cs_status status = CS_OK;
    if (!json_is_object(map) || json_object_size(map) == 0)
        status = cs_fail(err, CS_CORRUPT, "%s: weight_map is missing or empty", path);
    else
        status = reserve(dir, json_object_size(map), MAX_SHARDS, err);
    if (status != CS_OK)
        goto out;
    json_object_foreach(map, name, file)
    {
        struct cs_st_file *shard = NULL;
        if (!json_is_string(file)) {
            status =
                cs_fail(err, CS_CORRUPT, "%s: weight_map of %.80s is not a file name", path, name);
            goto out;
        }
        status = shard_at(dir, json_string_value(file), &shard, err);
        if (status != CS_OK)
            goto out;
        const struct cs_st_tensor *tensor = cs_st_find(shard, name);
        if (!tensor)
            status = cs_fail(err, CS_CORRUPT, "%s: tensor %.80s should be in %s and is not", path,
                             name, json_string_value(file));
        else
            status = add_tensor(dir, tensor, err);
        if (status != CS_OK)
            goto out;
    }
    status = sort_tensors(dir, err);
out:
    json_decref(index);
    return status;
}

static enum cs_status open_weights(struct cs_hfdir *dir, struct cs_err *err)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "model.ckpt", "consolidated.00.pth"};
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/model.safetensors", dir->path));
    if (cs_fs_exists(path))
        return open_single(dir, path, err);
    CS_TRY(cs_path(path, err, "%s/model.safetensors.index.json", dir->path));
    if (cs_fs_exists(path))
        return open_sharded(dir, path, err);
    for (size_t i = 0; i < CS_ARRAY_LEN(pickles); i++) {
        CS_TRY(cs_path(path, err, "%s/%s", dir->path, pickles[i]));
        if (cs_fs_exists(path))
            return cs_fail(
                err, CS_UNSUPPORTED,
                "%s is a pickle, which can run code when loaded and is not read: load the "
                "model in transformers and call save_pretrained(DIR), which writes "
                "model.safetensors",
                path);
    }
    return CS_OK;
}

static enum cs_status open_dir(struct cs_hfdir *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/config.json", dir->path));
    enum cs_status status = cs_fs_read_json(path, &dir->root, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s is not a Hugging Face model directory", dir->path);
    CS_TRY(pick_config(dir, err));
    CS_TRY(read_processor(dir, err));
    CS_TRY(cs_path(path, err, "%s/tokenizer.json", dir->path));
    dir->has_tokenizer = cs_fs_exists(path);
    return open_weights(dir, err);
}

/* the literal that equals part, so that callers need not keep theirs; NULL for anything else */
static const char *known_part(const char *part)
{
    static const char *const parts[] = {"", "vision", "llm", "projector"};
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++)
        if (strcmp(part, parts[i]) == 0)
            return parts[i];
    return NULL;
}

enum cs_status cs_hfdir_open(const char *dir, const char *part, struct cs_hfdir **out,
                             struct cs_err *err)
{
    struct cs_hfdir *made = calloc(1, sizeof *made);
    enum cs_status status;
    *out = NULL;
    if (!made || !(made->path = strdup(dir))) {
        free(made);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", dir);
    }
    size_t len = strlen(made->path);
    while (len > 1 && made->path[len - 1] == '/')
        made->path[--len] = '\0';
    made->part = known_part(part);
    if (made->part)
        status = open_dir(made, err);
    else
        status = cs_fail(err, CS_INVALID, "part \"%s\" of %s: vision, llm and projector exist",
                         part, dir);
    if (status != CS_OK)
        cs_hfdir_close(made);
    else
        *out = made;
    return status;
}

enum cs_status cs_hfdir_open_kind(const char *dir, enum cs_module_kind kind, struct cs_hfdir **out,
                                  struct cs_err *err)
{
    static const char *const parts[] = {"vision", "projector", "llm"};
    _Static_assert(CS_ARRAY_LEN(parts) == CS_MODULE_KINDS, "one part per kind");
    char path[CS_PATH_CAP];
    json_t *root = NULL;
    *out = NULL;
    CS_TRY(cs_path(path, err, "%s/config.json", dir));
    enum cs_status status = cs_fs_read_json(path, &root, err);
    bool is_composite = cs_composite_is(root);
    json_decref(root);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s is not a Hugging Face model directory", dir);
    return cs_hfdir_open(dir, is_composite ? parts[kind] : "", out, err);
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
    json_decref(dir->root);
    json_decref(dir->config);
    json_decref(dir->processor);
    free(dir->path);
    free(dir);
}

const char *cs_hfdir_path(const struct cs_hfdir *dir)
{
    return dir->path;
}

const json_t *cs_hfdir_root_config(const struct cs_hfdir *dir)
{
    return dir->root;
}

const json_t *cs_hfdir_config(const struct cs_hfdir *dir)
{
    return dir->config;
}

const struct cs_composite *cs_hfdir_composite(const struct cs_hfdir *dir)
{
    return *dir->part != '\0' ? &dir->composite : NULL;
}

const json_t *cs_hfdir_processor(const struct cs_hfdir *dir)
{
    return dir->processor;
}

bool cs_hfdir_has_tokenizer(const struct cs_hfdir *dir)
{
    return dir->has_tokenizer;
}

int cs_hfdir_count(const struct cs_hfdir *dir)
{
    return dir->n_tensors;
}

const struct cs_st_tensor *cs_hfdir_at(const struct cs_hfdir *dir, int index)
{
    CS_ASSERT(index >= 0 && index < dir->n_tensors);
    return &dir->tensor[index];
}

const struct cs_st_tensor *cs_hfdir_tensor(const struct cs_hfdir *dir, const char *name,
                                           const char *alt)
{
    struct cs_st_tensor key = {.name = name};
    const struct cs_st_tensor *found = NULL;
    if (dir->n_tensors == 0)
        return NULL;
    found = bsearch(&key, dir->tensor, (size_t)dir->n_tensors, sizeof(key), by_name);
    key.name = alt;
    if (!found && alt)
        found = bsearch(&key, dir->tensor, (size_t)dir->n_tensors, sizeof(key), by_name);
    return found;
}
