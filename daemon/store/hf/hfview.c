/* What is found in an open model directory; see hfdir.h. */
#include <stdlib.h>
#include <string.h>

#include "store/hf/hfdir_parts.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct cs_st_tensor *)a)->name, ((const struct cs_st_tensor *)b)->name);
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

const json_t *cs_hfdir_video(const struct cs_hfdir *dir)
{
    return dir->video ? dir->video : dir->processor;
}

bool cs_hfdir_has_tokenizer(const struct cs_hfdir *dir)
{
    return dir->has_tokenizer;
}

bool cs_hfdir_is_bare(const struct cs_hfdir *dir)
{
    const struct cs_composite_family *family = dir->composite.family;
    return family != NULL && family->text_key == NULL && dir->kind == CS_MODULE_PROJECTOR &&
           dir->n_tensors == 0;
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

void cs_hfdir_weights(const struct cs_hfdir *dir, struct cs_hfdir_weights *out)
{
    int64_t count[CS_DTYPES] = {0};
    *out = (struct cs_hfdir_weights){.n_files = dir->n_shards};
    for (int i = 0; i < dir->n_tensors; i++) {
        const struct cs_st_tensor *t = &dir->tensor[i];
        out->bytes += (uint64_t)t->count * cs_dtype_bytes(t->dtype);
        out->n_types += count[t->dtype] == 0;
        count[t->dtype] += t->count;
        if (count[t->dtype] > count[out->dtype])
            out->dtype = t->dtype;
    }
}

bool cs_hfdir_has_disk_name(const struct cs_hfdir *dir, const char *disk)
{
    for (int i = 0; i < dir->n_shards; i++)
        if (cs_st_find(dir->shard[i], disk))
            return true;
    return false;
}

int cs_hfdir_count_strays(const struct cs_hfdir *dir)
{
    return dir->n_strays;
}

const struct cs_st_tensor *cs_hfdir_stray(const struct cs_hfdir *dir, int index)
{
    CS_ASSERT(index >= 0 && index < dir->n_strays);
    return dir->stray[index];
}
