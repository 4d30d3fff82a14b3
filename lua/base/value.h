/* The immutable values of the DSL: one userdata shape, a kind, a JSON body and, for models and
 * plans, the graph and plan built from it. Methods return new values; nothing is changed in
 * place. */
#ifndef CS_LUA_VALUE_H
#define CS_LUA_VALUE_H

#include <jansson.h>
#include <lauxlib.h>

#include "core/plan/plan.h"
#include "lua/base/state.h"

/* clang-format off */
#define CS_LUA_KINDS(X)                                                                            \
    X(BOX, "json") X(HF, "cs.hf") X(PROJECTOR, "cs.projector") X(MODEL, "cs.mllm")                 \
    X(CLUSTER, "cs.cluster") X(PLAN, "cs.plan") X(DATA, "cs.data") X(OPTIM, "cs.optim")            \
    X(LR, "cs.lr") X(JOB, "cs.job") X(SWEEP, "cs.sweep") X(LIVE, "cs.live")

/* clang-format on */

enum cs_lua_kind {

#define X(kind, name) CS_LUA_##kind,
    CS_LUA_KINDS(X)
#undef X
        CS_LUA_KIND_COUNT
};

struct cs_lua_value {
    enum cs_lua_kind kind;
    json_t *json;           /* the body; owned */
    struct cs_arena *arena; /* spec, graph, plan live here; may be NULL */
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    int32_t ranks;             /* job: of the plan it was made with */
    size_t bytes;              /* of json and arena, once they were counted */
    uint64_t number;           /* in the order of making */
    struct cs_lua_value *next; /* of those that were not counted yet */
};

/* Push a value that owns json (stolen, may be NULL; lost when memory is out, so make big ones
 * afterwards: v = new(L, kind, NULL); v->json = ...). The pointer is valid while it is on the
 * stack. Its one user value is free for what the kind needs of the script. */
struct cs_lua_value *cs_lua_value_new(lua_State *L, enum cs_lua_kind kind, json_t *json);
struct cs_lua_value *cs_lua_value_test(lua_State *L, int index); /* NULL: not one of ours */
const char *cs_lua_kind_name(enum cs_lua_kind kind);
/* Calls a function of cs.*: every one is called through here. Raises when the script is over. Boxes
 * that the call made are emptied; what other values hold outside Lua's memory is counted: when it is
 * much, garbage is collected, and when that leaves more than the script may use, it is an error. */
int cs_lua_call_counted(lua_State *L, lua_CFunction call);
/* methods: a table for __index of a kind, NULL-terminated; tostring may be NULL */
void cs_lua_value_register(lua_State *L, enum cs_lua_kind kind, const luaL_Reg *methods,
                           lua_CFunction tostring);

#endif
