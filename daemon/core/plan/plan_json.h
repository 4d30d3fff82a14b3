/* The hash of a plan. Private to core/plan. */
#ifndef CS_PLAN_PLAN_JSON_H
#define CS_PLAN_PLAN_JSON_H

#include "core/plan/plan.h"

/* SHA-256 of the canonical JSON (sorted keys, compact) without hash, predictions and reasons: what
 * is executed, not what was thought about it */
enum cs_status cs_plan_hash(const struct cs_plan *plan, const struct cs_graph *graph, char hash[65],
                            struct cs_err *err) CS_NODISCARD;

#endif
