/* Reading a checkpoint under any layout: parameters are found by global name; see checkpoint.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "store/checkpoint.h"
#include "store/ckpt_manifest.h"
#include "store/fsio.h"

struct cs_ckpt {
    char *path;
    json_t *info, *trainer;
    struct cs_st_file **file;
    int n_files;
};

static enum cs_status open_files(struct cs_ckpt *ckpt, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    const json_t *files = json_object_get(ckpt->info, "files");
    size_t n = json_array_size(files);
    ckpt->file = calloc(n + 1, sizeof(*ckpt->file));
    if (!ckpt->file)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %zu files of %s", n, ckpt->path);
    for (size_t i = 0; i < n; i++) {
        const char *name = json_string_value(json_object_get(json_array_get(files, i), "name"));
        CS_TRY(cs_path(path, err, "%s/%s", ckpt->path, name));
        if (strcmp(name, "trainer.json") == 0)
            continue;
        CS_TRY(cs_st_open(path, &ckpt->file[ckpt->n_files], err));
        ckpt->n_files++;
    }
    CS_TRY(cs_path(path, err, "%s/trainer.json", ckpt->path));
    return cs_fs_read_json(path, &ckpt->trainer, err);
}

enum cs_status cs_ckpt_open(const char *path, struct cs_ckpt **out, struct cs_err *err)
{
    struct cs_ckpt *made = calloc(1, sizeof(*made));
    *out = NULL;
    if (!made || !(made->path = strdup(path))) {
        free(made);
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", path);
    }
    enum cs_status st = cs_ckpt_verify(path, false, &made->info, err);
    if (st == CS_OK)
        st = open_files(made, err);
    if (st != CS_OK) {
        cs_ckpt_close(made);
        return cs_wrap(err, st, "opening checkpoint %s", path);
    }
    *out = made;
    return CS_OK;
}

void cs_ckpt_close(struct cs_ckpt *ckpt)
{
    if (!ckpt)
        return;
    for (int i = 0; i < ckpt->n_files; i++)
        cs_st_close(ckpt->file[i]);
    free(ckpt->file);
    json_decref(ckpt->info);
    json_decref(ckpt->trainer);
    free(ckpt->path);
    free(ckpt);
}

int64_t cs_ckpt_step(const struct cs_ckpt *ckpt)
{
    return json_integer_value(json_object_get(ckpt->info, "step"));
}

const json_t *cs_ckpt_trainer(const struct cs_ckpt *ckpt)
{
    return ckpt->trainer;
}

const json_t *cs_ckpt_info(const struct cs_ckpt *ckpt)
{
    return ckpt->info;
}

static const struct cs_st_tensor *find(const struct cs_ckpt *ckpt, const char *name,
                                       const char *kind)
{
    struct cs_buf key = {0};
    const struct cs_st_tensor *found = NULL;
    cs_buf_adds(&key, name);
    if (strcmp(kind, "master") != 0)
        cs_buf_addf(&key, ".%s", kind);
    for (int i = 0; i < ckpt->n_files && !found; i++)
        found = cs_st_find(ckpt->file[i], key.data);
    cs_buf_free(&key);
    return found;
}

enum cs_status cs_ckpt_read(const struct cs_ckpt *ckpt, const struct cs_param *param,
                            const char *kind, float *out, struct cs_err *err)
{
    static const char *const kinds[] = {"master", "exp_avg", "exp_avg_sq"};
    bool is_kind = false;
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        is_kind = is_kind || strcmp(kind, kinds[i]) == 0;
    if (!is_kind)
        return cs_fail(err, CS_INVALID, "a checkpoint holds master, exp_avg and exp_avg_sq, not %s",
                       kind);
    const struct cs_st_tensor *tensor = find(ckpt, param->name, kind);
    if (!tensor)
        return cs_fail(err, CS_NOT_FOUND, "checkpoint %s holds no %s of %s", ckpt->path, kind,
                       param->name);
    bool is_same = tensor->dtype == CS_F32 && tensor->n_dims == param->n_dims;
    for (int i = 0; is_same && i < param->n_dims; i++)
        is_same = tensor->dim[i] == param->dim[i];
    if (!is_same)
        return cs_fail(err, CS_INVALID,
                       "checkpoint %s: %s has another shape (%lld elements) than the model wants "
                       "(%lld): it is of another model",
                       ckpt->path, tensor->name, (long long)tensor->count, (long long)param->count);
    return cs_st_read_f32(tensor, 0, tensor->count, out, err);
}
