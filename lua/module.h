/* The module that scripts require. */
#ifndef CS_LUA_MODULE_H
#define CS_LUA_MODULE_H

#include "lua/bind/bind.h"

enum { CS_LUA_AREAS = 10 };

/* the tables of all areas, in the order of the manual */
void cs_lua_areas(struct cs_lua_area out[CS_LUA_AREAS]);

/* Install the module as package.loaded.cornstarch. */
void cs_lua_install(lua_State *L);

#endif
