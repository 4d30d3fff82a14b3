/* The tables of functions that make up `require "cornstarch"`; one file per area fills one. */
#ifndef CS_LUA_BIND_H
#define CS_LUA_BIND_H

#include "lua/base/args.h"

/* of a model whose script gave it none */
#define CS_LUA_MODEL_NAME "mllm"

struct cs_lua_area {
    const struct cs_lua_function *functions;
    int n;
};

struct cs_lua_area cs_lua_area_model(void);
struct cs_lua_area cs_lua_area_plan(void);
struct cs_lua_area cs_lua_area_data(void);
struct cs_lua_area cs_lua_area_job(void);
struct cs_lua_area cs_lua_area_lab(void);
struct cs_lua_area cs_lua_area_lab_data(void);
struct cs_lua_area cs_lua_area_lab_text(void);
struct cs_lua_area cs_lua_area_search(void);
struct cs_lua_area cs_lua_area_sweep(void);
struct cs_lua_area cs_lua_area_param(void);
struct cs_lua_area cs_lua_area_live(void);

int cs_lua_model_lora(lua_State *L); /* bind_adapter.c: a method of models */
/* Every --set must have been asked for. CS_USAGE names one that was not, and the nearest parameter. */
enum cs_status cs_lua_param_check(lua_State *L, struct cs_err *err) CS_NODISCARD;
/* metatables with methods */
void cs_lua_register_model(lua_State *L);
void cs_lua_register_plan(lua_State *L);
void cs_lua_register_job(lua_State *L);
void cs_lua_register_sweep(lua_State *L);
void cs_lua_register_live(lua_State *L);

struct cs_lua_method { /* documentation of methods, for lua/meta and the manual */
    const char *owner, *name, *params, *returns, *help;
};

#endif
