/* plan:simulate: a plan's step with stragglers, jitter and copies, by stages and ranks. */
#include "lua/bind/plan_simulate.h"

#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/plan/cost/links/links.h"
#include "core/sched/sim/forecast.h"
#include "lua/base/lists.h"
#include "lua/bind/bind.h"

/* clang-format off */
static const struct cs_arg simulate_args[] = {
    {"schedule", CS_ARG_STRING, false, NULL, 0, 0, 0, "the plan's", "another schedule that the plan fits"},
    {"slots", CS_ARG_INT, false, NULL, 1, 4096, 0, "the plan's", "slots of the step"},
    {"stragglers", CS_ARG_LIST, false, NULL, 0, 0, 0, "none", "{ { rank = 1, factor = 1.5 }, { stage = \"llm.1\", factor = 2 }, ... }; with copy = 3: of that copy's rank"},
    {"jitter", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "0", "every time is up to that part longer or shorter, evenly spread"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740992.0, 0, "0", "of the jitter"},
    {"copies", CS_ARG_INT, false, NULL, 1, 65536, 0, "1", "data-parallel copies of all ranks; those alike are simulated once"},
    {"share_links", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "messages divide the ports and NICs of the cluster's devices"},
};
static const struct cs_arg straggler_args[] = {
    {"factor", CS_ARG_NUMBER, true, NULL, 0, 1000, 0, NULL, "its times are multiplied, to a thousandth"},
    {"rank", CS_ARG_INT, false, NULL, 0, 65535, 0, NULL, "all work of a rank, from 0; or stage"},
    {"stage", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "one stage"},
    {"copy", CS_ARG_INT, false, NULL, 0, 65535, 0, "all", "the copy whose rank it is, from 0"},
};
static const struct cs_lua_function simulate_function = {"plan:simulate", "", "", simulate_args, CS_ARRAY_LEN(simulate_args), NULL, NULL};
static const struct cs_lua_function straggler_function = {"plan:simulate: straggler", "", "", straggler_args, CS_ARRAY_LEN(straggler_args), NULL, NULL};

/* clang-format on */

enum { MAX_STRAGGLERS = 65536, MAX_WORLD = 1 << 24 };

struct slowness { /* what read_straggler fills: thousandths */
    const struct cs_plan *plan;
    int32_t *rank, *stage;
    int32_t copies;
};

static int32_t stage_of(const struct cs_plan *plan, const char *name)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (strcmp(plan->stages[s].name, name) == 0)
            return s;
    return -1;
}

/* The straggler's table is at index 1, the slowness at index 2 (light userdata). */
static int read_straggler(lua_State *L)
{
    const struct cs_lua_function *f = &straggler_function;
    const struct slowness *to = lua_touserdata(L, 2);
    cs_lua_args_check(L, f);
    const char *name = cs_lua_args_string(L, "stage", NULL);
    lua_Integer rank = cs_lua_args_int(L, "rank", -1), copy = cs_lua_args_int(L, "copy", -1);
    int32_t permille = (int32_t)(cs_lua_args_number(L, "factor", 1) * 1000 + 0.5);
    int32_t n = to->plan->n_ranks, stage = name ? stage_of(to->plan, name) : -1;
    if ((name != NULL) == (rank >= 0) || (name && copy >= 0))
        return cs_lua_error(L, "%s: give stage, or rank with or without copy", f->name);
    if (name && stage < 0)
        return cs_lua_error(L, "%s: there is no stage %s", f->name, name);
    if (rank >= n || copy >= to->copies)
        return cs_lua_error(L, "%s: rank %d of copy %d: there are %d rank%s in %d %s", f->name,
                            (int)rank, (int)copy, (int)n, CS_PLURAL(n), (int)to->copies,
                            CS_NOUN(to->copies, "copy", "copies"));
    if (name)
        to->stage[stage] = permille;
    for (int32_t c = 0; !name && c < to->copies; c++)
        if (copy < 0 || copy == c)
            to->rank[c * n + (int32_t)rank] = permille;
    return 0;
}

static void read_stragglers(lua_State *L, const struct cs_plan *plan, struct cs_arena *arena,
                            struct cs_sim_options *sim)
{
    const struct cs_lua_function *f = &simulate_function;
    struct slowness slow = {.plan = plan, .copies = sim->copies};
    int n = cs_lua_push_list(L, f, "stragglers", MAX_STRAGGLERS);
    int64_t world = (int64_t)sim->copies * plan->n_ranks;
    if (world > MAX_WORLD)
        cs_lua_error(L, "%s: %d copies of %d ranks are too many", f->name, (int)sim->copies,
                     (int)plan->n_ranks);
    if (n > 0) {
        slow.rank = CS_NEW_ARRAY(arena, int32_t, world);
        slow.stage = CS_NEW_ARRAY(arena, int32_t, plan->n_stages);
        for (int64_t r = 0; r < world; r++)
            slow.rank[r] = 1000;
        for (int32_t s = 0; s < plan->n_stages; s++)
            slow.stage[s] = 1000;
    }
    for (int i = 0; i < n; i++) {
        lua_pushcfunction(L, read_straggler);
        if (lua_rawgeti(L, -2, i + 1) != LUA_TTABLE)
            cs_lua_error(L, "%s: 'stragglers' item %d must be a table, got %s", f->name, i + 1,
                         luaL_typename(L, -1));
        lua_pushlightuserdata(L, &slow);
        lua_call(L, 2, 0);
    }
    lua_pop(L, 1);
    sim->rank_permille = slow.rank;
    sim->stage_permille = slow.stage;
}

static void set_ms(lua_State *L, const char *key, int64_t ns)
{
    lua_pushnumber(L, (double)ns / 1e6);
    lua_setfield(L, -2, key);
}

static void set_stages(lua_State *L, const struct cs_forecast *f, int32_t n)
{
    lua_createtable(L, 0, n);
    for (int32_t s = 0; s < n; s++) {
        const struct cs_forecast_stage *stage = &f->stage[s];
        lua_createtable(L, 0, 7);
        lua_pushinteger(L, stage->rank);
        lua_setfield(L, -2, "rank");
        lua_pushinteger(L, stage->peak);
        lua_setfield(L, -2, "peak");
        lua_pushnumber(L, stage->bubble);
        lua_setfield(L, -2, "bubble");
        lua_pushnumber(L, stage->span_bubble);
        lua_setfield(L, -2, "span_bubble");
        set_ms(L, "fwd_ms", stage->fwd_ns);
        set_ms(L, "bwd_ms", stage->bwd_ns);
        set_ms(L, "exposed_ms", stage->exposed_ns);
        lua_setfield(L, -2, stage->name);
    }
    lua_setfield(L, -2, "stages");
}

/* { at_ms =, weights =, state =, activations =, boundary = }, bytes */
static void push_point(lua_State *L, const struct cs_forecast_point *point)
{
    static const char *const keys[CS_HELD_COUNT] = {"weights", "state", "activations", "boundary"};
    lua_createtable(L, 0, CS_HELD_COUNT + 1);
    set_ms(L, "at_ms", point->at_ns);
    for (int held = 0; held < CS_HELD_COUNT; held++) {
        lua_pushinteger(L, point->bytes[held]);
        lua_setfield(L, -2, keys[held]);
    }
}

static void set_ranks(lua_State *L, const struct cs_forecast *f, int32_t n)
{
    lua_createtable(L, n, 0);
    for (int32_t r = 0; r < n; r++) {
        const struct cs_forecast_rank *rank = &f->rank[r];
        lua_createtable(L, 0, 4);
        lua_pushinteger(L, cs_rank_needs_bytes(&rank->needs));
        lua_setfield(L, -2, "peak_bytes");
        set_ms(L, "busy_ms", rank->busy_ns);
        set_ms(L, "exposed_ms", rank->exposed_ns);
        lua_createtable(L, (int)rank->n_points, 0);
        for (uint32_t i = 0; i < rank->n_points; i++) {
            push_point(L, &rank->memory[i]);
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        lua_setfield(L, -2, "memory");
        lua_rawseti(L, -2, r + 1);
    }
    lua_setfield(L, -2, "ranks");
}

static void set_critical(lua_State *L, const struct cs_forecast *f)
{
    lua_createtable(L, f->n_critical, 0);
    for (int32_t i = 0; i < f->n_critical; i++) {
        const struct cs_forecast_action *a =
            &f->rank[f->critical[i].rank].action[f->critical[i].id];
        char slot[16] = "";
        if (a->slot >= 0)
            snprintf(slot, sizeof(slot), "%d", (int)a->slot);
        lua_pushfstring(L, "%s%s%s%s", cs_program_letter((enum cs_op)a->op), slot,
                        a->stage >= 0 ? " " : "", a->stage >= 0 ? f->stage[a->stage].name : "");
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "critical_path");
}

/* the plan is upvalue 1, the table of arguments at index 1 */
static int simulate(lua_State *L)
{
    const struct cs_lua_value *self = cs_lua_value_test(L, lua_upvalueindex(1));
    struct cs_cluster cluster;
    struct cs_forecast forecast;
    struct cs_err err;
    cs_lua_args_check(L, &simulate_function);
    struct cs_arena *arena = cs_lua_scratch(L);
    struct cs_sim_options sim = {.jitter_permille =
                                     (int32_t)(cs_lua_args_number(L, "jitter", 0) * 1000 + 0.5),
                                 .seed = (uint64_t)cs_lua_args_int(L, "seed", 0),
                                 .copies = (int32_t)cs_lua_args_int(L, "copies", 1)};
    read_stragglers(L, self->plan, arena, &sim);
    lua_Integer slots = cs_lua_args_int(L, "slots", self->plan->slots);
    cs_lua_bound_simulation(L, &simulate_function, sim.copies,
                            (double)self->plan->n_stages * (double)slots);
    struct cs_forecast_options options = {.schedule = cs_lua_args_string(L, "schedule", NULL),
                                          .slots = (int32_t)cs_lua_args_int(L, "slots", 0),
                                          .sim = &sim,
                                          .shares_links =
                                              cs_lua_args_bool(L, "share_links", false)};
    enum cs_status status =
        cs_spec_cluster(self->spec, &cs_lua_state_of(L)->here, arena, &cluster, &err);
    if (status == CS_OK)
        status =
            cs_forecast_plan(self->plan, self->graph, &cluster, &options, arena, &forecast, &err);
    if (status != CS_OK)
        return cs_lua_error(L, "plan:simulate: %s", err.text);
    lua_createtable(L, 0, 6);
    set_ms(L, "step_ms", forecast.makespan_ns);
    lua_pushnumber(L, forecast.bubble);
    lua_setfield(L, -2, "bubble");
    lua_pushinteger(L, forecast.n_ranks / self->plan->n_ranks);
    lua_setfield(L, -2, "classes");
    set_stages(L, &forecast, self->plan->n_stages);
    set_ranks(L, &forecast, self->plan->n_ranks);
    set_critical(L, &forecast);
    return 1;
}

int cs_lua_plan_simulate(lua_State *L)
{
    lua_settop(L, 2);
    if (lua_isnil(L, 2)) {
        lua_createtable(L, 0, 0);
        lua_replace(L, 2);
    }
    lua_pushvalue(L, 1);
    lua_pushcclosure(L, simulate, 1);
    lua_pushvalue(L, 2);
    lua_call(L, 1, 1);
    return 1;
}
