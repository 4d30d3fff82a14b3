/* Divides costs over the ranks of a stage and adds the sums between them. */
#include "core/plan/cost/tensors.h"

#include "core/plan/cost/bytes.h"
#include "core/plan/cost/round.h"

static int32_t ranks_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->tp > 1 ? given->tp : 1;
}

/* A reduce-scatter and an all-gather of the rows of a slot. */
static int64_t sum_ns(const struct cs_graph *graph, const struct cs_layer *layer,
                      const struct cs_slot_budget *budget, const struct cs_device_class *device,
                      int32_t tp)
{
    const int64_t rows = cs_layer_work(graph, layer, budget).tokens;
    const int64_t bytes =
        2 * rows * cs_layer_arch(graph, layer)->width * cs_device_element_bytes(device);
    if (device->link_bytes_per_s <= 0)
        return 0;
    return 2 * device->link_latency_ns +
           cs_divide_up((cs_u128)bytes * (cs_u128)(tp - 1) * 1000000000u / (cs_u128)tp,
                        device->link_bytes_per_s);
}

static int64_t share(int64_t ns, int32_t tp)
{
    return (ns + tp - 1) / tp;
}

void cs_share_tensors(const struct cs_spec *spec, const struct cs_graph *graph,
                      const struct cs_slot_budget *budget, const struct cs_device_class *device,
                      struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const int32_t branch = graph->modules[layer->module].branch;
        const int32_t tp = ranks_of(spec, graph->branches[branch].name);
        if (tp == 1 || layer->kind != CS_LAYER_BLOCK)
            continue;
        const int64_t ns = 2 * sum_ns(graph, layer, budget, device, tp);
        const bool has_backward = layer->needs_input_grad || layer->needs_weight_grad;
        cost[i].fwd_ns = share(cost[i].fwd_ns, tp) + ns;
        cost[i].bwd_input_ns = share(cost[i].bwd_input_ns, tp) + (has_backward ? ns : 0);
        cost[i].bwd_weight_ns = share(cost[i].bwd_weight_ns, tp);
    }
}
