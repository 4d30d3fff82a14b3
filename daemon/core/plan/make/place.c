/* Stages, ranks and edges of a plan; see place.h. */
#include "core/plan/make/place.h"

#include <string.h>

#include "core/plan/cost/costs.h"

int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index)
{
    int32_t own = cuts->n_stages[branch] - index - 1;
    return graph->branches[branch].encoder < 0 ? own : own + cuts->n_stages[graph->n_branches - 1];
}

static const char *const modalities[] = {"encoder-parallel", "encoder-colocated",
                                         "encoder-replicated", "encoder-first"};

enum cs_status cs_placing_make(const char *modality, const struct cs_schedule_info *schedule,
                               struct cs_placing *out, struct cs_err *err)
{
    /* by layout of the schedule */
    static const enum cs_modality fits[] = {
        [CS_LAYOUT_CHUNKS] = CS_MODALITY_PARALLEL, [CS_LAYOUT_COLOCATED] = CS_MODALITY_COLOCATED};

    size_t m = 0;
    while (m < CS_ARRAY_LEN(modalities) && strcmp(modality, modalities[m]) != 0)
        m++;
    if (m == CS_ARRAY_LEN(modalities))
        return cs_fail(err, CS_PLAN,
                       "plan.modality \"%s\" is not known; accepted: encoder-parallel, "
                       "encoder-colocated, encoder-replicated, encoder-first",
                       modality);
    *out = (struct cs_placing){(enum cs_modality)m, schedule,
                               schedule->layout == CS_LAYOUT_CHUNKS ? CS_PLAN_CHUNKS : 1};
    if (schedule->layout != CS_LAYOUT_STAGES && out->modality != fits[schedule->layout])
        return cs_fail(err, CS_PLAN,
                       "schedule %s (%s) does not go with modality %s; choose %s, or schedule "
                       "1f1b, gpipe or zb-h1",
                       schedule->name, schedule->help, modality,
                       modalities[fits[schedule->layout]]);
    return CS_OK;
}

bool cs_placing_copies(const struct cs_placing *placing)
{
    return placing->modality == CS_MODALITY_REPLICATED ||
           placing->schedule->layout == CS_LAYOUT_COLOCATED;
}

static enum cs_status check_copies(const struct cs_graph *graph, const struct cs_placing *placing,
                                   const struct cs_cuts *cuts, struct cs_err *err)
{
    for (int32_t b = 0; b + 1 < graph->n_branches; b++)
        if (cuts->n_stages[b] != 1)
            return cs_fail(err, CS_PLAN,
                           "%s under %s puts a whole copy of %s on each rank of %s, but it has pp "
                           "= %d; set plan.parallel.%s.pp = 1",
                           modalities[placing->modality], placing->schedule->name,
                           graph->branches[b].name, graph->branches[graph->n_branches - 1].name,
                           cuts->n_stages[b], graph->branches[b].name);
    if (graph->n_branches == 1)
        return cs_fail(err, CS_PLAN,
                       "%s under %s copies encoders to the ranks of the LLM, and the model has "
                       "none; choose encoder-parallel with 1f1b",
                       modalities[placing->modality], placing->schedule->name);
    return CS_OK;
}

static enum cs_status check_colocated(const struct cs_graph *graph, const struct cs_cuts *cuts,
                                      struct cs_err *err)
{
    int32_t llm = graph->n_branches - 1;
    for (int32_t b = 0; b < llm; b++)
        if (cuts->n_stages[b] != cuts->n_stages[llm])
            return cs_fail(
                err, CS_PLAN,
                "encoder-colocated puts stage s of every branch on rank s, but %s has pp "
                "= %d and %s has pp = %d; give all branches the same pp, or choose "
                "encoder-parallel",
                graph->branches[b].name, cuts->n_stages[b], graph->branches[llm].name,
                cuts->n_stages[llm]);
    return CS_OK;
}

static enum cs_status check_first(const struct cs_graph *graph, const struct cs_cuts *cuts,
                                  struct cs_err *err)
{
    for (int32_t b = 0; b + 1 < graph->n_branches; b++)
        if (cuts->n_stages[b] != 1)
            return cs_fail(
                err, CS_PLAN,
                "encoder-first puts all of %s on the first rank of the LLM, but it has pp "
                "= %d; set plan.parallel.%s.pp = 1, or choose encoder-parallel",
                graph->branches[b].name, cuts->n_stages[b], graph->branches[b].name);
    return CS_OK;
}

/* one stage of a branch, its layers first .. first + n */
static struct cs_stage *add_stage(struct cs_plan *plan, const struct cs_graph *graph, int32_t b,
                                  int32_t index, int32_t rank, struct cs_arena *arena)
{
    struct cs_stage *stage = &plan->stages[plan->n_stages];
    *stage =
        (struct cs_stage){.name = cs_arena_printf(arena, "%s.%d", graph->branches[b].name, index),
                          .id = plan->n_stages++,
                          .branch = b,
                          .index = index,
                          .rank = rank};
    if (rank >= plan->n_ranks)
        plan->n_ranks = rank + 1;
    return stage;
}

static void place_copies(const struct cs_graph *graph, int32_t b, int32_t copies,
                         struct cs_arena *arena, struct cs_plan *plan)
{
    for (int32_t r = 0; r < copies; r++) {
        struct cs_stage *stage = add_stage(plan, graph, b, r, r, arena);
        stage->first_layer = graph->branches[b].first_layer;
        stage->n_layers = graph->branches[b].n_layers;
        stage->copies = copies;
    }
}

static void place_cut(const struct cs_graph *graph, const struct cs_placing *placing,
                      const struct cs_cuts *cuts, int32_t b, int32_t base, struct cs_arena *arena,
                      struct cs_plan *plan)
{
    int32_t layer = graph->branches[b].first_layer;
    int32_t ranks =
        b == graph->n_branches - 1 ? cuts->n_stages[b] / placing->chunks : cuts->n_stages[b];
    for (int32_t s = 0; s < cuts->n_stages[b]; s++) {
        struct cs_stage *stage = add_stage(plan, graph, b, s, base + s % ranks, arena);
        stage->first_layer = layer;
        stage->n_layers = cuts->sizes[b][s];
        layer += stage->n_layers;
    }
}

static void place_shares(const struct cs_graph *graph, int32_t copies, struct cs_arena *arena,
                         struct cs_plan *plan)
{
    struct cs_slot_share *share = CS_NEW_ARRAY(arena, struct cs_slot_share, plan->n_stages);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (graph->branches[plan->stages[s].branch].encoder >= 0)
            share[s] = (struct cs_slot_share){copies, plan->stages[s].index};
    plan->share = share;
}

enum cs_status cs_place_stages(const struct cs_graph *graph, const struct cs_placing *placing,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err)
{
    int32_t llm = graph->n_branches - 1, p = cuts->n_stages[llm] / placing->chunks, n = 0;
    bool has_copies = cs_placing_copies(placing);
    if (has_copies)
        CS_TRY(check_copies(graph, placing, cuts, err));
    else if (placing->modality == CS_MODALITY_COLOCATED)
        CS_TRY(check_colocated(graph, cuts, err));
    else if (placing->modality == CS_MODALITY_FIRST)
        CS_TRY(check_first(graph, cuts, err));
    for (int32_t b = 0; b < graph->n_branches; b++)
        n += has_copies && b < llm ? p : cuts->n_stages[b];
    plan->n_stages = plan->n_ranks = 0;
    plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, n);
    for (int32_t b = 0; b < graph->n_branches; b++) {
        bool is_own = placing->modality == CS_MODALITY_PARALLEL;
        if (has_copies && b < llm)
            place_copies(graph, b, p, arena, plan);
        else
            place_cut(graph, placing, cuts, b, is_own ? plan->n_ranks : 0, arena, plan);
    }
    if (placing->schedule->layout == CS_LAYOUT_COLOCATED)
        place_shares(graph, p, arena, plan);
    return CS_OK;
}

/* the next stage of the branch; an encoder's last stage feeds the first of the llm, and so does
 * every copy that shares the slots; a copy that runs all of them feeds the stage on its rank */
static int32_t consumer_of(const struct cs_graph *graph, const struct cs_plan *plan, int32_t id)
{
    const struct cs_stage *stage = &plan->stages[id];
    bool is_copy = stage->copies > 1;
    if (!is_copy && id + 1 < plan->n_stages && plan->stages[id + 1].branch == stage->branch)
        return id + 1;
    if (graph->branches[stage->branch].encoder < 0)
        return -1;
    for (int32_t i = id + 1; i < plan->n_stages; i++)
        if (plan->stages[i].branch == graph->n_branches - 1)
            return is_copy && !plan->share ? i + stage->index : i;
    return -1;
}

/* something trainable at or above the end of the stage, within its branch or what feeds it */
static bool trains_upstream(const struct cs_graph *graph, const struct cs_plan *plan, int32_t id)
{
    const struct cs_stage *stage = &plan->stages[id];
    bool is_llm = graph->branches[stage->branch].encoder < 0;
    int32_t first = is_llm ? 0 : graph->branches[stage->branch].first_layer;
    for (int32_t l = first; l < stage->first_layer + stage->n_layers; l++)
        if (graph->layers[l].needs_weight_grad)
            return true;
    return false;
}

static int64_t edge_rows(const struct cs_graph *graph, const struct cs_plan *plan, int32_t from)
{
    int32_t encoder = graph->branches[plan->stages[from].branch].encoder;
    return encoder < 0 ? plan->budget.seq_tokens : plan->budget.enc[encoder].rows;
}

static void derive_edges(const struct cs_graph *graph, struct cs_plan *plan)
{
    plan->n_edges = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        int32_t to = consumer_of(graph, plan, s);
        if (to < 0)
            continue;
        const struct cs_stage *stage = &plan->stages[s];
        const struct cs_layer *last = &graph->layers[stage->first_layer + stage->n_layers - 1];
        plan->edges[plan->n_edges] =
            (struct cs_edge){.id = plan->n_edges,
                             .from = s,
                             .to = to,
                             .width = graph->modules[last->module].arch.width,
                             .has_grad = trains_upstream(graph, plan, s),
                             .max_rows = edge_rows(graph, plan, s)};
        plan->n_edges++;
    }
}

/* Replicas share a table in equal parts of whole units, the last of which are shorter or empty
 * (worker/model/params.c). */
static int64_t tied_part(const struct cs_graph *graph, int dp)
{
    enum { UNIT = 16 };

    const int64_t n = graph->params[graph->tied_param].count, all = (int64_t)UNIT * dp;
    const int64_t part = (n + all - 1) / all * UNIT;
    return part < n ? part : n;
}

void cs_place_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan)
{
    plan->edges = CS_NEW_ARRAY(arena, struct cs_edge, plan->n_stages);
    derive_edges(graph, plan);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        stage->needs_input_grad = false;
        stage->has_backward = false;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
            if (graph->layers[l].needs_weight_grad || graph->layers[l].needs_input_grad)
                stage->has_backward = true;
    }
    for (int32_t e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].has_grad) {
            plan->stages[plan->edges[e].to].needs_input_grad = true;
            plan->stages[plan->edges[e].to].has_backward = true;
        }
    plan->head_stage = plan->n_stages - 1;
    plan->embed_stage = plan->head_stage;
    for (int32_t s = plan->n_stages - 1; s >= 0; s--)
        if (plan->stages[s].branch == graph->n_branches - 1)
            plan->embed_stage = s;
    plan->is_tied_across = graph->is_tied && plan->embed_stage != plan->head_stage;
    plan->tied_bytes = 0;
    if (plan->is_tied_across && graph->params[graph->tied_param].is_trainable)
        plan->tied_bytes = tied_part(graph, cs_plan_replicas(plan)) * (graph->keeps_bf16 ? 2 : 4);
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
        .saved = keeps ? cs_layer_saved_bytes(graph, layer, work.tokens) / 4 * element : 0};
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

/* On one rank the tied head reads the embedding's weights, which are updated once; fp32 gradients
 * are two (worker/model/params.h). */
static void share_tied(const struct cs_graph *graph, const struct cs_device_class *device,
                       struct cs_plan *plan)
{
    struct cs_stage *head = &plan->stages[plan->head_stage];
    if (!graph->is_tied || plan->stages[plan->embed_stage].rank != head->rank)
        return;
    const struct cs_param *table = &graph->params[graph->tied_param];
    const struct cs_state_bytes bytes = cs_state_bytes(graph->keeps_bf16, device);
    head->weight_bytes -= table->count * cs_device_element_bytes(device);
    if (table->is_trainable)
        head->state_bytes -=
            cs_replica_state(table->count * bytes.all, graph->keeps_bf16, device, plan->dp) -
            (graph->keeps_bf16 ? 0 : table->count * bytes.grad);
}

void cs_place_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                    const struct cs_layer_cost *cost, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
            struct cs_layer_bytes bytes =
                cs_layer_bytes(graph, &graph->layers[l], &plan->budget, device);
            stage->fwd_ns += cost[l].fwd_ns;
            stage->bwd_input_ns += cost[l].bwd_input_ns;
            stage->bwd_weight_ns += cost[l].bwd_weight_ns;
            stage->weight_bytes += bytes.weight;
            stage->state_bytes +=
                cs_replica_state(bytes.state, graph->keeps_bf16, device, plan->dp);
            stage->saved_bytes += bytes.saved;
        }
    }
    share_tied(graph, device, plan);
}
