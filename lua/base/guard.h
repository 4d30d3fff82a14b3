/* The libraries that scripts see: a few of Lua's, with functions of our own where the library's would
 * run longer than the limits see, catch the end of a script, or reach files and processes. */
#ifndef CS_LUA_GUARD_H
#define CS_LUA_GUARD_H

#include <lua.h>

int cs_lua_open_libraries(lua_State *L); /* a lua_CFunction without arguments and results */

/* The parts: each replaces functions of the libraries that are open. */
void cs_lua_guard_calls(lua_State *L);   /* guard_calls.c: pcall, xpcall, coroutines */
void cs_lua_guard_strings(lua_State *L); /* guard_strings.c: patterns, rep */
void cs_lua_guard_words(lua_State *L);   /* guard_words.c: what is not there says so, near names */

/* Reading a name that the table on top does not have raises, with the nearest name: what and dot
 * stand before a name in the message, "cs.lab" and ".". */
void cs_lua_strict(lua_State *L, const char *what, const char *dot);

#endif
