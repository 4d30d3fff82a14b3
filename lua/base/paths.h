/* Paths of scripts, from where the console runs. */
#ifndef CS_LUA_BASE_PATHS_H
#define CS_LUA_BASE_PATHS_H

#include <limits.h>

#include "lua/base/args.h"

/* The real path of what is there, or a pattern of names in a folder that is; false: it is not. */
bool cs_lua_path_there(const char *given, char out[PATH_MAX]);
/* An absolute path of a folder that need not exist yet, the caller's reference. what: whose, for an error. */
json_t *cs_lua_path_from_here(lua_State *L, const char *what, const char *dir);

#endif
