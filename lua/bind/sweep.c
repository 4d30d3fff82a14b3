/* What cs.search and cs.sweep return: the methods of found plans. */
#include "lua/bind/sweep.h"

#include "core/base/units.h"
#include "lua/base/json.h"
#include "lua/bind/bind.h"

const struct cs_sweep_metric cs_sweep_metrics[CS_SWEEP_METRICS] = {
    {"step_ms",         "step_ns",           1e-6           },
    {"peak_memory_gib", "peak_memory_bytes", 1.0 / (1 << 30)},
    {"bubble",          "bubble",            1              },
    {"ranks",           "ranks",             1              },
    {"slot_ms",         "slot_ns",           1e-6           },
};

void cs_lua_sweep_rates(json_t *row, int64_t seq_tokens)
{
    const double dp = json_number_value(json_object_get(row, "dp"));
    const double slots = json_number_value(json_object_get(row, "slots")) * (dp > 0 ? dp : 1);
    const double step_ns = json_number_value(json_object_get(row, "step_ns"));
    if (!(slots > 0) || !(step_ns > 0))
        return;
    json_object_set_new(row, "slot_ns", json_real(step_ns / slots));
    if (seq_tokens > 0)
        json_object_set_new(row, "tokens_per_s",
                            json_real((double)seq_tokens * slots * 1e9 / step_ns));
}

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
    for (size_t i = 0; i < CS_SWEEP_METRICS && lua_istable(L, -1); i++) {
        const json_t *value = json_object_get(row, cs_sweep_metrics[i].key);
        if (cs_sweep_metrics[i].scale == 1 || !json_is_number(value))
            continue;
        lua_pushnumber(L, json_number_value(value) * cs_sweep_metrics[i].scale);
        lua_setfield(L, -2, cs_sweep_metrics[i].name);
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

/* "16 plans, the first 13.6 ms a step: zb-h1 on 4 ranks" */
static int sweep_tostring(lua_State *L)
{
    const json_t *plans = json_object_get(cs_lua_value_test(L, 1)->json, "plans");
    const json_t *first = json_array_get(plans, 0);
    const int n = (int)json_array_size(plans);
    const json_int_t ranks = json_integer_value(json_object_get(first, "ranks"));
    const char *schedule = json_string_value(json_object_get(first, "schedule"));
    char step[CS_UNITS_CAP];
    if (n == 0) {
        lua_pushliteral(L, "no plans");
        return 1;
    }
    cs_duration_print(step, sizeof step,
                      (uint64_t)json_integer_value(json_object_get(first, "step_ns")));
    lua_pushfstring(L, "%d plan%s, the first %s a step: %s on %d rank%s", n, CS_PLURAL(n), step,
                    schedule ? schedule : "?", (int)ranks, CS_PLURAL(ranks));
    return 1;
}

void cs_lua_register_sweep(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"plans",    sweep_plans      },
        {"blind",    sweep_blind      },
        {"planners", sweep_planners   },
        {"explain",  sweep_explain    },
        {"plan",     cs_lua_sweep_plan},
        {"json",     sweep_json       },
        {NULL,       NULL             },
    };
    cs_lua_value_register(L, CS_LUA_SWEEP, methods, sweep_tostring);
}
