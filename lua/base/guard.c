/* Opens the libraries, bounds functions on tables, prints and loads modules. Random numbers start
 * from a fixed seed: scripts are pure. */
#include "lua/base/guard.h"

#include <string.h>

#include "core/base/near.h"
#include "core/base/status.h"
#include "core/base/system/io.h"
#include "lua/base/show.h"
#include "lua/base/state.h"
#include "lua/base/wrap.h"

enum { MAX_MOVE = 1 << 24, MAX_MODULE = 4 << 20 };

static int no_gc_setmetatable(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    if (lua_istable(L, 2)) {
        lua_pushliteral(L, "__gc");
        lua_rawget(L, 2);
        if (!lua_isnil(L, -1))
            return cs_lua_error(L, "setmetatable: __gc is not available in scripts");
        lua_pop(L, 1);
    }
    return cs_lua_call_wrapped(L);
}

/* insert, remove, move ...: loops in C whose length a __len or the arguments decide */
static int bounded_table(lua_State *L)
{
    int n = lua_gettop(L);
    cs_lua_check(L);
    for (int i = 1; i <= n; i++)
        if (lua_istable(L, i) && luaL_getmetafield(L, i, "__len") != LUA_TNIL)
            return cs_lua_error(L, "table functions take no tables with __len");
    if (lua_tointeger(L, lua_upvalueindex(2)) == 1 && n >= 4) {
        double first = (double)luaL_checkinteger(L, 2), last = (double)luaL_checkinteger(L, 3);
        if (last - first > MAX_MOVE)
            return cs_lua_error(L, "table.move: more than %d items", MAX_MOVE);
    }
    return cs_lua_call_wrapped(L);
}

static int script_print(lua_State *L)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    int n = lua_gettop(L);
    luaL_Buffer b;
    cs_lua_check(L);
    luaL_buffinit(L, &b);
    for (int i = 1; i <= n; i++) {
        if (i > 1)
            luaL_addchar(&b, '\t');
        cs_lua_push_shown(L, i);
        luaL_addvalue(&b);
    }
    luaL_pushresult(&b);
    if (state->print)
        state->print(state->print_user, lua_tostring(L, -1));
    return 0;
}

static int no_module(lua_State *L, const char *name, const char *path)
{
    static const char *const ours[] = {"cornstarch"};
    const char *near = cs_near(name, ours, 1);
    if (near)
        return cs_lua_error(L, "require: there is no module '%s'; did you mean '%s'?", name, near);
    return cs_lua_error(L,
                        "require: module '%s' not found (looked for %s); scripts load "
                        "\"cornstarch\" and modules beside them, no others",
                        name, path);
}

/* require "name": what is loaded already, else NAME.lua beside the script, text only. */
static int script_require(lua_State *L)
{
    struct cs_lua_state *state = cs_lua_state_of(L);
    const char *name = luaL_checkstring(L, 1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, name) != LUA_TNIL)
        return 1;
    for (const char *p = name; *p; p++)
        if (!(*p == '_' || *p == '-' || (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
              (*p >= 'A' && *p <= 'Z')))
            return cs_lua_error(L, "require: '%s' is not a module name", name);
    const char *path = lua_pushfstring(L, "%s/%s.lua", cs_buf_str(&state->folder), name);
    struct cs_buf text = {0};
    struct cs_err err;
    enum cs_status status = cs_read_file(path, MAX_MODULE, &text, &err);
    int rc = status == CS_OK ? luaL_loadbufferx(L, cs_buf_str(&text), text.len,
                                                lua_pushfstring(L, "@%s", path), "t")
                             : LUA_OK;
    cs_buf_free(&text);
    if (status == CS_NOT_FOUND)
        return no_module(L, name, path);
    if (status != CS_OK)
        return cs_lua_error(L, "require: module '%s': %s", name, err.text);
    if (rc != LUA_OK)
        return lua_error(L); /* its own file and line */
    lua_call(L, 0, 1);
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    lua_pushvalue(L, -1);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_insert(L, -2);
    lua_setfield(L, -2, name);
    lua_pop(L, 1); /* the table of modules; the module is below */
    return 1;
}

static void seed_random(lua_State *L)
{
    lua_getglobal(L, "math");
    lua_getfield(L, -1, "randomseed");
    lua_pushinteger(L, 0);
    lua_call(L, 1, 0);
    lua_pop(L, 1);
}

int cs_lua_open_libraries(lua_State *L)
{
    static const luaL_Reg libs[] = {
        {LUA_GNAME,       luaopen_base     },
        {LUA_TABLIBNAME,  luaopen_table    },
        {LUA_STRLIBNAME,  luaopen_string   },
        {LUA_MATHLIBNAME, luaopen_math     },
        {LUA_UTF8LIBNAME, luaopen_utf8     },
        {LUA_COLIBNAME,   luaopen_coroutine},
    };
    static const char *const tables[] = {"insert", "remove", "move", "concat", "sort", "unpack"};
    for (size_t i = 0; i < CS_ARRAY_LEN(libs); i++) {
        luaL_requiref(L, libs[i].name, libs[i].func, 1);
        lua_pop(L, 1);
    }
    seed_random(L);
    for (size_t i = 0; i < CS_ARRAY_LEN(tables); i++)
        cs_lua_wrap(L, "table", tables[i], bounded_table, strcmp(tables[i], "move") == 0);
    cs_lua_wrap(L, NULL, "setmetatable", no_gc_setmetatable, 0);
    lua_register(L, "print", script_print);
    lua_register(L, "require", script_require);
    cs_lua_guard_calls(L);
    cs_lua_guard_strings(L);
    cs_lua_guard_words(L);
    return 0;
}
