/* Lua values <-> jansson. A table with keys 1..n is an array, an empty table an empty array or
 * object as asked, everything else an object with string keys; functions and userdata are
 * refused. */
#ifndef CS_LUA_JSON_H
#define CS_LUA_JSON_H

#include <jansson.h>
#include <lua.h>

void cs_lua_push_json(lua_State *L, const json_t *json); /* null becomes nil */
/* NULL and a message in *why (static text) when the value cannot travel; a new reference else */
json_t *cs_lua_to_json(lua_State *L, int index, const char **why);

#endif
