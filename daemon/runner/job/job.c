/* Reads the job directory: the specification, its graph; hashes what a checkpoint holds. */
#include "runner/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "store/ckpt/checkpoint.h"

enum cs_status cs_run_job_document(const struct cs_run_job *job, const char *name, json_t **out,
                                   struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf file = {0};
    *out = NULL;
    snprintf(path, sizeof path, "%s/%s", job->dir, name);
    enum cs_status status = cs_read_file(path, CS_LINE_MAX, &file, err);
    if (status == CS_OK)
        status = cs_line_parse(cs_buf_str(&file), file.len, out, err);
    cs_buf_free(&file);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "reading %s", path);
}

enum cs_status cs_run_job_open(const char *dir, struct cs_run_job *out, struct cs_err *err)
{
    *out = (struct cs_run_job){.checkpoint_step = -1, .ckpt_lock.fd = -1};
    out->arena = cs_arena_new(0);
    if (!realpath(dir, out->dir))
        return cs_fail_errno(err, "job directory %s", dir);
    CS_TRY(cs_run_job_document(out, "spec.json", &out->spec_json, err));
    CS_TRY(cs_spec_read(out->spec_json, out->arena, &out->spec, err));
    CS_TRY(cs_graph_build(out->spec, false, out->arena, &out->graph, err));
    const char *elsewhere = out->spec->checkpoint_dir;
    if (elsewhere && elsewhere[0])
        return cs_path(out->ckpt_dir, err, "%s", elsewhere);
    return cs_path(out->ckpt_dir, err, "%s/ckpt", out->dir);
}

void cs_run_job_close(struct cs_run_job *job)
{
    json_decref(job->cursor);
    json_decref(job->inputs);
    cs_ckpt_dir_leave(&job->ckpt_lock);
    cs_arena_free(job->arena);
    json_decref(job->spec_json);
    *job = (struct cs_run_job){.checkpoint_step = -1, .ckpt_lock.fd = -1};
}

static int by_name(const void *a, const void *b)
{
    const struct cs_param *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static enum cs_status hash_params(const struct cs_ckpt *ckpt, const struct cs_param **param, int n,
                                  struct cs_sha256 *sha, struct cs_err *err)
{
    for (int i = 0; i < n; i++) {
        size_t bytes = (size_t)param[i]->count * sizeof(float);
        float *value = malloc(bytes ? bytes : 1);
        if (!value)
            return cs_fail(err, CS_NO_MEMORY, "%zu bytes for %s", bytes, param[i]->name);
        enum cs_status status = cs_ckpt_read(ckpt, param[i], "master", value, err);
        if (status == CS_OK) {
            cs_sha256_add(sha, param[i]->name, strlen(param[i]->name) + 1);
            cs_sha256_add(sha, value, bytes);
        }
        free(value);
        CS_TRY(status);
    }
    return CS_OK;
}

enum cs_status cs_run_job_weights_hash(const struct cs_run_job *job, const char *checkpoint,
                                       char out[65], struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(checkpoint, &ckpt, err));
    const struct cs_graph *graph = job->graph;
    const struct cs_param **param = calloc((size_t)graph->n_params + 1, sizeof *param);
    CS_ASSERT(param);
    int n = 0;
    for (int i = 0; i < graph->n_params; i++)
        if (graph->params[i].is_trainable)
            param[n++] = &graph->params[i];
    qsort(param, (size_t)n, sizeof *param, by_name);
    struct cs_sha256 *sha = cs_sha256_new();
    enum cs_status status = hash_params(ckpt, param, n, sha, err);
    cs_sha256_end(sha, out);
    cs_sha256_free(sha);
    free(param);
    cs_ckpt_close(ckpt);
    return status;
}
