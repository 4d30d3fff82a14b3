/* Adds the sums between the ranks of a stage. */
#include "core/plan/cost/tensors.h"

#include "core/plan/cost/bytes.h"
#include "core/plan/cost/links.h"
#include "core/plan/cost/round.h"

struct cs_tensor_ranks cs_tensor_ranks_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return (struct cs_tensor_ranks){.tp = given != NULL && given->tp > 1 ? given->tp : 1,
                                    .splits_rows = given != NULL && given->sp};
}

/* of no bytes what it waits */
static int64_t exchange_ns(const struct cs_device_class *device, enum cs_link_op op, int32_t tp,
                           int64_t bytes)
{
    return bytes > 0 ? cs_exchange_ns(device, op, tp, bytes)
                     : cs_exchange_latency_ns(device, op, tp);
}

/* An all-reduce of rows, or where they are split its halves: a reduce-scatter and an all-gather. */
static int64_t sum_ns(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                      const struct cs_device_class *device, int32_t tp, bool is_split)
{
    const int64_t bytes =
        rows * cs_layer_arch(graph, layer)->width * cs_device_element_bytes(device);
    return is_split ? exchange_ns(device, CS_LINK_REDUCE_SCATTER, tp, bytes) +
                          exchange_ns(device, CS_LINK_ALL_GATHER, tp, bytes)
                    : exchange_ns(device, CS_LINK_ALL_REDUCE, tp, bytes);
}

/* Parts that have come are read, added to the own rows and written. */
static int64_t add_ns(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                      const struct cs_device_class *device, int32_t tp)
{
    const int64_t own = (rows + tp - 1) / tp, bytes = 3 * own * cs_layer_arch(graph, layer)->width *
                                                      cs_device_element_bytes(device);
    return cs_divide_up((cs_u128)bytes * (cs_u128)(tp - 1) * 1000000000u, device->bytes_per_s);
}

/* Halves of a block have one sum each way: all-gather and reduce-scatter where rows are split, and then
 * gradients of weights ask for their inputs once more. On GPUs rows that are split travel beside the
 * products of others. Embeddings of the own words are summed; the head's gradient is,
 * in its forward, where it makes one. */
struct cs_tensor_sums cs_tensor_sums(const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, int64_t label_rows,
                                     const struct cs_device_class *device,
                                     struct cs_tensor_ranks ranks, bool adds)
{
    const int32_t tp = ranks.tp;
    const bool is_split = ranks.splits_rows;
    const bool has_backward = layer->needs_input_grad || layer->needs_weight_grad;
    const bool is_head = layer->kind == CS_LAYER_HEAD;
    const int64_t ns = sum_ns(graph, layer, is_head ? label_rows : rows, device, tp, is_split);
    const int64_t again = is_split && layer->needs_weight_grad ? ns : 0; /* two halves of a sum */
    const int64_t fwd = 2 * ns, bwd = has_backward ? 2 * ns + again : 0;
    if (layer->kind == CS_LAYER_BLOCK && is_split && device->units > 0) {
        const int64_t add =
            2 * (2 * device->link_latency_ns + (adds ? 0 : add_ns(graph, layer, rows, device, tp)));
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
static bool is_summed(const struct cs_graph *graph, const struct cs_layer *layer)
{
    return cs_tensor_divides(layer) ||
           (layer->kind == CS_LAYER_EMBED && cs_layer_arch(graph, layer)->kind == CS_MODULE_LLM);
}

void cs_tensor_add_sums(const struct cs_graph *graph, const struct cs_layer *layer, int64_t rows,
                        int64_t label_rows, const struct cs_device_class *device,
                        struct cs_tensor_ranks ranks, bool adds, struct cs_layer_cost *cost)
{
    if (ranks.tp < 2 || !is_summed(graph, layer))
        return;
    const struct cs_tensor_sums sums =
        cs_tensor_sums(graph, layer, rows, label_rows, device, ranks, adds);
    cost->fwd_ns = cs_tensor_with(cost->fwd_ns, sums.fwd);
    cost->bwd_input_ns = cs_tensor_with(cost->bwd_input_ns, sums.bwd);
}
