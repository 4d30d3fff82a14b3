/* cs.cluster, cs.plan and the methods of a plan. A plan's JSON is the document's "plan" part plus
 * the model; the plan is computed at once, so that its errors carry the line of the script. */
#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/model/placements.h"
#include "core/model/schedules.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/forecast.h"
#include "core/sched/sim/predict.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"
#include "lua/bind/plan_simulate.h"
#include "lua/bind/preview_document.h"
#include "lua/bind/search_read.h"

static int call_cluster(lua_State *L);
static int call_plan(lua_State *L);

/* clang-format off */
static const struct cs_arg cluster_args[] = {
    {"nodes", CS_ARG_INT, false, NULL, 1, 65536, 0, "1", "nodes"},
    {"devices_per_node", CS_ARG_INT, false, NULL, 1, 1024, 0, "8", "devices of a node"},
    {"preset", CS_ARG_STRING, false, "a40x4|a100x8|h100x8|h200x8", 0, 0, 0, NULL, "nodes of a known kind instead of devices_per_node and device"},
    {"device", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"cpu\"", "device class, e.g. cpu, a100-80g, h100-80g"},
};
static const struct cs_arg plan_args[] = {
    {"model", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_MODEL, NULL, "made by cs.mllm"},
    {"cluster", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_CLUSTER, "cs.cluster \"here\"", "where it runs"},
    {"parallel", CS_ARG_TABLE, true, NULL, 0, 0, 0, NULL, "stages of every module (pp), under interleaved the chunks of each of the LLM's (vpp), where an encoder runs that does not run where modality says (place: own, colocated, replicated, first), ranks that share its matrices (tp) and may split rows between these (sp), ranks that split the rows of the LLM or share items of an encoder (cp), of dp * cp those that share experts (ep), what those with the same weights divide (zero: 1 the optimizer's state, 2 gradients too, 3 weights too), recompute (none, selective, full) and offload (none, host): { vision = { pp = 1 }, llm = { pp = 2, tp = 2 } }"},
    {"modality", CS_ARG_STRING, false, CS_MODALITY_WORDS, 0, 0, 0, "\"" CS_MODALITY_DEFAULT "\"", CS_MODALITY_HELP},
    {"schedule", CS_ARG_STRING, false, CS_SCHEDULE_WORDS, 0, 0, 0, "\"1f1b\"", "order of forward and backward; three-phase and anchors are of encoder-colocated, or of encoders whose place is colocated, with pp = 1 for encoders"},
    {"stages", CS_ARG_STRING, false, "frozen-aware|frozen-blind|equal-layers", 0, 0, 0, "\"frozen-aware\"", "what the cut knows of frozen modules; equal-layers: it counts layers alone"},
    {"seq_tokens", CS_ARG_INT, true, NULL, 8, 1 << 20, 0, NULL, "LLM rows of a slot"},
    {"slots", CS_ARG_INT, false, NULL, 1, CS_SPEC_MAX_SLOTS, 0, "4", "slots a step is expected to fill"},
    {"dp", CS_ARG_INT, false, NULL, 1, 1024, 0, "1", "data parallelism: replicas of the language model, and of encoders that have no dp of their own in parallel, on ranks of their own; each runs its share of the slots"},
    {"context", CS_ARG_STRING, false, "lpt|best|exact|uniform|zigzag|striped|random", 0, 0, 0, "\"lpt\"", "with cp: which rank has which rows of a slot; lpt: blocks by their work, the heaviest first"},
    {"context_rows", CS_ARG_INT, false, NULL, 0, 1 << 24, 0, "0", "with cp: rows that a rank takes of a slot before another one shares it, so that short slots stay on one rank and ranks work on different ones; 0: all ranks split every slot"},
    {"context_exchange", CS_ARG_STRING, false, "auto|keys|heads", 0, 0, 0, "\"auto\"", "with cp: what goes between ranks around attention; keys: keys and values that the rows of a rank see; heads: rows of all ranks for some heads on each, which must divide, so that attention is even however rows lie; auto: what takes less, as the plan says"},
    {"stripes", CS_ARG_STRING, false, "auto|always|never", 0, 0, 0, "\"auto\"", "with tp: rows between stages on different ranks are cut over the ranks that need them, which put them together over their own link; auto: where that is faster"},
    {"encoder_rows", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "row budget of a slot per encoder: { vision = 512 }"},
    {"optimizer", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_OPTIM, "state in fp32", "the job's, for a plan that fits with its state alone: cs.optim.adamw { lr = ..., state = \"bf16\" }; cs.job plans again when its own has another state"},
    {"profile", CS_ARG_STRING, false, NULL, 0, 0, 0, "a roofline of the device", "file of measured costs (cornstarch.profile/1), written by cornstarch-console profile; what is in it travels with the job"},
};
static const struct cs_lua_function functions[] = {
    {"cs.cluster", "the devices a plan may use: \"here\", a preset such as \"h100x8\", or a table", "cs.cluster", cluster_args, CS_ARRAY_LEN(cluster_args), call_cluster, "name"},
    {"cs.plan", "a parallel plan, computed and checked at once", "cs.plan", plan_args, CS_ARRAY_LEN(plan_args), call_plan, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_plan(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static int call_cluster(lua_State *L)
{
    struct cs_cluster cluster;
    struct cs_err err;
    struct cs_lua_value *value;
    if (lua_type(L, 1) == LUA_TSTRING) {
        value = cs_lua_value_new(L, CS_LUA_CLUSTER, NULL);
        const char *name = lua_tostring(L, 1);
        value->json =
            strcmp(name, "here") == 0 ? json_string(name) : json_pack("{s:s}", "preset", name);
    } else {
        cs_lua_args_check(L, &functions[0]);
        value = cs_lua_value_new(L, CS_LUA_CLUSTER, NULL);
        value->json = json_object();
        cs_lua_args_copy(L, &functions[0], value->json);
    }
    if (cs_cluster_read_here(value->json, &cs_lua_state_of(L)->here, &cluster, &err) != CS_OK)
        return cs_lua_error(L, "cs.cluster: %s", err.text);
    return 1;
}

/* parallel = { vision = { pp = 1 } } and encoder_rows = { vision = 512 } -> document form */
static void add_parallel(lua_State *L, json_t *plan)
{
    json_object_set(plan, "parallel", cs_lua_parallel_json(L, &functions[1]));
    json_t *rows = cs_lua_args_object(L, "encoder_rows", &functions[1], "{ vision = 512 }");
    if (rows)
        json_object_set(plan, "encoder_rows", rows);
}

static void compute(lua_State *L, struct cs_lua_value *value, struct cs_lua_value *built)
{
    struct cs_cluster cluster;
    struct cs_err err;
    enum cs_status status =
        cs_spec_cluster(built->spec, &cs_lua_state_of(L)->here, built->arena, &cluster, &err);
    if (status == CS_OK)
        status = cs_spec_check_precision(built->spec, cluster.device->name, &err);
    if (status == CS_OK)
        status =
            cs_plan_make(built->spec, built->graph, &cluster, built->arena, &built->plan, &err);
    if (status == CS_OK)
        status = cs_plan_predict(built->plan, built->graph, &cluster, built->arena, &err);
    if (status != CS_OK)
        cs_lua_raise(L, "cs.plan", &err);
    value->arena = built->arena; /* move: the box gives its graph and plan to the value */
    value->spec = built->spec;
    value->graph = built->graph;
    value->plan = built->plan;
    json_object_set(value->json, "document", built->json);
    built->arena = NULL;
}

static int call_plan(lua_State *L)
{
    cs_lua_args_check(L, &functions[1]);
    const struct cs_lua_value *model = cs_lua_args_value(L, "model");
    const struct cs_lua_value *cluster = cs_lua_args_value(L, "cluster");
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_PLAN, NULL);
    int self = lua_gettop(L);
    value->json = json_object();
    json_t *plan = json_object();
    json_object_set_new(value->json, "plan", plan);
    json_object_set(value->json, "model", model->json);
    cs_lua_args_copy(L, &functions[1], plan);
    if (cluster)
        json_object_set(plan, "cluster", cluster->json);
    else
        json_object_set_new(plan, "cluster", json_string("here"));
    add_parallel(L, plan);
    json_object_del(plan, "profile"); /* the file's name */
    json_t *profile = cs_lua_profile_json(L, "cs.plan");
    if (profile)
        json_object_set_new(plan, "profile", profile);
    struct cs_lua_value *built = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    built->json = cs_lua_preview_document(model->json, plan);
    cs_lua_take_optimizer(L, built->json);
    cs_lua_build_graph(L, "cs.plan", built, true);
    compute(L, value, built);
    lua_settop(L, self);
    return 1;
}

/* Methods */

static const struct cs_lua_value *self_plan(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (!value || value->kind != CS_LUA_PLAN)
        cs_lua_error(L, "call it with a colon: plan:method()");
    return value;
}

static int plan_stages(lua_State *L)
{
    const struct cs_lua_value *self = self_plan(L);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = cs_plan_json(self->plan, self->graph);
    cs_lua_push_json(L, json_object_get(box->json, "stages"));
    return 1;
}

static int plan_step_ms(lua_State *L)
{
    lua_pushnumber(L, (double)self_plan(L)->plan->predicted_step_ns / 1e6);
    return 1;
}

static int plan_bubble(lua_State *L)
{
    const struct cs_plan *plan = self_plan(L)->plan;
    lua_pushnumber(L, cs_plan_mean_bubble(plan, plan->predicted_bubble));
    return 1;
}

static int plan_ranks(lua_State *L)
{
    lua_pushinteger(L, cs_plan_world(self_plan(L)->plan));
    return 1;
}

static int plan_explain(lua_State *L)
{
    const struct cs_plan *plan = self_plan(L)->plan;
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int i = 0; i < plan->n_why; i++) {
        luaL_addstring(&b, plan->why[i]);
        luaL_addchar(&b, '\n');
    }
    luaL_pushresult(&b);
    return 1;
}

static int plan_hash(lua_State *L)
{
    lua_pushstring(L, self_plan(L)->plan->hash);
    return 1;
}

static int plan_tostring(lua_State *L)
{
    const struct cs_plan *plan = self_plan(L)->plan;
    plan_bubble(L);
    char step[CS_UNITS_CAP], text[160];
    cs_duration_print(step, sizeof(step), (uint64_t)plan->predicted_step_ns);
    snprintf(text, sizeof(text), "plan %s: %d rank%s, %s a step predicted, bubble %.1f%%",
             plan->schedule, cs_plan_world(plan), CS_PLURAL(cs_plan_world(plan)), step,
             100 * lua_tonumber(L, -1));
    lua_pushstring(L, text);
    return 1;
}

static int plan_simulate(lua_State *L)
{
    (void)self_plan(L);
    return cs_lua_plan_simulate(L);
}

void cs_lua_register_plan(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"stages",   plan_stages  },
        {"step_ms",  plan_step_ms },
        {"bubble",   plan_bubble  },
        {"ranks",    plan_ranks   },
        {"explain",  plan_explain },
        {"hash",     plan_hash    },
        {"simulate", plan_simulate},
        {NULL,       NULL         },
    };
    static const luaL_Reg none[] = {
        {NULL, NULL}
    };
    cs_lua_value_register(L, CS_LUA_PLAN, methods, plan_tostring);
    cs_lua_value_register(L, CS_LUA_CLUSTER, none, NULL);
}
