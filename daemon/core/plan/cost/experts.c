/* Adds the ways of rows between the ranks of experts to the times of layers. */
#include "core/plan/cost/experts.h"

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/links.h"

/* exchanges that wait for each other: counts (or logits), rows that go, rows that come back */
enum { WAITS = 3 };

struct ranks {
    int32_t ep, cp;
};

static struct ranks ranks_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return (struct ranks){given != NULL && given->ep > 1 ? given->ep : 1,
                          given != NULL && given->cp > 1 ? given->cp : 1};
}

int64_t cs_experts_move_ns(const struct cs_arch *arch, int64_t rows, int times, int32_t ep,
                           const struct cs_device_class *device)
{
    const int element = cs_device_element_bytes(device);
    const bool is_host = element == 4;
    const int64_t each = rows * (is_host ? arch->experts.top_k : ep),
                  bytes = each * times * arch->width * element;
    if (device->link_bytes_per_s <= 0)
        return 0;
    return (WAITS - 1) * device->link_latency_ns +
           cs_exchange_ns(device, CS_LINK_ALL_TO_ALL, ep, bytes);
}

void cs_spread_experts(const struct cs_spec *spec, const struct cs_graph *graph,
                       const struct cs_slot_budget *budget, const struct cs_device_class *device,
                       struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const int32_t branch = graph->modules[layer->module].branch;
        const struct ranks ranks = ranks_of(spec, graph->branches[branch].name);
        if (ranks.ep == 1 || layer->kind != CS_LAYER_BLOCK || layer->ffn != CS_FFN_EXPERTS)
            continue;
        const struct cs_arch *arch = cs_layer_arch(graph, layer);
        const int64_t tokens = cs_layer_work(graph, layer, budget).tokens;
        const int64_t rows = (tokens + ranks.cp - 1) / ranks.cp;
        cost[i].fwd_ns += cs_experts_move_ns(arch, rows, CS_EXPERTS_FWD, ranks.ep, device);
        if (layer->needs_input_grad || layer->needs_weight_grad)
            cost[i].bwd_input_ns +=
                cs_experts_move_ns(arch, rows, CS_EXPERTS_BWD, ranks.ep, device);
    }
}
