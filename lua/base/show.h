/* Any value as people and programs see it: what print, `lua -e` and --json show. */
#ifndef CS_LUA_SHOW_H
#define CS_LUA_SHOW_H

#include <jansson.h>
#include <lua.h>

/* Push the value at index as text. Strings are themselves, tables show what is in them with their
 * keys in order, e.g. {1, 2, name = "x"}, over several lines when they are long; a table inside
 * itself is <cycle>. Values of cs.* show their summary or their settings, functions where they are
 * from. Deep or large tables end in "...". */
void cs_lua_push_shown(lua_State *L, int index);
/* The same as JSON, new reference: tables are arrays or objects, values of cs.* {"kind", "value"},
 * and what JSON does not know (functions, nan, cycles) is its text. */
json_t *cs_lua_shown_json(lua_State *L, int index);

#endif
