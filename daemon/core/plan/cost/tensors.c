/* Runs the products of a layer and the exchanges between its ranks on two streams, and adds what is not hidden. */
#include "core/plan/cost/tensors.h"

#include <math.h>

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/beside.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/cost/links/windows.h"

struct cs_tensor_ranks cs_tensor_ranks_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return (struct cs_tensor_ranks){.tp = given != NULL && given->tp > 1 ? given->tp : 1,
                                    .splits_rows = given != NULL && given->sp};
}

/* ---- exchanges ---- */

/* of no bytes what it waits */
static struct cs_beside exchange(const struct cs_device_class *device, enum cs_link_op op,
                                 int64_t n, int64_t bytes)
{
    if (bytes > 0)
        return cs_exchange_beside(device, op, n, bytes);
    const int64_t waits = cs_exchange_latency_ns(device, op, n);
    return (struct cs_beside){waits, waits, 0};
}

static int64_t row_bytes(const struct cs_tensor_layer *of)
{
    return (int64_t)cs_layer_arch(of->graph, of->layer)->width *
           cs_device_element_bytes(of->device);
}

static struct cs_beside sum_of(const struct cs_tensor_layer *of, int64_t bytes)
{
    return exchange(of->device, CS_LINK_ALL_REDUCE, of->ranks.tp, bytes);
}

/* Rows of one rank; groups that are too large for windows have NCCL's messages. */
static struct cs_beside shift_of(const struct cs_tensor_layer *of)
{
    const int32_t tp = of->ranks.tp;
    const int64_t bytes = cs_over(of->work.tokens, tp) * row_bytes(of);
    return tp <= CS_WINDOW_RANKS ? exchange(of->device, CS_LINK_SHIFT, tp, bytes)
                                 : exchange(of->device, CS_LINK_ALL_TO_ALL, 2, 2 * bytes);
}

/* ---- a pass of a block ---- */

struct pass {
    const struct cs_tensor_layer *of;
    struct cs_lanes lanes;
    int64_t works_ns; /* of products on them */
};

static int64_t begin(struct pass *p, struct cs_beside exchange)
{
    const int64_t number = cs_lanes_exchange(&p->lanes, exchange);
    if (p->of->device->units == 0) /* a host moves rows itself */
        cs_lanes_await(&p->lanes, number);
    return number;
}

static void compute(struct pass *p, int64_t ns)
{
    cs_lanes_compute(&p->lanes, ns);
    p->works_ns += ns;
}

/* part k of n of a product */
static void compute_part(struct pass *p, int64_t ns, int64_t k, int64_t n)
{
    compute(p, ns * (k + 1) / n - ns * k / n);
}

/* rows of all others, in turn; returns the number of the last */
static int64_t begin_gather(struct pass *p)
{
    int64_t last = 0;
    for (int32_t k = 1; k < p->of->ranks.tp; k++)
        last = begin(p, shift_of(p->of));
    return last;
}

static void gather(struct pass *p)
{
    cs_lanes_await(&p->lanes, begin_gather(p));
}

/* a product of the own rows, then of those that come */
static void gather_beside(struct pass *p, int64_t product_ns)
{
    const int32_t n = p->of->ranks.tp;
    const int64_t last = begin_gather(p);
    for (int32_t k = 0; k < n; k++) {
        if (k > 0)
            cs_lanes_await(&p->lanes, last - (n - 1) + k);
        compute_part(p, product_ns, k, n);
    }
}

/* Parts for the others as they are made, the own one last; returns the number of the last that goes. */
static int64_t send_beside(struct pass *p, int64_t product_ns)
{
    const int32_t n = p->of->ranks.tp;
    int64_t last = 0;
    for (int32_t k = 0; k < n; k++) {
        compute_part(p, product_ns, k, n);
        if (k < n - 1)
            last = begin(p, shift_of(p->of));
    }
    return last;
}

/* Parts that have come are read, added to the own rows and written. */
static void finish_sum(struct pass *p, int64_t last)
{
    const struct cs_tensor_layer *of = p->of;
    const int32_t tp = of->ranks.tp;
    const int64_t bytes = 3 * cs_over(of->work.tokens, tp) * row_bytes(of);
    cs_lanes_await(&p->lanes, last);
    if (!of->adds)
        p->lanes.now_ns += (double)cs_divide_up((cs_u128)bytes * (cs_u128)(tp - 1) * 1000000000u,
                                                of->device->bytes_per_s);
}

/* A product in groups of rows, the sum of one beside the product of the next. */
static void sum_in_groups(struct pass *p, int64_t rows, int64_t product_ns)
{
    const int64_t bytes = rows * row_bytes(p->of),
                  most = product_ns > 0 && p->of->device->units > 0 ? CS_TENSORS_GROUPS : 1,
                  worth = bytes / CS_TENSORS_GROUP_BYTES;
    const int64_t n = worth < 1 ? 1 : worth < most ? worth : most;
    int64_t last = 0;
    for (int64_t i = 0; i < n; i++) {
        compute_part(p, product_ns, i, n);
        last = begin(p, sum_of(p->of, bytes / n));
    }
    cs_lanes_await(&p->lanes, last);
}

/* What products at the edges of a half take, forward and their gradients. */
struct products {
    int64_t rows; /* that they look at */
    int64_t first, second, first_data, second_data, first_weight;
};

static int64_t beyond(int64_t ns, int64_t fixed)
{
    return ns > fixed ? ns - fixed : 0;
}

/* Rows that are not split, before the head: those with a label. */
static int64_t ffn_rows(const struct cs_tensor_layer *of)
{
    const struct cs_layer_work *work = &of->work;
    return cs_tensor_picks(of->graph, of->layer, work, of->ranks) ? work->label_rows : work->tokens;
}

/* Data gradients of attention are 5/2 of what is made between products (core/plan/cost/cost.c). */
static struct products products_of(const struct cs_tensor_layer *of,
                                   const struct cs_layer_cost *cost, int half)
{
    const int64_t rows = of->work.tokens, of_ffn = ffn_rows(of),
                  own = half == CS_BLOCK_FFN ? of_ffn : rows;
    const struct cs_half_products p = cs_layer_products(of->graph, of->layer, half, own);
    const int64_t all = cs_layer_fwd_flops(of->graph, of->layer, rows, of->work.pairs, of_ffn),
                  gemm = cs_layer_fwd_flops(of->graph, of->layer, rows, 0, of_ffn),
                  data = 2 * gemm + 5 * (all - gemm);
    const int64_t fwd = beyond(cost->fwd_ns, of->fixed.fwd_ns),
                  input = beyond(cost->bwd_input_ns, of->fixed.bwd_input_ns),
                  weight = beyond(cost->bwd_weight_ns, of->fixed.bwd_weight_ns);
    return (struct products){.rows = own,
                             .first = cs_scale(fwd, p.first, all),
                             .second = cs_scale(fwd, p.second, all),
                             .first_data = cs_scale(input, 2 * p.first, data),
                             .second_data = cs_scale(input, 2 * p.second, data),
                             .first_weight = cs_scale(weight, p.first, gemm)};
}

static void half_fwd(struct pass *p, const struct products *of)
{
    if (!p->of->ranks.splits_rows) {
        sum_in_groups(p, of->rows, of->second);
        return;
    }
    gather_beside(p, of->first);
    finish_sum(p, send_beside(p, of->second));
}

static void half_bwd(struct pass *p, const struct products *of)
{
    const bool trains = p->of->layer->needs_weight_grad;
    if (!p->of->ranks.splits_rows) {
        sum_in_groups(p, of->rows, of->first_data);
        return;
    }
    gather_beside(p, of->second_data);
    const int64_t again = trains ? begin_gather(p) : 0, last = send_beside(p, of->first_data);
    if (trains) {
        cs_lanes_await(&p->lanes, again);
        compute(p, of->first_weight);
    }
    finish_sum(p, last);
}

/* ---- rows that are split, at other layers ---- */

static bool is_fed(const struct cs_graph *graph, int32_t layer)
{
    for (int32_t f = 0; f < graph->n_feeds; f++)
        if (graph->feeds[f].to_layer == layer)
            return true;
    return false;
}

/* Rows go on as they are split between two layers of a branch, of which the second one is given. */
static bool stay_split(const struct cs_graph *graph, int32_t layer)
{
    if (layer < 1 || layer >= graph->n_layers)
        return false;
    const struct cs_layer *a = &graph->layers[layer - 1], *b = &graph->layers[layer];
    return a->kind == CS_LAYER_BLOCK && b->kind == CS_LAYER_BLOCK && a->module == b->module &&
           !is_fed(graph, layer);
}

/* ---- layers ---- */

/* what a pass takes beside the products that it has anyway */
static int64_t added_ns(const struct pass *p)
{
    return llround(p->lanes.now_ns) - p->works_ns;
}

static void add_to_block(const struct cs_tensor_layer *of, struct cs_layer_cost *cost)
{
    const bool has_backward = of->layer->needs_input_grad || of->layer->needs_weight_grad,
               is_split = of->ranks.splits_rows;
    struct pass fwd = {.of = of}, bwd = fwd;
    for (int i = 0; i < CS_BLOCK_HALVES; i++) {
        const struct products p = products_of(of, cost, i);
        half_fwd(&fwd, &p);
        if (has_backward)
            half_bwd(&bwd, &p);
    }
    if (is_split && !stay_split(of->graph, of->layer->id + 1))
        gather(&fwd);
    if (is_split && of->layer->needs_input_grad && !stay_split(of->graph, of->layer->id))
        gather(&bwd);
    cost->fwd_ns += added_ns(&fwd);
    cost->bwd_input_ns += added_ns(&bwd);
}

static void add_to_head(const struct cs_tensor_layer *of, struct cs_layer_cost *cost)
{
    const bool has_backward = of->layer->needs_input_grad || of->layer->needs_weight_grad;
    cost->fwd_ns += exchange(of->device, CS_LINK_SHIFT, of->ranks.tp, 0).alone_ns;
    if (has_backward)
        cost->fwd_ns += sum_of(of, of->work.label_rows * row_bytes(of)).alone_ns;
}

/* A look-up writes all rows, whoever has the word. */
static void add_to_words(const struct cs_tensor_layer *of, struct cs_layer_cost *cost)
{
    if (cs_layer_arch(of->graph, of->layer)->kind == CS_MODULE_LLM)
        cost->fwd_ns += sum_of(of, of->work.tokens * row_bytes(of)).alone_ns;
}

static void (*const adders[CS_LAYER_KINDS])(const struct cs_tensor_layer *of,
                                            struct cs_layer_cost *cost) = {
    [CS_LAYER_EMBED] = add_to_words,
    [CS_LAYER_BLOCK] = add_to_block,
    [CS_LAYER_HEAD] = add_to_head,
};

void cs_tensor_add_sums(const struct cs_tensor_layer *of, struct cs_layer_cost *cost)
{
    if (of->ranks.tp > 1 && adders[of->layer->kind] != NULL)
        adders[of->layer->kind](of, cost);
}
