/* The functions of cs.projector. */
#ifndef CS_LUA_BIND_MODEL_BIND_PROJECTOR_H
#define CS_LUA_BIND_MODEL_BIND_PROJECTOR_H

#include "lua/base/args.h"

/* The arguments of function are at index 1; family: "mlp" or "linear". Pushes the value. */
int cs_lua_make_projector(lua_State *L, const struct cs_lua_function *function, const char *family);

enum { CS_LUA_N_PROJECTOR_HF_ARGS = 2 };
extern const struct cs_arg cs_lua_projector_hf_args[CS_LUA_N_PROJECTOR_HF_ARGS];
/* The table of arguments, or the directory alone, is at index 1. Pushes the value. */
int cs_lua_projector_hf(lua_State *L);

#endif
