/* Is the head of a language model its embedding? The configuration says what is wanted, the weights
 * say what there is. As in transformers 5: two different matrices stay two whatever was wanted, two
 * equal ones are one, and where one is there it is taken for both. */
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "store/hf/hfdir_parts.h"

static const char key[] = "tie_word_embeddings";

static const char *name_of(const struct cs_tensor_info *info, int n, enum cs_param_role role)
{
    for (int i = 0; i < n; i++)
        if (info[i].role == role)
            return info[i].name;
    return NULL;
}

/* number for number, so that 16-bit and 32-bit files of one matrix are equal; NaN equals nothing */
static enum cs_status compare(const struct cs_st_tensor *a, const struct cs_st_tensor *b,
                              bool *is_equal, struct cs_err *err)
{
    enum { CHUNK = 1 << 14 };

    enum cs_status status = CS_OK;
    float *values;
    *is_equal = a->n_dims == b->n_dims && memcmp(a->dim, b->dim, sizeof a->dim) == 0;
    if (!*is_equal)
        return CS_OK;
    if (!(values = malloc(2 * CHUNK * sizeof *values)))
        return cs_fail(err, CS_NO_MEMORY, "no memory to compare %s and %s", a->name, b->name);
    for (int64_t at = 0, n; status == CS_OK && *is_equal && at < a->count; at += n) {
        n = a->count - at < CHUNK ? a->count - at : CHUNK;
        status = cs_st_read_f32(a, at, n, values, err);
        if (status == CS_OK)
            status = cs_st_read_f32(b, at, n, values + CHUNK, err);
        for (int64_t i = 0; status == CS_OK && *is_equal && i < n; i++)
            *is_equal = values[i] == values[CHUNK + i];
    }
    free(values);
    return status;
}

/* The head stands in for the embedding that is not there. */
static enum cs_status rename_tensor(struct cs_hfdir *dir, const char *from, const char *to,
                                    struct cs_err *err)
{
    for (int i = 0; i < dir->n_tensors; i++) {
        if (strcmp(dir->tensor[i].name, from) != 0)
            continue;
        for (int k = 0; k < dir->n_tensors; k++) {
            if (dir->name[k] != dir->tensor[i].name)
                continue;
            free(dir->name[k]);
            dir->name[k] = strdup(to);
            if (!dir->name[k])
                return cs_fail(err, CS_NO_MEMORY, "no memory for the tensors of %s", dir->path);
            dir->tensor[i].name = dir->name[k];
            break;
        }
        cs_hfdir_sort(dir);
        return CS_OK;
    }
    return CS_OK;
}

static enum cs_status set_flag(struct cs_hfdir *dir, bool is_tied, struct cs_err *err)
{
    if (json_is_true(json_object_get(dir->config, key)) == is_tied)
        return CS_OK;
    json_t *config = json_deep_copy(dir->config);
    if (!config || json_object_set_new(config, key, json_boolean(is_tied)) == -1) {
        json_decref(config);
        return cs_fail(err, CS_NO_MEMORY, "no memory for the configuration of %s", dir->path);
    }
    json_decref(dir->config);
    dir->config = config;
    return CS_OK;
}

static enum cs_status look(struct cs_hfdir *dir, const struct cs_arch *arch, struct cs_arena *arena,
                           struct cs_err *err)
{
    struct cs_tensor_info *info = NULL;
    struct cs_arch apart = *arch;
    bool is_equal = true;
    apart.is_tied = false;
    int n = cs_arch_tensors(&apart, arena, &info);
    const char *embed_name = name_of(info, n, CS_PARAM_EMBED),
               *head_name = name_of(info, n, CS_PARAM_HEAD_W);
    if (!(arch->is_tied || dir->composite.is_tied) || !embed_name || !head_name)
        return set_flag(dir, false, err);
    const struct cs_st_tensor *embed = cs_hfdir_tensor(dir, embed_name, NULL),
                              *head = cs_hfdir_tensor(dir, head_name, NULL);
    if (embed && head)
        CS_TRY(compare(embed, head, &is_equal, err));
    if (!embed && head)
        CS_TRY(rename_tensor(dir, head_name, embed_name, err));
    dir->is_tie_broken = !is_equal;
    return set_flag(dir, is_equal, err);
}

enum cs_status cs_hfdir_tie(struct cs_hfdir *dir, struct cs_err *err)
{
    struct cs_arch arch;
    struct cs_err unread;
    enum cs_status status = CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    bool is_readable = cs_hfdir_arch(dir, NULL, arena, &arch, &unread) == CS_OK;
    if (is_readable && arch.kind == CS_MODULE_LLM)
        status = look(dir, &arch, arena, err);
    else if (!is_readable && dir->composite.is_tied && strcmp(dir->part, "llm") == 0)
        status = set_flag(dir, true, err); /* what cannot be read is told by whoever needs it */
    cs_arena_free(arena);
    return status;
}

bool cs_hfdir_is_tie_broken(const struct cs_hfdir *dir)
{
    return dir->is_tie_broken;
}
