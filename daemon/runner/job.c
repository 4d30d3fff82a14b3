/* From a job directory to a plan and a place to go on; see job.h. */
#include "runner/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/plan/make/planner.h"
#include "core/plan/plan_json.h"
#include "core/sched/sim/predict.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "store/checkpoint.h"

static enum cs_status read_json(const char *path, json_t **out, struct cs_err *err)
{
    struct cs_buf file = {0};
    enum cs_status status = cs_read_file(path, CS_LINE_MAX, &file, err);
    if (status == CS_OK)
        status = cs_line_parse(cs_buf_str(&file), file.len, out, err);
    cs_buf_free(&file);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "reading %s", path);
}

void cs_run_job_stages(const struct cs_plan *plan, int rank, char *out, size_t cap)
{
    size_t used = 0;
    snprintf(out, cap, "no stage");
    rank = cs_plan_rank_in_replica(plan, rank); /* all replicas are alike */
    for (int s = 0; s < plan->n_stages && used < cap; s++) {
        if (plan->stages[s].rank != rank)
            continue;
        int n = snprintf(out + used, cap - used, "%s%s", used ? "+" : "", plan->stages[s].name);
        used += n > 0 ? (size_t)n : 0;
    }
}

void cs_run_job_rank_name(const struct cs_plan *plan, int rank, char *out, size_t cap)
{
    char stages[200];
    cs_run_job_stages(plan, rank, stages, sizeof stages);
    snprintf(out, cap, "rank %d (%s)", rank, stages);
}

/* "vision.0 4 layers on rank 0" of every stage, from a plan's own document */
static void describe(const struct cs_plan *plan, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = '\0';
    for (int s = 0; s < plan->n_stages && used < cap; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        int n = snprintf(out + used, cap - used, "%s%s %d layers on rank %d", s ? ", " : "",
                         stage->name, stage->n_layers, stage->rank);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* The plan is another than previewed: say both, from the older plan.json when it is there. */
static enum cs_status refuse_plan(const struct cs_run_job *job, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16], now[300], then[300] = "its stages are not known here";
    json_t *old_json = NULL;
    struct cs_plan *old = NULL;
    snprintf(path, sizeof path, "%s/plan.json", job->dir);
    if (read_json(path, &old_json, NULL) == CS_OK &&
        cs_plan_read(old_json, job->graph, job->arena, &old, NULL) == CS_OK &&
        strcmp(old->hash, job->spec->plan_hash) == 0)
        describe(old, then, sizeof then);
    json_decref(old_json);
    describe(job->plan, now, sizeof now);
    return cs_fail(err, CS_PLAN,
                   "the plan differs from the previewed one (no --replan). Previewed: %.12s (%s). "
                   "Now: %.12s (%s), predicted step %.3f ms",
                   job->spec->plan_hash, then, job->plan->hash, now,
                   (double)job->plan->predicted_step_ns / 1e6);
}

static enum cs_status write_plan(struct cs_run_job *job, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    job->plan_json = cs_plan_json(job->plan, job->graph);
    snprintf(path, sizeof path, "%s/plan.json", job->dir);
    cs_json_pretty(job->plan_json, &text);
    enum cs_status status = cs_write_file_atomic(path, text.data, text.len, 0600, err);
    cs_buf_free(&text);
    return status;
}

static enum cs_status make_plan(struct cs_run_job *job, const struct cs_here *given, bool is_replan,
                                struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    const struct cs_here cpu = {.devices = CS_HERE_DEVICES};
    const struct cs_here *here = given->device ? given : &cpu;
    snprintf(path, sizeof path, "%s/spec.json", job->dir);
    CS_TRY(read_json(path, &job->spec_json, err));
    CS_TRY(cs_spec_read(job->spec_json, job->arena, &job->spec, err));
    CS_TRY(cs_graph_build(job->spec, false, job->arena, &job->graph, err));
    CS_TRY(cs_cluster_read_here(job->spec->cluster, here, &job->cluster, err));
    CS_TRY(cs_spec_check_precision(job->spec, job->cluster.device->name, err));
    CS_TRY(cs_plan_make(job->spec, job->graph, &job->cluster, job->arena, &job->plan, err));
    CS_TRY(cs_plan_predict(job->plan, job->graph, &job->cluster, job->arena, err));
    const char *previewed = job->spec->plan_hash;
    if (previewed && previewed[0] && strcmp(previewed, job->plan->hash) != 0 && !is_replan)
        return refuse_plan(job, err);
    return write_plan(job, err);
}

static enum cs_status read_trainer(struct cs_run_job *job, struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(job->resume, &ckpt, err));
    const json_t *trainer = cs_ckpt_trainer(ckpt);
    job->cursor = json_deep_copy(cs_msg_obj(trainer, "cursor"));
    job->tokens = cs_msg_int(trainer, "tokens", 0);
    job->samples = cs_msg_int(trainer, "samples", 0);
    job->skipped = cs_msg_int(trainer, "skipped", 0);
    cs_ckpt_close(ckpt);
    if (!job->cursor)
        return cs_fail(
            err, CS_CORRUPT,
            "%s/trainer.json holds no data cursor: going on from it would repeat samples",
            job->resume);
    return CS_OK;
}

static enum cs_status find_checkpoint(struct cs_run_job *job, void (*on_skip)(void *, const char *),
                                      void *user, struct cs_err *err)
{
    job->checkpoint_step = -1;
    if (access(job->ckpt_dir, F_OK) == -1)
        return CS_OK;
    enum cs_status status = cs_ckpt_latest(job->ckpt_dir, true, &job->checkpoint_step, job->resume,
                                           sizeof job->resume, on_skip, user, err);
    if (status == CS_NOT_FOUND) {
        job->checkpoint_step = -1;
        job->resume[0] = '\0';
        return CS_OK;
    }
    CS_TRY(status);
    job->first_step = job->checkpoint_step + 1;
    return read_trainer(job, err);
}

/* The state file counts generations; the first run has none. */
static void read_generation(struct cs_run_job *job)
{
    char path[CS_PATH_CAP + 16];
    json_t *state = NULL;
    snprintf(path, sizeof path, "%s/state.json", job->dir);
    if (read_json(path, &state, NULL) == CS_OK)
        job->generation = cs_msg_int(state, "generation", -1) + 1;
    json_decref(state);
}

enum cs_status cs_run_job_open(const char *dir, const struct cs_here *here, bool is_replan,
                               void (*on_skip)(void *, const char *), void *user,
                               struct cs_run_job *out, struct cs_err *err)
{
    *out = (struct cs_run_job){.checkpoint_step = -1};
    out->arena = cs_arena_new(0);
    if (!realpath(dir, out->dir))
        return cs_fail_errno(err, "job directory %s", dir);
    CS_TRY(make_plan(out, here, is_replan, err));
    const char *elsewhere = out->spec->checkpoint_dir;
    if (elsewhere && elsewhere[0])
        CS_TRY(cs_path(out->ckpt_dir, err, "%s", elsewhere));
    else
        CS_TRY(cs_path(out->ckpt_dir, err, "%s/ckpt", out->dir));
    CS_TRY(find_checkpoint(out, on_skip, user, err));
    read_generation(out);
    return CS_OK;
}

void cs_run_job_close(struct cs_run_job *job)
{
    json_decref(job->plan_json);
    json_decref(job->cursor);
    cs_arena_free(job->arena);
    json_decref(job->spec_json);
    *job = (struct cs_run_job){.checkpoint_step = -1};
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
