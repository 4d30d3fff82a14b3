/* plan:simulate of scripts. */
#ifndef CS_LUA_PLAN_SIMULATE_H
#define CS_LUA_PLAN_SIMULATE_H

#include "lua/base/args.h"

/* The plan is at index 1, its table of options or nil at 2; pushes the table of what comes out. */
int cs_lua_plan_simulate(lua_State *L);

#endif
