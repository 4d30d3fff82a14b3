/* Steps of building a graph that have a file of their own. Internal to the module. */
#ifndef CS_MODEL_GRAPH_PARTS_H
#define CS_MODEL_GRAPH_PARTS_H

#include "core/model/graph.h"

/* freeze.c: the rules of the document -> is_trainable of every parameter, n_trained; then the
 * needs */
enum cs_status cs_graph_apply_rules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;
void cs_graph_mark_needs(struct cs_graph *graph, struct cs_arena *arena);

#endif
