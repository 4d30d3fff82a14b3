/* What the actions of a program are, as span keys: programs are lowered once per number of
 * slots. */
#ifndef CS_RUNNER_SPAN_KEYS_H
#define CS_RUNNER_SPAN_KEYS_H

#include "core/data/slot.h"
#include "core/model/graph.h"
#include "core/plan/plan.h"
#include "core/trace/span.h"

struct cs_keys {
    const struct cs_plan *plan;
    const struct cs_graph *graph;
    struct cs_arena *arena;
    const struct cs_span_keys *by_slots[2][CS_STEP_MAX_SLOTS + 1]; /* training, evaluation */
    char program_hash[65]; /* of the training program with the plan's number of slots */
};

/* (ranks of all replicas) tables for a step of n_slots slots; they live in keys->arena */
enum cs_status cs_keys_get(struct cs_keys *keys, int n_slots, bool is_eval,
                           const struct cs_span_keys **out, struct cs_err *err) CS_NODISCARD;

#endif
