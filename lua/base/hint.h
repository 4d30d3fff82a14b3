/* Names that a table has, and which of them may be meant by one that it has not. */
#ifndef CS_LUA_HINT_H
#define CS_LUA_HINT_H

#include <lua.h>

enum { CS_LUA_MOST_NAMES = 128 };

/* Keys of the table at index that are strings, in order, at most CS_LUA_MOST_NAMES; borrowed while it is
 * unchanged. */
int cs_lua_names(lua_State *L, int index, const char **names);
/* Adds to the message on top, about a global that is nil, what may be meant. */
void cs_lua_hint(lua_State *L);

#endif
