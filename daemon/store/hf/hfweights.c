/* The weights of a model directory: one file, or shards with their index; see hfdir.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/hf/hfdir_parts.h"

enum { MAX_SHARDS = 4096 };

static enum cs_status no_memory(const struct cs_hfdir *dir, struct cs_err *err)
{
    return cs_fail(err, CS_NO_MEMORY, "no memory for the tensors of %s", dir->path);
}

static bool is_safetensors(const char *name)
{
    static const char end[] = ".safetensors";
    size_t len = strlen(name);
    return len >= sizeof end && strcmp(name + len - (sizeof end - 1), end) == 0;
}

/* the shard called name, opened on first use */
static enum cs_status shard_at(struct cs_hfdir *dir, const char *name, struct cs_st_file **out,
                               struct cs_err *err)
{
    char path[CS_PATH_CAP];
    if (!cs_fs_is_plain_name(name) || !is_safetensors(name))
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

/* every shard that the index names, with every tensor that it should hold */
static enum cs_status open_shards(struct cs_hfdir *dir, const char *path, json_t *map,
                                  struct cs_err *err)
{
    const char *name;
    json_t *file;
    if (!json_is_object(map) || json_object_size(map) == 0)
        return cs_fail(err, CS_CORRUPT, "%s: weight_map is missing or empty", path);
    json_object_foreach(map, name, file)
    {
        struct cs_st_file *shard = NULL;
        if (!json_is_string(file))
            return cs_fail(err, CS_CORRUPT, "%s: weight_map of %.80s is not a file name", path,
                           name);
        CS_TRY(shard_at(dir, json_string_value(file), &shard, err));
        if (!cs_st_find(shard, name))
            return cs_fail(err, CS_CORRUPT, "%s: tensor %.80s should be in %s and is not", path,
                           name, json_string_value(file));
    }
    return CS_OK;
}

static enum cs_status add_tensor(struct cs_hfdir *dir, const struct cs_st_tensor *tensor,
                                 struct cs_err *err)
{
    const char *prefix, *rest = cs_hfdir_own_name(dir, tensor->name, &prefix);
    if (!rest) {
        if (!cs_hfdir_is_of_some_part(dir, tensor->name))
            dir->stray[dir->n_strays++] = tensor;
        return CS_OK;
    }
    size_t room = strlen(prefix) + strlen(rest) + 1;
    char *name = malloc(room);
    if (!name)
        return no_memory(dir, err);
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

static int by_disk_name(const void *a, const void *b)
{
    return by_name(*(const struct cs_st_tensor *const *)a, *(const struct cs_st_tensor *const *)b);
}

static enum cs_status twice(const struct cs_hfdir *dir, const struct cs_st_tensor *a,
                            const struct cs_st_tensor *b, struct cs_err *err)
{
    return cs_fail(err, CS_CORRUPT, "%s holds tensor %s twice, in %s and in %s", dir->path, a->name,
                   cs_st_path(a->file), cs_st_path(b->file));
}

void cs_hfdir_sort(struct cs_hfdir *dir)
{
    qsort(dir->tensor, (size_t)dir->n_tensors, sizeof *dir->tensor, by_name);
}

/* What the files hold becomes the component's tensors. map: of the index; what is not in it is
 * stray, though a shard holds it. NULL: no index. */
static enum cs_status share_out(struct cs_hfdir *dir, const struct cs_st_tensor **all, size_t n,
                                const json_t *map, struct cs_err *err)
{
    qsort(all, n, sizeof *all, by_disk_name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(all[i - 1]->name, all[i]->name) == 0)
            return twice(dir, all[i - 1], all[i], err);
        if (map && !json_object_get(map, all[i]->name))
            dir->stray[dir->n_strays++] = all[i];
        else
            CS_TRY(add_tensor(dir, all[i], err));
    }
    cs_hfdir_sort(dir);
    for (int i = 1; i < dir->n_tensors; i++) /* two spellings of one component name */
        if (strcmp(dir->tensor[i - 1].name, dir->tensor[i].name) == 0)
            return twice(dir, &dir->tensor[i - 1], &dir->tensor[i], err);
    return CS_OK;
}

static enum cs_status gather(struct cs_hfdir *dir, const json_t *map, struct cs_err *err)
{
    size_t room = 1, n = 0;
    for (int i = 0; i < dir->n_shards; i++)
        room += (size_t)cs_st_count(dir->shard[i]);
    const struct cs_st_tensor **all = calloc(room, sizeof *all);
    dir->tensor = calloc(room, sizeof *dir->tensor);
    dir->name = calloc(room, sizeof *dir->name);
    dir->stray = calloc(room, sizeof *dir->stray);
    enum cs_status status = CS_OK;
    if (!all || !dir->tensor || !dir->name || !dir->stray)
        status = no_memory(dir, err);
    for (int i = 0; i < dir->n_shards && status == CS_OK; i++)
        for (int k = 0; k < cs_st_count(dir->shard[i]); k++)
            all[n++] = cs_st_at(dir->shard[i], k);
    if (status == CS_OK)
        status = share_out(dir, all, n, map, err);
    free(all);
    return status;
}

static enum cs_status open_single(struct cs_hfdir *dir, const char *path, struct cs_err *err)
{
    CS_TRY(cs_st_open(path, &dir->shard[0], err));
    dir->n_shards = 1;
    return gather(dir, NULL, err);
}

static enum cs_status open_sharded(struct cs_hfdir *dir, const char *path, struct cs_err *err)
{
    json_t *index = NULL;
    CS_TRY(cs_fs_read_json(path, &index, err));
    json_t *map = json_object_get(index, "weight_map");
    enum cs_status status = open_shards(dir, path, map, err);
    if (status == CS_OK)
        status = gather(dir, map, err);
    json_decref(index);
    return status;
}

/* Weights that are there under names that nobody reads are told: training on fresh ones in their
 * stead would be something else. */
static enum cs_status refuse_other_weights(const struct cs_hfdir *dir, struct cs_err *err)
{
    static const char *const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "model.ckpt", "consolidated.00.pth"};
    char path[CS_PATH_CAP], found[256] = "";
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
    DIR *list = opendir(dir->path);
    for (struct dirent *entry; list && !found[0] && (entry = readdir(list));)
        if (is_safetensors(entry->d_name))
            snprintf(found, sizeof found, "%s", entry->d_name);
    if (list)
        closedir(list);
    if (found[0])
        return cs_fail(err, CS_NOT_FOUND,
                       "%s holds %s, but neither model.safetensors nor the index of shards, "
                       "model.safetensors.index.json",
                       dir->path, found);
    return CS_OK;
}

enum cs_status cs_hfdir_open_weights(struct cs_hfdir *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    dir->shard = calloc(MAX_SHARDS, sizeof *dir->shard);
    if (!dir->shard)
        return no_memory(dir, err);
    CS_TRY(cs_path(path, err, "%s/model.safetensors", dir->path));
    if (cs_fs_exists(path))
        return open_single(dir, path, err);
    CS_TRY(cs_path(path, err, "%s/model.safetensors.index.json", dir->path));
    if (cs_fs_exists(path))
        return open_sharded(dir, path, err);
    return refuse_other_weights(dir, err);
}
