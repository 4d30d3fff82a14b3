/* `require "cornstarch"`: the module table from the areas' function tables. */
#include "lua/module.h"

#include <string.h>

#include "lua/base/guard.h"

/* upvalue: the function's row */
static int call_function(lua_State *L)
{
    const struct cs_lua_function *f = lua_touserdata(L, lua_upvalueindex(1));
    return cs_lua_call_counted(L, f->call);
}

/* "cs.projector.mlp" -> module.projector.mlp */
static void install_function(lua_State *L, int module, const struct cs_lua_function *f)
{
    const char *path = f->name + strlen("cs.");
    const char *dot = strchr(path, '.');
    lua_pushvalue(L, module);
    if (dot) {
        lua_pushlstring(L, path, (size_t)(dot - path));
        if (lua_rawget(L, -2) != LUA_TTABLE) {
            lua_pop(L, 1);
            lua_newtable(L);
            lua_pushlstring(L, path, (size_t)(dot - path));
            lua_pushvalue(L, -2);
            lua_rawset(L, module);
        }
        path = dot + 1;
    }
    lua_pushlightuserdata(L, (void *)(uintptr_t)f);
    lua_pushcclosure(L, call_function, 1);
    lua_setfield(L, -2, path);
    lua_settop(L, module);
}

void cs_lua_areas(struct cs_lua_area out[CS_LUA_AREAS])
{
    out[0] = cs_lua_area_model();
    out[1] = cs_lua_area_plan();
    out[2] = cs_lua_area_data();
    out[3] = cs_lua_area_job();
    out[4] = cs_lua_area_lab();
    out[5] = cs_lua_area_lab_data();
    out[6] = cs_lua_area_search();
    out[7] = cs_lua_area_sweep();
    out[8] = cs_lua_area_lab_text();
    out[9] = cs_lua_area_param();
    out[10] = cs_lua_area_live();
}

const struct cs_lua_function *cs_lua_function_test(const void *pointer)
{
    struct cs_lua_area areas[CS_LUA_AREAS];
    cs_lua_areas(areas);
    for (size_t a = 0; pointer && a < CS_LUA_AREAS; a++)
        for (int i = 0; i < areas[a].n; i++)
            if (pointer == &areas[a].functions[i])
                return pointer;
    return NULL;
}

/* A name that the module or a table in it does not have is an error with the nearest one. */
static void make_strict(lua_State *L, int module)
{
    for (lua_pushnil(L); lua_next(L, module); lua_pop(L, 1))
        if (lua_istable(L, -1)) {
            const char *name = lua_pushfstring(L, "cs.%s", lua_tostring(L, -2));
            lua_pushvalue(L, -2);
            cs_lua_strict(L, name, ".");
            lua_pop(L, 2);
        }
    lua_pushvalue(L, module);
    cs_lua_strict(L, "cs", ".");
    lua_pop(L, 1);
}

void cs_lua_install(lua_State *L)
{
    struct cs_lua_area areas[CS_LUA_AREAS];
    cs_lua_areas(areas);
    cs_lua_register_model(L);
    cs_lua_register_plan(L);
    cs_lua_register_job(L);
    cs_lua_register_sweep(L);
    cs_lua_register_live(L);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_newtable(L);
    int module = lua_gettop(L);
    for (size_t a = 0; a < CS_LUA_AREAS; a++)
        for (int i = 0; i < areas[a].n; i++)
            install_function(L, module, &areas[a].functions[i]);
    lua_pushliteral(L, CORNSTARCH_VERSION);
    lua_setfield(L, module, "version");
    make_strict(L, module);
    lua_setfield(L, module - 1, "cornstarch");
    lua_settop(L, module - 2);
}
