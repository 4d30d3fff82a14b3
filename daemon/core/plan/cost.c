/* Layer costs: a roofline over FLOPs and bytes, and the frozen rule.
 *
 * fwd = max(flops / peak, bytes / bandwidth). Backward is proportional to it by the counts of
 * matrix products: GEMM F : Bd : Bw = 1 : 1 : 1; attention Bd = 2.5 F, Bw = 0 (forward two
 * products, backward five). A layer with weight but without input gradients still pays its internal
 * data gradients, all but that of its first GEMM (Q, K, V of a block; the only one of patches and
 * head). Source: Cornstarch, frozen-aware cost, at the granularity of operators.
 *
 * Approximations: LLM attention is causal over the whole slot (packing makes it cheaper), half of
 * the text rows carry labels, an embedding look-up is bytes only. */
#include "core/plan/costs.h"

__extension__ typedef unsigned __int128 u128;

static int64_t divide_up(u128 value, int64_t by)
{
    if (by < 1)
        by = 1;
    u128 divisor = (u128)by, q = value / divisor + (value % divisor != 0);
    return q > INT64_MAX ? INT64_MAX : (int64_t)q;
}

/* value * num / den, rounded */
static int64_t scale(int64_t value, int64_t num, int64_t den)
{
    if (den < 1 || value < 1 || num < 1)
        return 0;
    return divide_up((u128)value * (u128)num, den);
}

int cs_device_element_bytes(const struct cs_device_class *device)
{
    return device->mem_bytes == 0 ? 4 : 2; /* CPU ranks train in fp32, GPUs in bf16 */
}

struct cs_layer_work cs_layer_work(const struct cs_graph *graph, const struct cs_layer *layer,
                                   const struct cs_slot_budget *budget)
{
    const struct cs_branch *branch = &graph->branches[graph->modules[layer->module].branch];
    struct cs_layer_work work = {0};
    if (branch->encoder >= 0) {
        work.tokens = budget->enc[branch->encoder].rows;
        work.pairs = work.tokens * budget->enc[branch->encoder].item_rows;
        return work;
    }
    int64_t images = 0, seq = budget->seq_tokens;
    for (int e = 0; e < budget->n_encoders; e++)
        images += budget->enc[e].rows;
    int64_t text = seq - images > seq / 8 ? seq - images : seq / 8;
    work.tokens = seq;
    work.pairs = seq * (seq + 1) / 2;
    work.label_rows = text > 1 ? text / 2 : 1;
    return work;
}

struct matrices {
    int64_t all, first,
        trained; /* elements of weight matrices: in all, of the first GEMM, trainable */
};

static bool is_first_gemm(enum cs_param_role role)
{
    return role == CS_PARAM_Q_W || role == CS_PARAM_K_W || role == CS_PARAM_V_W ||
           role == CS_PARAM_PATCH_W || role == CS_PARAM_PROJ1_W || role == CS_PARAM_HEAD_W;
}

static struct matrices count_matrices(const struct cs_graph *graph, const struct cs_layer *layer)
{
    struct matrices m = {0};
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        if (p->n_dims < 2 || p->role == CS_PARAM_EMBED || p->role == CS_PARAM_POSITION)
            continue;
        m.all += p->count;
        m.first += is_first_gemm(p->role) ? p->count : 0;
        m.trained += p->is_trainable ? p->count : 0;
    }
    /* the matrix of a tied head is listed with the embedding */
    if (layer->kind == CS_LAYER_HEAD && m.all == 0)
        m = (struct matrices){.all = 1, .first = 1, .trained = layer->needs_weight_grad ? 1 : 0};
    return m;
}

/* Weights once, and the rows that every GEMM reads and writes. Independent of what is frozen. */
static int64_t bytes_moved(const struct cs_graph *graph, const struct cs_layer *layer,
                           const struct cs_layer_work *work, int64_t flops, int element_bytes)
{
    const struct cs_arch *arch = &graph->modules[layer->module].arch;
    int64_t elements = 2 * work->tokens * arch->width; /* what enters and what leaves */
    if (layer->kind == CS_LAYER_EMBED && flops == 0)
        return elements * element_bytes; /* a look-up */
    if (layer->kind == CS_LAYER_HEAD)
        return ((int64_t)arch->vocab * arch->width +
                work->label_rows * ((int64_t)arch->vocab + arch->width)) *
               element_bytes;
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        elements += p->count;
        if (p->n_dims == 2 && p->role != CS_PARAM_POSITION)
            elements += work->tokens * (p->dim[0] + p->dim[1]);
    }
    return elements * element_bytes;
}

static void cost_layer(const struct cs_graph *graph, const struct cs_layer *layer,
                       const struct cs_slot_budget *budget, const struct cs_device_class *device,
                       struct cs_layer_cost *cost)
{
    struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    int64_t flops = cs_layer_fwd_flops(graph, layer, work.tokens, work.pairs, work.label_rows);
    int64_t gemm = cs_layer_fwd_flops(graph, layer, work.tokens, 0, work.label_rows);
    int64_t bytes = bytes_moved(graph, layer, &work, flops, cs_device_element_bytes(device));
    int64_t math_ns = divide_up((u128)flops * 1000000000u, device->flops);
    int64_t move_ns = divide_up((u128)bytes * 1000000000u, device->bytes_per_s);
    *cost = (struct cs_layer_cost){.fwd_ns = math_ns > move_ns ? math_ns : move_ns};
    if (!layer->needs_input_grad && !layer->needs_weight_grad)
        return;
    if (flops == 0) { /* norms and look-ups: one pass over the same bytes per gradient */
        cost->bwd_input_ns = layer->needs_input_grad ? cost->fwd_ns : 0;
        cost->bwd_weight_ns = layer->needs_weight_grad ? cost->fwd_ns : 0;
        return;
    }
    struct matrices m = count_matrices(graph, layer);
    int64_t data = gemm; /* data gradients of the GEMMs */
    if (!layer->needs_input_grad)
        data -= scale(gemm, m.first, m.all) < gemm ? scale(gemm, m.first, m.all) : gemm;
    cost->bwd_input_ns = scale(cost->fwd_ns, 2 * data + 5 * (flops - gemm), 2 * flops);
    if (layer->needs_weight_grad)
        cost->bwd_weight_ns = scale(cost->fwd_ns, scale(gemm, m.trained, m.all), flops);
}

void cs_layer_costs(const struct cs_graph *graph, const struct cs_slot_budget *budget,
                    const struct cs_device_class *device, struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++)
        cost_layer(graph, &graph->layers[i], budget, device, &cost[i]);
}
