/* Runs the job's model and the exported ones on one input; see verify.h. */
#include "worker/selftest/verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/ckpt/checkpoint.h"
#include "store/fsio.h"
#include "worker/selftest/parts.h"

/* What a model computes of the input, malloc'ed. */
struct logits {
    float *values;
    int64_t n;
};

static const char *text(const json_t *object, const char *key)
{
    const char *found = json_string_value(json_object_get(object, key));
    return found != NULL ? found : "";
}

static bool is_kind(const json_t *module, const char *kind)
{
    return strcmp(text(module, "kind"), kind) == 0;
}

static enum cs_module_kind kind_of(const json_t *module)
{
    return is_kind(module, "encoder")     ? CS_MODULE_ENCODER
           : is_kind(module, "projector") ? CS_MODULE_PROJECTOR
                                          : CS_MODULE_LLM;
}

/* One stage for every branch, on one rank; rows for the text, and for all items of one size. */
static json_t *plan_of(const json_t *modules)
{
    enum { TEXT = 64, ANY_SIZE = 1024 };

    json_t *parallel = json_object(), *module;
    int64_t rows = TEXT;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)modules, i, module)
    {
        char branch[128];
        const char *name = text(module, "name");
        snprintf(branch, sizeof branch, "%.*s", (int)strcspn(name, "."), name);
        json_object_set_new(parallel, branch, json_pack("{s:i}", "pp", 1));
        if (!is_kind(module, "encoder"))
            continue;
        struct cs_arch arch;
        struct cs_arena *arena = cs_arena_new(0);
        int32_t grid[3] = {0, 0, 0};
        if (cs_arch_from_config(json_object_get(module, "config"), arena, &arch, NULL) == CS_OK)
            cs_front_fixed_grid(&arch, grid);
        cs_arena_free(arena);
        const int64_t n = (int64_t)grid[0] * grid[1] * grid[2] + TEXT;
        rows += grid[0] > 0 && n > ANY_SIZE ? n : ANY_SIZE;
        if (grid[0] == 0)
            json_object_set_new(module, "items",
                                json_pack("{s:i, s:i, s:i}", "rows", (int)ANY_SIZE, "patches",
                                          (int)ANY_SIZE, "bytes", 1 << 24));
        else
            json_object_del(module, "items");
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:I, s:i, s:i}", "cluster", "here", "modality",
                     "encoder-colocated", "schedule", "1f1b", "parallel", parallel, "seq_tokens",
                     (json_int_t)rows, "slots", 1, "dp", 1);
}

/* The job with those modules on one rank. Of it a norm trains, for the head to keep the rows that its
 * logits are made of; nothing else takes memory for a state. */
static json_t *job_with(const json_t *job, json_t *modules, const json_t *adapters)
{
    json_t *out = json_deep_copy(job), *model = json_object_get(out, "model");
    json_object_set_new(out, "plan", plan_of(modules));
    json_object_set_new(out, "batch_samples", json_integer(1));
    json_object_set_new(model, "modules", modules);
    json_object_set_new(model, "rules",
                        json_pack("[{s:s, s:s}]", "op", "train", "glob", "llm/model.norm.weight"));
    json_object_set_new(model, "adapters",
                        adapters != NULL ? json_deep_copy(adapters) : json_array());
    return out;
}

static enum cs_status resume(struct cs_golden *g, const char *path, struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    CS_TRY(cs_ckpt_open(path, &ckpt, err));
    const enum cs_status status = cs_params_resume(g->trainer->params, ckpt, NULL, err);
    cs_ckpt_close(ckpt);
    return status;
}

/* checkpoint: NULL, or what the weights are then resumed from */
static enum cs_status compute(json_t *job, const char *checkpoint, uint64_t seed,
                              struct cs_device *device, struct logits *out, struct cs_err *err)
{
    struct cs_golden g;
    float *values = NULL;
    enum cs_status status = cs_golden_open_job(job, device, &g, err);
    if (status == CS_OK && checkpoint != NULL)
        status = resume(&g, checkpoint, err);
    if (status == CS_OK)
        status = cs_golden_probe(&g, seed, err);
    if (status == CS_OK)
        status = cs_golden_forward(&g, &values, err);
    if (status == CS_OK) {
        out->n = (int64_t)g.trainer->inputs[0].n_labels * cs_graph_llm(g.graph)->arch.vocab;
        out->values = malloc((size_t)out->n * sizeof *values);
        if (out->values == NULL)
            status = cs_fail(err, CS_NO_MEMORY, "no memory for %lld logits", (long long)out->n);
        else
            memcpy(out->values, values, (size_t)out->n * sizeof *values);
    }
    cs_golden_close(&g);
    return status;
}

/* The directory of a module among the components: DIR/vision, or DIR/BRANCH where there are several. */
static enum cs_status component_dir(const char *dir, const json_t *module, char out[CS_PATH_CAP],
                                    struct cs_err *err)
{
    const char *name = text(module, "name"), *kind = text(module, "kind");
    const bool is_projector = is_kind(module, "projector");
    const char *sole = is_kind(module, "encoder") ? "vision" : kind;
    CS_TRY(cs_path(out, err, "%s/%.*s%s", dir, (int)strcspn(name, "."), name,
                   is_projector ? ".projector" : ""));
    return cs_fs_exists(out) ? CS_OK : cs_path(out, err, "%s/%s", dir, sole);
}

static enum cs_status component_module(const char *dir, json_t *module, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_hfdir *hf = NULL;
    CS_TRY(component_dir(dir, module, path, err));
    CS_TRY(cs_hfdir_open_kind(path, kind_of(module), &hf, err));
    json_object_set_new(module, "dir", json_string(path));
    json_object_set_new(module, "init", json_string("weights"));
    json_object_set_new(module, "config", json_deep_copy(cs_hfdir_config(hf)));
    cs_hfdir_close(hf);
    return CS_OK;
}

static enum cs_status components(const struct cs_verify_request *r, json_t **out,
                                 struct cs_err *err)
{
    json_t *modules = json_deep_copy(json_object_get(json_object_get(r->job, "model"), "modules")),
           *module;
    size_t i;
    json_array_foreach(modules, i, module)
    {
        const enum cs_status status = component_module(r->dir, module, err);
        if (status != CS_OK) {
            json_decref(modules);
            return status;
        }
    }
    *out = job_with(r->job, modules, NULL);
    return CS_OK;
}

/* The mask that a job names is of no directory. */
static void copy_mask(const json_t *from, json_t *to)
{
    static const char *const keys[] = {"mask", "window", "prefix"};
    const json_t *llm = json_array_get(from, json_array_size(from) - 1);
    json_t *ours = json_array_get(to, json_array_size(to) - 1);
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (json_object_get(llm, keys[i]) != NULL)
            json_object_set(ours, keys[i], json_object_get(llm, keys[i]));
}

static enum cs_status whole(const struct cs_verify_request *r, json_t **out, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    json_t *modules = NULL;
    CS_TRY(cs_path(path, err, "%s/%s", r->dir, r->whole));
    CS_TRY(cs_hfdir_modules(path, &modules, err));
    copy_mask(json_object_get(json_object_get(r->job, "model"), "modules"), modules);
    *out = job_with(r->job, modules, NULL);
    return CS_OK;
}

/* NaN where one of them is one. */
static void compare(const struct logits *ours, const struct logits *theirs, struct cs_verified *out)
{
    double both = 0, a2 = 0, b2 = 0;
    bool is_number = true;
    for (int64_t i = 0; i < ours->n; i++) {
        const double a = (double)ours->values[i], b = (double)theirs->values[i];
        out->deviation = fmax(out->deviation, fabs(a - b));
        out->largest = fmax(out->largest, fabs(a));
        is_number &= isfinite(a) && isfinite(b);
        both += a * b;
        a2 += a * a;
        b2 += b * b;
    }
    out->angle = a2 > 0 || b2 > 0 ? 1 - both / sqrt(a2 * b2) : 0;
    out->n = ours->n;
    if (!is_number)
        out->deviation = out->angle = (double)NAN;
}

static enum cs_status verify_one(const struct cs_verify_request *r, struct cs_device *device,
                                 const struct logits *ours, const char *what, json_t *job,
                                 struct cs_verification *out, struct cs_err *err)
{
    struct logits theirs = {NULL, 0};
    enum cs_status status = compute(job, NULL, r->seed, device, &theirs, err);
    if (status == CS_OK && theirs.n != ours->n)
        status = cs_fail(err, CS_CORRUPT, "the exported %s has %lld logits, the job %lld", what,
                         (long long)theirs.n, (long long)ours->n);
    if (status == CS_OK) {
        out->of[out->n] = (struct cs_verified){.what = what};
        compare(ours, &theirs, &out->of[out->n++]);
    }
    free(theirs.values);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "verifying the %s", what);
}

enum cs_status cs_verify_export(const struct cs_verify_request *r, struct cs_device *device,
                                struct cs_verification *out, struct cs_err *err)
{
    const json_t *model = json_object_get(r->job, "model");
    json_t *job = NULL;
    struct logits ours = {NULL, 0};
    *out = (struct cs_verification){.n = 0};
    json_t *modules = json_deep_copy(json_object_get(model, "modules"));
    enum cs_status status = compute(job_with(r->job, modules, json_object_get(model, "adapters")),
                                    r->checkpoint, r->seed, device, &ours, err);
    if (status == CS_OK)
        status = components(r, &job, err);
    if (status == CS_OK)
        status = verify_one(r, device, &ours, "components", job, out, err);
    if (status == CS_OK && r->whole != NULL)
        status = whole(r, &job, err);
    if (status == CS_OK && r->whole != NULL)
        status = verify_one(r, device, &ours, "whole model", job, out, err);
    free(ours.values);
    return status;
}
