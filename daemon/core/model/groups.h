/* Groups of the optimizer: parameters with a learning rate or a weight decay of their own, named by globs
 * over names of parameters and paths of layers. */
#ifndef CS_MODEL_GROUPS_H
#define CS_MODEL_GROUPS_H

#include "core/model/graph.h"

/* the last group of the document that names the parameter, -1: none */
int32_t cs_graph_group(const struct cs_graph *graph, const struct cs_spec *spec,
                       const struct cs_param *param);
/* CS_INVALID: a group names nothing that trains */
enum cs_status cs_graph_check_groups(const struct cs_graph *graph, const struct cs_spec *spec,
                                     struct cs_arena *arena, struct cs_err *err) CS_NODISCARD;

#endif
