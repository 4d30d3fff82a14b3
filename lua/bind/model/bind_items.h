/* What the processors of a model's encoders make of a file at most, for its plans. */
#ifndef CS_LUA_BIND_MODEL_BIND_ITEMS_H
#define CS_LUA_BIND_MODEL_BIND_ITEMS_H

#include <jansson.h>

#include "core/model/graph.h"

/* Puts `items` into the encoders among modules (of the document that graph was made of), but where a
 * file is one picture of the encoder's size. A processor that cannot be read is left to who says why. */
void cs_lua_add_items(const struct cs_graph *graph, json_t *modules);

#endif
