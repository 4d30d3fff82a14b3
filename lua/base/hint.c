/* What may be meant by a name that nothing has. */
#include "lua/base/hint.h"

#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>

#include "core/base/near.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int cs_lua_names(lua_State *L, int index, const char **names)
{
    int n = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        if (n < CS_LUA_MOST_NAMES && lua_type(L, -2) == LUA_TSTRING)
            names[n++] = lua_tostring(L, -2);
    qsort(names, (size_t)n, sizeof *names, by_name);
    return n;
}

void cs_lua_hint(lua_State *L)
{
    static const char mark[] = "(global '";
    const char *names[CS_LUA_MOST_NAMES], *at = strstr(lua_tostring(L, -1), mark);
    size_t n = at ? strcspn(at + sizeof mark - 1, "'") : 0;
    if (n == 0)
        return;
    const char *name = lua_pushlstring(L, at + sizeof mark - 1, n);
    lua_pushglobaltable(L);
    const char *near = cs_near(name, names, cs_lua_names(L, lua_gettop(L), names));
    if (strcmp(name, "cs") == 0)
        lua_pushliteral(L, "; begin with: local cs = require \"cornstarch\"");
    else if (near)
        lua_pushfstring(L, "; did you mean '%s'?", near);
    else
        lua_pushliteral(L, "");
    lua_replace(L, -3);
    lua_pop(L, 1);
    lua_concat(L, 2);
}
