/* Encoders of cs.mllm. */
#ifndef CS_LUA_BIND_MODEL_BIND_ENCODER_H
#define CS_LUA_BIND_MODEL_BIND_ENCODER_H

#include <lua.h>

/* A lua_CFunction, called through lua_call so that the readers of arguments apply: the encoder's table
 * is at index 1, the list of modules (json_t, light userdata) at index 2, its name at index 3, the
 * language model's value (const json_t, light userdata) at index 4. */
int cs_lua_add_encoder(lua_State *L);

#endif
