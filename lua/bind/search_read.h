/* What cs.search reads from its arguments. Private to lua. */
#ifndef CS_LUA_SEARCH_READ_H
#define CS_LUA_SEARCH_READ_H

#include "core/search/search.h"
#include "lua/base/args.h"

/* The checked table is at index 1; graph: of its model. Arrays live in the arena, samples in
 * *samples. Raises errors that begin with the function's name. */
void cs_lua_read_search(lua_State *L, const struct cs_lua_function *function,
                        const struct cs_graph *graph, struct cs_arena *arena,
                        struct cs_search_options *options, struct cs_search_samples *samples);
/* The argument `parallel`, a table for every module ({} too), whole numbers as such; NULL: absent. It is kept
 * by the stack. */
json_t *cs_lua_parallel_json(lua_State *L, const struct cs_lua_function *function);
/* The document of the file that the argument `profile` names (new reference); NULL: none is named,
 * or files are not to be read. Raises "FUNCTION: profile: PATH ...". */
json_t *cs_lua_profile_json(lua_State *L, const char *function);
/* Costs measured before; NULL: none are named. */
struct cs_profile *cs_lua_read_profile(lua_State *L, struct cs_arena *arena);

#endif
