/* Encoders of cs.mllm. */
#ifndef CS_LUA_BIND_ENCODER_H
#define CS_LUA_BIND_ENCODER_H

#include <jansson.h>
#include <lua.h>

#include "store/hf/hfdir.h"

/* What a directory says of how an encoder is used: feature_layer of a composite or of a projector that
 * was exported (or final_norm), token of a processor. A new object, with the keys that are said. */
json_t *cs_lua_saved_settings(const struct cs_hfdir *dir);

/* A lua_CFunction, called through lua_call so that the readers of arguments apply: the encoder's table
 * is at index 1, the list of modules (json_t, light userdata) at index 2, its name at index 3. */
int cs_lua_add_encoder(lua_State *L);

#endif
