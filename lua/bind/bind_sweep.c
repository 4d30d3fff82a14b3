/* cs.sweep: plans of every combination of parameters, ranked. Its JSON is the document that `plan --json` prints.
 * Functions are allowed here alone: they run in the console and do not travel. */
#include <stdlib.h>
#include <string.h>

#include "core/plan/cost/links/links.h"
#include "core/sched/sim/forecast.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"
#include "lua/bind/sweep.h"

enum {
    MOST_REFUSALS = 8,           /* reasons that are told */
    MAX_KEYS = CS_TEXTS_MAX - 1, /* a tag of its job each, beside the name of the sweep */
    MAX_COMBINATIONS = 100000
};

static int call_sweep(lua_State *L);

/* clang-format off */
static const struct cs_arg sweep_args[] = {
    {"over", CS_ARG_TABLE, true, NULL, 0, 0, 0, NULL, "values of every parameter: { llm_pp = { 1, 2, 4 } }"},
    {"where", CS_ARG_FUNCTION, false, NULL, 0, 0, 0, NULL, "function(p): whether to try this combination"},
    {"build", CS_ARG_FUNCTION, true, NULL, 0, 0, 0, NULL, "function(p): its cs.plan or cs.search; or its cs.job, of all combinations: 'cornstarch-console sweep' runs them"},
    {"rank_by", CS_ARG_LIST, false, NULL, 0, 0, 0, "{ \"slot_ms\", \"peak_memory_gib\" }", "of plans: slot_ms (a step by its slots), step_ms, peak_memory_gib, bubble, ranks, the smallest first"},
};
static const struct cs_lua_function functions[] = {
    {"cs.sweep", "plans or jobs of every combination of parameters; plans are ranked", "cs.sweep", sweep_args, CS_ARRAY_LEN(sweep_args), call_sweep, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_sweep(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

struct sweep {
    const char *key[MAX_KEYS]; /* kept alive by the copy of "over" */
    int n;
    lua_Integer count[MAX_KEYS], at[MAX_KEYS];
    json_t *plans;
    int tried, refused;
    json_t *refusals; /* why, and how often */
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The list on top, which is popped, as a new one under the key below it in the table at index 3. */
static void copy_list(lua_State *L)
{
    const lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    lua_pushvalue(L, -2);
    lua_createtable(L, (int)n, 0);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, -3, i);
        lua_rawseti(L, -2, i);
    }
    lua_rawset(L, 3);
    lua_pop(L, 1);
}

/* The table "over" is at index 2, afterwards a copy: the functions of the script may change theirs meanwhile. */
static void read_over(lua_State *L, struct sweep *s)
{
    double total = 1;
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 2);) {
        if (lua_type(L, -2) != LUA_TSTRING || !lua_istable(L, -1) || lua_rawlen(L, -1) == 0)
            cs_lua_error(L, "cs.sweep: over = { NAME = { value, ... } }");
        if (s->n == MAX_KEYS)
            cs_lua_error(L, "cs.sweep: at most %d parameters", MAX_KEYS);
        total *= (double)lua_rawlen(L, -1);
        s->key[s->n++] = lua_tostring(L, -2);
        copy_list(L);
    }
    if (total > MAX_COMBINATIONS)
        cs_lua_error(L, "cs.sweep: more than %d combinations", MAX_COMBINATIONS);
    lua_replace(L, 2);
    qsort(s->key, (size_t)s->n, sizeof(s->key[0]), by_name);
    for (int i = 0; i < s->n; i++) {
        lua_getfield(L, 2, s->key[i]);
        s->count[i] = (lua_Integer)lua_rawlen(L, -1);
        lua_pop(L, 1);
    }
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
    struct cs_cluster cluster;
    struct cs_err err;
    const struct cs_forecast_options options = {.slots = 0};
    struct cs_forecast forecast;
    box->arena = cs_arena_new(0);
    enum cs_status status =
        cs_spec_cluster(value->spec, &cs_lua_state_of(L)->here, box->arena, &cluster, &err);
    if (status == CS_OK)
        status =
            cs_forecast_plan(plan, value->graph, &cluster, &options, box->arena, &forecast, &err);
    if (status != CS_OK)
        cs_lua_raise(L, "cs.sweep", &err);
    const struct cs_forecast_figures figures = cs_forecast_figures(&forecast, plan, box->arena);
    json_t *layout =
        json_deep_copy(json_object_get(json_object_get(value->json, "plan"), "parallel"));
    json_t *row =
        json_pack("{s:s s:s s:o s:i s:i s:i s:I s:I s:f s:s s:s}", "schedule", plan->schedule,
                  "optimizer_state", plan->keeps_bf16 ? "bf16" : "fp32", "parallel",
                  layout ? layout : json_object(), "dp", cs_plan_llm_replicas(plan), "slots",
                  cs_plan_own_slots(plan, plan->slots), "ranks", cs_plan_world(plan), "step_ns",
                  (json_int_t)plan->predicted_step_ns, "peak_memory_bytes",
                  (json_int_t)figures.peak_bytes, "bubble", figures.bubble, "why",
                  plan->n_why > 0 ? plan->why[plan->n_why - 1] : "", "plan_hash", plan->hash);
    cs_lua_sweep_rates(row, value->spec->seq_tokens);
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
    if (value && value->kind == CS_LUA_JOB)
        return json_pack("{s:o s:i}", "spec", json_deep_copy(value->json), "ranks", value->ranks);
    cs_lua_error(L, "cs.sweep: build must return a cs.plan, cs.search or cs.job, got %s",
                 value ? cs_lua_kind_name(value->kind) : luaL_typename(L, -1));
    return NULL;
}

/* Each reason once, the first MOST_REFUSALS. */
static void count_refusal(json_t *refusals, const char *why)
{
    json_t *one;
    size_t i;
    json_array_foreach(refusals, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "why")), why) != 0)
            continue;
        json_object_set_new(one, "n",
                            json_integer(json_integer_value(json_object_get(one, "n")) + 1));
        return;
    }
    if (i < MOST_REFUSALS)
        json_array_append_new(refusals, json_pack("{s:s s:i}", "why", why, "n", 1));
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
        count_refusal(s->refusals, luaL_tolstring(L, -1, NULL));
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

static const struct cs_sweep_metric *find_metric(const char *name)
{
    for (size_t i = 0; name && i < CS_SWEEP_METRICS; i++)
        if (strcmp(cs_sweep_metrics[i].name, name) == 0)
            return &cs_sweep_metrics[i];
    return NULL;
}

struct ranked {
    json_t *row;
    double by[CS_SWEEP_METRICS];
    size_t index;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    for (size_t i = 0; i < CS_SWEEP_METRICS; i++)
        if (x->by[i] != y->by[i])
            return x->by[i] < y->by[i] ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

static int read_rank_by(lua_State *L, const struct cs_sweep_metric *by[])
{
    int n = 0;
    lua_pushliteral(L, "rank_by");
    if (lua_rawget(L, 1) == LUA_TTABLE)
        for (; n < (int)CS_SWEEP_METRICS && lua_rawgeti(L, -1, n + 1) != LUA_TNIL; n++) {
            by[n] = find_metric(lua_tostring(L, -1));
            if (!by[n])
                cs_lua_error(
                    L, "cs.sweep: rank_by: slot_ms, step_ms, peak_memory_gib, bubble or ranks");
            lua_pop(L, 1);
        }
    if (n == 0) {
        by[n++] = find_metric("slot_ms");
        by[n++] = find_metric("peak_memory_gib");
    }
    return n;
}

static void rank(lua_State *L, struct sweep *s)
{
    const struct cs_sweep_metric *by[CS_SWEEP_METRICS] = {NULL};
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
    for (size_t i = 0; i < n && i < CS_SWEEP_PLANS; i++)
        json_array_append(sorted, row[i].row);
    json_object_set_new(cs_lua_value_test(L, 3)->json, "plans", sorted);
}

/* Jobs are not ranked before they have run; returns whether the rows are some. */
static bool take_jobs(lua_State *L, struct sweep *s, json_t *document)
{
    size_t n_jobs = 0, n = json_array_size(s->plans);
    for (size_t i = 0; i < n; i++)
        n_jobs += json_object_get(json_array_get(s->plans, i), "spec") != NULL;
    if (n_jobs > 0 && n_jobs < n)
        cs_lua_error(L, "cs.sweep: build returns plans for some combinations and jobs for others");
    if (n_jobs > CS_SWEEP_JOBS)
        cs_lua_error(L, "cs.sweep: %I jobs, at most %d", (LUAI_UACINT)n_jobs, CS_SWEEP_JOBS);
    if (n_jobs == 0)
        return false;
    json_object_set(document, "jobs", s->plans);
    json_object_del(document, "plans");
    json_object_set_new(document, "schema", json_string("cornstarch.sweep/1"));
    return true;
}

static int call_sweep(lua_State *L)
{
    struct sweep s = {0};
    cs_lua_args_check(L, &functions[0]);
    lua_pushliteral(L, "over");
    lua_rawget(L, 1); /* index 2 */
    read_over(L, &s);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_SWEEP, NULL); /* index 3 */
    value->json = json_pack("{s:s s:[] s:{s:[]}}", "schema", "cornstarch.plans/1", "plans", "sweep",
                            "refusals");
    s.plans = json_object_get(value->json, "plans");
    json_t *counts = json_object_get(value->json, "sweep");
    s.refusals = json_object_get(counts, "refusals");
    do
        try_one(L, &s);
    while (advance(&s));
    if (s.tried == 0)
        return cs_lua_error(L, "cs.sweep: where accepts no combination");
    if (s.refused == s.tried)
        return cs_lua_error(
            L, "cs.sweep: every plan was refused; the first: %s",
            json_string_value(json_object_get(json_array_get(s.refusals, 0), "why")));
    if (!take_jobs(L, &s, value->json))
        rank(L, &s);
    json_object_set_new(counts, "tried", json_integer(s.tried));
    json_object_set_new(counts, "refused", json_integer(s.refused));
    lua_settop(L, 3);
    return 1;
}
