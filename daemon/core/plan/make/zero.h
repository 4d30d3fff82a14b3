/* Planning with gradients and weights that are divided among the ranks that have them (ZeRO): which level
 * a branch asks for, and whether jobs can have it. */
#ifndef CS_PLAN_MAKE_ZERO_H
#define CS_PLAN_MAKE_ZERO_H

#include "core/plan/make/place.h"

/* 1: the optimizer's state alone */
int32_t cs_zero_level(const struct cs_spec *spec, const struct cs_graph *graph, int32_t branch);
/* Fills zero of all stages, which are placed. CS_PLAN says why a level above 1 cannot be: nobody has the
 * same weights. */
enum cs_status cs_zero_stages(const struct cs_spec *spec, const struct cs_graph *graph,
                              struct cs_plan *plan, struct cs_err *err) CS_NODISCARD;

#endif
