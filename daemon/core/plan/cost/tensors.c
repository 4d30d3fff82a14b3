/* Divides costs over the ranks of a stage and adds the sums between them. */
#include "core/plan/cost/tensors.h"

#include "core/plan/cost/bytes.h"
#include "core/plan/cost/links.h"
#include "core/plan/cost/round.h"

static bool splits_rows(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->sp;
}

static int32_t ranks_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->tp > 1 ? given->tp : 1;
}

/* An all-reduce of rows, or where they are split its halves: a reduce-scatter and an all-gather. */
static int64_t sum_ns(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                      const struct cs_device_class *device, int32_t tp, bool is_split)
{
    const int64_t bytes =
        rows * cs_layer_arch(graph, layer)->width * cs_device_element_bytes(device);
    return is_split ? cs_exchange_ns(device, CS_LINK_REDUCE_SCATTER, tp, bytes) +
                          cs_exchange_ns(device, CS_LINK_ALL_GATHER, tp, bytes)
                    : cs_exchange_ns(device, CS_LINK_ALL_REDUCE, tp, bytes);
}

static int64_t share(int64_t ns, int32_t tp)
{
    return (ns + tp - 1) / tp;
}

/* Parts that have come are read, added to the own rows and written. */
static int64_t add_ns(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                      const struct cs_device_class *device, int32_t tp)
{
    const int64_t own = (rows + tp - 1) / tp, bytes = 3 * own * cs_layer_arch(graph, layer)->width *
                                                      cs_device_element_bytes(device);
    return 2 * device->link_latency_ns +
           cs_divide_up((cs_u128)bytes * (cs_u128)(tp - 1) * 1000000000u, device->bytes_per_s);
}

/* Halves of a block have one sum each way: all-gather and reduce-scatter where rows are split, and then
 * gradients of weights ask for their inputs once more. On GPUs rows that are split travel beside the
 * products of others. Embeddings of the own words are summed; the head's gradient is,
 * in its forward, where it makes one. */
struct cs_tensor_sums cs_tensor_sums(const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, int64_t label_rows,
                                     const struct cs_device_class *device, int32_t tp,
                                     bool is_split)
{
    const bool has_backward = layer->needs_input_grad || layer->needs_weight_grad;
    const bool is_head = layer->kind == CS_LAYER_HEAD;
    const int64_t ns = sum_ns(graph, layer, is_head ? label_rows : rows, device, tp, is_split);
    const int64_t again = is_split && layer->needs_weight_grad ? ns : 0; /* two halves of a sum */
    const int64_t fwd = 2 * ns, bwd = has_backward ? 2 * ns + again : 0;
    if (layer->kind == CS_LAYER_BLOCK && is_split && device->units > 0) {
        const int64_t add = 2 * add_ns(graph, layer, rows, device, tp);
        return (struct cs_tensor_sums){
            {add,                    fwd},
            {has_backward ? add : 0, bwd}
        };
    }
    if (layer->kind == CS_LAYER_BLOCK)
        return (struct cs_tensor_sums){
            {fwd, 0},
            {bwd, 0}
        };
    return (struct cs_tensor_sums){
        .fwd = {is_head && !has_backward ? 2 * device->link_latency_ns : ns, 0}
    };
}

int64_t cs_tensor_with(int64_t ns, struct cs_tensor_wait wait)
{
    return (ns > wait.beside ? ns : wait.beside) + wait.behind;
}

/* A look-up writes all rows, whoever has the word. */
static bool is_shared(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return layer->kind == CS_LAYER_BLOCK || layer->kind == CS_LAYER_HEAD ||
           (layer->kind == CS_LAYER_EMBED && cs_layer_arch(graph, layer)->kind == CS_MODULE_LLM);
}

void cs_share_tensors(const struct cs_spec *spec, const struct cs_graph *graph,
                      const struct cs_slot_budget *budget, const struct cs_device_class *device,
                      struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const int32_t branch = graph->modules[layer->module].branch;
        const int32_t tp = ranks_of(spec, graph->branches[branch].name);
        const int32_t shares = layer->kind == CS_LAYER_EMBED ? 1 : tp;
        if (tp == 1 || !is_shared(graph, layer))
            continue;
        const bool is_split = splits_rows(spec, graph->branches[branch].name);
        const struct cs_layer_work work = cs_layer_work(graph, layer, budget);
        const struct cs_tensor_sums sums =
            cs_tensor_sums(graph, layer, work.tokens, work.label_rows, device, tp, is_split);
        cost[i].fwd_ns = cs_tensor_with(share(cost[i].fwd_ns, shares), sums.fwd);
        cost[i].bwd_input_ns = cs_tensor_with(share(cost[i].bwd_input_ns, shares), sums.bwd);
        cost[i].bwd_weight_ns = share(cost[i].bwd_weight_ns, shares);
    }
}
