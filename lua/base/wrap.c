/* Functions of libraries that are open, behind ones of our own. */
#include "lua/base/wrap.h"

void cs_lua_wrap(lua_State *L, const char *library, const char *field, lua_CFunction wrapper,
                 lua_Integer option)
{
    if (library)
        lua_getglobal(L, library);
    else
        lua_pushglobaltable(L);
    lua_getfield(L, -1, field);
    lua_pushinteger(L, option);
    lua_pushcclosure(L, wrapper, 2);
    lua_setfield(L, -2, field);
    lua_pop(L, 1);
}

int cs_lua_call_wrapped(lua_State *L)
{
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
    return lua_gettop(L);
}
