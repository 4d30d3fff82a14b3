/* Layer costs: a roofline over FLOPs and bytes, and the frozen rule.
 *
 * fwd = max(flops / peak, bytes / bandwidth). Backward is proportional to it by the counts of
 * matrix products: GEMM F : Bd : Bw = 1 : 1 : 1; attention Bd = 2.5 F, Bw = 0 (forward two
 * products, backward five). A layer with weight but without input gradients still pays its internal
 * data gradients, all but that of its first GEMM (Q, K, V of a block; the only one of patches and
 * head). Source: Cornstarch, frozen-aware cost, at the granularity of operators.
 *
 * On top of it every operator takes a time of its own, whatever is its work (basis/operators.h).
 *
 * Approximations: LLM attention follows its rule over a slot that is one document (packing makes it
 * cheaper), half of the text rows carry labels, an embedding look-up is bytes only. */
#include "core/plan/cost/cost.h"

#include <math.h>
#include <string.h>

#include "core/model/placements.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/experts.h"
#include "core/plan/cost/tensors.h"

static const struct cs_profile_ranks one_rank = {.tp = 1, .cp = 1};

struct matrices {
    int64_t all, first,
        trained; /* elements of weight matrices: in all, of the first GEMM, trainable */
};

static bool is_first_gemm(const struct cs_param *param)
{
    const enum cs_param_role role = param->role;
    return role == CS_PARAM_Q_W || role == CS_PARAM_K_W || role == CS_PARAM_V_W ||
           role == CS_PARAM_PATCH_W || (role == CS_PARAM_PROJ_W && param->part == 0) ||
           role == CS_PARAM_HEAD_W;
}

static struct matrices count_matrices(const struct cs_graph *graph, const struct cs_layer *layer)
{
    struct matrices m = {0};
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        if (p->n_dims < 2 || p->role == CS_PARAM_EMBED || p->role == CS_PARAM_POSITION)
            continue;
        m.all += p->count;
        m.first += is_first_gemm(p) ? p->count : 0;
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

static void roofline(const struct cs_graph *graph, const struct cs_layer *layer,
                     const struct cs_slot_budget *budget, const struct cs_device_class *device,
                     struct cs_layer_cost *cost)
{
    struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    int64_t flops = cs_layer_fwd_flops(graph, layer, work.tokens, work.pairs, work.label_rows);
    int64_t gemm = cs_layer_fwd_flops(graph, layer, work.tokens, 0, work.label_rows);
    int64_t bytes = bytes_moved(graph, layer, &work, flops, cs_device_element_bytes(device));
    int64_t math_ns = cs_divide_up((cs_u128)flops * 1000000000u, device->flops);
    int64_t move_ns = cs_divide_up((cs_u128)bytes * 1000000000u, device->bytes_per_s);
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
        data -= cs_scale(gemm, m.first, m.all) < gemm ? cs_scale(gemm, m.first, m.all) : gemm;
    cost->bwd_input_ns = cs_scale(cost->fwd_ns, 2 * data + 5 * (flops - gemm), 2 * flops);
    if (layer->needs_weight_grad)
        cost->bwd_weight_ns = cs_scale(cost->fwd_ns, cs_scale(gemm, m.trained, m.all), flops);
}

static void cost_layer(const struct cs_graph *graph, const struct cs_layer *layer,
                       const struct cs_slot_budget *budget, const struct cs_device_class *device,
                       struct cs_layer_cost *cost)
{
    const struct cs_layer_cost fixed = cs_operators_cost(graph, layer, device);
    roofline(graph, layer, budget, device, cost);
    cost->fwd_ns += fixed.fwd_ns;
    cost->bwd_input_ns += fixed.bwd_input_ns;
    cost->bwd_weight_ns += fixed.bwd_weight_ns;
}

void cs_layer_costs(const struct cs_graph *graph, const struct cs_slot_budget *budget,
                    const struct cs_device_class *device, struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++)
        cost_layer(graph, &graph->layers[i], budget, device, &cost[i]);
}

/* A layer that trains with nothing trainable before it pays the inner part of bwd_input: the same
 * share as in the roofline. */
static int64_t inner_input_ns(const struct cs_graph *graph, const struct cs_layer *layer,
                              const struct cs_slot_budget *budget,
                              const struct cs_device_class *device,
                              const struct cs_profile *profile, int64_t rows)
{
    struct cs_layer passing = *layer;
    struct cs_layer_cost own = {0}, whole = {0}, measured = {0};
    passing.needs_input_grad = true;
    cost_layer(graph, layer, budget, device, &own);
    cost_layer(graph, &passing, budget, device, &whole);
    if (!cs_profile_cost(profile, graph, &passing, one_rank, rows, &measured))
        return 0;
    return cs_scale(measured.bwd_input_ns, own.bwd_input_ns, whole.bwd_input_ns);
}

static enum cs_status check_precision(const struct cs_spec *spec, const struct cs_profile *profile,
                                      const struct cs_device_class *device, struct cs_err *err)
{
    const bool is_cpu = cs_device_element_bytes(device) == 4;
    const char *asked = spec->precision && spec->precision[0] ? spec->precision
                        : is_cpu                              ? "fp32"
                                                              : "bf16";
    if (profile->precision[0] == '\0' || strcmp(profile->precision, asked) == 0)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "the profile was measured in %s, the job computes in %s; measure again with "
                   "'cornstarch-console profile SCRIPT --output FILE', or plan without a profile",
                   profile->precision, asked);
}

enum cs_status cs_measured_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                       const struct cs_slot_budget *budget,
                                       const struct cs_device_class *device,
                                       const struct cs_profile *profile, struct cs_layer_cost *cost,
                                       const struct cs_layer **missing, struct cs_err *err)
{
    *missing = NULL;
    CS_TRY(cs_profile_check(profile, graph, device, err));
    CS_TRY(check_precision(spec, profile, device, err));
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const struct cs_layer_work work = cs_layer_work(graph, layer, budget);
        const int64_t rows = cs_profile_rows(layer, work.tokens, work.label_rows);
        if (!cs_profile_cost(profile, graph, layer, one_rank, rows, &cost[i])) {
            *missing = *missing ? *missing : layer;
            continue;
        }
        if (layer->needs_weight_grad && !layer->needs_input_grad)
            cost[i].bwd_input_ns = inner_input_ns(graph, layer, budget, device, profile, rows);
        const struct cs_layer_cost fixed =
            cs_tensor_fixed(profile, device, graph, layer, (struct cs_tensor_ranks){.tp = 1});
        cost[i] = cs_cost_of_labels(graph, layer, &work, &fixed, cost[i]);
    }
    return CS_OK;
}

static enum cs_status take_profile(const struct cs_spec *spec, const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget,
                                   const struct cs_device_class *device,
                                   const struct cs_profile *profile, struct cs_layer_cost *cost,
                                   struct cs_err *err)
{
    const struct cs_layer *missing;
    CS_TRY(cs_measured_layer_costs(spec, graph, budget, device, profile, cost, &missing, err));
    if (missing == NULL)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "the profile has no costs of %s on one rank; measure again with "
                   "'cornstarch-console profile SCRIPT --output FILE'",
                   missing->path);
}

static int32_t ranks_of(int32_t given)
{
    return given > 1 ? given : 1;
}

/* Ranks that split the rows of the LLM, or share the items of an encoder: on ranks of the LLM all that it does not
 * share its own matrices over. */
static int32_t context_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                             int32_t branch)
{
    const struct cs_placement_info *placement =
        cs_spec_placement(spec, graph->branches[branch].name);
    const struct cs_spec_parallel *own = cs_spec_parallel_of(spec, graph->branches[branch].name);
    const struct cs_spec_parallel *llm =
        cs_spec_parallel_of(spec, graph->branches[graph->llm].name);
    const int32_t tp = own != NULL ? ranks_of(own->tp) : 1;
    if (placement == NULL || placement->has_own_ranks || branch == graph->llm || llm == NULL)
        return own != NULL ? ranks_of(own->cp) : 1;
    return ranks_of(llm->cp) * ranks_of(llm->tp) / tp;
}

/* On ranks of the LLM as many as that has. */
static int32_t replicas_of(const struct cs_spec *spec, const struct cs_graph *graph, int32_t branch)
{
    const struct cs_placement_info *placement =
        cs_spec_placement(spec, graph->branches[branch].name);
    const bool is_own = placement == NULL || placement->has_own_ranks;
    const struct cs_spec_parallel *given =
        cs_spec_parallel_of(spec, graph->branches[is_own ? branch : graph->llm].name);
    const int32_t dp = given != NULL && given->dp > 0 ? given->dp : spec->dp;
    return dp > 1 ? dp : 1;
}

/* Every rank of an encoder has its share of the items, of all slots that lie side by side. */
static void share_items(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_profile *profile,
                        struct cs_layer_cost *cost)
{
    static const struct cs_tensor_ranks one = {.tp = 1};
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_branch *branch = &graph->branches[b];
        const int64_t slots = replicas_of(spec, graph, graph->llm);
        const int64_t parts = (int64_t)context_ranks(spec, graph, b) * replicas_of(spec, graph, b);
        for (int32_t i = branch->first_layer;
             b != graph->llm && i < branch->first_layer + branch->n_layers; i++) {
            const struct cs_layer_cost fixed =
                cs_tensor_fixed(profile, device, graph, &graph->layers[i], one);
            cost[i] = (struct cs_layer_cost){
                cs_share_beyond(cost[i].fwd_ns, fixed.fwd_ns, slots, parts),
                cs_share_beyond(cost[i].bwd_input_ns, fixed.bwd_input_ns, slots, parts),
                cs_share_beyond(cost[i].bwd_weight_ns, fixed.bwd_weight_ns, slots, parts)};
        }
    }
}

/* Measured on ranks that split the rows of a slot, and share matrices as here, or not at all. */
static const struct cs_profile_row *context_row(const struct cs_profile *profile,
                                                const struct cs_graph *graph,
                                                const struct cs_layer *layer, int32_t cp,
                                                struct cs_tensor_ranks ranks)
{
    const struct cs_profile_ranks on = {ranks.tp, cp, ranks.splits_rows && ranks.tp > 1};
    const struct cs_profile_row *row = cs_profile_find(profile, graph, layer, on);
    return row != NULL
               ? row
               : cs_profile_find(profile, graph, layer, (struct cs_profile_ranks){.tp = 1, cp});
}

void cs_context_cost(const struct cs_context_work *work, const struct cs_graph *graph,
                     const struct cs_layer *layer, const struct cs_slot_budget *budget,
                     const struct cs_device_class *device, const struct cs_profile *profile,
                     struct cs_tensor_ranks ranks, struct cs_layer_cost *cost,
                     struct cs_layer_cost *fixed)
{
    const struct cs_layer_work of = cs_layer_work(graph, layer, budget);
    const int64_t rows = cs_profile_rows(layer, of.tokens, of.label_rows);
    const struct cs_profile_row *row =
        work->moves_heads ? NULL : context_row(profile, graph, layer, work->ranks, ranks);
    if (row == NULL) {
        const struct cs_layer_parts parts =
            cs_tensor_parts(profile, device, graph, layer, budget, ranks, cost);
        cs_context_layer_cost(work, graph, layer, &parts, device, ranks.tp, cost, fixed);
        return;
    }
    /* with its exchanges, as it ran */
    const bool is_bf16 = graph->keeps_bf16 && cs_profile_has_bf16(row);
    *fixed = cs_profile_row_fixed(row, layer, is_bf16);
    *cost = cs_profile_row_cost(row, layer, is_bf16, rows);
    if (cs_tensor_picks(graph, layer, &of, ranks))
        *cost = cs_cost_of_labels(graph, layer, &of, fixed, *cost);
    if (row->tp == 1) {
        *cost = cs_tensor_share(profile, device, graph, layer, cs_over(rows, work->ranks), ranks,
                                *cost);
        fixed->fwd_ns /= ranks.tp;
        fixed->bwd_input_ns /= ranks.tp;
        fixed->bwd_weight_ns /= ranks.tp;
    }
}

static struct cs_tensor_ranks tensor_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                                           int32_t branch)
{
    return cs_tensor_ranks_of(spec, graph->branches[branch].name);
}

/* Where keys move: whether attention looks at the own ones first. */
static bool choose_own_first(struct cs_context_work *work, const struct cs_context_slot_costs *of,
                             int32_t tp, struct cs_context_choice *out)
{
    out->own_first = cs_context_prefers_own_first(work, of, tp);
    out->saved_ns = out->own_first ? cs_context_own_first_saves(work, of, tp) : 0;
    return out->own_first;
}

/* keys and heads of both ways, made into work[0], work[1] */
static enum cs_status compare_ways(const struct cs_spec *spec,
                                   const struct cs_context_slot_costs *of, int32_t cp,
                                   struct cs_arena *arena, struct cs_context_work work[2],
                                   struct cs_context_choice *out, struct cs_err *err)
{
    for (int heads = 0; heads < 2; heads++) {
        CS_TRY(cs_context_work_make(of->graph, of->budget, spec->context, heads > 0, cp, arena,
                                    &work[heads], err));
        work[heads].own_first =
            heads == 0 &&
            choose_own_first(&work[0], of, tensor_ranks(spec, of->graph, of->graph->llm).tp, out);
        *(heads > 0 ? &out->heads : &out->keys) =
            cs_context_way_of(&work[heads], of, tensor_ranks(spec, of->graph, of->graph->llm).tp);
    }
    out->moves_heads = cs_context_prefers_heads(&out->keys, &out->heads);
    return CS_OK;
}

/* Both ways are compared as FLOPs, or a profile of one rank, have them: one of more ranks has only what ran. */
static enum cs_status choose_exchange(const struct cs_spec *spec, const struct cs_graph *graph,
                                      const struct cs_slot_budget *budget,
                                      const struct cs_device_class *device,
                                      const struct cs_profile *profile, struct cs_arena *arena,
                                      const struct cs_layer_cost *cost,
                                      struct cs_context_work *work, struct cs_context_choice *out,
                                      struct cs_err *err)
{
    const int32_t cp = context_ranks(spec, graph, graph->llm);
    *out = (struct cs_context_choice){
        .moves_heads = cs_spec_moves_heads(spec),
        .is_open =
            cs_spec_chooses_exchange(spec) &&
            cs_context_heads_divide(graph, tensor_ranks(spec, graph, graph->llm).tp, cp, NULL)};
    const struct cs_context_slot_costs of = {graph, budget, device, cost, profile};
    if (out->is_open) {
        struct cs_context_work both[2];
        CS_TRY(compare_ways(spec, &of, cp, arena, both, out, err));
        *work = both[out->moves_heads];
        out->own_first = work->own_first;
    } else {
        CS_TRY(cs_context_work_make(graph, budget, spec->context, out->moves_heads, cp, arena, work,
                                    err));
        work->own_first =
            choose_own_first(work, &of, tensor_ranks(spec, graph, graph->llm).tp, out);
    }
    return CS_OK;
}

/* What ranks that share a branch, and split its rows or share its items, have of a slot. */
static struct cs_layer_work work_on_rank(const struct cs_spec *spec, const struct cs_graph *graph,
                                         const struct cs_layer *layer,
                                         const struct cs_slot_budget *budget)
{
    struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    const int32_t b = graph->modules[layer->module].branch;
    const bool is_llm = b == graph->llm;
    const int64_t slots = is_llm ? 1 : replicas_of(spec, graph, graph->llm),
                  parts = (int64_t)context_ranks(spec, graph, b) *
                          (is_llm ? 1 : replicas_of(spec, graph, b));
    work.tokens = cs_over(work.tokens * slots, parts);
    work.label_rows = cs_over(work.label_rows, parts);
    work.pairs = cs_scale(work.pairs, slots, parts);
    return work;
}

static void share_tensors(const struct cs_spec *spec, const struct cs_graph *graph,
                          const struct cs_slot_budget *budget, const struct cs_device_class *device,
                          const struct cs_profile *profile, struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const struct cs_tensor_ranks ranks =
            tensor_ranks(spec, graph, graph->modules[layer->module].branch);
        const struct cs_layer_work work = work_on_rank(spec, graph, layer, budget);
        const int64_t rows = cs_profile_rows(layer, work.tokens, work.label_rows);
        cost[i] = cs_tensor_share(profile, device, graph, layer, rows, ranks, cost[i]);
        if (!cs_tensor_picks(graph, layer, &work, ranks)) {
            const struct cs_layer_cost fixed =
                cs_tensor_fixed(profile, device, graph, layer, ranks);
            cost[i] = cs_cost_of_all(graph, layer, &work, &fixed, cost[i]);
        }
    }
}

static void add_sums(const struct cs_spec *spec, const struct cs_graph *graph,
                     const struct cs_slot_budget *budget, const struct cs_device_class *device,
                     const struct cs_profile *profile, struct cs_layer_cost *cost)
{
    for (int32_t i = 0; i < graph->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        const struct cs_tensor_ranks ranks =
            tensor_ranks(spec, graph, graph->modules[layer->module].branch);
        const struct cs_tensor_layer of = {
            .graph = graph,
            .layer = layer,
            .device = device,
            .ranks = ranks,
            .work = work_on_rank(spec, graph, layer, budget),
            .fixed = cs_tensor_fixed(profile, device, graph, layer, ranks),
            .adds = cs_tensor_adds(profile, graph, layer, ranks),
        };
        cs_tensor_add_sums(&of, &cost[i]);
    }
}

/* Over the ranks that share layers, and those of a context: how these exchange is chosen before. */
static enum cs_status share_layers(const struct cs_spec *spec, const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget,
                                   const struct cs_device_class *device,
                                   const struct cs_profile *profile, struct cs_arena *arena,
                                   struct cs_layer_cost *cost, struct cs_context_choice *choice,
                                   struct cs_err *err)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    const bool is_split = context_ranks(spec, graph, graph->llm) > 1;
    struct cs_context_work work;
    struct cs_layer_cost fixed;
    *choice = (struct cs_context_choice){.is_open = false};
    if (is_split)
        CS_TRY(
            choose_exchange(spec, graph, budget, device, profile, arena, cost, &work, choice, err));
    share_tensors(spec, graph, budget, device, profile, cost);
    for (int32_t i = llm->first_layer; is_split && i < llm->first_layer + llm->n_layers; i++)
        cs_context_cost(&work, graph, &graph->layers[i], budget, device, profile,
                        tensor_ranks(spec, graph, graph->llm), &cost[i], &fixed);
    return CS_OK;
}

static enum cs_status whole_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                  const struct cs_slot_budget *budget,
                                  const struct cs_device_class *device, struct cs_arena *arena,
                                  struct cs_layer_cost *cost, const struct cs_profile **out,
                                  struct cs_err *err)
{
    struct cs_profile *profile;
    *out = NULL;
    cs_layer_costs(graph, budget, device, cost);
    CS_TRY(cs_spec_profile(spec, arena, &profile, err));
    const enum cs_status status =
        profile != NULL ? take_profile(spec, graph, budget, device, profile, cost, err) : CS_OK;
    if (status != CS_OK)
        return cs_wrap(err, status, "plan.profile");
    *out = profile;
    return CS_OK;
}

enum cs_status cs_spec_layer_costs(const struct cs_spec *spec, const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget,
                                   const struct cs_device_class *device, struct cs_arena *arena,
                                   struct cs_layer_cost *cost, struct cs_cost_source *out,
                                   struct cs_err *err)
{
    struct cs_cost_source source = {.profile = NULL};
    CS_TRY(whole_costs(spec, graph, budget, device, arena, cost, &source.profile, err));
    share_items(spec, graph, device, source.profile, cost);
    struct cs_arena *scratch = cs_arena_new(0);
    const enum cs_status status = share_layers(spec, graph, budget, device, source.profile, scratch,
                                               cost, &source.context, err);
    cs_arena_free(scratch);
    CS_TRY(status);
    add_sums(spec, graph, budget, device, source.profile, cost);
    cs_spread_experts(spec, graph, budget, device, cost);
    if (out != NULL)
        *out = source;
    return CS_OK;
}
