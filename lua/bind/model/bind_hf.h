/* cs.hf: a model directory, or one part of it, with what it says of how it is used. */
#ifndef CS_LUA_BIND_MODEL_BIND_HF_H
#define CS_LUA_BIND_MODEL_BIND_HF_H

#include <jansson.h>

#include "lua/base/args.h"
#include "lua/base/value.h"
#include "store/hf/hfdir.h"

enum { CS_LUA_N_HF_ARGS = 4 };
extern const struct cs_arg cs_lua_hf_args[CS_LUA_N_HF_ARGS];
/* The table of arguments, or the directory alone, is at index 1. Pushes the value: dir, init, config,
 * processor, video, has_tokenizer, saved. */
int cs_lua_hf(lua_State *L);
/* The directory, absolute, pushed; raises where there is none. */
const char *cs_lua_dir(lua_State *L, const char *function, const char *dir);
/* One plain argument at index 1 becomes the table { key = argument }. */
void cs_lua_take_positional(lua_State *L, const char *key);
/* What a directory says of how its part is used: feature_layer of a composite or of a projector that was
 * exported (or final_norm), token of a processor or a composite, mask of a composite's language model. A new
 * object, with the keys that are said. */
json_t *cs_lua_saved_settings(const struct cs_hfdir *dir);

#endif
