/* Opens a golden directory and makes the trainer of its job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "store/fsio.h"
#include "worker/selftest/parts.h"

/* rows that the slot must have room for: the whole batch, packed */
static int32_t rows_of(const struct cs_golden *golden)
{
    const struct cs_st_tensor *ids = cs_st_find(golden->file, "in.ids");
    const struct cs_st_tensor *probe = cs_st_find(golden->file, "in.probe");
    const int64_t n = ids != NULL     ? ids->count
                      : probe != NULL ? probe->count / probe->dim[probe->n_dims - 1]
                                      : 0;
    return (int32_t)(n < 64 ? 256 : 4 * n);
}

/* values of media, 0: there are none */
static int64_t values_of(const struct cs_golden *golden)
{
    static const char *const names[] = {"in.x", "in.pixel_values_videos"};
    int64_t n = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(names); i++) {
        const struct cs_st_tensor *x = cs_st_find(golden->file, names[i]);
        n += x != NULL ? x->count : 0;
    }
    return n;
}

static enum cs_status open_parts(struct cs_golden *g, struct cs_err *err)
{
    for (int32_t m = 0; g->dir != NULL && m < g->graph->n_modules; m++) {
        const struct cs_module *module = &g->graph->modules[m];
        if (strcmp(module->spec->init, "weights") == 0)
            CS_TRY(cs_hfdir_open_kind(g->dir, module->kind, &g->part[module->kind], err));
    }
    return CS_OK;
}

/* The plan as workers have it: from its document. */
static enum cs_status make_plan(struct cs_golden *g, struct cs_err *err)
{
    CS_TRY(cs_plan_make(g->spec, g->graph, &g->cluster, g->arena, &g->plan, err));
    json_t *document = cs_plan_json(g->plan, g->graph);
    const enum cs_status status = cs_plan_read(document, g->graph, g->arena, &g->plan, err);
    json_decref(document);
    return status;
}

static enum cs_status plan(struct cs_golden *g, bool is_spread, struct cs_err *err)
{
    CS_TRY(cs_spec_read(g->document, g->arena, &g->spec, err));
    CS_TRY(cs_graph_build(g->spec, true, g->arena, &g->graph, err));
    CS_TRY(cs_cluster_read(g->spec->cluster, 0, &g->cluster, err));
    CS_TRY(make_plan(g, err));
    for (int32_t s = 0; !is_spread && s < g->plan->n_stages; s++)
        g->plan->stages[s].rank = 0;
    g->plan->n_ranks = is_spread ? g->plan->n_ranks : 1;
    g->plan->n_groups = is_spread ? g->plan->n_groups : 0;
    return open_parts(g, err);
}

static enum cs_status make_slot(struct cs_golden *g, struct cs_err *err)
{
    struct cs_slot_layout layout;
    const struct cs_slot_budget *budget = &g->plan->budget;
    cs_slot_layout_make(budget, &layout);
    g->slot_memory = aligned_alloc(4096, layout.bytes);
    g->manifest = calloc(1, sizeof *g->manifest);
    if (g->slot_memory == NULL || g->manifest == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a slot of %zu bytes", layout.bytes);
    memset(g->slot_memory, 0, layout.bytes);
    cs_slot_view(&layout, budget, g->slot_memory, &g->slot);
    g->manifest->n_slots = 1;
    g->manifest->slot = CS_NEW_ARRAY(g->arena, struct cs_slot_counts, 1);
    return CS_OK;
}

static enum cs_status open_file(struct cs_golden *g, const char *adapter, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/golden.safetensors", adapter != NULL ? adapter : g->dir));
    if (!cs_fs_exists(path))
        return cs_fail(err, CS_NOT_FOUND,
                       "%s is not there: the directory needs the golden beside config.json and "
                       "model.safetensors",
                       path);
    return cs_st_open(path, &g->file, err);
}

static enum cs_status make_document(struct cs_golden *g, const char *adapter, bool is_spread,
                                    struct cs_err *err)
{
    const struct cs_st_tensor *ids = cs_st_find(g->file, "in.ids");
    const int batch = ids != NULL && ids->n_dims > 0 ? (int)ids->dim[0] : 1;
    const struct cs_golden_job job = {
        .dir = g->dir,
        .adapter = adapter,
        .layout = g->layout,
        .slots = cs_golden_slots(g->layout, batch),
        .replicas = is_spread ? g->layout->replicas : 1,
        .context = is_spread && g->layout->context > 1 ? g->layout->context : 1,
        .encoder_context =
            is_spread && g->layout->encoder_context > 1 ? g->layout->encoder_context : 1,
        .tensors = is_spread ? g->layout->tensors : 1,
        .encoder_tensors = is_spread ? g->layout->encoder_tensors : 1,
        .experts = is_spread && g->layout->experts > 1 ? g->layout->experts : 1,
        .zero = is_spread && g->layout->zero > 1 ? g->layout->zero : 1,
        .splits_rows = is_spread && g->layout->splits_rows,
        .samples = batch,
        .seq_tokens = rows_of(g),
        .values = values_of(g),
    };
    return cs_golden_document(&job, &g->document, err);
}

static enum cs_status load(struct cs_golden *g, struct cs_err *err)
{
    const struct cs_trainer_config config = {
        .spec = g->spec, .graph = g->graph, .plan = g->plan, .device = g->device};
    CS_TRY(cs_trainer_new(&config, &g->trainer, err));
    return cs_params_load(g->trainer->params, g->spec->seed, err);
}

enum cs_status cs_golden_open_job(json_t *document, struct cs_device *device, struct cs_golden *out,
                                  struct cs_err *err)
{
    *out = (struct cs_golden){.document = document, .device = device, .arena = cs_arena_new(0)};
    CS_TRY(plan(out, false, err));
    CS_TRY(make_slot(out, err));
    return load(out, err);
}

enum cs_status cs_golden_open(const char *dir, const char *adapter,
                              const struct cs_selftest_layout *layout, bool is_spread,
                              struct cs_device *device, struct cs_golden *out, struct cs_err *err)
{
    *out = (struct cs_golden){
        .dir = dir, .layout = layout, .device = device, .arena = cs_arena_new(0)};
    CS_TRY(open_file(out, adapter, err));
    CS_TRY(make_document(out, adapter, is_spread, err));
    CS_TRY(plan(out, is_spread, err));
    CS_TRY(make_slot(out, err));
    return is_spread ? CS_OK : load(out, err);
}

void cs_golden_close(struct cs_golden *golden)
{
    cs_trainer_free(golden->trainer);
    for (int k = 0; k < CS_MODULE_KINDS; k++)
        cs_hfdir_close(golden->part[k]);
    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        free(golden->patches[e]);
    free(golden->slot_memory);
    free(golden->cut_memory);
    free(golden->manifest);
    cs_st_close(golden->file);
    json_decref(golden->document);
    cs_arena_free(golden->arena);
}

void cs_golden_name(const struct cs_golden *g, struct cs_selftest *out)
{
    for (int k = 0; k < CS_MODULE_KINDS; k++)
        if (g->part[k] != NULL) {
            const json_t *type = json_object_get(cs_hfdir_root_config(g->part[k]), "model_type");
            snprintf(out->family, sizeof out->family, "%s", json_string_value(type));
        }
    for (int32_t m = 0; m < g->graph->n_modules; m++)
        if (g->graph->modules[m].arch.experts.n > out->n_experts)
            out->n_experts = g->graph->modules[m].arch.experts.n;
}
