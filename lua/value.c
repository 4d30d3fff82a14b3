/* Holds the immutable values of the DSL as userdata. */
#include "lua/value.h"

static const char *const kind_names[] = {
#define X(kind, name) name,
    CS_LUA_KINDS(X)
#undef X
};

const char *cs_lua_kind_name(enum cs_lua_kind kind)
{
    return kind_names[kind];
}

static int value_gc(lua_State *L)
{
    struct cs_lua_value *value = lua_touserdata(L, 1);
    json_decref(value->json);
    cs_arena_free(value->arena);
    value->json = NULL;
    value->arena = NULL;
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
    struct cs_lua_value *value = lua_newuserdatauv(L, sizeof *value, 0);
    *value = (struct cs_lua_value){.kind = kind, .json = json};
    push_metatable(L, kind);
    lua_setmetatable(L, -2);
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

void cs_lua_value_register(lua_State *L, enum cs_lua_kind kind, const luaL_Reg *methods,
                           lua_CFunction tostring)
{
    push_metatable(L, kind);
    lua_newtable(L);
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    if (tostring) {
        lua_pushcfunction(L, tostring);
        lua_setfield(L, -2, "__tostring");
    }
    lua_pop(L, 1);
}
