/* Holds the immutable values of the DSL as userdata. */
#include "lua/base/value.h"

#include <string.h>

#include "lua/base/guard.h"

static const char *const kind_names[] = {
#define X(kind, name) name,
    CS_LUA_KINDS(X)
#undef X
};

const char *cs_lua_kind_name(enum cs_lua_kind kind)
{
    return kind_names[kind];
}

/* about what jansson allocates */
static size_t json_bytes(const json_t *json)
{
    enum { VALUE = 64, SLOT = 16, PAIR = 112 };

    const char *key;
    json_t *item;
    size_t bytes = VALUE, i;
    if (!json)
        return 0;
    if (json_is_string(json))
        return VALUE + json_string_length(json);
    json_array_foreach(json, i, item) bytes += SLOT + json_bytes(item);
    json_object_foreach((json_t *)(uintptr_t)json, key, item) bytes +=
        PAIR + strlen(key) + json_bytes(item);
    return bytes;
}

static void drop(struct cs_lua_value *value)
{
    json_decref(value->json);
    cs_arena_free(value->arena);
    value->json = NULL;
    value->arena = NULL;
}

static void count(struct cs_lua_state *state, struct cs_lua_value *value)
{
    value->bytes = json_bytes(value->json) + cs_arena_bytes(value->arena);
    state->used_bytes += value->bytes;
    state->value_bytes += value->bytes;
}

int cs_lua_call_counted(lua_State *L, lua_CFunction call)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    uint64_t before = state->n_values;
    cs_lua_check(L);
    int n = call(L);
    for (struct cs_lua_value *v = state->fresh; v; v = v->next) {
        if (v->kind == CS_LUA_BOX && v->number > before)
            drop(v); /* of this call: nobody else has it */
        else
            count(state, v);
    }
    state->fresh = NULL;
    if (state->value_bytes < state->swept_bytes + state->limit_bytes / 4 &&
        state->used_bytes <= state->limit_bytes)
        return n;
    lua_gc(L, LUA_GCCOLLECT); /* Lua knows nothing of this memory: it would collect too late */
    state->swept_bytes = state->value_bytes;
    if (state->used_bytes > state->limit_bytes)
        cs_lua_error(
            L, "not enough memory: values of cs.* hold %I MiB of the %I that a script may use",
            (LUAI_UACINT)(state->value_bytes >> 20), (LUAI_UACINT)(state->limit_bytes >> 20));
    return n;
}

static void forget_fresh(struct cs_lua_state *state, const struct cs_lua_value *value)
{
    for (struct cs_lua_value **at = &state->fresh; *at; at = &(*at)->next)
        if (*at == value) {
            *at = value->next;
            return;
        }
}

static int value_gc(lua_State *L)
{
    struct cs_lua_value *value = lua_touserdata(L, 1);
    struct cs_lua_state *state = cs_lua_state_of(L);
    if (value->bytes == 0)
        forget_fresh(state, value);
    state->used_bytes -= value->bytes;
    state->value_bytes -= value->bytes;
    value->bytes = 0;
    drop(value);
    return 0;
}

static int value_tostring(lua_State *L)
{
    const struct cs_lua_value *value = lua_touserdata(L, 1);
    lua_pushstring(L, cs_lua_kind_name(value->kind));
    return 1;
}

static int value_equal(lua_State *L)
{
    const struct cs_lua_value *a = cs_lua_value_test(L, 1), *b = cs_lua_value_test(L, 2);
    lua_pushboolean(L, a && b && a->kind == b->kind && json_equal(a->json, b->json));
    return 1;
}

static int value_readonly(lua_State *L)
{
    return cs_lua_error(L, "%s values are immutable: methods return new values",
                        cs_lua_kind_name(((struct cs_lua_value *)lua_touserdata(L, 1))->kind));
}

static void push_metatable(lua_State *L, enum cs_lua_kind kind)
{
    if (!luaL_newmetatable(L, kind_names[kind]))
        return;
    lua_pushcfunction(L, value_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushcfunction(L, value_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, value_equal);
    lua_setfield(L, -2, "__eq");
    lua_pushcfunction(L, value_readonly);
    lua_setfield(L, -2, "__newindex");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "cornstarch");
}

struct cs_lua_value *cs_lua_value_new(lua_State *L, enum cs_lua_kind kind, json_t *json)
{
    struct cs_lua_value *value = lua_newuserdatauv(L, sizeof *value, 1);
    struct cs_lua_state *state = cs_lua_state_of(L);
    *value = (struct cs_lua_value){.kind = kind, .json = json};
    push_metatable(L, kind);
    lua_setmetatable(L, -2); /* from here on it is collected */
    value->number = ++state->n_values;
    value->next = state->fresh;
    state->fresh = value;
    return value;
}

struct cs_lua_value *cs_lua_value_test(lua_State *L, int index)
{
    if (lua_type(L, index) != LUA_TUSERDATA || !lua_getmetatable(L, index))
        return NULL;
    lua_getfield(L, -1, "cornstarch");
    bool is_ours = lua_toboolean(L, -1);
    lua_pop(L, 2);
    return is_ours ? lua_touserdata(L, index) : NULL;
}

/* upvalue: the row of the method */
static int call_method(lua_State *L)
{
    const luaL_Reg *method = lua_touserdata(L, lua_upvalueindex(1));
    return cs_lua_call_counted(L, method->func);
}

void cs_lua_value_register(lua_State *L, enum cs_lua_kind kind, const luaL_Reg *methods,
                           lua_CFunction tostring)
{
    push_metatable(L, kind);
    lua_newtable(L);
    for (const luaL_Reg *m = methods; m->name; m++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)m);
        lua_pushcclosure(L, call_method, 1);
        lua_setfield(L, -2, m->name);
    }
    cs_lua_strict(L, kind_names[kind], ":");
    lua_setfield(L, -2, "__index");
    if (tostring) {
        lua_pushcfunction(L, tostring);
        lua_setfield(L, -2, "__tostring");
    }
    lua_pop(L, 1);
}
