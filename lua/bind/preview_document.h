/* Documents and graphs of models and plans before there is a job. */
#ifndef CS_LUA_PREVIEW_DOCUMENT_H
#define CS_LUA_PREVIEW_DOCUMENT_H

#include <jansson.h>
#include <lua.h>

#include "lua/base/value.h"

/* All that a model says but its name, as a document's part "model". New reference. */
json_t *cs_lua_model_part(const json_t *model);
/* The model and, where there is one, the plan request (both borrowed) as a preview, which reads with
 * cs_spec_read_preview: for graphs and plans made before there is a job. New reference. */
json_t *cs_lua_preview_document(const json_t *model, const json_t *plan);
/* The argument `optimizer`, where it is given, into such a document. */
void cs_lua_take_optimizer(lua_State *L, json_t *document);
/* Read value->json, a preview or a job, into value->spec and value->graph; raises on errors with
 * `function: `. */
void cs_lua_build_graph(lua_State *L, const char *function, struct cs_lua_value *value,
                        bool allow_frozen);

#endif
