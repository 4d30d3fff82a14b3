/* cs.lab.*: the planner's pure functions on plain tables. Lists come in as Lua arrays, results are
 * tables; whole numbers are Lua integers. Everything a call allocates hangs on one box on the
 * stack, so that an error cannot leak it. */
#include <math.h>
#include <string.h>

#include "core/base/units.h"
#include "core/model/graph.h"
#include "core/model/schedules.h"
#include "core/plan/make/split.h"
#include "core/sched/sim/lab.h"
#include "lua/base/lists.h"
#include "lua/bind/bind.h"

enum { MAX_ITEMS = 65536, MAX_MODULES = 1024, MAX_CELLS = 1 << 26, MAX_WORLD = 1 << 24 };

#define MAX_WORK 4e9 /* of a split: stages * layers^2, some seconds */

static int call_needs(lua_State *L);
static int call_split(lua_State *L);
static int call_program(lua_State *L);
static int call_simulate(lua_State *L);

/* clang-format off */
static const struct cs_arg needs_args[] = {
    {"frozen", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "true for every frozen layer, in dataflow order"},
};
static const struct cs_arg split_args[] = {
    {"stages", CS_ARG_INT, true, NULL, 1, MAX_ITEMS, 0, NULL, "number of stages"},
    {"costs", CS_ARG_LIST, false, NULL, 0, 0, 0, NULL, "cost of every layer; or fwd, bwd_input, bwd_weight and frozen"},
    {"fwd", CS_ARG_LIST, false, NULL, 0, 0, 0, NULL, "forward time of every layer"},
    {"bwd_input", CS_ARG_LIST, false, NULL, 0, 0, 0, "fwd", "time of the input gradient, where it is needed"},
    {"bwd_weight", CS_ARG_LIST, false, NULL, 0, 0, 0, "fwd", "time of the weight gradient, where it is needed"},
    {"frozen", CS_ARG_LIST, false, NULL, 0, 0, 0, "nothing", "true for every frozen layer"},
    {"bytes", CS_ARG_LIST, false, NULL, 0, 0, 0, NULL, "memory of every layer, with cap"},
    {"cap", CS_ARG_NUMBER, false, NULL, 0, 1e18, 0, "none", "largest memory of a stage"},
};
static const struct cs_arg module_args[] = {
    {"name", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "of the module"},
    {"feeds", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "module that takes its output"},
    {"fwd", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "forward time of every stage"},
    {"bwd", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "backward time of every stage; 0: no backward"},
    {"wgrad", CS_ARG_LIST, false, NULL, 0, 0, 0, NULL, "weight gradients apart from bwd"},
    {"bytes", CS_ARG_LIST, false, NULL, 0, 0, 0, NULL, "what a live slot keeps in every stage, for the memory curve"},
};
static const struct cs_arg straggler_args[] = {
    {"factor", CS_ARG_NUMBER, true, NULL, 0, 1e6, 0, NULL, "its times are multiplied"},
    {"stage", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "one stage, e.g. \"llm.1\"; or rank"},
    {"rank", CS_ARG_INT, false, NULL, 0, MAX_ITEMS, 0, NULL, "all work of a rank of the program, from 0"},
    {"copy", CS_ARG_INT, false, NULL, 0, MAX_ITEMS, 0, "all", "the copy whose rank it is, from 0"},
};
static const struct cs_lua_function straggler_function = {"cs.lab: straggler", "", "", straggler_args, CS_ARRAY_LEN(straggler_args), NULL, NULL};
static const struct cs_lua_function module_function = {"cs.lab: module", "", "", module_args, CS_ARRAY_LEN(module_args), NULL, NULL};
#define PIPELINE_ARGS                                                                              \
    {"modules", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "{ { name = \"v\", feeds = \"llm\", fwd = { 1 }, bwd = { 2 } }, ... }"}, \
    {"schedule", CS_ARG_STRING, false, NULL, 0, 0, 0, "\"1f1b\"", "order of the work: " CS_SCHEDULE_LIST}, \
    {"slots", CS_ARG_INT, true, NULL, 1, 4096, 0, NULL, "slots of a step"}, \
    {"chunks", CS_ARG_INT, false, NULL, 1, 4096, 0, "2", "interleaved: chunks of every stage of the last module; three-phase: 1 unless given"}, \
    {"window", CS_ARG_INT, false, NULL, 1, 4096, 0, "2", "anchors: groups of slots that are encoded ahead"}, \
    {"ahead", CS_ARG_INT, false, NULL, 1, 4096, 0, "all", "slots that a stage without backward may be ahead of its messages"}, \
    {"lead", CS_ARG_INT, false, NULL, 0, 4096, 0, "0", "slots of the next step that a frozen encoder computes while this one drains (steady state)"}
static const struct cs_arg program_args[] = {
    PIPELINE_ARGS,
};
static const struct cs_arg simulate_args[] = {
    PIPELINE_ARGS,
    {"hop", CS_ARG_NUMBER, false, NULL, 0, 1e18, 0, "0", "time of every message between stages"},
    {"stragglers", CS_ARG_LIST, false, NULL, 0, 0, 0, "none", "{ { stage = \"llm.1\", factor = 1.5 }, { rank = 0, copy = 3, factor = 2 }, ... }"},
    {"jitter", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "0", "every time is up to that part longer or shorter, evenly spread"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740992.0, 0, "0", "of the jitter: the same seed, the same times"},
    {"ranks_per_node", CS_ARG_INT, false, NULL, 1, MAX_ITEMS, 0, "links are not shared", "messages that share a device's port in a node, or a NIC between nodes, divide it"},
    {"ranks_per_nic", CS_ARG_INT, false, NULL, 1, MAX_ITEMS, 0, "1", "ranks that share a NIC towards other nodes"},
    {"latency", CS_ARG_NUMBER, false, NULL, 0, 1e18, 0, "0", "part of hop in which a message occupies no link"},
    {"copies", CS_ARG_INT, false, NULL, 1, MAX_ITEMS, 0, "1", "data-parallel copies of all ranks; those alike are simulated once"},
};

enum { F_NEEDS, F_SPLIT, F_PROGRAM, F_SIMULATE };

static const struct cs_lua_function functions[] = {
    {"cs.lab.needs", "which layers need the gradient of their input and of their weights", "table", needs_args, CS_ARRAY_LEN(needs_args), call_needs, NULL},
    {"cs.lab.split", "cut a chain of layers into stages: bottleneck and sizes", "table", split_args, CS_ARRAY_LEN(split_args), call_split, NULL},
    {"cs.lab.program", "the order of work of every stage, e.g. [\"llm.0\"] = \"F0 F1 B0 ...\"", "table", program_args, CS_ARRAY_LEN(program_args), call_program, NULL},
    {"cs.lab.simulate", "makespan; bubble, peak, idle between first and last work, and exposed messages of every stage; bubble of every module; critical path; classes of copies; memory over time", "table", simulate_args, CS_ARRAY_LEN(simulate_args), call_simulate, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_lab(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static bool *booleans(lua_State *L, const struct cs_lua_function *f, const char *key,
                      struct cs_arena *arena, int *n)
{
    int len = cs_lua_push_list(L, f, key, MAX_ITEMS);
    if (len < 0) {
        lua_pop(L, 1);
        return NULL;
    }
    if (*n >= 0 && len != *n)
        cs_lua_error(L, "%s: '%s' has %d item%s, the lists before it have %d", f->name, key, len,
                     CS_PLURAL(len), *n);
    *n = len;
    bool *out = CS_NEW_ARRAY(arena, bool, len + 1);
    for (int i = 0; i < len; i++) {
        if (lua_rawgeti(L, -1, i + 1) != LUA_TBOOLEAN)
            cs_lua_error(L, "%s: '%s' item %d must be true or false, got %s", f->name, key, i + 1,
                         luaL_typename(L, -1));
        out[i] = lua_toboolean(L, -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return out;
}

static void set_booleans(lua_State *L, const char *key, const bool *value, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushboolean(L, value[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static int call_needs(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_NEEDS];
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    int n = -1;
    bool *frozen = booleans(L, f, "frozen", arena, &n);
    bool *input = CS_NEW_ARRAY(arena, bool, n + 1), *weight = CS_NEW_ARRAY(arena, bool, n + 1);
    cs_graph_needs(frozen, n, input, weight);
    lua_createtable(L, 0, 2);
    set_booleans(L, "input", input, n);
    set_booleans(L, "weight", weight, n);
    return 1;
}

/* cost of a layer = fwd + [needs input] bwd_input + [needs weight] bwd_weight */
static double *frozen_costs(lua_State *L, const struct cs_lua_function *f, struct cs_arena *arena,
                            int *n)
{
    double *fwd = cs_lua_numbers(L, f, "fwd", arena, n);
    if (!fwd)
        cs_lua_error(L, "%s: give 'costs', or 'fwd' with 'frozen'", f->name);
    double *bwd_input = cs_lua_numbers(L, f, "bwd_input", arena, n);
    double *bwd_weight = cs_lua_numbers(L, f, "bwd_weight", arena, n);
    bool *frozen = booleans(L, f, "frozen", arena, n);
    bool *input = CS_NEW_ARRAY(arena, bool, *n + 1), *weight = CS_NEW_ARRAY(arena, bool, *n + 1);
    double *cost = CS_NEW_ARRAY(arena, double, *n + 1);
    if (!frozen)
        frozen = CS_NEW_ARRAY(arena, bool, *n + 1);
    cs_graph_needs(frozen, *n, input, weight);
    for (int i = 0; i < *n; i++)
        cost[i] = fwd[i] + (input[i] ? (bwd_input ? bwd_input : fwd)[i] : 0) +
                  (weight[i] ? (bwd_weight ? bwd_weight : fwd)[i] : 0);
    return cost;
}

static int call_split(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_SPLIT];
    struct cs_err err;
    double bottleneck = 0;
    int n = -1;
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    int stages = (int)cs_lua_args_int(L, "stages", 1);
    double *cost = cs_lua_numbers(L, f, "costs", arena, &n);
    if (!cost)
        cost = frozen_costs(L, f, arena, &n);
    double *bytes = cs_lua_numbers(L, f, "bytes", arena, &n);
    struct cs_split_memory memory = {.weight = bytes, .cap = cs_lua_args_number(L, "cap", 0)};
    if ((bytes != NULL) != (memory.cap > 0))
        return cs_lua_error(L, "%s: 'bytes' and 'cap' (above 0) go together", f->name);
    if ((double)stages * n * n > MAX_WORK)
        return cs_lua_error(L, "%s: %d layers on %d stages are too many", f->name, n, stages);
    memory.saved = bytes ? CS_NEW_ARRAY(arena, double, n + 1) : NULL;
    int *sizes = CS_NEW_ARRAY(arena, int, stages + 1);
    enum cs_status status =
        bytes ? cs_split_capped(cost, n, stages, &memory, sizes, &bottleneck, &err)
              : cs_split(cost, n, stages, sizes, &bottleneck, &err);
    if (status != CS_OK)
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    lua_createtable(L, 0, 2);
    cs_lua_push_number(L, bottleneck);
    lua_setfield(L, -2, "bottleneck");
    lua_createtable(L, stages, 0);
    for (int i = 0; i < stages; i++) {
        lua_pushinteger(L, sizes[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "sizes");
    return 1;
}

struct module_slot { /* what read_module fills */
    struct cs_lab_module *module;
    double **bytes;
    struct cs_arena *arena;
};

/* The module's table is at index 1, a module_slot at index 2 (light userdata). */
static int read_module(lua_State *L)
{
    const struct cs_lua_function *f = &module_function;
    const struct module_slot *slot = lua_touserdata(L, 2);
    int n = -1;
    cs_lua_args_check(L, f);
    const char *name = cs_lua_args_string(L, "name", ""),
               *feeds = cs_lua_args_string(L, "feeds", NULL);
    *slot->module = (struct cs_lab_module){
        .name = cs_arena_strdup(slot->arena, name),
        .feeds = feeds ? cs_arena_strdup(slot->arena, feeds) : NULL,
        .fwd = cs_lua_numbers(L, f, "fwd", slot->arena, &n),
        .bwd = cs_lua_numbers(L, f, "bwd", slot->arena, &n),
        .wgrad = cs_lua_numbers(L, f, "wgrad", slot->arena, &n),
    };
    *slot->bytes = cs_lua_numbers(L, f, "bytes", slot->arena, &n);
    slot->module->n_stages = n;
    return 0;
}

/* (n_stages) by stage of the lab; copies of a module keep what the whole module keeps */
static double *stage_bytes(const struct cs_lab *lab, const struct cs_lab_module *modules, int n,
                           double *const *given, struct cs_arena *arena)
{
    double *bytes = CS_NEW_ARRAY(arena, double, lab->n_stages + 1);
    bool has_any = false;
    for (int i = 0; i < n; i++) {
        int32_t end = i + 1 < n ? lab->first[i + 1] : lab->n_stages, own = modules[i].n_stages;
        double sum = 0;
        has_any = has_any || given[i];
        for (int32_t s = 0; given[i] && s < own; s++)
            sum += given[i][s];
        for (int32_t s = lab->first[i]; given[i] && s < end; s++)
            bytes[s] = lab->is_copied[i] ? sum : given[i][s - lab->first[i]];
    }
    return has_any ? bytes : NULL;
}

/* bytes: NULL, or where to put what live slots keep */
static struct cs_lab *make_lab(lua_State *L, const struct cs_lua_function *f, double **bytes,
                               struct cs_arena *arena)
{
    struct cs_err err;
    struct cs_lab *lab = NULL;
    const char *schedule = cs_lua_args_string(L, "schedule", CS_SCHEDULE_DEFAULT);
    struct cs_lab_options options = {.schedule = cs_arena_strdup(arena, schedule),
                                     .slots = (int32_t)cs_lua_args_int(L, "slots", 1),
                                     .hop = cs_lua_args_number(L, "hop", 0)};
    int n = cs_lua_push_list(L, f, "modules", MAX_MODULES);
    int64_t stages = 0;
    struct cs_lab_module *modules = CS_NEW_ARRAY(arena, struct cs_lab_module, n + 1);
    double **given = CS_NEW_ARRAY(arena, double *, n + 1);
    for (int i = 0; i < n; i++) {
        struct module_slot slot = {&modules[i], &given[i], arena};
        lua_pushcfunction(L, read_module);
        if (lua_rawgeti(L, -2, i + 1) != LUA_TTABLE)
            cs_lua_error(L, "%s: 'modules' item %d must be a table, got %s", f->name, i + 1,
                         luaL_typename(L, -1));
        lua_pushlightuserdata(L, &slot);
        lua_call(L, 2, 0);
        stages += modules[i].n_stages;
    }
    lua_pop(L, 1);
    if (stages * options.slots > MAX_CELLS / 8)
        cs_lua_error(L, "%s: %d slots on %d stages are too many", f->name, (int)options.slots,
                     (int)stages);
    int32_t lead = (int32_t)cs_lua_args_int(L, "lead", 0);
    struct cs_lab_tuning tuning = {.chunks = (int32_t)cs_lua_args_int(L, "chunks", 0),
                                   .window = (int32_t)cs_lua_args_int(L, "window", 0),
                                   .ahead = (int32_t)cs_lua_args_int(L, "ahead", 0),
                                   .lead_before = lead,
                                   .lead_after = lead};
    if (cs_lab_make_tuned(modules, n, &options, &tuning, arena, &lab, &err) != CS_OK)
        cs_lua_error(L, "%s: %s", f->name, err.text);
    if (bytes)
        *bytes = stage_bytes(lab, modules, n, given, arena);
    return lab;
}

static int call_program(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_PROGRAM];
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    const struct cs_lab *lab = make_lab(L, f, NULL, arena);
    lua_createtable(L, 0, lab->n_stages);
    for (int i = 0; i < lab->n_stages; i++) {
        struct cs_buf text = {0};
        cs_lab_text(lab, i, &text);
        const char *kept = cs_arena_strdup(arena, cs_buf_str(&text)); /* pushing may raise */
        cs_buf_free(&text);
        lua_pushstring(L, kept);
        lua_setfield(L, -2, lab->stage_name[i]);
    }
    return 1;
}

struct factors { /* what read_straggler fills */
    const struct cs_lab *lab;
    double *rank, *stage;
    int32_t copies;
};

static int32_t stage_named(const struct cs_lab *lab, const char *name)
{
    for (int32_t s = 0; s < lab->n_stages; s++)
        if (strcmp(lab->stage_name[s], name) == 0)
            return s;
    return -1;
}

/* The straggler's table is at index 1, the factors at index 2 (light userdata). */
static int read_straggler(lua_State *L)
{
    const struct cs_lua_function *f = &straggler_function;
    const struct factors *to = lua_touserdata(L, 2);
    cs_lua_args_check(L, f);
    const char *name = cs_lua_args_string(L, "stage", NULL);
    int32_t n = to->lab->program->n_ranks;
    lua_Integer rank = cs_lua_args_int(L, "rank", -1), copy = cs_lua_args_int(L, "copy", -1);
    double factor = cs_lua_args_number(L, "factor", 1);
    if ((name != NULL) == (rank >= 0) || (name && copy >= 0))
        return cs_lua_error(L, "%s: give stage, or rank with or without copy", f->name);
    if (name) {
        int32_t stage = stage_named(to->lab, name);
        if (stage < 0)
            return cs_lua_error(L, "%s: there is no stage %s", f->name, name);
        to->stage[stage] *= factor;
        return 0;
    }
    if (rank >= n || copy >= to->copies)
        return cs_lua_error(L, "%s: rank %d of copy %d: there are %d rank%s in %d %s", f->name,
                            (int)rank, (int)copy, (int)n, CS_PLURAL(n), (int)to->copies,
                            CS_NOUN(to->copies, "copy", "copies"));
    for (int32_t c = 0; c < to->copies; c++)
        if (copy < 0 || copy == c)
            to->rank[c * n + (int32_t)rank] *= factor;
    return 0;
}

static void read_stragglers(lua_State *L, const struct cs_lua_function *f, const struct cs_lab *lab,
                            struct cs_arena *arena, struct cs_lab_inputs *in)
{
    struct factors factors = {.lab = lab, .copies = in->copies};
    int n = cs_lua_push_list(L, f, "stragglers", MAX_ITEMS);
    size_t world = (size_t)in->copies * (size_t)lab->program->n_ranks;
    if (world > MAX_WORLD)
        cs_lua_error(L, "%s: %d copies of %d ranks are too many", f->name, (int)in->copies,
                     (int)lab->program->n_ranks);
    if (n > 0) {
        factors.rank = CS_NEW_ARRAY(arena, double, world);
        factors.stage = CS_NEW_ARRAY(arena, double, lab->n_stages);
        for (size_t r = 0; r < world; r++)
            factors.rank[r] = 1;
        for (int32_t s = 0; s < lab->n_stages; s++)
            factors.stage[s] = 1;
    }
    for (int i = 0; i < n; i++) {
        lua_pushcfunction(L, read_straggler);
        if (lua_rawgeti(L, -2, i + 1) != LUA_TTABLE)
            cs_lua_error(L, "%s: 'stragglers' item %d must be a table, got %s", f->name, i + 1,
                         luaL_typename(L, -1));
        lua_pushlightuserdata(L, &factors);
        lua_call(L, 2, 0);
    }
    lua_pop(L, 1);
    in->rank_factor = factors.rank;
    in->stage_factor = factors.stage;
}

static struct cs_lab_inputs read_inputs(lua_State *L, const struct cs_lua_function *f,
                                        const struct cs_lab *lab, const double *bytes,
                                        struct cs_arena *arena)
{
    struct cs_lab_inputs in = {
        .jitter = cs_lua_args_number(L, "jitter", 0),
        .seed = (uint64_t)cs_lua_args_int(L, "seed", 0),
        .ranks_per_node = (int32_t)cs_lua_args_int(L, "ranks_per_node", 0),
        .ranks_per_nic = (int32_t)cs_lua_args_int(L, "ranks_per_nic", 0),
        .latency = cs_lua_args_number(L, "latency", 0),
        .copies = (int32_t)cs_lua_args_int(L, "copies", 1),
        .bytes = bytes,
    };
    read_stragglers(L, f, lab, arena, &in);
    return in;
}

/* table on top [key] = { ["llm.0"] = value, ... } */
static void set_per_stage(lua_State *L, const char *key, const struct cs_lab *lab,
                          const double *value, const int32_t *count)
{
    lua_createtable(L, 0, lab->n_stages);
    for (int i = 0; i < lab->n_stages; i++) {
        if (value)
            cs_lua_push_number(L, value[i]);
        else
            lua_pushinteger(L, count[i]);
        lua_setfield(L, -2, lab->stage_name[i]);
    }
    lua_setfield(L, -2, key);
}

/* table on top: the figures of every stage of one class */
static void set_figures(lua_State *L, const struct cs_lab *lab, const struct cs_lab_result *r,
                        int32_t class)
{
    int32_t first = class * lab->n_stages;
    set_per_stage(L, "bubble", lab, r->bubble + first, NULL);
    set_per_stage(L, "peak", lab, NULL, r->peak + first);
    set_per_stage(L, "span_idle", lab, r->span_idle + first, NULL);
    set_per_stage(L, "span_bubble", lab, r->span_bubble + first, NULL);
    set_per_stage(L, "exposed", lab, r->exposed + first, NULL);
    set_per_stage(L, "stage_exposed", lab, r->stage_exposed + first, NULL);
}

static void set_classes(lua_State *L, const struct cs_lab *lab, const struct cs_lab_result *r,
                        int32_t copies)
{
    lua_createtable(L, r->n_classes, 0);
    for (int32_t k = 0; k < r->n_classes; k++) {
        int32_t n = 0;
        for (int32_t c = 0; c < copies; c++)
            n += r->class_of[c] == k;
        lua_createtable(L, 0, 8);
        lua_pushinteger(L, r->first[k]);
        lua_setfield(L, -2, "first");
        lua_pushinteger(L, n);
        lua_setfield(L, -2, "copies");
        set_figures(L, lab, r, k);
        lua_rawseti(L, -2, k + 1);
    }
    lua_setfield(L, -2, "classes");
}

/* memory = { ["llm.0"] = { { at =, bytes = }, ... } } */
static void set_memory(lua_State *L, const struct cs_lab *lab, const struct cs_lab_result *r)
{
    lua_createtable(L, 0, lab->n_stages);
    for (int32_t s = 0; s < lab->n_stages; s++) {
        lua_createtable(L, r->n_points[s], 0);
        for (int32_t i = 0; i < r->n_points[s]; i++) {
            lua_createtable(L, 0, 2);
            cs_lua_push_number(L, r->curve[s][i].at);
            lua_setfield(L, -2, "at");
            cs_lua_push_number(L, r->curve[s][i].bytes);
            lua_setfield(L, -2, "bytes");
            lua_rawseti(L, -2, i + 1);
        }
        lua_setfield(L, -2, lab->stage_name[s]);
    }
    lua_setfield(L, -2, "memory");
}

static int call_simulate(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_SIMULATE];
    struct cs_lab_result result;
    struct cs_err err;
    double *bytes = NULL;
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    const struct cs_lab *lab = make_lab(L, f, &bytes, arena);
    struct cs_lab_inputs inputs = read_inputs(L, f, lab, bytes, arena);
    cs_lua_bound_simulation(L, f, inputs.copies, (double)lab->n_stages * lab->program->n_slots);
    if (cs_lab_simulate_with(lab, &inputs, arena, &result, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    lua_createtable(L, 0, 12);
    cs_lua_push_number(L, result.makespan);
    lua_setfield(L, -2, "makespan");
    set_figures(L, lab, &result, 0);
    set_classes(L, lab, &result, inputs.copies);
    if (bytes)
        set_memory(L, lab, &result);
    lua_createtable(L, 0, lab->n_modules);
    for (int i = 0; i < lab->n_modules; i++) {
        cs_lua_push_number(L, result.module_bubble[i]);
        lua_setfield(L, -2, lab->module_name[i]);
    }
    lua_setfield(L, -2, "module_bubble");
    lua_createtable(L, result.n_critical, 0);
    for (int i = 0; i < result.n_critical; i++) {
        lua_pushstring(L, result.critical[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, "critical_path");
    return 1;
}
