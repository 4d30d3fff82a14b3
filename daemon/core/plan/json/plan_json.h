/* "cornstarch.plan/1": a plan as canonical JSON, both ways, and its hash. */
#ifndef CS_PLAN_PLAN_JSON_H
#define CS_PLAN_PLAN_JSON_H

#include <jansson.h>

#include "core/plan/plan.h"

/* SHA-256 of the canonical JSON (sorted keys, compact) without hash, predictions and reasons: what
 * is executed, not what was thought about it */
enum cs_status cs_plan_hash(const struct cs_plan *plan, const struct cs_graph *graph, char hash[65],
                            struct cs_err *err) CS_NODISCARD;
/* predicted_* are 0 and NULL until cs_plan_predict (core/sched/sim/predict.h); the hash does not
 * cover predictions and reasons. */
json_t *cs_plan_json(const struct cs_plan *plan, const struct cs_graph *graph);
/* Read what cs_plan_json wrote, against the same graph; checks every index; recomputes the hash. */
enum cs_status cs_plan_read(const json_t *json, const struct cs_graph *graph,
                            struct cs_arena *arena, struct cs_plan **out,
                            struct cs_err *err) CS_NODISCARD;

#endif
