/* Planning with tensor parallelism: how many ranks share the stages of every branch, and which layouts
 * can run. */
#ifndef CS_PLAN_MAKE_TENSORS_H
#define CS_PLAN_MAKE_TENSORS_H

#include "core/plan/make/place.h"

/* Fills placing->tp and sp from the layout; encoders without one on ranks of the LLM that share its matrices share
 * their items over all of them (branch_cp). CS_PLAN names the branch or layer with which ranks cannot share
 * a stage. placing->cp is known. */
enum cs_status cs_tensor_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *placing, struct cs_err *err) CS_NODISCARD;
/* The graph as that one of the ranks has it that has most of it; the graph itself where nothing is
 * shared. In the arena. */
const struct cs_graph *cs_tensor_graph(const struct cs_graph *graph,
                                       const struct cs_placing *placing, struct cs_arena *arena);

#endif
