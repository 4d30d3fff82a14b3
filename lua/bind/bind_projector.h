/* The functions of cs.projector. */
#ifndef CS_LUA_BIND_PROJECTOR_H
#define CS_LUA_BIND_PROJECTOR_H

#include "lua/bind/args.h"

/* The arguments of function are at index 1; family: "mlp" or "linear". Pushes the value. */
int cs_lua_make_projector(lua_State *L, const struct cs_lua_function *function, const char *family);

#endif
