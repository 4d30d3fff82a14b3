/* Reads lists of numbers from Lua tables. */
#include "lua/base/lists.h"
#include "core/base/units.h"

#include <math.h>

struct cs_arena *cs_lua_scratch(lua_State *L)
{
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->arena = cs_arena_new(0);
    return box->arena;
}

void cs_lua_push_number(lua_State *L, double value)
{
    if (value == floor(value) && fabs(value) < 9007199254740992.0)
        lua_pushinteger(L, (lua_Integer)value);
    else
        lua_pushnumber(L, value);
}

int cs_lua_push_list(lua_State *L, const struct cs_lua_function *f, const char *key, int max)
{
    lua_pushstring(L, key);
    if (lua_rawget(L, 1) != LUA_TTABLE)
        return -1;
    size_t n = lua_rawlen(L, -1);
    if (n > (size_t)max)
        cs_lua_error(L, "%s: '%s' has more than %d items", f->name, key, max);
    return (int)n;
}

double *cs_lua_numbers(lua_State *L, const struct cs_lua_function *f, const char *key,
                       struct cs_arena *arena, int *n)
{
    int len = cs_lua_push_list(L, f, key, CS_LIST_ITEMS), is_number = 0;
    if (len < 0) {
        lua_pop(L, 1);
        return NULL;
    }
    if (*n >= 0 && len != *n)
        cs_lua_error(L, "%s: '%s' has %d item%s, the lists before it have %d", f->name, key, len,
                     CS_PLURAL(len), *n);
    *n = len;
    const struct cs_arg *arg = cs_lua_arg(L, f, key);
    double *out = CS_NEW_ARRAY(arena, double, len + 1);
    for (int i = 0; i < len; i++) {
        int type = lua_rawgeti(L, -1, i + 1);
        out[i] = lua_tonumberx(L, -1, &is_number);
        if (type != LUA_TNUMBER || !is_number)
            cs_lua_error(L, "%s: '%s' item %d must be a number, got %s", f->name, key, i + 1,
                         luaL_typename(L, -1));
        cs_lua_check_range(L, f, arg, i + 1, out[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return out;
}

void cs_lua_bound_simulation(lua_State *L, const struct cs_lua_function *f, int32_t copies,
                             double actions)
{
    double classes = 1;
    lua_pushliteral(L, "stragglers");
    if (lua_rawget(L, 1) == LUA_TTABLE)
        classes += (double)lua_rawlen(L, -1);
    lua_pop(L, 1);
    if (cs_lua_args_number(L, "jitter", 0) > 0 || classes > copies)
        classes = copies;
    if (classes * actions > CS_LIST_ACTIONS)
        cs_lua_error(L, "%s: %d copies that differ with %d actions each are too many", f->name,
                     (int)classes, (int)actions);
}

void cs_lua_set_numbers(lua_State *L, const char *key, const double *value, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        cs_lua_push_number(L, value[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}
