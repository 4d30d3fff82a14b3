/* Steps of building a graph that have a file of their own. Internal to the module. */
#ifndef CS_MODEL_BUILD_PARTS_H
#define CS_MODEL_BUILD_PARTS_H

#include "core/model/graph.h"

/* modules.c: modules and branches, with their architectures and items, into arrays that have room */
enum cs_status cs_graph_add_modules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;

/* freeze.c: the rules of the document -> is_trainable of every parameter, n_trained; then the
 * needs */
enum cs_status cs_graph_apply_rules(struct cs_graph *graph, const struct cs_spec *spec,
                                    struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;
void cs_graph_mark_needs(struct cs_graph *graph, struct cs_arena *arena);

/* adapters.c: which matrix of the module has which adapter: the last row of the document that matches,
 * NULL: none. */
const struct cs_spec_adapter *cs_graph_adapter_of(const struct cs_spec *spec,
                                                  const struct cs_module *module,
                                                  const struct cs_tensor_info *info);
/* After all: rows that match nothing, or matrices that are trained themselves, are refused. */
enum cs_status cs_graph_check_adapters(const struct cs_graph *graph, const struct cs_spec *spec,
                                       struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;

#endif
