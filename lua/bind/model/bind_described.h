/* cs.encoder: an encoder of pictures that a script describes instead of taking it from a directory. */
#ifndef CS_LUA_BIND_MODEL_BIND_DESCRIBED_H
#define CS_LUA_BIND_MODEL_BIND_DESCRIBED_H

#include "lua/base/args.h"

enum { CS_LUA_N_DESCRIBED_ARGS = 26 };
extern const struct cs_arg cs_lua_described_args[CS_LUA_N_DESCRIBED_ARGS];
/* The table of arguments is at index 1. Pushes the value that cs.hf makes of a directory with such a config.json;
 * ends_in_norm: the state after its final norm is handed on unless the script says another. */
int cs_lua_described(lua_State *L);

#endif
