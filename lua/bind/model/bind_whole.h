/* cs.mllm "DIR": all parts of a directory as the arguments that a script would write one by one. */
#ifndef CS_LUA_BIND_MODEL_BIND_WHOLE_H
#define CS_LUA_BIND_MODEL_BIND_WHOLE_H

#include <lua.h>

/* The checked table of cs.mllm is at index 1. Where it has `from`: encoders and llm, which it must not have,
 * are put there, made by cs.hf and cs.projector.hf. */
void cs_lua_take_whole(lua_State *L);

#endif
