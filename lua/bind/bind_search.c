/* cs.config and cs.search: plans found rather than given. */
#include <string.h>

#include "core/base/system/clock.h"
#include "core/model/placements.h"
#include "core/model/schedules.h"
#include "core/plan/cost/links/links.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"
#include "lua/bind/preview_document.h"
#include "lua/bind/search_read.h"
#include "lua/bind/sweep.h"

static int call_config(lua_State *L);
static int call_search(lua_State *L);

/* clang-format off */
static const struct cs_arg config_args[] = {
    {"model_type", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "family, as in a config.json; all other keys of one are accepted"},
};
static const struct cs_arg search_args[] = {
    {"model", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_MODEL, NULL, "made by cs.mllm"},
    {"cluster", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_CLUSTER, "cs.cluster \"here\"", "where it would run"},
    {"seq_tokens", CS_ARG_INT, true, NULL, 8, 1 << 20, 0, NULL, "LLM rows of a slot"},
    {"batch_slots", CS_ARG_INT, true, NULL, 1, 1 << 20, 0, NULL, "slots of a step, over all replicas: a multiple of dp where that is given"},
    {"encoder_rows", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "row budget of a slot per encoder: { vision = 512 }"},
    {"optimizer", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_OPTIM, "state in fp32", "the job's: its state decides on memory and time of a step, cs.optim.adamw { lr = ..., state = \"bf16\" }"},
    {"parallel", CS_ARG_TABLE, false, NULL, 0, 0, 0, "{}", "what is not free, of tp, cp, pp, dp, vpp, ep, sp (true, false: whether ranks that share matrices split rows between products) and place (own, colocated, replicated): { vision = { pp = 1 }, llm = { tp = 8 } }"},
    {"dp", CS_ARG_INT, false, NULL, 1, 1 << 20, 0, NULL, "replicas of all branches with ranks of their own (of one: in parallel); absent: free"},
    {"modality", CS_ARG_STRING, false, CS_MODALITY_SEARCHED_WORDS "|mixed", 0, 0, 0, "parallel, colocated and mixed", "where encoders run"},
    {"schedule", CS_ARG_STRING, false, CS_SCHEDULE_SEARCHED_WORDS, 0, 0, 0, CS_SCHEDULE_USUAL_LIST, "order of forward and backward"},
    {"recompute", CS_ARG_STRING, false, "none|selective|full", 0, 0, 0, "what fits and is fastest", "activations that are made again in the backward"},
    {"zero", CS_ARG_INT, false, NULL, 0, 3, 0, "the cheapest of 1, 2, 3 that fits", "what replicas share: 1 optimizer, 2 and gradients, 3 and weights; 0 nothing"},
    {"max_vpp", CS_ARG_INT, false, NULL, 2, 16, 0, "4", "interleaved: most chunks of a stage"},
    {"leave_node", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "tp * cp groups may reach over nodes"},
    {"runs", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "only layouts that jobs run, as found:plan() gives them to one"},
    {"planner", CS_ARG_STRING, false, "cornstarch|blind|disttrain|entrain|modules|megatron", 0, 0, 0, "\"cornstarch\"", "whose layouts, cut, formula and data policy"},
    {"samples", CS_ARG_TABLE, false, NULL, 0, 0, 0, "full slots", "rank by ragged batches: { { vision = 576, llm = 700 }, ... } or quantiles of each branch { vision = { 0, 576, 2304 }, llm = { 20, 300, 4000 } }"},
    {"samples_file", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "the same as a JSON file, made from a data set: [{\"vision\": 576, \"llm\": 700}, ...]"},
    {"batches", CS_ARG_INT, false, NULL, 1, 256, 0, "8", "steps that are drawn from samples"},
    {"batch_samples", CS_ARG_INT, false, NULL, 1, 1 << 20, 0, "what fills the slots to 7/8", "samples of a step"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740991.0, 0, "0", "decides the drawn samples"},
    {"compare", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "also find what the other planners choose"},
    {"explain", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "say why, and which constraints bind"},
    {"stages", CS_ARG_STRING, false, "frozen-aware|frozen-blind", 0, 0, 0, "\"frozen-aware\"", "what the cut knows of frozen modules"},
    {"context", CS_ARG_STRING, false, "lpt|best|exact|uniform|zigzag|striped|random", 0, 0, 0, "\"lpt\"", "with cp: which rank has which rows of a slot"},
    {"profile", CS_ARG_STRING, false, NULL, 0, 0, 0, "a roofline of the device", "file of measured costs (cornstarch.profile/1)"},
    {"simulate", CS_ARG_INT, false, NULL, 1, 1000, 0, "50", "layouts that are simulated"},
    {"top", CS_ARG_INT, false, NULL, 1, CS_SWEEP_PLANS, 0, "16", "plans that are kept"},
};
enum { F_CONFIG, F_SEARCH };
static const struct cs_lua_function functions[] = {
    {"cs.config", "a module by its config.json as a table, without weights: for planning", "cs.hf", config_args, CS_ARRAY_LEN(config_args), call_config, NULL},
    {"cs.search", "the fastest plans of a model on a cluster: layout, recompute and schedule are found", "cs.sweep", search_args, CS_ARRAY_LEN(search_args), call_search, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_search(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static int call_config(lua_State *L)
{
    const char *why = NULL;
    if (!lua_istable(L, 1))
        return cs_lua_error(L, "cs.config: takes the table of a config.json, got %s",
                            luaL_typename(L, 1));
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_HF, NULL);
    json_t *config = cs_lua_to_json(L, 1, &why);
    if (!config)
        return cs_lua_error(L, "cs.config: %s", why);
    value->json = json_pack("{s:s s:s s:o s:b}", "dir", "", "init", "random", "config", config,
                            "has_tokenizer", 0);
    if (!json_is_string(json_object_get(config, "model_type")))
        return cs_lua_error(L, "cs.config: 'model_type' is missing (family, as in a config.json)");
    return 1;
}

/* cs.search */

/* {branch: {}} for every branch: one stage each, which is what a search begins with */
static json_t *all_branches(const json_t *model)
{
    json_t *parallel = json_object(), *module;
    size_t i;
    json_array_foreach(json_object_get(model, "modules"), i, module)
    {
        const char *name = json_string_value(json_object_get(module, "name"));
        char branch[128];
        if (name == NULL)
            continue;
        snprintf(branch, sizeof(branch), "%.*s", (int)strcspn(name, "."), name);
        json_object_set_new(parallel, branch, json_object());
    }
    return parallel;
}

static json_t *make_document(lua_State *L, const json_t *model)
{
    const struct cs_lua_value *cluster = cs_lua_args_value(L, "cluster");
    json_t *rows = cs_lua_args_object(L, "encoder_rows", &functions[F_SEARCH], "{ vision = 512 }");
    json_t *plan = json_pack("{s:o}", "parallel", all_branches(model));
    json_t *document = cs_lua_preview_document(model, NULL);
    json_object_set_new(document, "plan", plan);
    if (cluster)
        json_object_set(plan, "cluster", cluster->json);
    json_object_set_new(plan, "context", json_string(cs_lua_args_string(L, "context", "lpt")));
    json_object_set_new(plan, "seq_tokens", json_integer(cs_lua_args_int(L, "seq_tokens", 8)));
    if (rows)
        json_object_set(plan, "encoder_rows", rows);
    cs_lua_take_optimizer(L, document);
    return document;
}

static void set_rates(json_t *document, int64_t seq_tokens)
{
    json_t *plans = json_object_get(document, "plans"), *row;
    size_t i;
    json_array_foreach(plans, i, row) cs_lua_sweep_rates(row, seq_tokens);
    cs_lua_sweep_rates(json_object_get(document, "frozen_blind"), seq_tokens);
    json_array_foreach(json_object_get(document, "planners"), i, row)
        cs_lua_sweep_rates(json_object_get(row, "plan"), seq_tokens);
}

static int call_search(lua_State *L)
{
    cs_lua_args_check(L, &functions[F_SEARCH]);
    const struct cs_lua_value *model = cs_lua_args_value(L, "model");
    struct cs_search_options options = {0};
    struct cs_search_samples samples;
    struct cs_search_result result;
    struct cs_cluster cluster;
    struct cs_err err;
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_SWEEP, NULL);
    int self = lua_gettop(L);
    struct cs_lua_value *built = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    built->json = make_document(L, model->json);
    cs_lua_build_graph(L, "cs.search", built, true);
    cs_lua_read_search(L, &functions[F_SEARCH], built->graph, built->arena, &options, &samples);
    const struct cs_profile *profile = cs_lua_read_profile(L, built->arena);
    enum cs_status status =
        cs_cluster_read_here(built->spec->cluster, &cs_lua_state_of(L)->here, &cluster, &err);
    int64_t start = cs_now_ns();
    if (status == CS_OK) {
        cs_profile_cluster(profile, built->arena, &cluster);
        status = cs_search(built->spec, built->graph, &cluster, profile, &options, built->arena,
                           &result, &err);
    }
    cs_lua_state_of(L)->deadline_ns += cs_now_ns() - start; /* its options bound it */
    if (status != CS_OK)
        return cs_lua_raise(L, "cs.search", &err);
    value->json = cs_search_result_json(&result);
    set_rates(value->json, cs_lua_args_int(L, "seq_tokens", 8));
    cs_lua_sweep_keep(L, self);
    lua_settop(L, self);
    return 1;
}
