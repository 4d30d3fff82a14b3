/* Planning with expert parallelism: how many ranks share the experts of the language model. */
#ifndef CS_PLAN_MAKE_EXPERTS_H
#define CS_PLAN_MAKE_EXPERTS_H

#include "core/plan/make/place.h"

/* Fills placing->ep from the layout. placing->cp is known. CS_PLAN says which number can be, or
 * what cannot be spread: a branch without experts, more ranks than experts, an ep that does not
 * divide dp * cp. */
enum cs_status cs_expert_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *placing, struct cs_err *err) CS_NODISCARD;

#endif
