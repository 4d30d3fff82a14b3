/* The plan of a script into the store, without a daemon. */
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/predict.h"
#include "core/wire/wire.h"

static enum cs_status plan_of(const json_t *spec, const struct cs_here *here,
                              struct cs_arena *arena, json_t **out, struct cs_err *err)
{
    struct cs_spec *read = NULL;
    struct cs_graph *graph = NULL;
    struct cs_plan *plan = NULL;
    struct cs_cluster cluster;
    CS_TRY(cs_spec_read_preview(spec, arena, &read, err));
    CS_TRY(cs_graph_build(read, true, arena, &graph, err));
    CS_TRY(cs_spec_cluster(read, here, arena, &cluster, err));
    CS_TRY(cs_plan_make(read, graph, &cluster, arena, &plan, err));
    *out = cs_plan_json(plan, graph);
    return CS_OK;
}

void cs_store_found(struct cs_store *store, const json_t *document, const char *words, bool is_job)
{
    json_decref(store->found.plans);
    store->found = (struct cs_store_found){.plans = json_incref(json_object_get(document, "plans")),
                                           .is_job = is_job};
    if (strlen(words) < sizeof store->found.words)
        cs_str_copy(store->found.words, sizeof store->found.words, words);
    store->is_replay = store->is_script = store->is_connected = true;
    cs_str_copy(store->node, sizeof store->node, "script");
    store->version++;
}

enum cs_status cs_store_script(struct cs_store *store, const json_t *spec, struct cs_err *err)
{
    json_t *plan = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = plan_of(spec, &store->here, arena, &plan, err);
    cs_arena_free(arena);
    CS_TRY(status);
    struct cs_store_job *job = cs_store_job_at(store, 1);
    store->is_replay = store->is_script = store->is_connected = true;
    cs_str_copy(store->node, sizeof store->node, "script");
    cs_str_copy(job->name, sizeof job->name, cs_msg_str(spec, "name", "-"));
    cs_str_copy(job->state, sizeof job->state, "NOT RUN");
    cs_store_select(store, job->id);
    store->is_replay = false; /* nothing was predicted before */
    cs_store_documents(store, spec, plan);
    store->is_replay = true;
    json_decref(plan);
    return store->model_error[0] ? cs_fail(err, CS_PLAN, "%s", store->model_error) : CS_OK;
}
