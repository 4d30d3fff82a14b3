/* Reads the selected job's documents: graph, stages, costs, the predicted timeline. */
#include <stdlib.h>
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/cost/stage/buckets.h"
#include "core/plan/json/plan_json.h"
#include "core/wire/wire.h"

static void fill_stages(struct cs_store *store, const struct cs_plan *plan, bool is_same_plan)
{
    struct cs_store_stage *old = store->stages; /* a replay has measured already */
    int32_t n_old = store->n_stages;
    store->stages = NULL;
    cs_store_stages(store, plan->n_stages, cs_plan_world(plan));
    for (int32_t s = 0; s < plan->n_stages; s++) {
        cs_str_copy(store->stages[s].name, sizeof store->stages[s].name, plan->stages[s].name);
        store->stages[s].rank = cs_plan_rank(plan, s, (struct cs_rank_at){0});
        if (is_same_plan && s < n_old)
            store->stages[s].work_ns = old[s].work_ns;
    }
    free(old);
}

static enum cs_status read_spec(struct cs_store *store, struct cs_err *err)
{
    struct cs_store_model *model = &store->model;
    CS_TRY(cs_spec_read_preview(model->spec_json, model->arena, &model->spec, err));
    CS_TRY(cs_graph_build(model->spec, true, model->arena, &model->graph, err));
    const enum cs_status status =
        cs_spec_cluster(model->spec, &store->here, model->arena, &model->cluster, err);
    model->device = model->cluster.device;
    return status;
}

static enum cs_status read_plan(struct cs_store *store, const char *old_plan, struct cs_err *err)
{
    struct cs_store_model *model = &store->model;
    CS_TRY(cs_plan_read(model->plan_json, model->graph, model->arena, &model->plan, err));
    cs_stage_buckets(model->graph, model->arena, model->plan);
    model->layer_cost = CS_NEW_ARRAY(model->arena, struct cs_layer_cost, model->graph->n_layers);
    CS_TRY(cs_spec_layer_costs(model->spec, model->graph, &model->plan->budget, model->device,
                               model->arena, model->layer_cost, NULL, err));
    fill_stages(store, model->plan, strcmp(model->plan->hash, old_plan) == 0);
    if (store->is_replay && store->predicted.arena)
        return CS_OK; /* the trace brought what was predicted then */
    cs_timeline_clear(&store->predicted);
    return cs_timeline_predict(&store->predicted, model->plan, model->graph, model->device, NULL, 0,
                               err);
}

void cs_store_documents(struct cs_store *store, const json_t *spec, const json_t *plan)
{
    struct cs_store_model *model = &store->model;
    struct cs_err err = {0};
    char old_plan[65] = "";
    if (!spec)
        return;
    if (model->plan)
        memcpy(old_plan, model->plan->hash, sizeof old_plan);
    else if (store->is_replay) /* what the trace says; only its own plan is given here */
        cs_str_copy(old_plan, sizeof old_plan, plan ? cs_store_selected(store)->plan_hash : "");
    store->edition++;
    cs_arena_free(model->arena);
    json_decref(model->spec_json);
    json_decref(model->plan_json);
    *model = (struct cs_store_model){.arena = cs_arena_new(0),
                                     .spec_json = json_deep_copy(spec),
                                     .plan_json = plan ? json_deep_copy(plan) : NULL};
    store->model_error[0] = '\0';
    store->is_uncalibrated = false;
    if (!store->is_replay) /* a trace says what it was predicted with */
        store->is_calibrated = false;
    enum cs_status status = read_spec(store, &err);
    if (status == CS_OK && plan)
        status = read_plan(store, old_plan, &err);
    if (status != CS_OK)
        cs_str_copy(store->model_error, sizeof store->model_error, err.text);
    if (model->plan && strcmp(old_plan, model->plan->hash) != 0)
        cs_timeline_clear(&store->measured); /* it belongs to another plan */
    store->version++;
}

void cs_store_profile(struct cs_store *store, const json_t *profile)
{
    struct cs_store_model *model = &store->model;
    struct cs_measured *measured = NULL;
    int32_t cores = 0;
    if (!profile || !model->plan ||
        strcmp(cs_msg_str(profile, "plan_hash", ""), model->plan->hash) != 0)
        return;
    if (cs_measured_decode(profile, model->device, model->arena, &measured, &cores, NULL) ==
            CS_OK &&
        measured->n_stages == model->plan->n_stages && measured->n_ranks == model->plan->n_ranks &&
        cs_timeline_predict(&store->predicted, model->plan, model->graph, model->device, measured,
                            cores, NULL) == CS_OK) {
        store->is_calibrated = cs_measured_has_costs(measured);
        model->measured = measured;
        model->cores = cores;
        store->edition++;
        store->version++;
    }
}
