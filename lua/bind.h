/* The tables of functions that make up `require "cornstarch"`; one file per area fills one. */
#ifndef CS_LUA_BIND_H
#define CS_LUA_BIND_H

#include "lua/args.h"

struct cs_lua_area {
    const struct cs_lua_function *functions;
    int n;
};

struct cs_lua_area cs_lua_area_model(void);
struct cs_lua_area cs_lua_area_plan(void);
struct cs_lua_area cs_lua_area_job(void);
struct cs_lua_area cs_lua_area_lab(void);
struct cs_lua_area cs_lua_area_lab_data(void);
struct cs_lua_area cs_lua_area_lab_text(void);
struct cs_lua_area cs_lua_area_search(void);

/* all of them, in the order of the manual */
enum { CS_LUA_AREAS = 7 };

void cs_lua_areas(struct cs_lua_area out[CS_LUA_AREAS]);

/* metatables with methods */
void cs_lua_register_model(lua_State *L);
void cs_lua_register_plan(lua_State *L);
void cs_lua_register_job(lua_State *L);
void cs_lua_register_search(lua_State *L);

struct cs_lua_method { /* documentation of methods, for lua/meta and the manual */
    const char *owner, *name, *params, *returns, *help;
};

/* Install the module as package.loaded.cornstarch. */
void cs_lua_install(lua_State *L);

/* A document that reads as a job: model and plan as given (borrowed, plan may be NULL), the rest
 * stand-ins. For graphs and plans made before there is a job. New reference. */
json_t *cs_lua_preview_document(const json_t *model, const json_t *plan);
/* The argument `optimizer`, where it is given, into such a document. */
void cs_lua_take_optimizer(lua_State *L, json_t *document);
/* Parse value->json ("document") into value->spec and value->graph; raises on errors with
 * `function: `. */
void cs_lua_build_graph(lua_State *L, const char *function, struct cs_lua_value *value,
                        bool allow_frozen);

#endif
