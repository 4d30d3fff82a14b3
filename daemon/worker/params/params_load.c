/* Fills a rank's weights: from model directories, fresh, or from a checkpoint. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/hf/peft.h"
#include "worker/params/params.h"

/* A component's own directory, or the part of a composite one. */
static enum cs_status open_source(const struct cs_module *module, struct cs_hfdir **out,
                                  struct cs_err *err)
{
    const char *dir = module->spec->dir;
    if (dir == NULL || *dir == '\0')
        return cs_fail(err, CS_INVALID,
                       "module %s has init \"weights\" but no directory to read them from",
                       module->name);
    enum cs_status status = cs_hfdir_open_kind(dir, module->kind, out, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "reading the weights of %s", module->name);
    if (module->arch.is_tied && cs_hfdir_is_tie_broken(*out))
        return cs_fail(err, CS_INVALID,
                       "the job has one matrix for embedding and head of %s, %s holds two "
                       "different ones: make the job anew from its script",
                       module->name, dir);
    return CS_OK;
}

static enum cs_status check_shape(const struct cs_param *param, const struct cs_st_tensor *found,
                                  struct cs_err *err)
{
    if (cs_hfdir_fits(found, param->role, param->dim, param->n_dims))
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "tensor %s has %d dimensions and %lld elements in the file, the configuration "
                   "asks for %d and %lld",
                   param->name, found->n_dims, (long long)found->count, param->n_dims,
                   (long long)param->count);
}

/* Where values of an entry are made: in place, or on their way to the device. */
static float *host_of(const struct cs_params *params, const struct cs_shard *t)
{
    return params->staging != NULL ? params->staging : t->w;
}

static enum cs_status read_tensor(const struct cs_hfdir *dir, const struct cs_module *module,
                                  const struct cs_shard *t, int threads, float *host,
                                  struct cs_err *err)
{
    const struct cs_param *param = t->whole;
    const struct cs_st_tensor *found = cs_hfdir_tensor(dir, param->tensor, param->alt);
    if (found == NULL)
        return cs_fail(err, CS_NOT_FOUND,
                       "tensor %s of module %s is not in %s: the directory is incomplete, or the "
                       "module should have init \"random\"",
                       param->tensor, module->name, module->spec->dir);
    CS_TRY(check_shape(param, found, err));
    return cs_hfdir_read(found, param->role, param->dim, param->n_dims, threads, host, err);
}

static const struct cs_graph_adapter *adapter_of(const struct cs_graph *graph, int32_t param)
{
    for (int32_t i = 0; i < graph->n_adapters; i++)
        if (graph->adapters[i].a == param || graph->adapters[i].b == param)
            return &graph->adapters[i];
    return NULL;
}

/* The directories of PEFT's that a module's adapters come from, each open once. */
enum { MOST_ADAPTERS = 16 };

struct adapters {
    struct cs_peft *of[MOST_ADAPTERS];
    const char *dir[MOST_ADAPTERS]; /* borrowed from the specification */
    int n;
};

static void close_adapters(struct adapters *a)
{
    for (int i = 0; i < a->n; i++)
        cs_peft_close(a->of[i]);
}

static enum cs_status open_adapters(const struct cs_graph *graph, int32_t module,
                                    struct adapters *a, struct cs_err *err)
{
    for (int32_t i = 0; i < graph->n_adapters; i++) {
        const char *dir = graph->adapters[i].spec->dir;
        bool is_new = *dir != '\0' && graph->params[graph->adapters[i].a].module == module;
        for (int k = 0; is_new && k < a->n; k++)
            is_new = strcmp(a->dir[k], dir) != 0;
        if (!is_new)
            continue;
        if (a->n == MOST_ADAPTERS)
            return cs_fail(err, CS_UNSUPPORTED,
                           "module %s has adapters of more than %d directories",
                           graph->modules[module].name, MOST_ADAPTERS);
        CS_TRY(cs_peft_open(dir, &a->of[a->n], err));
        a->dir[a->n++] = dir;
    }
    return CS_OK;
}

/* The tensor in one of them, that of `dir` alone unless it is NULL; NULL: none has it. */
static const struct cs_st_tensor *find_saved(const struct adapters *a, const char *dir,
                                             const struct cs_module *module, const char *tensor)
{
    const struct cs_st_tensor *found = NULL;
    for (int i = 0; found == NULL && i < a->n; i++)
        if (dir == NULL || strcmp(a->dir[i], dir) == 0)
            found = cs_peft_find(a->of[i], NULL, module->kind, tensor);
    return found;
}

static enum cs_status read_saved(const struct cs_param *param, const struct cs_st_tensor *found,
                                 float *host, struct cs_err *err)
{
    CS_TRY(check_shape(param, found, err));
    return cs_st_read_finite(found, 0, param->count, host, err);
}

/* A factor from PEFT's directory, or fresh. */
static enum cs_status load_factor(const struct adapters *saved, const struct cs_module *module,
                                  const char *dir, uint64_t seed, const struct cs_shard *t,
                                  float *host, struct cs_err *err)
{
    if (*dir == '\0') {
        cs_param_fill_fresh(module, seed, t->whole, 1, host); /* it is small */
        return CS_OK;
    }
    const struct cs_st_tensor *found = find_saved(saved, dir, module, t->param->tensor);
    if (found == NULL)
        return cs_fail(err, CS_NOT_FOUND, "%s has no %s", dir, t->param->tensor);
    return read_saved(t->whole, found, host, err);
}

/* Where the values of a module come from. */
struct source {
    const struct cs_module *module;
    uint64_t seed;
    bool is_fresh;
    struct cs_hfdir *dir; /* NULL: not open yet */
    struct adapters saved;
};

/* The values of all of the parameter, whichever part of it the rank has. */
static enum cs_status load_whole(struct cs_params *params, struct source *from,
                                 const struct cs_shard *t, float *host, struct cs_err *err)
{
    const struct cs_graph_adapter *adapter = adapter_of(params->graph, t->param->id);
    const struct cs_st_tensor *whole =
        adapter == NULL ? find_saved(&from->saved, NULL, from->module, t->param->tensor) : NULL;
    if (adapter != NULL) {
        CS_TRY(
            load_factor(&from->saved, from->module, adapter->spec->dir, from->seed, t, host, err));
    } else if (whole != NULL) {
        CS_TRY(read_saved(t->whole, whole, host, err));
    } else if (from->is_fresh) {
        cs_param_fill_fresh(from->module, from->seed, t->whole, params->threads, host);
    } else {
        if (from->dir == NULL)
            CS_TRY(open_source(from->module, &from->dir, err));
        CS_TRY(read_tensor(from->dir, from->module, t, params->threads, host, err));
    }
    return CS_OK;
}

/* other ranks of the stage have the rest of it */
static bool is_cut(const struct cs_shard *t)
{
    return t->part != NULL && t->part->dim >= 0;
}

/* nothing brings its values */
static bool is_fresh(const struct cs_params *params, const struct source *from,
                     const struct cs_shard *t)
{
    return from->is_fresh && adapter_of(params->graph, t->param->id) == NULL &&
           find_saved(&from->saved, NULL, from->module, t->param->tensor) == NULL;
}

static enum cs_status load_one(struct cs_params *params, struct source *from, struct cs_shard *t,
                               struct cs_err *err)
{
    float *host = host_of(params, t);
    if (is_cut(t) && is_fresh(params, from, t)) { /* the other ranks make the rest */
        cs_param_fill_part(from->module, from->seed, t->whole, t->part, params->threads, host);
        return cs_params_set(params, t, host, err);
    }
    float *whole = is_cut(t) ? malloc((size_t)t->whole->count * sizeof *whole) : host;
    enum cs_status status =
        whole != NULL ? load_whole(params, from, t, whole, err)
                      : cs_fail(err, CS_NO_MEMORY, "no memory to load %s", t->param->name);
    if (status == CS_OK && whole != host)
        cs_tp_take(t->part, t->whole, whole, host);
    if (whole != host)
        free(whole);
    return status == CS_OK ? cs_params_set(params, t, host, err) : status;
}

static enum cs_status load_module(struct cs_params *params, const struct cs_module *module,
                                  uint64_t seed, struct cs_err *err)
{
    const int32_t id = (int32_t)(module - params->graph->modules);
    struct source from = {
        .module = module, .seed = seed, .is_fresh = strcmp(module->spec->init, "random") == 0};
    enum cs_status status = open_adapters(params->graph, id, &from.saved, err);
    for (int32_t i = 0; status == CS_OK && i < params->n; i++) {
        struct cs_shard *t = &params->shard[i];
        const bool is_elsewhere = t->param->count == 0; /* an expert of another rank */
        if (t->param->module == id && !is_elsewhere && !(t->is_tied_head && params->embed != NULL))
            status = load_one(params, &from, t, err);
    }
    cs_hfdir_close(from.dir);
    close_adapters(&from.saved);
    return status;
}

enum cs_status cs_params_load(struct cs_params *params, uint64_t seed, struct cs_err *err)
{
    for (int32_t m = 0; m < params->graph->n_modules; m++)
        CS_TRY(load_module(params, &params->graph->modules[m], seed, err));
    return CS_OK;
}

/* Elements at .. at + n - 1 of what this rank has of it. */
static enum cs_status read_own(const struct cs_ckpt *ckpt, const struct cs_shard *t,
                               const char *what, int64_t at, int64_t n, float *host,
                               struct cs_err *err)
{
    struct cs_tp_slice slice[CS_TP_SLICES];
    if (!is_cut(t))
        return cs_ckpt_read_part(ckpt, t->param, what, at, n, host, err);
    float *piece = malloc((size_t)n * sizeof *piece + 1);
    enum cs_status status =
        piece != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory to read %s", t->param->name);
    const int n_slices = cs_tp_slices(t->part, t->param, at, n, slice);
    for (int i = 0; status == CS_OK && i < n_slices; i++) {
        status = cs_ckpt_read_slice(ckpt, t->whole, what, &slice[i].whole, piece, err);
        if (status == CS_OK)
            cs_tp_slice_put(&slice[i], piece, host);
    }
    free(piece);
    return status;
}

/* Moments of what this rank updates, through the staging memory where the device has its own. */
static enum cs_status resume_state(struct cs_params *params, const struct cs_shard *t,
                                   const struct cs_ckpt *ckpt, const char *what, void *to,
                                   struct cs_err *err)
{
    const bool is_host = params->device->mem == NULL;
    float *host = is_host ? to : params->staging;
    const size_t n = (size_t)t->own_n;
    CS_TRY(read_own(ckpt, t, what, t->own_at, t->own_n, host, err));
    if (is_host)
        return CS_OK;
    if (!cs_device_keeps_bf16(params->device)) {
        cs_device_copy(params->device, to, host, n * sizeof *host);
        return cs_device_sync(params->device, err);
    }
    uint16_t *halves = (uint16_t *)(void *)(params->staging + params->staging_count);
    for (size_t i = 0; i < n; i++)
        halves[i] = cs_bf16_from_f32(host[i]);
    cs_device_copy(params->device, to, halves, n * sizeof *halves);
    return cs_device_sync(params->device, err);
}

/* bf16 weights alone would lose what the checkpoint holds. */
static enum cs_status keep_restored(struct cs_shard *t, const float *host, struct cs_err *err)
{
    const size_t bytes = (size_t)t->param->count * sizeof *host;
    if (t->master != NULL)
        return CS_OK;
    if (t->restored == NULL && (t->restored = malloc(bytes)) == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to keep %s", t->param->name);
    memcpy(t->restored, host, bytes);
    return CS_OK;
}

static enum cs_status resume_one(struct cs_params *params, struct cs_shard *t,
                                 const struct cs_ckpt *ckpt, int32_t *n_missing, struct cs_err *err)
{
    float *host = host_of(params, t);
    const enum cs_status status = read_own(ckpt, t, "master", 0, t->param->count, host, err);
    if (status == CS_NOT_FOUND) {
        *n_missing += t->is_counted && cs_shard_is_first(t) && t->grad != NULL
                          ? 1
                          : 0; /* frozen ones are in no checkpoint */
        return CS_OK;
    }
    CS_TRY(status);
    CS_TRY(cs_params_set(params, t, host, err));
    t->is_restored = t->grad == NULL;
    if (t->is_restored)
        CS_TRY(keep_restored(t, host, err));
    if (t->exp_avg == NULL)
        return CS_OK;
    CS_TRY(resume_state(params, t, ckpt, "exp_avg", t->exp_avg, err));
    return resume_state(params, t, ckpt, "exp_avg_sq", t->exp_avg_sq, err);
}

enum cs_status cs_params_resume(struct cs_params *params, const struct cs_ckpt *ckpt,
                                int32_t *n_missing, struct cs_err *err)
{
    int32_t missing = 0;
    for (int32_t i = 0; i < params->n; i++) {
        struct cs_shard *t = &params->shard[i];
        if ((t->is_tied_head && params->embed != NULL) || t->param->count == 0)
            continue;
        /* Frozen now but stored: it was trained before it was frozen, its values count. */
        const enum cs_status status = resume_one(params, t, ckpt, &missing, err);
        if (status != CS_OK)
            return cs_wrap(err, status, "resuming %s", t->param->name);
    }
    if (n_missing != NULL)
        *n_missing = missing;
    return CS_OK;
}
