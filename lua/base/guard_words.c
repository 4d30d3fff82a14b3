/* What scripts do not have says why, and what they misspell says what is near. */
#include <string.h>

#include "core/base/near.h"
#include "core/base/status.h"
#include "lua/base/guard.h"
#include "lua/base/hint.h"
#include "lua/base/state.h"

/* clang-format off */
static const struct {
    const char *name;
    bool is_library;
    const char *why;
} absent[] = {
    {"io",             true,  "scripts read and write no files; cs.hf and cs.data name them, print shows text"},
    {"os",             true,  "scripts give the same job everywhere: they know no clock, no environment and run no commands"},
    {"debug",          true,  "scripts do not look into their own limits"},
    {"package",        true,  "modules are files beside the script: require \"NAME\""},
    {"load",           false, "code is in the script and in modules beside it: require \"NAME\""},
    {"loadstring",     false, "code is in the script and in modules beside it: require \"NAME\""},
    {"dofile",         false, "code is in the script and in modules beside it: require \"NAME\""},
    {"loadfile",       false, "code is in the script and in modules beside it: require \"NAME\""},
    {"collectgarbage", false, "memory is looked after; --memory of 'cornstarch-console lua' sets its limit"},
};

/* clang-format on */

/* upvalues: the name, the reason */
static int absent_function(lua_State *L)
{
    return cs_lua_error(L, "%s is not available in scripts: %s",
                        lua_tostring(L, lua_upvalueindex(1)), lua_tostring(L, lua_upvalueindex(2)));
}

static int absent_field(lua_State *L)
{
    const char *field = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "?";
    return cs_lua_error(L, "%s.%s is not available in scripts: %s",
                        lua_tostring(L, lua_upvalueindex(1)), field,
                        lua_tostring(L, lua_upvalueindex(2)));
}

/* an empty table that explains itself when it is looked into */
static void push_absent_library(lua_State *L, const char *name, const char *why)
{
    static const char *const events[] = {"__index", "__newindex"};
    lua_newtable(L);
    lua_createtable(L, 0, 3);
    for (size_t i = 0; i < CS_ARRAY_LEN(events); i++) {
        lua_pushstring(L, name);
        lua_pushstring(L, why);
        lua_pushcclosure(L, absent_field, 2);
        lua_setfield(L, -2, events[i]);
    }
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

static void push_absent_function(lua_State *L, const char *name, const char *why)
{
    lua_pushstring(L, name);
    lua_pushstring(L, why);
    lua_pushcclosure(L, absent_function, 2);
}

/* the table at index 1, the name at index 2; upvalues: whose, what is between the two */
static int unknown_name(lua_State *L)
{
    const char *names[CS_LUA_MOST_NAMES], *what = lua_tostring(L, lua_upvalueindex(1)),
                                          *dot = lua_tostring(L, lua_upvalueindex(2));
    lua_settop(L, 2);
    const char *name = luaL_tolstring(L, 2, NULL);
    const char *near = cs_near(name, names, cs_lua_names(L, 1, names));
    if (near)
        return cs_lua_error(L, "%s%s%s: there is no such function; did you mean %s%s%s?", what, dot,
                            name, what, dot, near);
    luaL_Buffer b;
    int n = cs_lua_names(L, 1, names);
    luaL_buffinit(L, &b);
    for (int i = 0; i < n; i++) {
        luaL_addstring(&b, i ? ", " : "");
        luaL_addstring(&b, names[i]);
    }
    luaL_pushresult(&b);
    return cs_lua_error(L, "%s%s%s: there is no such function (%s)", what, dot, name,
                        n > 0 ? lua_tostring(L, -1) : "there are none");
}

void cs_lua_strict(lua_State *L, const char *what, const char *dot)
{
    lua_createtable(L, 0, 2);
    lua_pushstring(L, what);
    lua_pushstring(L, dot);
    lua_pushcclosure(L, unknown_name, 2);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, -2);
}

void cs_lua_guard_words(lua_State *L)
{
    static const char *const libraries[] = {"string", "table", "math", "utf8", "coroutine"};
    for (size_t i = 0; i < CS_ARRAY_LEN(absent); i++) {
        (absent[i].is_library ? push_absent_library : push_absent_function)(L, absent[i].name,
                                                                            absent[i].why);
        lua_setglobal(L, absent[i].name);
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(libraries); i++) {
        lua_getglobal(L, libraries[i]);
        cs_lua_strict(L, libraries[i], ".");
        lua_pop(L, 1);
    }
    lua_getglobal(L, "string");
    push_absent_function(L, "string.dump", "code is in the script and in modules beside it");
    lua_setfield(L, -2, "dump");
    lua_pop(L, 1);
}
