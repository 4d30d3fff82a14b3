/* cs.config, cs.search and cs.sweep: plans found rather than given. A sweep's JSON is the document
 * that `plan --json` prints. Functions are allowed here alone: they run in the console and do not
 * travel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/model/placements.h"
#include "core/model/schedules.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "core/sched/sim/sim.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"
#include "lua/bind/preview_document.h"
#include "lua/bind/search_read.h"

enum { MAX_KEYS = 16, MAX_COMBINATIONS = 100000, MAX_PLANS = 1000 };

static int call_config(lua_State *L);
static int call_search(lua_State *L);
static int call_sweep(lua_State *L);

/* clang-format off */
static const struct cs_arg config_args[] = {
    {"model_type", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "family, as in a config.json; all other keys of one are accepted"},
};
static const struct cs_arg search_args[] = {
    {"model", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_MODEL, NULL, "made by cs.mllm"},
    {"cluster", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_CLUSTER, "cs.cluster \"here\"", "where it would run"},
    {"seq_tokens", CS_ARG_INT, true, NULL, 8, 1 << 20, 0, NULL, "LLM rows of a slot"},
    {"batch_slots", CS_ARG_INT, true, NULL, 1, 1 << 20, 0, NULL, "slots of a step, over all replicas"},
    {"encoder_rows", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "row budget of a slot per encoder: { vision = 512 }"},
    {"optimizer", CS_ARG_VALUE, false, NULL, 0, 0, CS_LUA_OPTIM, "state in fp32", "the job's: its state decides on memory and time of a step, cs.optim.adamw { lr = ..., state = \"bf16\" }"},
    {"parallel", CS_ARG_TABLE, false, NULL, 0, 0, 0, "{}", "what is not free, of tp, cp, pp, dp, vpp and place (own, colocated, replicated): { vision = { pp = 1 }, llm = { tp = 8 } }"},
    {"dp", CS_ARG_INT, false, NULL, 1, 1 << 20, 0, NULL, "replicas of all branches with ranks of their own (of one: in parallel); absent: free"},
    {"modality", CS_ARG_STRING, false, CS_MODALITY_SEARCHED_WORDS "|mixed", 0, 0, 0, "parallel, colocated and mixed", "where encoders run"},
    {"schedule", CS_ARG_STRING, false, CS_SCHEDULE_SEARCHED_WORDS, 0, 0, 0, CS_SCHEDULE_USUAL_LIST, "order of forward and backward"},
    {"recompute", CS_ARG_STRING, false, "none|selective|full", 0, 0, 0, "what fits and is fastest", "activations that are made again in the backward"},
    {"zero", CS_ARG_INT, false, NULL, 0, 3, 0, "the cheapest of 1, 2, 3 that fits", "what replicas share: 1 optimizer, 2 and gradients, 3 and weights; 0 nothing"},
    {"max_vpp", CS_ARG_INT, false, NULL, 2, 16, 0, "4", "interleaved: most chunks of a stage"},
    {"leave_node", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "tp * cp groups may reach over nodes"},
    {"planner", CS_ARG_STRING, false, "cornstarch|blind|disttrain|entrain", 0, 0, 0, "\"cornstarch\"", "whose layouts, cut, formula and data policy"},
    {"samples", CS_ARG_TABLE, false, NULL, 0, 0, 0, "full slots", "rank by ragged batches: { { vision = 576, llm = 700 }, ... } or quantiles of each branch { vision = { 0, 576, 2304 }, llm = { 20, 300, 4000 } }"},
    {"samples_file", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "the same as a JSON file, made from a data set: [{\"vision\": 576, \"llm\": 700}, ...]"},
    {"batches", CS_ARG_INT, false, NULL, 1, 256, 0, "8", "steps that are drawn from samples"},
    {"batch_samples", CS_ARG_INT, false, NULL, 1, 1 << 20, 0, "what fills the slots to 7/8", "samples of a step"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740991.0, 0, "0", "decides the drawn samples"},
    {"compare", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "also find what the other planners choose"},
    {"explain", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "say why, and which constraints bind"},
    {"stages", CS_ARG_STRING, false, "frozen-aware|frozen-blind", 0, 0, 0, "\"frozen-aware\"", "what the cut knows of frozen modules"},
    {"profile", CS_ARG_STRING, false, NULL, 0, 0, 0, "a roofline of the device", "file of measured costs (cornstarch.profile/1)"},
    {"simulate", CS_ARG_INT, false, NULL, 1, 1000, 0, "50", "layouts that are simulated"},
    {"top", CS_ARG_INT, false, NULL, 1, MAX_PLANS, 0, "16", "plans that are kept"},
};
static const struct cs_arg sweep_args[] = {
    {"over", CS_ARG_TABLE, true, NULL, 0, 0, 0, NULL, "values of every parameter: { llm_pp = { 1, 2, 4 } }"},
    {"where", CS_ARG_FUNCTION, false, NULL, 0, 0, 0, NULL, "function(p): whether to try this combination"},
    {"build", CS_ARG_FUNCTION, true, NULL, 0, 0, 0, NULL, "function(p): its cs.plan or cs.search"},
    {"rank_by", CS_ARG_LIST, false, NULL, 0, 0, 0, "{ \"step_ms\", \"peak_memory_gib\" }", "step_ms, peak_memory_gib, bubble, ranks: the smallest first"},
};
enum { F_CONFIG, F_SEARCH, F_SWEEP };
static const struct cs_lua_function functions[] = {
    {"cs.config", "a module by its config.json as a table, without weights: for planning", "cs.hf", config_args, CS_ARRAY_LEN(config_args), call_config, NULL},
    {"cs.search", "the fastest plans of a model on a cluster: layout, recompute and schedule are found", "cs.sweep", search_args, CS_ARRAY_LEN(search_args), call_search, NULL},
    {"cs.sweep", "plans of every combination of parameters, ranked", "cs.sweep", sweep_args, CS_ARRAY_LEN(sweep_args), call_sweep, NULL},
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
    json_t *rows = cs_lua_args_json(L, "encoder_rows", &functions[F_SEARCH]);
    json_t *plan = json_pack("{s:o}", "parallel", all_branches(model));
    json_t *document = cs_lua_preview_document(model, NULL);
    json_object_set_new(document, "plan", plan);
    if (cluster)
        json_object_set(plan, "cluster", cluster->json);
    json_object_set_new(plan, "seq_tokens", json_integer(cs_lua_args_int(L, "seq_tokens", 8)));
    if (json_is_object(rows))
        json_object_set(plan, "encoder_rows", rows);
    cs_lua_take_optimizer(L, document);
    return document;
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
    if (status == CS_OK)
        status = cs_search(built->spec, built->graph, &cluster, profile, &options, built->arena,
                           &result, &err);
    cs_lua_state_of(L)->deadline_ns += cs_now_ns() - start; /* its options bound it */
    if (status != CS_OK)
        return cs_lua_raise(L, "cs.search", &err);
    value->json = cs_search_result_json(&result);
    lua_settop(L, self);
    return 1;
}

/* cs.sweep */

struct sweep {
    const char *key[MAX_KEYS]; /* kept alive by the table "over" */
    int n;
    lua_Integer count[MAX_KEYS], at[MAX_KEYS];
    json_t *plans;
    int tried, refused;
    json_t *first_refusal;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* the table "over" is at index 2 */
static void read_over(lua_State *L, struct sweep *s)
{
    double total = 1;
    for (lua_pushnil(L); lua_next(L, 2); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1) || lua_rawlen(L, -1) == 0)
            cs_lua_error(L, "cs.sweep: over = { NAME = { value, ... } }");
        if (s->n == MAX_KEYS)
            cs_lua_error(L, "cs.sweep: at most %d parameters", MAX_KEYS);
        s->key[s->n++] = lua_tostring(L, -2);
    }
    qsort(s->key, (size_t)s->n, sizeof(s->key[0]), by_name);
    for (int i = 0; i < s->n; i++) {
        lua_getfield(L, 2, s->key[i]);
        s->count[i] = (lua_Integer)lua_rawlen(L, -1);
        total *= (double)s->count[i];
        lua_pop(L, 1);
    }
    if (total > MAX_COMBINATIONS)
        cs_lua_error(L, "cs.sweep: more than %d combinations", MAX_COMBINATIONS);
}

static void push_combination(lua_State *L, const struct sweep *s)
{
    lua_createtable(L, 0, s->n);
    for (int i = 0; i < s->n; i++) {
        lua_getfield(L, 2, s->key[i]);
        lua_rawgeti(L, -1, s->at[i] + 1);
        lua_setfield(L, -3, s->key[i]);
        lua_pop(L, 1);
    }
}

static bool advance(struct sweep *s)
{
    for (int i = s->n - 1; i >= 0; i--) {
        if (++s->at[i] < s->count[i])
            return true;
        s->at[i] = 0;
    }
    return false;
}

/* A plan as a row: simulated once more, for its memory. */
static json_t *plan_row(lua_State *L, const struct cs_lua_value *value)
{
    const struct cs_plan *plan = value->plan;
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    struct cs_program *program = NULL;
    struct cs_sim_result result;
    struct cs_cluster cluster;
    struct cs_err err;
    int64_t peak = 0;
    double busy = 0;
    box->arena = cs_arena_new(0);
    enum cs_status status =
        cs_cluster_read_here(value->spec->cluster, &cs_lua_state_of(L)->here, &cluster, &err);
    if (status == CS_OK)
        status =
            cs_program_make(plan, value->graph, plan->slots, false, box->arena, &program, &err);
    struct cs_device_class device = *cluster.device;
    struct cs_sim_options options = {.cost = cs_predict_cost, .user = &device};
    if (status == CS_OK)
        status = cs_simulate(program, &options, box->arena, &result, &err);
    if (status != CS_OK)
        cs_lua_raise(L, "cs.sweep", &err);
    for (int32_t r = 0; r < plan->n_ranks; r++)
        peak = result.peak_bytes[r] > peak ? result.peak_bytes[r] : peak;
    for (int32_t i = 0; i < plan->n_stages; i++)
        busy += 1 - result.bubble[i];
    json_t *layout =
        json_deep_copy(json_object_get(json_object_get(value->json, "plan"), "parallel"));
    json_t *row =
        json_pack("{s:s s:s s:o s:i s:i s:i s:I s:I s:f s:s s:s}", "schedule", plan->schedule,
                  "optimizer_state", plan->keeps_bf16 ? "bf16" : "fp32", "parallel",
                  layout ? layout : json_object(), "dp", 1, "slots", plan->slots, "ranks",
                  plan->n_ranks, "step_ns", (json_int_t)plan->predicted_step_ns,
                  "peak_memory_bytes", (json_int_t)peak, "bubble", 1 - busy / plan->n_ranks, "why",
                  plan->n_why > 0 ? plan->why[plan->n_why - 1] : "", "plan_hash", plan->hash);
    lua_pop(L, 1);
    return row;
}

/* The result of build is on top: its row (new reference). */
static json_t *row_of(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, -1);
    if (value && value->kind == CS_LUA_PLAN)
        return plan_row(L, value);
    if (value && value->kind == CS_LUA_SWEEP)
        return json_deep_copy(json_array_get(json_object_get(value->json, "plans"), 0));
    cs_lua_error(L, "cs.sweep: build must return a cs.plan or cs.search, got %s",
                 value ? cs_lua_kind_name(value->kind) : luaL_typename(L, -1));
    return NULL;
}

/* One combination: where, then build. A plan that is refused is counted; when all are, the first
 * reason is the sweep's error. p is pushed and popped here. */
static void try_one(lua_State *L, struct sweep *s)
{
    const char *why = NULL;
    push_combination(L, s);
    int p = lua_gettop(L);
    lua_pushliteral(L, "where");
    if (lua_rawget(L, 1) == LUA_TFUNCTION) {
        lua_pushvalue(L, p);
        lua_call(L, 1, 1);
        if (!lua_toboolean(L, -1)) {
            lua_settop(L, p - 1);
            return;
        }
    }
    s->tried++;
    lua_pushliteral(L, "build");
    lua_rawget(L, 1);
    lua_pushvalue(L, p);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
        s->refused++;
        if (!s->first_refusal) {
            s->first_refusal = json_string(luaL_tolstring(L, -1, NULL));
            json_object_set_new(cs_lua_value_test(L, 3)->json, "first_refusal", s->first_refusal);
        }
        lua_settop(L, p - 1);
        return;
    }
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = cs_lua_to_json(L, p, &why);
    if (!box->json)
        cs_lua_error(L, "cs.sweep: %s", why);
    lua_insert(L, -2);
    json_t *row = row_of(L);
    json_object_set(row, "parameters", box->json);
    json_array_append_new(s->plans, row);
    lua_settop(L, p - 1);
}

static const struct metric {
    const char *name, *key;
    double scale;
} metrics[] = {
    {"step_ms",         "step_ns",           1e-6           },
    {"peak_memory_gib", "peak_memory_bytes", 1.0 / (1 << 30)},
    {"bubble",          "bubble",            1              },
    {"ranks",           "ranks",             1              },
};

static const struct metric *find_metric(const char *name)
{
    for (size_t i = 0; name && i < CS_ARRAY_LEN(metrics); i++)
        if (strcmp(metrics[i].name, name) == 0)
            return &metrics[i];
    return NULL;
}

struct ranked {
    json_t *row;
    double by[CS_ARRAY_LEN(metrics)];
    size_t index;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    for (size_t i = 0; i < CS_ARRAY_LEN(metrics); i++)
        if (x->by[i] != y->by[i])
            return x->by[i] < y->by[i] ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int read_rank_by(lua_State *L, const struct metric *by[])
{
    int n = 0;
    lua_pushliteral(L, "rank_by");
    if (lua_rawget(L, 1) == LUA_TTABLE)
        for (; n < (int)CS_ARRAY_LEN(metrics) && lua_rawgeti(L, -1, n + 1) != LUA_TNIL; n++) {
            by[n] = find_metric(lua_tostring(L, -1));
            if (!by[n])
                cs_lua_error(L, "cs.sweep: rank_by: step_ms, peak_memory_gib, bubble or ranks");
            lua_pop(L, 1);
        }
    if (n == 0) {
        by[n++] = &metrics[0];
        by[n++] = &metrics[1];
    }
    return n;
}

static void rank(lua_State *L, struct sweep *s)
{
    const struct metric *by[CS_ARRAY_LEN(metrics)] = {NULL};
    int n_by = read_rank_by(L, by);
    size_t n = json_array_size(s->plans);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->arena = cs_arena_new(0);
    struct ranked *row = CS_NEW_ARRAY(box->arena, struct ranked, n + 1);
    for (size_t i = 0; i < n; i++) {
        row[i].row = json_array_get(s->plans, i);
        row[i].index = i;
        for (int k = 0; k < n_by; k++)
            row[i].by[k] = json_number_value(json_object_get(row[i].row, by[k]->key));
    }
    qsort(row, n, sizeof(row[0]), compare);
    json_t *sorted = json_array();
    for (size_t i = 0; i < n && i < MAX_PLANS; i++)
        json_array_append(sorted, row[i].row);
    json_object_set_new(cs_lua_value_test(L, 3)->json, "plans", sorted);
}

static int call_sweep(lua_State *L)
{
    struct sweep s = {0};
    cs_lua_args_check(L, &functions[F_SWEEP]);
    lua_pushliteral(L, "over");
    lua_rawget(L, 1);                                                     /* index 2 */
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_SWEEP, NULL); /* index 3 */
    value->json = json_pack("{s:s s:[]}", "schema", "cornstarch.plans/1", "plans");
    s.plans = json_object_get(value->json, "plans");
    read_over(L, &s);
    do
        try_one(L, &s);
    while (advance(&s));
    if (s.tried == 0)
        return cs_lua_error(L, "cs.sweep: where accepts no combination");
    if (s.refused == s.tried)
        return cs_lua_error(L, "cs.sweep: every plan was refused; the first: %s",
                            json_string_value(s.first_refusal));
    rank(L, &s);
    json_object_set_new(value->json, "sweep",
                        json_pack("{s:i s:i}", "tried", s.tried, "refused", s.refused));
    lua_settop(L, 3);
    return 1;
}

/* Methods */

static const json_t *self_json(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (!value || value->kind != CS_LUA_SWEEP)
        cs_lua_error(L, "call it with a colon: sweep:method()");
    return value->json;
}

static void push_row(lua_State *L, const json_t *row)
{
    cs_lua_push_json(L, row);
    for (size_t i = 0; i < 2 && lua_istable(L, -1); i++) {
        lua_pushnumber(L,
                       json_number_value(json_object_get(row, metrics[i].key)) * metrics[i].scale);
        lua_setfield(L, -2, metrics[i].name);
    }
}

static int sweep_plans(lua_State *L)
{
    const json_t *plans = json_object_get(self_json(L), "plans");
    lua_createtable(L, (int)json_array_size(plans), 0);
    for (size_t i = 0; i < json_array_size(plans); i++) {
        push_row(L, json_array_get(plans, i));
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int sweep_blind(lua_State *L)
{
    const json_t *row = json_object_get(self_json(L), "frozen_blind");
    if (json_is_object(row))
        push_row(L, row);
    else
        lua_pushnil(L);
    return 1;
}

/* { planner=, plan= row or nil, why_not= } of every planner that was looked for */
static int sweep_planners(lua_State *L)
{
    const json_t *planners = json_object_get(self_json(L), "planners");
    lua_createtable(L, (int)json_array_size(planners), 0);
    for (size_t i = 0; i < json_array_size(planners); i++) {
        const json_t *row = json_array_get(planners, i), *plan = json_object_get(row, "plan");
        lua_createtable(L, 0, 3);
        cs_lua_push_json(L, json_object_get(row, "planner"));
        lua_setfield(L, -2, "planner");
        if (json_is_object(plan))
            push_row(L, plan);
        else
            lua_pushnil(L);
        lua_setfield(L, -2, "plan");
        if (json_is_string(json_object_get(row, "why_not"))) {
            cs_lua_push_json(L, json_object_get(row, "why_not"));
            lua_setfield(L, -2, "why_not");
        }
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int sweep_explain(lua_State *L)
{
    const json_t *explain = json_object_get(self_json(L), "explain");
    if (explain)
        cs_lua_push_json(L, explain);
    else
        lua_pushnil(L);
    return 1;
}

static int sweep_json(lua_State *L)
{
    cs_lua_push_json(L, self_json(L));
    return 1;
}

void cs_lua_register_search(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"plans",    sweep_plans   },
        {"blind",    sweep_blind   },
        {"planners", sweep_planners},
        {"explain",  sweep_explain },
        {"json",     sweep_json    },
        {NULL,       NULL          },
    };
    cs_lua_value_register(L, CS_LUA_SWEEP, methods, NULL);
}
