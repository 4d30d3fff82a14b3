/* The part of cs.lab about data: mask, balance, assign. */
#ifndef CS_LUA_BIND_LAB_DATA_H
#define CS_LUA_BIND_LAB_DATA_H

#include "lua/bind.h"

struct cs_lua_area cs_lua_area_lab_data(void);

#endif
