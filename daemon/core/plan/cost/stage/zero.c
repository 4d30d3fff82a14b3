/* What levels 2 and 3 of ZeRO leave of a layer on a rank, and what their traffic costs. */
#include "core/plan/cost/stage/zero.h"

#include "core/model/tensor_parallel.h"
#include "core/plan/cost/links.h"

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

/* Elements of the layer that are divided: all but a tied table, which is listed with the embedding. */
static struct parts {
    int64_t weights, trained;

} divided(const struct cs_graph *graph, const struct cs_layer *layer)

{
    const int64_t table = layer->kind == CS_LAYER_EMBED ? table_of(graph, layer) : 0;
    const bool is_trained = table > 0 && graph->params[graph->tied_param].is_trainable;
    return (struct parts){layer->n_elements - table, layer->n_trained - (is_trained ? table : 0)};
}

/* of those the experts' */
static struct parts of_experts(const struct cs_graph *graph, const struct cs_layer *layer)
{
    struct parts part = {0, 0};
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
    return n > 1 ? bytes - bytes / n : 0;
}

struct cs_layer_bytes cs_replica_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device, int32_t zero,
                                       int32_t holders, int32_t ep)
{
    const int64_t grad = cs_state_bytes(graph->keeps_bf16, device).grad;
    const struct parts all = divided(graph, layer), experts = of_experts(graph, layer);
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

/* of one layer, whole */
static int64_t whole_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                           const struct cs_stage *stage, int element)
{
    const struct parts part = divided(graph, layer);
    return (stage->zero >= 2 ? part.trained * (graph->keeps_bf16 ? 2 : 4) : 0) +
           (stage->zero >= 3 ? part.weights * element : 0);
}

int64_t cs_stage_zero_bytes(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                            int element)
{
    const struct cs_stage *s = &plan->stages[stage];
    const int32_t holders = cs_plan_holders(plan, s->rank), turns = cs_zero_turns(element);
    int64_t most[CS_ZERO_TURNS] = {0};
    if (s->zero < 2 || holders < 2)
        return 0;
    for (int32_t l = s->first_layer; l < s->first_layer + s->n_layers; l++)
        most[l % turns] =
            larger(most[l % turns], whole_bytes(graph, &graph->layers[l], s, element));
    return most[0] + most[1];
}

static int64_t exposed(int64_t moves_ns, int64_t works_ns, bool is_cpu)
{
    return is_cpu ? moves_ns : larger(moves_ns - works_ns, 0);
}

/* Where backwards are split, weights come before the input half and sums follow the weight half. */
static void add_split(const struct cs_layer *layer, const struct cs_layer_cost *cost,
                      int64_t sum_ns, int64_t come_ns, bool is_cpu, struct cs_stage *stage)
{
    if (layer->needs_input_grad)
        stage->bwd_input_ns += exposed(come_ns, cost->bwd_input_ns, is_cpu);
    if (layer->needs_weight_grad)
        stage->bwd_weight_ns += exposed(sum_ns, cost->bwd_weight_ns, is_cpu);
}

static void add_layer(const struct cs_graph *graph, const struct cs_layer *layer,
                      const struct cs_device_class *device, const struct cs_layer_cost *cost,
                      int32_t holders, bool is_split, struct cs_stage *stage)
{
    const struct parts part = divided(graph, layer);
    const int element = cs_device_element_bytes(device);
    const bool is_cpu = element == 4;
    const int64_t sum_ns =
        cs_exchange_ns(device, CS_LINK_REDUCE_SCATTER, holders,
                       part.trained * cs_state_bytes(graph->keeps_bf16, device).grad);
    const int64_t come_ns = stage->zero >= 3 ? cs_exchange_ns(device, CS_LINK_ALL_GATHER, holders,
                                                              part.weights * element)
                                             : 0;
    const int64_t back_ns =
        exposed(sum_ns + come_ns, cost->bwd_input_ns + cost->bwd_weight_ns, is_cpu);
    stage->fwd_ns += exposed(come_ns, cost->fwd_ns, is_cpu);
    if (is_split && layer->needs_input_grad)
        add_split(layer, cost, sum_ns, come_ns, is_cpu, stage);
    else if (layer->needs_input_grad)
        stage->bwd_input_ns += back_ns;
    else if (layer->needs_weight_grad)
        stage->bwd_weight_ns += back_ns;
}

void cs_zero_times(const struct cs_graph *graph, const struct cs_device_class *device,
                   const struct cs_layer_cost *cost, bool is_split, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        const int32_t holders = cs_plan_holders(plan, stage->rank);
        for (int32_t l = stage->first_layer;
             stage->zero >= 2 && holders > 1 && l < stage->first_layer + stage->n_layers; l++)
            add_layer(graph, &graph->layers[l], device, &cost[l], holders, is_split, stage);
    }
}
