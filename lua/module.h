/* The module that scripts require. */
#ifndef CS_LUA_MODULE_H
#define CS_LUA_MODULE_H

#include "core/base/buf.h"
#include "lua/bind/bind.h"

struct cs_lua;

enum { CS_LUA_AREAS = 11 };

/* the tables of all areas, in the order of the manual */
void cs_lua_areas(struct cs_lua_area out[CS_LUA_AREAS]);

const struct cs_lua_method *cs_lua_methods(size_t *n);
/* what an argument may be: "integer", alternatives between bars */
const char *cs_lua_arg_words(const struct cs_arg *arg);
/* the row, when the pointer is one; NULL else */
const struct cs_lua_function *cs_lua_function_test(const void *pointer);
void cs_lua_help_function(const struct cs_lua_function *f, struct cs_buf *out);
lua_State *cs_lua_raw(struct cs_lua *lua);

/* Install the module as package.loaded.cornstarch. */
void cs_lua_install(lua_State *L);

#endif
