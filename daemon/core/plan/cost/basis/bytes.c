/* What a layer works on in a slot that is filled to its budgets, and how many bytes it keeps. */
#include "core/plan/cost/basis/bytes.h"

#include "core/mask/amounts.h"
#include "core/model/keeps.h"
#include "core/model/tensor_parallel.h"

_Static_assert((int)CS_MAX_ENCODERS <= (int)CS_MASK_AMOUNTS, "a modality per encoder");

int cs_device_element_bytes(const struct cs_device_class *device)
{
    return device->mem_bytes == 0 ? 4 : 2; /* CPU ranks train in fp32, GPUs in bf16 */
}

int64_t cs_item_pairs(const struct cs_attention *attention, int64_t frames, int64_t patches)
{
    const int64_t window = attention->window_rows;
    const bool is_window = attention->inside == CS_INSIDE_WINDOW && window < patches;
    const struct cs_mask_amounts one = {.tokens = is_window ? window : patches};
    const double times = (double)frames * (double)patches / (double)one.tokens;
    return (int64_t)(times * (double)cs_mask_amounts_pairs(attention->rule, &one));
}

/* Of as many items of the largest size as the slot's patches make. */
static struct cs_layer_work encoder_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                         const struct cs_item_budget *budget)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    const struct cs_attention *attention = cs_layer_attention(graph, layer);
    struct cs_layer_work work = {.tokens = budget->rows};
    if (cs_layer_is_inner(graph, layer))
        work.tokens = cs_front_inner_most(arch, budget->patches, budget->items);
    if (attention != NULL)
        work.pairs = (int64_t)((double)budget->patches / budget->item_patches *
                               (double)cs_item_pairs(attention, 1, budget->item_patches));
    return work;
}

struct cs_layer_work cs_layer_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                   const struct cs_slot_budget *budget)
{
    const struct cs_branch *branch = &graph->branches[graph->modules[layer->module].branch];
    const struct cs_attention *attention = cs_layer_attention(graph, layer);
    struct cs_layer_work work = {0};
    if (branch->encoder >= 0)
        return encoder_work(graph, layer, &budget->enc[branch->encoder]);
    struct cs_mask_amounts amounts = {.tokens = budget->seq_tokens, .n = budget->n_encoders};
    int64_t images = 0, seq = budget->seq_tokens;
    for (int e = 0; e < budget->n_encoders; e++) {
        const struct cs_item_budget *b = &budget->enc[e];
        images += b->rows;
        cs_mask_amounts_add(&amounts, e, b->rows / b->item_rows, b->item_rows);
    }
    int64_t text = seq - images > seq / 8 ? seq - images : seq / 8;
    work.tokens = seq;
    if (attention != NULL)
        work.pairs = cs_mask_amounts_pairs(attention->rule, &amounts);
    work.label_rows = text > 1 ? text / 2 : 1;
    return work;
}

struct cs_state_bytes cs_state_bytes(bool keeps_bf16, const struct cs_device_class *device)
{
    if (keeps_bf16)
        return (struct cs_state_bytes){.grad = 2, .all = 2 + 4};
    const bool has_master = cs_device_element_bytes(device) != 4;
    return (struct cs_state_bytes){.grad = 4, .all = 4 + 8 + (has_master ? 4 : 0)};
}

int64_t cs_replica_state(int64_t state, bool keeps_bf16, const struct cs_device_class *device,
                         int32_t dp)
{
    const struct cs_state_bytes bytes = cs_state_bytes(keeps_bf16, device);
    const int64_t grads = state / bytes.all * bytes.grad;
    return dp > 1 ? grads + (state - grads) / dp : state;
}

static int64_t trained_of_experts(const struct cs_graph *graph, const struct cs_layer *layer)
{
    int64_t n = 0;
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++)
        if (graph->params[i].is_trainable && cs_param_is_of_expert(&graph->params[i]))
            n += graph->params[i].count;
    return n;
}

int64_t cs_layer_state(const struct cs_layer_bytes *layer, bool keeps_bf16,
                       const struct cs_device_class *device, int32_t holders, int32_t ep)
{
    if (ep <= 1)
        return cs_replica_state(layer->state, keeps_bf16, device, holders);
    return cs_replica_state(layer->state - layer->expert_state, keeps_bf16, device, holders) +
           cs_replica_state(layer->expert_state, keeps_bf16, device, holders / ep);
}

struct cs_layer_bytes cs_layer_bytes(const struct cs_graph *graph, const struct cs_layer *layer,
                                     const struct cs_slot_budget *budget,
                                     const struct cs_device_class *device)
{
    int element = cs_device_element_bytes(device);
    int64_t elements = layer->n_elements, trained = layer->n_trained;
    if (graph->is_tied && layer->kind == CS_LAYER_HEAD) { /* a copy of the embedding */
        const struct cs_arch *arch = &graph->modules[layer->module].arch;
        int64_t table = (int64_t)arch->vocab * arch->width;
        elements += table;
        for (int32_t i = 0; i < graph->n_params; i++)
            if (graph->params[i].role == CS_PARAM_EMBED && graph->params[i].is_trainable)
                trained += table;
    }
    bool keeps = layer->needs_input_grad || layer->needs_weight_grad;
    struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    return (struct cs_layer_bytes){
        .weight = elements * element,
        .state = trained * cs_state_bytes(graph->keeps_bf16, device).all,
        .expert_state =
            trained_of_experts(graph, layer) * cs_state_bytes(graph->keeps_bf16, device).all,
        .saved = keeps ? cs_layer_saved_bytes(graph, layer, work.tokens) / 4 * element : 0};
}
