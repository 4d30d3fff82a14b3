/* Writing the files of one rank of a checkpoint. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/arena.h"
#include "core/base/system/parallel.h"
#include "core/base/units.h"
#include "store/ckpt/checkpoint.h"
#include "store/ckpt/ckpt_entry.h"
#include "store/ckpt/ckpt_manifest.h"
#include "store/fsio.h"

static struct cs_st_out describe(const struct cs_ckpt_part *part, enum cs_ckpt_kind kind,
                                 const float *data, struct cs_arena *arena)
{
    const struct cs_ckpt_entry entry = {part->param->name, kind, cs_slice_whole(part->param),
                                        part->slice};
    struct cs_st_out out = {.name = cs_ckpt_entry_name(&entry, arena),
                            .dtype = CS_F32,
                            .n_dims = part->slice.n_dims,
                            .data = data};
    for (int d = 0; d < out.n_dims; d++)
        out.dim[d] = part->slice.end[d] - part->slice.begin[d];
    return out;
}

static int64_t count_nonfinite(const struct cs_st_out *tensor, int n)
{
    int64_t found = 0;
    for (int i = 0; i < n; i++) {
        const float *value = tensor[i].data;
        int64_t count = 1;
        for (int d = 0; d < tensor[i].n_dims; d++)
            count *= tensor[i].dim[d];
        for (int64_t k = 0; k < count; k++)
            found += !isfinite(value[k]);
    }
    return found;
}

static enum cs_status write_file(const char *temp, const char *folder, int rank,
                                 const struct cs_st_out *tensor, int n, struct cs_ckpt_file *file,
                                 struct cs_err *err)
{
    char path[CS_PATH_CAP];
    snprintf(file->name, sizeof(file->name), "%s/rank-%d.safetensors", folder, rank);
    file->n_nonfinite = count_nonfinite(tensor, n);
    CS_TRY(cs_path(path, err, "%s/%s", temp, folder));
    CS_TRY(cs_mkdirs(path, err));
    CS_TRY(cs_path(path, err, "%s/%s", temp, file->name));
    return cs_st_write(path, tensor, n, file->xxh3, &file->bytes, err);
}

/* The two files of a rank, written beside each other. */
struct writing {
    const char *temp;
    int rank;

    struct {
        const char *folder;
        const struct cs_st_out *tensor;
        int n;
        struct cs_ckpt_file *file;
        enum cs_status status;
        struct cs_err err;
    } of[2];
};

static void write_range(void *user, int64_t first, int64_t n)
{
    struct writing *w = user;
    for (int64_t i = first; i < first + n; i++)
        w->of[i].status = write_file(w->temp, w->of[i].folder, w->rank, w->of[i].tensor, w->of[i].n,
                                     w->of[i].file, &w->of[i].err);
}

enum cs_status cs_ckpt_write_rank(const char *dir, int64_t step, int rank,
                                  const struct cs_ckpt_part *part, int n,
                                  struct cs_ckpt_file files[2], struct cs_err *err)
{
    char temp[CS_PATH_CAP];
    memset(files, 0, 2 * sizeof(files[0]));
    if (step < 0 || rank < 0 || n < 0)
        return cs_fail(err, CS_INVALID, "checkpoint of step %lld, rank %d, %d part%s of parameters",
                       (long long)step, rank, n, CS_PLURAL(n));
    CS_TRY(cs_path(temp, err, "%s/ckpt-%lld.tmp", dir, (long long)step));
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_st_out *master = CS_NEW_ARRAY(arena, struct cs_st_out, n + 1);
    struct cs_st_out *moment = CS_NEW_ARRAY(arena, struct cs_st_out, 2 * n + 1);
    for (int i = 0; i < n; i++) {
        const struct cs_ckpt_part *p = &part[i];
        master[i] = describe(p, CS_CKPT_MASTER, p->master, arena);
        moment[2 * i] = describe(p, CS_CKPT_EXP_AVG, p->exp_avg, arena);
        moment[2 * i + 1] = describe(p, CS_CKPT_EXP_AVG_SQ, p->exp_avg_sq, arena);
    }
    struct writing w = {
        .temp = temp,
        .rank = rank,
        .of = {{.folder = "params", .tensor = master, .n = n, .file = &files[0]},
               {.folder = "opt", .tensor = moment, .n = 2 * n, .file = &files[1]}},
    };
    cs_parallel_for(2, 2, 1, write_range, &w);
    cs_arena_free(arena);
    for (int i = 0; i < 2; i++) {
        if (w.of[i].status == CS_OK)
            continue;
        if (err != NULL)
            *err = w.of[i].err;
        return cs_wrap(err, w.of[i].status, "checkpoint of step %lld", (long long)step);
    }
    return CS_OK;
}
