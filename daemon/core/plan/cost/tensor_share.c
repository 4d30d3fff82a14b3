/* Divides times of layers over the ranks that share them, as they were measured where they were. */
#include "core/plan/cost/tensor_share.h"

#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/basis/round.h"

bool cs_tensor_divides(const struct cs_layer *layer)
{
    return layer->kind == CS_LAYER_BLOCK || layer->kind == CS_LAYER_HEAD;
}

static const struct cs_profile_row *row_of(const struct cs_profile *profile,
                                           const struct cs_graph *graph,
                                           const struct cs_layer *layer,
                                           struct cs_tensor_ranks ranks)
{
    const struct cs_profile_ranks split = {.tp = ranks.tp, .cp = 1, .sp = true},
                                  plain = {.tp = ranks.tp, .cp = 1};
    const struct cs_profile_row *row =
        ranks.splits_rows && ranks.tp > 1 ? cs_profile_find(profile, graph, layer, split) : NULL;
    return row != NULL ? row : cs_profile_find(profile, graph, layer, plain);
}

static struct cs_tensor_ranks dividing(const struct cs_layer *layer, struct cs_tensor_ranks ranks)
{
    return cs_tensor_divides(layer) ? ranks : (struct cs_tensor_ranks){.tp = 1};
}

static int64_t share(int64_t whole, int64_t shared, int64_t alone, int64_t fixed, int32_t tp)
{
    return shared > 0 && alone > 0 ? cs_scale(whole, shared, alone)
                                   : cs_share_beyond(whole, fixed, 1, tp);
}

struct cs_layer_cost cs_tensor_share(const struct cs_profile *profile,
                                     const struct cs_device_class *device,
                                     const struct cs_graph *graph, const struct cs_layer *layer,
                                     int64_t rows, struct cs_tensor_ranks ranks,
                                     struct cs_layer_cost whole)
{
    struct cs_layer_cost shared = {0}, alone = {0}, fixed = {0};
    ranks = dividing(layer, ranks);
    if (ranks.tp < 2)
        return whole;
    const struct cs_profile_row *of = row_of(profile, graph, layer, ranks),
                                *one =
                                    row_of(profile, graph, layer, (struct cs_tensor_ranks){1, 0});
    if (of != NULL && one != NULL) {
        const bool is_bf16 =
            graph->keeps_bf16 && cs_profile_has_bf16(of) && cs_profile_has_bf16(one);
        struct cs_layer passing = *layer; /* data gradients inside of the first that trains */
        passing.needs_input_grad |= whole.bwd_input_ns > 0;
        shared = cs_profile_row_cost(of, &passing, is_bf16, rows);
        alone = cs_profile_row_cost(one, &passing, is_bf16, rows);
    }
    if (one == NULL)
        fixed = cs_operators_cost(graph, layer, device);
    return (struct cs_layer_cost){
        share(whole.fwd_ns, shared.fwd_ns, alone.fwd_ns, fixed.fwd_ns, ranks.tp),
        share(whole.bwd_input_ns, shared.bwd_input_ns, alone.bwd_input_ns, fixed.bwd_input_ns,
              ranks.tp),
        share(whole.bwd_weight_ns, shared.bwd_weight_ns, alone.bwd_weight_ns, fixed.bwd_weight_ns,
              ranks.tp)};
}

bool cs_tensor_adds(const struct cs_profile *profile, const struct cs_graph *graph,
                    const struct cs_layer *layer, struct cs_tensor_ranks ranks)
{
    const struct cs_profile_row *row = row_of(profile, graph, layer, ranks);
    return row != NULL && row->sp;
}

/* What is left beside a fixed part of a time has the parts that it had. */
static struct cs_time_parts beside_fixed(struct cs_time_parts parts, int64_t fixed, int64_t all)
{
    const double share = all > 0 && fixed < all ? (double)fixed / (double)all : 1;
    return (struct cs_time_parts){.pairs = parts.pairs * (1 - share), .fixed = share};
}

static struct cs_layer_parts with_operators(struct cs_layer_parts parts,
                                            const struct cs_layer_cost *fixed,
                                            const struct cs_layer_cost *cost)
{
    return (struct cs_layer_parts){
        .fwd = beside_fixed(parts.fwd, fixed->fwd_ns, cost->fwd_ns),
        .bwd_input = beside_fixed(parts.bwd_input, fixed->bwd_input_ns, cost->bwd_input_ns),
        .bwd_weight = beside_fixed(parts.bwd_weight, fixed->bwd_weight_ns, cost->bwd_weight_ns)};
}

struct cs_layer_parts cs_tensor_parts(const struct cs_profile *profile,
                                      const struct cs_device_class *device,
                                      const struct cs_graph *graph, const struct cs_layer *layer,
                                      const struct cs_slot_budget *budget,
                                      struct cs_tensor_ranks ranks,
                                      const struct cs_layer_cost *cost)
{
    const struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    const struct cs_profile_row *row = row_of(profile, graph, layer, dividing(layer, ranks));
    if (row == NULL)
        row = row_of(profile, graph, layer, (struct cs_tensor_ranks){.tp = 1});
    if (row == NULL) {
        const struct cs_layer_cost fixed = cs_operators_cost(graph, layer, device);
        return with_operators(cs_layer_parts(graph, layer, budget), &fixed, cost);
    }
    return cs_profile_parts(row, layer, cs_profile_rows(layer, work.tokens, work.label_rows),
                            graph->keeps_bf16 && cs_profile_has_bf16(row));
}

struct cs_layer_cost cs_tensor_fixed(const struct cs_profile *profile,
                                     const struct cs_device_class *device,
                                     const struct cs_graph *graph, const struct cs_layer *layer,
                                     struct cs_tensor_ranks ranks)
{
    int32_t tp = 1;
    ranks = dividing(layer, ranks);
    const struct cs_profile_row *row = row_of(profile, graph, layer, ranks);
    if (row == NULL) {
        row = row_of(profile, graph, layer, (struct cs_tensor_ranks){.tp = 1});
        tp = ranks.tp;
    }
    if (row == NULL)
        return cs_operators_cost(graph, layer, device);
    const struct cs_layer_cost fixed =
        cs_profile_row_fixed(row, layer, graph->keeps_bf16 && cs_profile_has_bf16(row));
    return (struct cs_layer_cost){fixed.fwd_ns / tp, fixed.bwd_input_ns / tp,
                                  fixed.bwd_weight_ns / tp};
}

/* FLOPs of a block's products of rows, its ffn over so many of them */
static int64_t products(const struct cs_graph *graph, const struct cs_layer *layer,
                        const struct cs_layer_work *work, int64_t ffn_rows)
{
    return cs_layer_fwd_flops(graph, layer, work->tokens, 0, ffn_rows);
}

/* from an ffn over some rows to one over others */
static struct cs_layer_cost with_rows(const struct cs_graph *graph, const struct cs_layer *layer,
                                      const struct cs_layer_work *work,
                                      const struct cs_layer_cost *fixed, struct cs_layer_cost cost,
                                      int64_t from, int64_t to)
{
    const int64_t was = products(graph, layer, work, from), is = products(graph, layer, work, to),
                  pairs = cs_layer_fwd_flops(graph, layer, 0, work->pairs, 0);
    return (struct cs_layer_cost){
        cs_share_beyond(cost.fwd_ns, fixed->fwd_ns, is + pairs, was + pairs),
        cs_share_beyond(cost.bwd_input_ns, fixed->bwd_input_ns, 2 * is + 5 * pairs,
                        2 * was + 5 * pairs),
        cs_share_beyond(cost.bwd_weight_ns, fixed->bwd_weight_ns, is, was)};
}

static int64_t labels_of(const struct cs_layer_work *work)
{
    return work->label_rows < work->tokens ? work->label_rows : work->tokens;
}

bool cs_tensor_picks(const struct cs_graph *graph, const struct cs_layer *layer,
                     const struct cs_layer_work *work, struct cs_tensor_ranks ranks)
{
    const struct cs_arch *arch = cs_layer_arch(graph, layer);
    return cs_layer_feeds_head(graph, layer) && !(ranks.splits_rows && ranks.tp > 1) &&
           cs_layer_picks(arch, arch->ffn_width / ranks.tp, work->tokens, labels_of(work));
}

struct cs_layer_cost cs_cost_of_labels(const struct cs_graph *graph, const struct cs_layer *layer,
                                       const struct cs_layer_work *work,
                                       const struct cs_layer_cost *fixed, struct cs_layer_cost cost)
{
    return cs_layer_feeds_head(graph, layer)
               ? with_rows(graph, layer, work, fixed, cost, work->tokens, labels_of(work))
               : cost;
}

struct cs_layer_cost cs_cost_of_all(const struct cs_graph *graph, const struct cs_layer *layer,
                                    const struct cs_layer_work *work,
                                    const struct cs_layer_cost *fixed, struct cs_layer_cost cost)
{
    return cs_layer_feeds_head(graph, layer)
               ? with_rows(graph, layer, work, fixed, cost, labels_of(work), work->tokens)
               : cost;
}
