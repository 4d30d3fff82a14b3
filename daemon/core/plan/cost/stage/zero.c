/* What levels 2 and 3 of ZeRO leave of a layer on a rank. */
#include "core/plan/cost/stage/zero.h"

#include "core/model/tensor_parallel.h"

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* elements of a tied table that are counted with the layer */
static int64_t table_of(const struct cs_graph *graph, const struct cs_layer *layer)
{
    if (!graph->is_tied || graph->modules[layer->module].kind != CS_MODULE_LLM ||
        (layer->kind != CS_LAYER_EMBED && layer->kind != CS_LAYER_HEAD))
        return 0;
    return graph->params[graph->tied_param].count;
}

struct cs_zero_parts cs_zero_divided(const struct cs_graph *graph, const struct cs_layer *layer)
{
    const int64_t table = layer->kind == CS_LAYER_EMBED ? table_of(graph, layer) : 0;
    const bool is_trained = table > 0 && graph->params[graph->tied_param].is_trainable;
    return (struct cs_zero_parts){layer->n_elements - table,
                                  layer->n_trained - (is_trained ? table : 0)};
}

/* of those the experts' */
static struct cs_zero_parts of_experts(const struct cs_graph *graph, const struct cs_layer *layer)
{
    struct cs_zero_parts part = {0, 0};
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        if (!cs_param_is_of_expert(p))
            continue;
        part.weights += p->count;
        part.trained += p->is_trainable ? p->count : 0;
    }
    return part;
}

/* bytes that a rank need not keep when n divide them */
static int64_t spared(int64_t bytes, int64_t n)
{
    return bytes - cs_zero_part(bytes, n);
}

struct cs_layer_bytes cs_replica_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device, int32_t zero,
                                       int32_t holders, int32_t ep)
{
    const int64_t grad = cs_state_bytes(graph->keeps_bf16, device).grad;
    const struct cs_zero_parts all = cs_zero_divided(graph, layer),
                               experts = of_experts(graph, layer);
    const int64_t same = holders / (ep > 1 ? ep : 1); /* ranks with the same experts */
    struct cs_layer_bytes bytes = cs_layer_bytes(graph, layer, budget, device);
    bytes.state = cs_layer_state(&bytes, graph->keeps_bf16, device, holders, ep);
    if (zero >= 2)
        bytes.state -= spared((all.trained - experts.trained) * grad, holders) +
                       spared(experts.trained * grad, same);
    if (zero >= 3)
        bytes.weight -=
            spared((all.weights - experts.weights) * cs_device_element_bytes(device), holders) +
            spared(experts.weights * cs_device_element_bytes(device), same);
    return bytes;
}

void cs_zero_whole_add(struct cs_zero_whole *whole, int32_t layer, int32_t turns, int64_t weights,
                       int64_t grads)
{
    const int32_t turn = layer % turns;
    whole->weights[turn] = larger(whole->weights[turn], weights);
    whole->grads[turn] = larger(whole->grads[turn], grads);
}

int64_t cs_zero_whole_bytes(const struct cs_zero_whole *whole)
{
    int64_t bytes = 0;
    for (int i = 0; i < CS_ZERO_TURNS; i++)
        bytes += whole->weights[i] + whole->grads[i];
    return bytes;
}

int64_t cs_rank_zero_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t rank,
                           int element)
{
    const int32_t holders = cs_plan_holders(plan, rank), turns = cs_zero_turns(element);
    struct cs_zero_whole whole = {{0}, {0}};
    for (int32_t s = 0; holders > 1 && s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        for (int32_t l = stage->first_layer;
             stage->rank == rank && l < stage->first_layer + stage->n_layers; l++) {
            const struct cs_zero_parts part = cs_zero_divided(graph, &graph->layers[l]);
            cs_zero_whole_add(&whole, l, turns, stage->zero >= 3 ? part.weights * element : 0,
                              stage->zero >= 2 ? part.trained * (graph->keeps_bf16 ? 2 : 4) : 0);
        }
    }
    return cs_zero_whole_bytes(&whole);
}
