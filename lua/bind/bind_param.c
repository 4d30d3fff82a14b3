/* cs.param: what the command line says about a script, --set NAME=VALUE. */
#include <stdio.h>
#include <string.h>

#include "core/base/near.h"
#include "core/base/str.h"
#include "lua/bind/bind.h"

static int call_param(lua_State *L);

/* clang-format off */
static const struct cs_arg param_args[] = {
    {"name", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "as --set names it: letters, digits, _ and ."},
    {"default", CS_ARG_PLAIN, false, NULL, 0, 0, 0, NULL, "what it is without --set, which must be of its type; none: --set is needed, and gives a text"},
};
static const struct cs_lua_function functions[] = {
    {"cs.param", "a parameter of the script: what --set NAME=VALUE says, else its default; cs.param(NAME, DEFAULT) is short for it", "string|number|boolean", param_args, CS_ARRAY_LEN(param_args), call_param, "name string"},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_param(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

/* Names that a script has asked for stay in the registry, for who mistypes one. */
static const char names_key[] = "cornstarch.params";

static void remember(lua_State *L, const char *name)
{
    luaL_getsubtable(L, LUA_REGISTRYINDEX, names_key);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, name);
    lua_pop(L, 1);
}

/* the value after "name=", NULL: it is not set; the last one holds */
static const char *set_value(struct cs_lua_state *state, const char *name)
{
    const char *value = NULL;
    const size_t n = strlen(name);
    for (int i = 0; state->set && i < state->set->n; i++) {
        const char *text = state->set->item[i];
        if (strncmp(text, name, n) != 0 || text[n] != '=')
            continue;
        state->set_used |= UINT32_C(1) << i;
        value = text + n + 1;
    }
    return value;
}

/* Push text as the type of the default at index `like`. */
static int push_as(lua_State *L, const char *name, const char *text, int like)
{
    const bool is_true = strcmp(text, "true") == 0;
    double number;
    int64_t whole;
    switch (lua_type(L, like)) {
    case LUA_TBOOLEAN:
        if (!is_true && strcmp(text, "false") != 0)
            cs_lua_error(L, "cs.param: --set %s=%s: true or false is needed", name, text);
        lua_pushboolean(L, is_true);
        return 1;
    case LUA_TNUMBER:
        if (cs_str_to_i64(text, &whole))
            lua_pushinteger(L, whole);
        else if (cs_str_to_double(text, &number))
            lua_pushnumber(L, number);
        else
            cs_lua_error(L, "cs.param: --set %s=%s: a number is needed", name, text);
        return 1;
    default:
        lua_pushstring(L, text);
        return 1;
    }
}

/* cs.param(NAME, DEFAULT) becomes the table that the rows are about */
static void take_short_form(lua_State *L)
{
    if (lua_type(L, 1) != LUA_TSTRING)
        return;
    lua_settop(L, 2);
    lua_createtable(L, 0, 2);
    lua_pushvalue(L, 1);
    lua_setfield(L, 3, "name");
    lua_pushvalue(L, 2);
    lua_setfield(L, 3, "default");
    lua_replace(L, 1);
    lua_settop(L, 1);
}

static int call_param(lua_State *L)
{
    take_short_form(L);
    cs_lua_args_check(L, &functions[0]);
    const char *name = cs_lua_args_string(L, "name", "");
    if (name[0] == '\0' || strlen(name) > 64 || name[strspn(name, letters)] != '\0')
        cs_lua_error(L, "cs.param: '%s' is no name: letters, digits, _ and ., at most 64", name);
    remember(L, name);
    const char *value = set_value(cs_lua_state_of(L), name);
    lua_pushliteral(L, "default");
    lua_rawget(L, 1);
    if (value == NULL && lua_isnil(L, -1))
        cs_lua_error(L, "cs.param: '%s' has no default: give it with --set %s=VALUE", name, name);
    return value == NULL ? 1 : push_as(L, name, value, lua_gettop(L));
}

static const char *nearest(lua_State *L, const char *name)
{
    const char *names[64];
    int n = 0;
    luaL_getsubtable(L, LUA_REGISTRYINDEX, names_key);
    for (lua_pushnil(L); n < 64 && lua_next(L, -2); lua_pop(L, 1))
        names[n++] = lua_tostring(L, -2);
    return cs_near(name, names, (size_t)n);
}

/* protected: looking allocates */
static int push_nearest(lua_State *L)
{
    lua_pushstring(L, nearest(L, lua_touserdata(L, 1)));
    return 1;
}

enum cs_status cs_lua_param_check(lua_State *L, struct cs_err *err)
{
    const struct cs_lua_state *state = cs_lua_state_of(L);
    char name[80];
    for (int i = 0; state->set && i < state->set->n; i++) {
        const char *text = state->set->item[i];
        const size_t n = strcspn(text, "=");
        snprintf(name, sizeof name, "%.*s", (int)n, text);
        if (text[n] == '\0')
            return cs_fail(err, CS_USAGE, "--set %.100s: write NAME=VALUE", text);
        if (state->set_used & (UINT32_C(1) << i))
            continue;
        const char *near = NULL;
        lua_pushcfunction(L, push_nearest);
        lua_pushlightuserdata(L, name);
        if (lua_pcall(L, 1, 1, 0) == LUA_OK)
            near = lua_tostring(L, -1);
        enum cs_status status =
            cs_fail(err, CS_USAGE, "--set %.100s: the script asks for no cs.param '%s'%s%s%s", text,
                    name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        lua_pop(L, 1);
        return status;
    }
    return CS_OK;
}
