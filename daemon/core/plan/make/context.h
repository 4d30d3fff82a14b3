/* What a layout with context parallelism asks of a model and of the devices. */
#ifndef CS_PLAN_MAKE_CONTEXT_H
#define CS_PLAN_MAKE_CONTEXT_H

#include "core/plan/make/place.h"

/* Fills placing->cp and branch_cp from the layouts of the branches. CS_PLAN names the branch, layer or device with which
 * cp is not possible, and what is. */
enum cs_status cs_context_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                                struct cs_placing *placing, struct cs_err *err) CS_NODISCARD;

#endif
