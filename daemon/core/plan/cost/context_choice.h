/* What the ranks of a context exchange around attention: keys and values that their rows see, or heads. */
#ifndef CS_PLAN_COST_CONTEXT_CHOICE_H
#define CS_PLAN_COST_CONTEXT_CHOICE_H

#include "core/model/spec.h"
#include "core/plan/cost/context_work.h"

/* One way to exchange, of a full slot: its forward and backward through the layers of the LLM on the rank that takes
 * longest, and what comes to or leaves it. */
struct cs_context_way {
    int64_t ns, bytes;
};

struct cs_context_choice {
    bool moves_heads, own_first;
    int64_t saved_ns; /* of a full slot and its backward by own_first */
    bool is_open;     /* the job leaves it to costs, and both can be: keys and heads are set */
    struct cs_context_way keys, heads;
};

/* What is shared over a context: layers as one rank alone would have them. */
struct cs_context_slot_costs {
    const struct cs_graph *graph;
    const struct cs_slot_budget *budget;
    const struct cs_device_class *device; /* its link is that of the ranks */
    const struct cs_layer_cost *cost;     /* (graph->n_layers) of one rank, behind no tp */
    const struct cs_profile *profile;     /* they were measured; NULL: estimates */
};

struct cs_context_way cs_context_way_of(const struct cs_context_work *work,
                                        const struct cs_context_slot_costs *of, int32_t tp);
/* What tiles of the own keys before those that come would save (context_exchanges.h), and whether it is a hundredth. */
int64_t cs_context_own_first_saves(const struct cs_context_work *work,
                                   const struct cs_context_slot_costs *of, int32_t tp);
bool cs_context_prefers_own_first(const struct cs_context_work *work,
                                  const struct cs_context_slot_costs *of, int32_t tp);
/* Heads where they are a twentieth faster. */
bool cs_context_prefers_heads(const struct cs_context_way *keys,
                              const struct cs_context_way *heads);

#endif
