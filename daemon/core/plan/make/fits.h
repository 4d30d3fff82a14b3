/* What would make a plan fit into memory. */
#ifndef CS_PLAN_MAKE_FITS_H
#define CS_PLAN_MAKE_FITS_H

#include "core/model/spec.h"
#include "core/plan/plan.h"

/* Plans a spec once; full: the branch that does not fit, -1: none. */
typedef enum cs_status (*cs_plan_once)(const struct cs_spec *spec, const struct cs_graph *graph,
                                       const struct cs_cluster *cluster, struct cs_arena *arena,
                                       struct cs_plan **out, int32_t *full, struct cs_err *err);

/* Settings of the branch with which the plan fits, each alone, or else several together: "; parallel.llm.pp = 4
 * fits, parallel.llm.recompute = "full" too"; "": none that is known. Those that no cluster of this kind is large
 * enough for are not left out: memory is asked for, not devices. */
void cs_plan_what_fits(const struct cs_spec *spec, const struct cs_graph *graph,
                       const struct cs_cluster *cluster, int32_t branch, cs_plan_once once,
                       char *out, size_t cap);

#endif
