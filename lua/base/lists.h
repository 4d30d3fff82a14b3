/* Lists between Lua and plain arrays, for the functions of cs.lab: everything a call allocates
 * hangs on one box on the stack, so that a raised error cannot leak it. Whole numbers go out as
 * integers. */
#ifndef CS_LUA_BASE_LISTS_H
#define CS_LUA_BASE_LISTS_H

#include "lua/base/args.h"

enum { CS_LIST_ITEMS = 65536, CS_LIST_ACTIONS = 1 << 23 /* that one call simulates */ };

struct cs_arena *cs_lua_scratch(lua_State *L); /* pushes the box */
void cs_lua_push_number(lua_State *L, double value);
/* The list at key of the table at index 1: pushed. Its length, at most max; -1 when absent (then
 * what is there is pushed all the same). */
int cs_lua_push_list(lua_State *L, const struct cs_lua_function *f, const char *key, int max);
/* NULL when absent. *n is set by the first list (when -1) and checked by the others. */
double *cs_lua_numbers(lua_State *L, const struct cs_lua_function *f, const char *key,
                       struct cs_arena *arena, int *n);
/* Raises when a simulation would be too long: actions of a copy, times copies that may differ, which
 * jitter and stragglers of the arguments at index 1 decide. */
void cs_lua_bound_simulation(lua_State *L, const struct cs_lua_function *f, int32_t copies,
                             double actions);
/* table on top [key] = list */
void cs_lua_set_numbers(lua_State *L, const char *key, const double *value, int n);

#endif
