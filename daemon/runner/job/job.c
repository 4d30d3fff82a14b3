/* Reads the job directory: the specification, its graph; hashes what a checkpoint holds. */
#include "runner/job/job.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/system/pages.h"
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

/* Reads parameters one behind the other into two buffers: one is hashed while the next one is read. */
struct reader {
    const struct cs_ckpt *ckpt;
    const struct cs_param **param; /* (n) */
    int n, at;                     /* at: the one being read */
    float *value[2];
    enum cs_status status; /* of that one */
    struct cs_err err;
};

static void *read_one(void *arg)
{
    struct reader *r = arg;
    r->status = cs_ckpt_read(r->ckpt, r->param[r->at], "master", r->value[r->at % 2], &r->err);
    return NULL;
}

static void hash_one(struct cs_sha256 *sha, const struct cs_param *param, const float *value)
{
    cs_sha256_add(sha, param->name, strlen(param->name) + 1);
    cs_sha256_add(sha, value, (size_t)param->count * sizeof *value);
}

static enum cs_status hash_params(struct reader *r, struct cs_sha256 *sha, struct cs_err *err)
{
    for (r->at = 0; r->at < r->n;) {
        pthread_t thread;
        const struct cs_param *done = r->at > 0 ? r->param[r->at - 1] : NULL;
        const bool has_thread = pthread_create(&thread, NULL, read_one, r) == 0;
        if (!has_thread)
            read_one(r);
        if (done != NULL)
            hash_one(sha, done, r->value[(r->at - 1) % 2]);
        if (has_thread)
            pthread_join(thread, NULL);
        if (r->status != CS_OK && err != NULL)
            *err = r->err;
        CS_TRY(r->status);
        r->at++;
    }
    if (r->n > 0)
        hash_one(sha, r->param[r->n - 1], r->value[(r->n - 1) % 2]);
    return CS_OK;
}

enum cs_status cs_run_job_weights_hash(const struct cs_run_job *job, const char *checkpoint,
                                       char out[65], struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(checkpoint, &ckpt, err));
    const struct cs_graph *graph = job->graph;
    struct reader r = {.ckpt = ckpt, .param = calloc((size_t)graph->n_params + 1, sizeof *r.param)};
    CS_ASSERT(r.param);
    int64_t most = 0;
    for (int i = 0; i < graph->n_params; i++)
        if (graph->params[i].is_trainable) {
            r.param[r.n++] = &graph->params[i];
            most = graph->params[i].count > most ? graph->params[i].count : most;
        }
    qsort(r.param, (size_t)r.n, sizeof *r.param, by_name);
    struct cs_sha256 *sha = cs_sha256_new();
    for (int i = 0; i < 2; i++)
        r.value[i] = cs_alloc_array((size_t)most * sizeof *r.value[i]);
    enum cs_status status =
        r.value[0] != NULL && r.value[1] != NULL
            ? hash_params(&r, sha, err)
            : cs_fail(err, CS_NO_MEMORY, "no memory for two parameters of %lld", (long long)most);
    cs_sha256_end(sha, out);
    cs_sha256_free(sha);
    for (int i = 0; i < 2; i++)
        free(r.value[i]);
    free(r.param);
    cs_ckpt_close(ckpt);
    return status;
}
