/* From graph, cluster and profile to the numbers of a search. */
#include "core/search/problem/problem.h"

#include <string.h>

#include "core/base/units.h"
#include "core/model/tensor_parallel.h"
#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/operators.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/experts.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/cost/links/windows.h"
#include "core/plan/cost/stage/zero.h"
#include "core/plan/cost/tensors.h"
#include "core/plan/derive.h"
#include "core/plan/make/planner.h"
#include "core/search/problem/builder.h"

enum { MAX_OPTIONS = 8192 };

/* A tensor that is cut by tp: the matrices of products with the biases of their output columns. Projectors are whole on
 * all ranks. */
static bool is_cut(const struct cs_param *param)
{
    static const bool cut[CS_PARAM_ROLE_COUNT] = {
        [CS_PARAM_EMBED] = true,         [CS_PARAM_Q_W] = true,
        [CS_PARAM_Q_B] = true,           [CS_PARAM_K_W] = true,
        [CS_PARAM_K_B] = true,           [CS_PARAM_V_W] = true,
        [CS_PARAM_V_B] = true,           [CS_PARAM_O_W] = true,
        [CS_PARAM_GATE_W] = true,        [CS_PARAM_GATE_B] = true,
        [CS_PARAM_UP_W] = true,          [CS_PARAM_UP_B] = true,
        [CS_PARAM_DOWN_W] = true,        [CS_PARAM_HEAD_W] = true,
        [CS_PARAM_MIX_QKV_W] = true,     [CS_PARAM_MIX_Z_W] = true,
        [CS_PARAM_MIX_B_W] = true,       [CS_PARAM_MIX_A_W] = true,
        [CS_PARAM_CONV_W] = true,        [CS_PARAM_DT_BIAS] = true,
        [CS_PARAM_A_LOG] = true,         [CS_PARAM_MIX_OUT_W] = true,
        [CS_PARAM_EXPERT_GATE_W] = true, [CS_PARAM_EXPERT_UP_W] = true,
        [CS_PARAM_EXPERT_DOWN_W] = true,
    };
    return cut[param->role];
}

/* Of n elements of a tensor those of a rank: of tables whole words, of the rank with most. */
static int64_t count_of(const struct cs_param *p, int64_t n, int32_t tp)
{
    const bool is_table = p->role == CS_PARAM_EMBED || p->role == CS_PARAM_HEAD_W;
    if (!is_cut(p))
        return n;
    return is_table ? cs_over(p->dim[0], tp) * (n / p->dim[0]) : cs_over(n, tp);
}

/* elements of the tied table on a rank */
static int64_t tied_count(const struct cs_problem_builder *b, int32_t tp, bool is_trained)
{
    const struct cs_param *p = &b->graph->params[b->graph->tied_param];
    return !is_trained || p->is_trainable ? count_of(p, p->count, tp) : 0;
}

static void count_shared(const struct cs_problem_builder *b, int32_t tp,
                         struct cs_search_layer *out)
{
    const struct cs_state_bytes state = cs_state_bytes(b->graph->keeps_bf16, b->device);
    out->weight_bytes = tied_count(b, tp, false) * cs_device_element_bytes(b->device);
    out->n_trained = tied_count(b, tp, true);
    out->grad_bytes = b->graph->keeps_bf16 ? out->n_trained * state.grad : 0;
    out->optim_bytes = out->n_trained * (state.all - state.grad);
}

/* Where ranks share experts an ep-th of them have the same ones: what these divide among themselves, state of the
 * optimizer and its work, is as much as of ep times as many among all ranks. As plans, of the rank with most. */
static void count_bytes(const struct cs_problem_builder *b, const struct cs_layer *layer,
                        int32_t tp, int32_t ep, struct cs_search_layer *out)
{
    int64_t held = 0, trained = 0, divided = 0, weights = 0;
    int element = cs_device_element_bytes(b->device);
    for (int32_t i = layer->first_param; i < layer->first_param + layer->n_params; i++) {
        const struct cs_param *p = &b->graph->params[i];
        const int64_t n = count_of(p, p->count, tp);
        held += n;
        trained += p->is_trainable ? n : 0;
        const int64_t all = cs_param_is_of_expert(p) ? n * (ep > 1 ? ep : 1) : n;
        weights += all;
        divided += p->is_trainable ? all : 0;
    }
    if (b->graph->is_tied && layer->kind == CS_LAYER_HEAD) { /* a copy of the embedding */
        weights += tied_count(b, tp, false);
        held += tied_count(b, tp, false);
        trained += tied_count(b, tp, true);
        divided += tied_count(b, tp, true);
    }
    const bool has_table = b->graph->is_tied &&
                           (layer->kind == CS_LAYER_EMBED || layer->kind == CS_LAYER_HEAD) &&
                           b->graph->modules[layer->module].kind == CS_MODULE_LLM;
    const int64_t table = has_table ? tied_count(b, tp, false) : 0,
                  trained_table = has_table ? tied_count(b, tp, true) : 0;
    const struct cs_state_bytes state = cs_state_bytes(b->graph->keeps_bf16, b->device);
    out->weight_apart = (struct cs_search_apart){table * element, (weights - held) * element};
    out->grad_apart =
        (struct cs_search_apart){trained_table * state.grad, (divided - trained) * state.grad};
    out->weight_bytes = held * element;
    out->n_trained = divided;
    out->grad_bytes = trained * state.grad;
    out->optim_bytes = divided * (state.all - state.grad);
}

/* the device, its link that over which the group talks */
static struct cs_device_class link_of(const struct cs_problem_builder *b,
                                      const struct cs_problem_at *at)
{
    struct cs_device_class d = *b->device;
    if (at->tp * at->cp > b->node) {
        d.link_bytes_per_s = d.net_bytes_per_s;
        d.link_latency_ns = d.net_latency_ns;
        d.measured = NULL; /* between ranks of a node */
    }
    return d;
}

/* Products are shared by tp too; a context does what its rank with most does. As plans have it: rows of ranks that
 * split them are even where they are exchanged. */
static void time_layer(const struct cs_problem_builder *b, const struct cs_layer *layer,
                       const struct cs_problem_at *at, struct cs_search_layer *out)
{
    const struct cs_tensor_ranks ranks = {.tp = at->tp, .splits_rows = at->sp};
    const struct cs_device_class link = link_of(b, at);
    const struct cs_layer_work work = {.tokens = cs_over(at->work.tokens, at->cp),
                                       .pairs = cs_over(at->work.pairs, at->cp),
                                       .label_rows = cs_over(at->work.label_rows, at->cp)};
    const int64_t parts = at->context ? 1 : at->cp,
                  rows = cs_profile_rows(layer, work.tokens, work.label_rows);
    struct cs_layer_cost cost =
        cs_tensor_share(b->profile, b->device, b->graph, layer, rows, ranks, b->cost[layer->id]);
    struct cs_layer_cost fixed = cs_tensor_fixed(b->profile, b->device, b->graph, layer, ranks);
    if (!cs_tensor_picks(b->graph, layer, &work, ranks))
        cost = cs_cost_of_all(b->graph, layer, &work, &fixed, cost);
    if (at->context)
        cs_context_cost(at->context, b->graph, layer, &b->budget, &link, b->profile, ranks, &cost,
                        &fixed);
    cost =
        (struct cs_layer_cost){cs_share_beyond(cost.fwd_ns, fixed.fwd_ns, 1, parts),
                               cs_share_beyond(cost.bwd_input_ns, fixed.bwd_input_ns, 1, parts),
                               cs_share_beyond(cost.bwd_weight_ns, fixed.bwd_weight_ns, 1, parts)};
    struct cs_tensor_layer of = {.graph = b->graph,
                                 .layer = layer,
                                 .device = &link,
                                 .ranks = ranks,
                                 .work = work,
                                 .fixed =
                                     cs_tensor_fixed(b->profile, b->device, b->graph, layer, ranks),
                                 .adds = cs_tensor_adds(b->profile, b->graph, layer, ranks)};
    cs_tensor_add_sums(&of, &cost);
    of.work = (struct cs_layer_work){0};
    of.fixed = fixed;
    cs_tensor_add_sums(&of, &fixed);
    out->fwd_ns = cost.fwd_ns;
    out->bwd_input_ns = cost.bwd_input_ns;
    out->bwd_weight_ns = cost.bwd_weight_ns;
    out->fwd_fixed_ns = fixed.fwd_ns;
    out->bwd_fixed_ns = fixed.bwd_input_ns;
    out->weight_fixed_ns = fixed.bwd_weight_ns;
}

/* rows between the ranks of experts */
static void time_ways(const struct cs_problem_builder *b, const struct cs_layer *layer,
                      struct cs_problem_at at, struct cs_search_layer *out)
{
    const struct cs_arch *arch = cs_layer_arch(b->graph, layer);
    if (at.ep == 1 || layer->kind != CS_LAYER_BLOCK || layer->ffn != CS_FFN_EXPERTS)
        return;
    const int64_t rows = cs_over(at.work.tokens, at.cp);
    at.cp = at.ep > at.cp ? at.ep : at.cp; /* whom they reach */
    const struct cs_device_class link = link_of(b, &at);
    out->fwd_ns += cs_experts_move_ns(arch, rows, CS_EXPERTS_FWD, at.ep, &link);
    if (layer->needs_input_grad || layer->needs_weight_grad)
        out->bwd_input_ns += cs_experts_move_ns(arch, rows, CS_EXPERTS_BWD, at.ep, &link);
}

static void fill_layer(const struct cs_problem_builder *b, const struct cs_layer *layer,
                       struct cs_problem_at at, struct cs_search_layer *out)
{
    at.work = cs_layer_work(b->graph, layer, &b->budget);
    at.rows = at.context ? cs_context_part(at.work.tokens, (int32_t)at.work.tokens, at.cp, 0)
                         : at.work.tokens;
    *out = (struct cs_search_layer){.is_trained = layer->needs_weight_grad,
                                    .needs_input_grad = layer->needs_input_grad,
                                    .is_head = layer->kind == CS_LAYER_HEAD,
                                    .reads_own_rows = cs_layer_reads_own_rows(layer, at.sp, at.cp)};
    time_layer(b, layer, &at, out);
    time_ways(b, layer, at, out);
    int64_t redo = cs_problem_redo_ns(b, layer, &at, out->fwd_ns);
    out->redo_ns = layer->needs_input_grad || layer->needs_weight_grad ? redo : 0;
    out->blind_ns = 3 * out->fwd_ns + redo;
    count_bytes(b, layer, at.tp, at.ep, out);
    cs_problem_count_saved(b, layer, &at, out);
}

/* Of width[i] ranks: heads move, or keys, as the job says, else what takes less, as plans choose; keys with the own ones
 * first where that saves something. */
static void choose_context(const struct cs_problem_builder *b, int32_t branch, int32_t i,
                           struct cs_problem_at *at)
{
    const struct cs_device_class link = link_of(b, at);
    const struct cs_context_slot_costs of = {b->graph, &b->budget, &link, b->cost, b->profile};
    at->context = at->other = NULL;
    if (branch != b->graph->llm || i == 0)
        return;
    const struct cs_context_work *heads = &b->heads[i];
    const struct cs_context_work *keys =
        cs_context_prefers_own_first(&b->keys[i], &of, at->tp) ? &b->own_keys[i] : &b->keys[i];
    at->context = cs_spec_moves_heads(b->spec) ? heads : keys;
    if (!cs_spec_chooses_exchange(b->spec) ||
        !cs_context_heads_divide(b->graph, at->tp, at->cp, NULL))
        return;
    const struct cs_context_way by_keys = cs_context_way_of(keys, &of, at->tp),
                                by_heads = cs_context_way_of(heads, &of, at->tp);
    const bool prefers_heads = cs_context_prefers_heads(&by_keys, &by_heads);
    at->context = prefers_heads ? heads : keys;
    at->other = prefers_heads ? keys : heads;
}

/* The graphs of the rank with most experts of those that share them. */
static void spread_experts(struct cs_problem_builder *b)
{
    const int32_t llm = b->whole->llm;
    b->spread[0] = b->whole;
    for (int32_t i = 1; i < b->n_widths; i++) {
        struct cs_tp tp[CS_MAX_ENCODERS + 1] = {{0}};
        struct cs_tp_view view;
        if (cs_ep_check(b->whole, llm, b->width[i], NULL) != CS_OK)
            continue;
        tp[llm] = (struct cs_tp){.ep = b->width[i], .ep_at = b->width[i] - 1};
        cs_tp_view_make(b->whole, tp, b->arena, &view);
        b->spread[i] = view.graph;
    }
}

static const struct cs_search_layer *fill_layers(const struct cs_problem_builder *b,
                                                 const struct cs_branch *from,
                                                 struct cs_problem_at at)
{
    struct cs_search_layer *layer = CS_NEW_ARRAY(b->arena, struct cs_search_layer, from->n_layers);
    for (int32_t i = 0; i < from->n_layers; i++)
        fill_layer(b, &b->graph->layers[from->first_layer + i], at, &layer[i]);
    return layer;
}

static const struct cs_search_layer *fill_other(const struct cs_problem_builder *b,
                                                const struct cs_branch *from,
                                                struct cs_problem_at at)
{
    at.context = at.other;
    return at.other != NULL ? fill_layers(b, from, at) : NULL;
}

/* of a slot there and back */
static int64_t time_of(const struct cs_search_layer *layer, int32_t n)
{
    int64_t ns = 0;
    for (int32_t i = 0; i < n; i++)
        ns += layer[i].fwd_ns + layer[i].redo_ns + layer[i].bwd_input_ns + layer[i].bwd_weight_ns;
    return ns;
}

/* What a branch can have; those that are slower go behind all others. */
struct options {
    struct cs_search_option *faster, *slower;
    int32_t n_faster, n_slower;
};

static void add_option(const struct cs_problem_builder *b, const struct cs_branch *from,
                       struct cs_problem_at at, const struct cs_search_layer *layer, bool is_slower,
                       struct options *out)
{
    const bool moves_heads = at.context != NULL && at.context->moves_heads;
    struct cs_search_option *o =
        is_slower ? &out->slower[out->n_slower++] : &out->faster[out->n_faster++];
    CS_ASSERT(out->n_faster < MAX_OPTIONS && out->n_slower < MAX_OPTIONS);
    *o = (struct cs_search_option){
        .tp = at.tp,
        .cp = at.cp,
        .ep = at.ep,
        .sp = at.sp,
        .is_slower = is_slower,
        .moves_heads = moves_heads,
        .can = moves_heads ? cs_context_heads_degrees(b->whole, at.tp, at.cp) : 0,
        .recompute = at.recompute,
        .layer = layer,
        .other = fill_other(b, from, at)};
    if (b->whole->is_tied && from->encoder < 0)
        count_shared(b, at.tp, &o->shared);
}

/* Where matrices are shared rows between products are split, which keeps less, unless that takes longer;
 * under every ep that the experts of the branch allow, beside what `at` says */
static void add_spread(const struct cs_problem_builder *b, int32_t branch, struct cs_problem_at at,
                       struct options *out)
{
    const struct cs_branch *from = &b->whole->branches[branch];
    struct cs_problem_builder own = *b;
    for (int32_t s = 0; s < b->n_widths; s++) {
        at.ep = b->width[s];
        if (b->spread[s] == NULL || cs_ep_check(b->whole, branch, at.ep, NULL) != CS_OK)
            continue;
        own.graph = b->spread[s];
        struct cs_problem_at split = at;
        split.sp = true;
        const struct cs_search_layer *whole = fill_layers(&own, from, at);
        const struct cs_search_layer *parts = at.tp > 1 ? fill_layers(&own, from, split) : NULL;
        const bool is_split =
            parts != NULL && time_of(parts, from->n_layers) <= time_of(whole, from->n_layers);
        add_option(&own, from, at, whole, is_split, out);
        if (parts != NULL)
            add_option(&own, from, split, parts, !is_split, out);
    }
}

static void add_options(const struct cs_problem_builder *b, int32_t branch,
                        struct cs_search_branch *out)
{
    const struct cs_branch *from = &b->graph->branches[branch];
    struct options options = {
        .faster = CS_NEW_ARRAY(b->arena, struct cs_search_option, 2 * MAX_OPTIONS),
        .slower = CS_NEW_ARRAY(b->arena, struct cs_search_option, MAX_OPTIONS)};
    const struct cs_problem_at full = {.recompute = CS_RECOMPUTE_FULL};
    bool keeps = false; /* something that can be made again */
    for (int32_t l = from->first_layer; l < from->first_layer + from->n_layers; l++)
        keeps = keeps || cs_problem_dropped(b, &b->graph->layers[l], &full, CS_KEEP_ALL) > 0;
    for (int32_t t = 0; t < b->n_widths; t++) {
        const int32_t tp = b->width[t];
        if (cs_layout_check_tp(b->graph, branch, tp, NULL) != CS_OK)
            continue;
        for (int32_t c = 0; c < b->n_widths && tp * b->width[c] <= b->widest; c++) {
            struct cs_problem_at at = {.tp = tp, .cp = b->width[c]};
            choose_context(b, branch, c, &at);
            for (int r = 0; r < (keeps ? CS_RECOMPUTES : 1); r++) {
                at.recompute = (enum cs_recompute)r;
                add_spread(b, branch, at, &options);
            }
        }
    }
    memcpy(options.faster + options.n_faster, options.slower,
           (size_t)options.n_slower * sizeof *options.slower);
    out->option = options.faster;
    out->n_options = options.n_faster + options.n_slower;
}

/* of the forward FLOPs of a full slot; items that are alike attend alike */
static double quad_share(const struct cs_problem_builder *b, const struct cs_branch *from)
{
    int64_t all = 0, linear = 0;
    if (from->encoder >= 0 && from->has_one_size)
        return 0;
    for (int32_t l = from->first_layer; l < from->first_layer + from->n_layers; l++) {
        const struct cs_layer *layer = &b->graph->layers[l];
        struct cs_layer_work work = cs_layer_work(b->graph, layer, &b->budget);
        all += cs_layer_fwd_flops(b->graph, layer, work.tokens, work.pairs, work.label_rows);
        linear += cs_layer_fwd_flops(b->graph, layer, work.tokens, 0, work.label_rows);
    }
    return all > 0 ? (double)(all - linear) / (double)all : 0;
}

static void add_rows(const struct cs_problem_builder *b, const struct cs_branch *from,
                     struct cs_search_branch *out)
{
    const int element = cs_device_element_bytes(b->device);
    struct cs_search_cut_rows *behind =
        CS_NEW_ARRAY(b->arena, struct cs_search_cut_rows, from->n_layers + 1);
    for (int32_t i = 0; i + 1 < from->n_layers; i++) {
        const struct cs_layer_rows rows =
            cs_layer_rows(b->graph, &b->budget, from->first_layer + i, -1);
        behind[i] = (struct cs_search_cut_rows){rows.rows * rows.width * element, rows.load_bytes,
                                                rows.is_read_whole};
    }
    out->behind = behind;
}

static void add_feeds(const struct cs_problem_builder *b, int32_t branch,
                      struct cs_search_branch *out)
{
    const struct cs_graph *graph = b->graph;
    struct cs_search_feed *feed = CS_NEW_ARRAY(b->arena, struct cs_search_feed, graph->n_feeds + 1);
    for (int32_t f = 0; f < graph->n_feeds; f++)
        if (graph->feeds[f].from == branch)
            feed[out->n_feeds++] = (struct cs_search_feed){
                graph->feeds[f].from_layer - graph->branches[branch].first_layer,
                graph->feeds[f].to_layer - graph->branches[graph->feeds[f].to].first_layer};
    out->feed = feed;
}

static void add_branch(const struct cs_problem_builder *b, int32_t branch,
                       struct cs_search_branch *out)
{
    const struct cs_branch *from = &b->graph->branches[branch];
    const int32_t e = from->encoder;
    const int64_t rows = e < 0 ? b->budget.seq_tokens : b->budget.enc[e].rows;
    const int64_t inner = e < 0 ? rows : b->budget.enc[e].patches;
    const struct cs_layer *first = &b->graph->layers[from->first_layer];
    int element = cs_device_element_bytes(b->device);
    out->name = from->name;
    out->n_layers = from->n_layers;
    out->inner_bytes = inner * cs_layer_arch(b->graph, first)->width * element;
    out->out_bytes =
        e < 0 ? 0 : (int64_t)cs_budget_fills(&b->budget, e) * from->out_width * element;
    out->n_items = e < 0 ? 0 : b->budget.enc[e].items;
    out->rows = rows;
    out->item_rows = e >= 0 && !from->has_one_size ? b->budget.enc[e].item_rows : 0;
    out->quad_share = quad_share(b, from);
    add_rows(b, from, out);
    add_feeds(b, branch, out);
    add_options(b, branch, out);
}

static struct cs_search_optimizer optimizer_of(const struct cs_problem_builder *b)
{
    const bool is_bf16 = b->graph->keeps_bf16;
    struct cs_search_optimizer out = {.state = is_bf16 ? "bf16" : "fp32",
                                      .param_bytes = cs_device_element_bytes(b->device) +
                                                     cs_state_bytes(is_bf16, b->device).all};
    out.source = cs_profile_step(b->profile, is_bf16, &out.step);
    return out;
}

/* of width[i] ranks, both ways to exchange */
static enum cs_status make_context(struct cs_problem_builder *b, int32_t i, struct cs_err *err)
{
    CS_TRY(cs_context_work_make(b->graph, &b->budget, b->spec->context, false, b->width[i],
                                b->arena, &b->keys[i], err));
    b->own_keys[i] = b->keys[i];
    b->own_keys[i].own_first = true;
    return cs_context_work_make(b->graph, &b->budget, b->spec->context, true, b->width[i], b->arena,
                                &b->heads[i], err);
}

static enum cs_status make_contexts(struct cs_problem_builder *b, int32_t n_ranks, uint64_t asked,
                                    struct cs_err *err)
{
    b->n_widths = cs_search_widths(n_ranks, b->node, b->widest, asked, b->width);
    b->keys = CS_NEW_ARRAY(b->arena, struct cs_context_work, b->n_widths);
    b->own_keys = CS_NEW_ARRAY(b->arena, struct cs_context_work, b->n_widths);
    b->heads = CS_NEW_ARRAY(b->arena, struct cs_context_work, b->n_widths);
    for (int32_t i = 1; i < b->n_widths; i++)
        CS_TRY(make_context(b, i, err));
    return CS_OK;
}

enum cs_status cs_search_problem_make(const struct cs_spec *spec, const struct cs_graph *graph,
                                      const struct cs_cluster *cluster,
                                      const struct cs_profile *profile,
                                      const struct cs_search_reach *reach, struct cs_arena *arena,
                                      struct cs_search_problem **out, struct cs_err *err)
{
    struct cs_problem_builder b = {.spec = spec,
                                   .graph = graph,
                                   .whole = graph,
                                   .device = cluster->device,
                                   .profile = profile,
                                   .cuts = CS_NEW(arena, struct cs_problem_cuts),
                                   .arena = arena};
    b.cuts->branch = -1;
    if (graph->n_branches > CS_SEARCH_MAX_BRANCHES)
        return cs_fail(err, CS_PLAN, "the model has %d %s: 1 to %d can be planned",
                       graph->n_branches, CS_NOUN(graph->n_branches, "branch", "branches"),
                       CS_SEARCH_MAX_BRANCHES);
    if ((int64_t)cluster->n_nodes * cluster->devices_per_node > CS_LAYOUT_MAX_RANKS)
        return cs_fail(err, CS_PLAN, "the cluster has more than %d devices", CS_LAYOUT_MAX_RANKS);
    CS_TRY(cs_plan_budget(spec, graph, &b.budget, err));
    b.cost = CS_NEW_ARRAY(arena, struct cs_layer_cost, graph->n_layers);
    cs_layer_costs(graph, &b.budget, cluster->device, b.cost);
    const struct cs_layer *missing; /* keeps its roofline */
    if (profile)
        CS_TRY(cs_measured_layer_costs(spec, graph, &b.budget, cluster->device, profile, b.cost,
                                       &missing, err));
    struct cs_search_problem *problem = CS_NEW(arena, struct cs_search_problem);
    *problem = (struct cs_search_problem){.n_branches = graph->n_branches,
                                          .llm = graph->llm,
                                          .n_ranks = cluster->n_nodes * cluster->devices_per_node,
                                          .ranks_per_node = cluster->devices_per_node,
                                          .mem_bytes = cluster->device->mem_bytes,
                                          .bytes_per_s = cluster->device->bytes_per_s,
                                          .step_fixed_ns =
                                              CS_STEP_OPERATORS * cluster->device->operator_ns,
                                          .link_bytes_per_s = cluster->device->link_bytes_per_s,
                                          .link_latency_ns = cluster->device->link_latency_ns,
                                          .stripes = spec->stripes,
                                          .units = cluster->device->units,
                                          .measured = cluster->device->measured,
                                          .net_bytes_per_s = cluster->device->net_bytes_per_s,
                                          .net_latency_ns = cluster->device->net_latency_ns,
                                          .optimizer = optimizer_of(&b)};
    problem->has_windows = cs_device_has_windows(cluster->device);
    problem->context_rows = spec->context_rows;
    problem->zero_turns = cs_zero_turns(cs_device_element_bytes(cluster->device));
    b.node = cluster->devices_per_node;
    b.widest = reach != NULL && reach->may_leave_node && problem->n_ranks > b.node
                   ? problem->n_ranks
                   : b.node;
    b.widest = b.widest < CS_SEARCH_WIDEST ? b.widest : CS_SEARCH_WIDEST;
    CS_TRY(make_contexts(&b, problem->n_ranks, reach != NULL ? reach->asked : 0, err));
    spread_experts(&b);
    for (int32_t i = 0; i < graph->n_branches; i++)
        add_branch(&b, i, &problem->branch[i]);
    *out = problem;
    return CS_OK;
}
