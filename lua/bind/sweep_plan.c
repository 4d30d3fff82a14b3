/* found:plan(n): a plan of cs.search as a cs.plan, so that a job runs it. What the script gave the search
 * (model, cluster, sizes) is its user value; the layout is that of the row. */
#include <string.h>

#include "core/base/units.h"
#include "core/search/search.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"
#include "lua/bind/sweep.h"

enum { GIVEN = 1 };

void cs_lua_sweep_keep(lua_State *L, int sweep)
{
    static const char *const keys[] = {"model",     "cluster", "seq_tokens", "encoder_rows",
                                       "optimizer", "profile", "context"};
    lua_createtable(L, 0, (int)CS_ARRAY_LEN(keys));
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
        lua_pushstring(L, keys[i]);
        lua_rawget(L, 1);
        lua_setfield(L, -2, keys[i]);
    }
    lua_setiuservalue(L, sweep, GIVEN);
}

static const char *text_of(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text != NULL ? text : "";
}

/* the fastest that runs, where none is asked for */
static const json_t *pick(lua_State *L, const json_t *plans)
{
    lua_Integer n = luaL_optinteger(L, 2, 0);
    const json_t *first = json_array_get(plans, 0);
    if (n < 0 || (size_t)n > json_array_size(plans))
        cs_lua_error(L, "cs.search: plan(%d): 1 to %d were found", (int)n,
                     (int)json_array_size(plans));
    for (size_t i = 0; n == 0 && i < json_array_size(plans); i++)
        if (json_is_true(json_object_get(json_array_get(plans, i), "runs")))
            n = (lua_Integer)i + 1;
    cs_lua_state_of(L)->picked = (int)n;
    if (n > 0)
        return json_array_get(plans, (size_t)n - 1);
    cs_lua_error(L,
                 "cs.search: jobs run none of the %d plan%s found (the first: %s); search with "
                 "runs = true",
                 (int)json_array_size(plans), CS_PLURAL(json_array_size(plans)),
                 text_of(first, "why_not_run"));
    return NULL;
}

static bool is_mixed(const json_t *row)
{
    return strcmp(text_of(row, "modality"), cs_search_modality_name(CS_SEARCH_MIXED)) == 0;
}

/* What jobs have to be told: levels above 1 where several ranks have the same weights, replicas of an
 * encoder that are not as many as those of all, chunks, places of encoders that differ. */
static bool is_said(const char *key, const json_t *at, const json_t *row)
{
    const json_int_t dp = json_integer_value(json_object_get(row, "dp"));
    const bool is_own = strcmp(text_of(at, "place"), cs_placement_table[CS_PLACE_OWN].name) == 0;
    const json_int_t own = json_integer_value(json_object_get(at, "dp"));
    if (strcmp(key, "zero") == 0)
        return json_integer_value(json_object_get(at, key)) > 1 &&
               own * json_integer_value(json_object_get(at, "cp")) > 1;
    if (strcmp(key, "cp") == 0) /* on the ranks of the LLM: as many parts as there are */
        return is_own;
    if (strcmp(key, "vpp") == 0)
        return json_integer_value(json_object_get(at, key)) > 1;
    if (strcmp(key, "place") == 0)
        return is_mixed(row) && !is_own;
    return strcmp(key, "dp") != 0 || (own != dp && is_own);
}

/* stages, ranks that share them and recompute of every module */
static void push_parallel(lua_State *L, const json_t *row)
{
    static const char *const keys[] = {"pp", "vpp", "tp",   "sp",        "cp",
                                       "ep", "dp",  "zero", "recompute", "place"};
    const char *name;
    json_t *at;
    lua_newtable(L);
    json_object_foreach(json_object_get(row, "parallel"), name, at)
    {
        lua_newtable(L);
        for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++) {
            const json_t *given = json_object_get(
                at, keys[i]); /* ep: where it is above 1; sp: where rows are split */
            if (given == NULL || !is_said(keys[i], at, row))
                continue;
            cs_lua_push_json(L, given);
            lua_setfield(L, -2, keys[i]);
        }
        lua_setfield(L, -2, name);
    }
    lua_setfield(L, -2, "parallel");
}

/* on top: a table of what is given */
static void push_settings(lua_State *L, const json_t *row)
{
    const json_int_t dp = json_integer_value(json_object_get(row, "dp"));
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, -3); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    push_parallel(L, row);
    lua_pushstring(L, is_mixed(row) ? CS_MODALITY_DEFAULT : text_of(row, "modality"));
    lua_setfield(L, -2, "modality");
    lua_pushstring(L, text_of(row, "schedule"));
    lua_setfield(L, -2, "schedule");
    lua_pushstring(L, text_of(row, "cut"));
    lua_setfield(L, -2, "stages");
    lua_pushinteger(L, (lua_Integer)dp);
    lua_setfield(L, -2, "dp");
    lua_pushinteger(L, (lua_Integer)(dp * json_integer_value(json_object_get(row, "slots"))));
    lua_setfield(L, -2, "slots");
    if (json_is_integer(json_object_get(row, "context_rows"))) {
        cs_lua_push_json(L, json_object_get(row, "context_rows"));
        lua_setfield(L, -2, "context_rows");
    }
}

static lua_CFunction plan_function(void)
{
    const struct cs_lua_area area = cs_lua_area_plan();
    for (int i = 0; i < area.n; i++)
        if (strcmp(area.functions[i].name, "cs.plan") == 0)
            return area.functions[i].call;
    return NULL;
}

int cs_lua_sweep_plan(lua_State *L)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, 1);
    if (value == NULL || value->kind != CS_LUA_SWEEP)
        return cs_lua_error(L, "call it with a colon: found:plan()");
    lua_settop(L, 2); /* plan n */
    if (lua_getiuservalue(L, 1, GIVEN) != LUA_TTABLE)
        return cs_lua_error(L, "plan() is of a cs.search: the plans of a cs.sweep are those that "
                               "its function builds");
    const json_t *row = pick(L, json_object_get(value->json, "plans"));
    if (!json_is_true(json_object_get(row, "runs")))
        return cs_lua_error(L, "cs.search: jobs do not run this plan: %s",
                            text_of(row, "why_not_run"));
    push_settings(L, row);
    lua_replace(L, 1);
    lua_settop(L, 1);
    return plan_function()(L);
}

/* The table at index 1 becomes a copy with this value, on top, as its plan. */
static void replace_plan(lua_State *L)
{
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        lua_pushvalue(L, -2);
        lua_pushvalue(L, -2);
        lua_rawset(L, -5);
    }
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, "plan");
    lua_replace(L, 1);
    lua_settop(L, 1);
}

void cs_lua_sweep_resolve(lua_State *L)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    if (!lua_istable(L, 1))
        return;
    lua_pushliteral(L, "plan");
    lua_rawget(L, 1);
    const struct cs_lua_value *value = cs_lua_value_test(L, -1);
    if (value == NULL || value->kind != CS_LUA_SWEEP) {
        lua_pop(L, 1);
        return;
    }
    json_decref(state->found);
    state->found = json_incref(value->json);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, CS_LUA_FOUND);
    lua_pushcfunction(L, cs_lua_sweep_plan);
    lua_insert(L, -2);
    lua_pushinteger(L, state->pick);
    lua_call(L, 2, 1);
    replace_plan(L);
}
