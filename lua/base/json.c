/* Carries values between Lua and JSON. */
#include "lua/base/json.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 16 };

void cs_lua_push_json(lua_State *L, const json_t *json)
{
    const char *key;
    json_t *value, *object;
    size_t i;
    luaL_checkstack(L, 4, "nested too deeply");
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT:
        lua_newtable(L);
        object = (json_t *)(uintptr_t)json; /* the iterator wants it mutable and changes nothing */
        json_object_foreach(object, key, value)
        {
            cs_lua_push_json(L, value);
            lua_setfield(L, -2, key);
        }
        break;
    case JSON_ARRAY:
        lua_createtable(L, (int)json_array_size(json), 0);
        for (i = 0; i < json_array_size(json); i++) {
            cs_lua_push_json(L, json_array_get(json, i));
            lua_rawseti(L, -2, (lua_Integer)i + 1);
        }
        break;
    case JSON_STRING:
        lua_pushlstring(L, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        lua_pushinteger(L, json_integer_value(json));
        break;
    case JSON_REAL:
        lua_pushnumber(L, json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        lua_pushboolean(L, json_is_true(json));
        break;
    case JSON_NULL:
        lua_pushnil(L);
        break;
    }
}

static json_t *to_json(lua_State *L, int index, int depth, const char **why);

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The same object with its keys in order: a table of Lua has them in another one in every run. */
static json_t *in_order(json_t *object)
{
    const size_t n = json_object_size(object);
    const char **names = malloc((n + 1) * sizeof *names), *name;
    json_t *out = names ? json_object() : NULL, *value;
    size_t i = 0;
    if (!out) {
        free(names);
        return object;
    }
    json_object_foreach(object, name, value) names[i++] = name;
    qsort(names, n, sizeof *names, by_name);
    for (i = 0; i < n; i++)
        json_object_set(out, names[i], json_object_get(object, names[i]));
    free(names);
    json_decref(object);
    return out;
}

static json_t *table_to_json(lua_State *L, int index, int depth, const char **why)
{
    lua_Integer n = (lua_Integer)lua_rawlen(L, index), seen = 0;
    bool is_array = true;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        seen++;
        is_array = is_array && lua_isinteger(L, -2);
    }
    is_array = is_array && seen == n;
    json_t *out = is_array ? json_array() : json_object();
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1)) {
        if (!is_array && lua_type(L, -2) != LUA_TSTRING) {
            *why = "a table mixes names and positions";
            goto fail;
        }
        if (is_array)
            continue;
        json_t *value = to_json(L, lua_gettop(L), depth + 1, why);
        if (!value || json_object_set_new(out, lua_tostring(L, -2), value) != 0) {
            *why = *why ? *why : "a key is not valid UTF-8";
            goto fail;
        }
    }
    for (lua_Integer i = 1; is_array && i <= n; i++) {
        lua_rawgeti(L, index, i);
        json_t *value = to_json(L, lua_gettop(L), depth + 1, why);
        lua_pop(L, 1);
        if (!value) {
            json_decref(out);
            return NULL;
        }
        json_array_append_new(out, value);
    }
    return is_array ? out : in_order(out);
fail:
    lua_pop(L, 2);
    json_decref(out);
    return NULL;
}

static json_t *to_json(lua_State *L, int index, int depth, const char **why)
{
    size_t len;
    const char *text;
    json_t *out = NULL;
    if (depth > MAX_DEPTH || !lua_checkstack(L, 8)) {
        *why = "tables are nested too deeply";
        return NULL;
    }
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return json_null();
    case LUA_TBOOLEAN:
        return json_boolean(lua_toboolean(L, index));
    case LUA_TNUMBER:
        if (lua_isinteger(L, index))
            return json_integer(lua_tointeger(L, index));
        out = json_real(lua_tonumber(L, index));
        if (!out)
            *why = "a number is not finite";
        return out;
    case LUA_TSTRING:
        text = lua_tolstring(L, index, &len);
        out = json_stringn(text, len);
        if (!out)
            *why = "a string is not valid UTF-8";
        return out;
    case LUA_TTABLE:
        return table_to_json(L, index, depth, why);
    default:
        *why = "functions and other values cannot travel in a job: use a table";
        return NULL;
    }
}

json_t *cs_lua_to_json(lua_State *L, int index, const char **why)
{
    *why = NULL;
    return to_json(L, lua_absindex(L, index), 0, why);
}
