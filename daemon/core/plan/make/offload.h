/* Planning with activations that wait in the host's memory: which branches ask for it, and whether jobs
 * can have it. */
#ifndef CS_PLAN_MAKE_OFFLOAD_H
#define CS_PLAN_MAKE_OFFLOAD_H

#include "core/plan/make/place.h"

bool cs_branch_offloads(const struct cs_spec *spec, const struct cs_graph *graph, int32_t branch);
/* Fills offloads of all stages with a backward, which are placed. CS_PLAN says why it cannot be: CPU
 * ranks, backwards that are split, copies of encoders, a branch that keeps nothing. */
enum cs_status cs_offload_stages(const struct cs_spec *spec, const struct cs_graph *graph,
                                 const struct cs_device_class *device,
                                 const struct cs_placing *placing, struct cs_plan *plan,
                                 struct cs_err *err) CS_NODISCARD;

#endif
