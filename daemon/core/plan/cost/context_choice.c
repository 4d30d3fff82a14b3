/* Sums up both ways over the layers of the LLM. */
#include "core/plan/cost/context_choice.h"

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/context_exchanges.h"
#include "core/plan/cost/tensor_share.h"

/* A layer on each of tp ranks, and how that grows. Rows between products are not split: both ways are compared before
 * it is known. */
static struct cs_layer_cost share_of(const struct cs_context_slot_costs *of, int32_t layer,
                                     int32_t cp, int32_t tp, struct cs_layer_parts *parts)
{
    const struct cs_layer *l = &of->graph->layers[layer];
    const struct cs_tensor_ranks ranks = {.tp = tp};
    const struct cs_layer_work work = cs_layer_work(of->graph, l, of->budget);
    const int64_t rows = cs_over(cs_profile_rows(l, work.tokens, work.label_rows), cp);
    const struct cs_layer_cost cost =
        cs_tensor_share(of->profile, of->device, of->graph, l, rows, ranks, of->cost[layer]);
    *parts = cs_tensor_parts(of->profile, of->device, of->graph, l, of->budget, ranks, &cost);
    return cost;
}

struct cs_context_way cs_context_way_of(const struct cs_context_work *work,
                                        const struct cs_context_slot_costs *of, int32_t tp)
{
    const struct cs_branch *llm = &of->graph->branches[of->graph->llm];
    struct cs_context_way way = {0, 0};
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        struct cs_layer_parts parts;
        struct cs_layer_cost fixed, cost = share_of(of, i, work->ranks, tp, &parts);
        cs_context_layer_cost(work, of->graph, &of->graph->layers[i], &parts, of->device, tp, &cost,
                              &fixed);
        way.ns += cost.fwd_ns + cost.bwd_input_ns;
        way.bytes += cs_context_layer_bytes(work, of->graph, &of->graph->layers[i], of->device, tp);
    }
    return way;
}

bool cs_context_prefers_heads(const struct cs_context_way *keys, const struct cs_context_way *heads)
{
    return heads->ns < keys->ns - keys->ns / 20;
}

int64_t cs_context_own_first_saves(const struct cs_context_work *work,
                                   const struct cs_context_slot_costs *of, int32_t tp)
{
    const struct cs_branch *llm = &of->graph->branches[of->graph->llm];
    int64_t ns = 0;
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        struct cs_layer_parts parts;
        const struct cs_layer_cost cost = share_of(of, i, work->ranks, tp, &parts);
        ns += cs_context_own_first_ns(work, of->graph, &of->graph->layers[i], &parts, of->device,
                                      tp, &cost);
    }
    return ns;
}

bool cs_context_prefers_own_first(const struct cs_context_work *work,
                                  const struct cs_context_slot_costs *of, int32_t tp)
{
    return cs_context_own_first_saves(work, of, tp) > cs_context_way_of(work, of, tp).ns / 100;
}
