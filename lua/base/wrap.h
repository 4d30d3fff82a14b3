/* Functions of ours in front of a library's: what is checked first, and then the function that was there. */
#ifndef CS_LUA_WRAP_H
#define CS_LUA_WRAP_H

#include <lua.h>

/* library.field = wrapper with the function that was there and a number as upvalues; library NULL:
 * globals */
void cs_lua_wrap(lua_State *L, const char *library, const char *field, lua_CFunction wrapper,
                 lua_Integer option);
/* Calls the function that was there with all arguments; for the end of a wrapper. */
int cs_lua_call_wrapped(lua_State *L);

#endif
