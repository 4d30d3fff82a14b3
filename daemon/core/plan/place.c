/* Stages, ranks and edges of a plan; see place.h. */
#include "core/plan/place.h"

#include <string.h>

#include "core/plan/costs.h"

int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index)
{
    int32_t own = cuts->n_stages[branch] - index - 1;
    return graph->branches[branch].encoder < 0 ? own : own + cuts->n_stages[graph->n_branches - 1];
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

enum cs_status cs_place_stages(const struct cs_graph *graph, const char *modality,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err)
{
    bool is_colocated = strcmp(modality, "encoder-colocated") == 0;
    if (!is_colocated && strcmp(modality, "encoder-parallel") != 0)
        return cs_fail(err, CS_PLAN,
                       "plan.modality \"%s\" is not known; accepted: encoder-parallel, "
                       "encoder-colocated",
                       modality);
    if (is_colocated)
        CS_TRY(check_colocated(graph, cuts, err));
    for (int32_t b = 0; b < graph->n_branches; b++)
        plan->n_stages += cuts->n_stages[b];
    plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, plan->n_stages);
    int32_t id = 0;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        int32_t layer = graph->branches[b].first_layer;
        for (int32_t s = 0; s < cuts->n_stages[b]; s++, id++) {
            plan->stages[id] = (struct cs_stage){
                .name = cs_arena_printf(arena, "%s.%d", graph->branches[b].name, s),
                .id = id,
                .branch = b,
                .index = s,
                .rank = is_colocated ? s : id,
                .first_layer = layer,
                .n_layers = cuts->sizes[b][s]};
            layer += cuts->sizes[b][s];
            if (plan->stages[id].rank >= plan->n_ranks)
                plan->n_ranks = plan->stages[id].rank + 1;
        }
    }
    return CS_OK;
}

/* the next stage of the branch; an encoder's last stage feeds the first of the llm */
static int32_t consumer_of(const struct cs_graph *graph, const struct cs_plan *plan, int32_t id)
{
    const struct cs_stage *stage = &plan->stages[id];
    if (id + 1 < plan->n_stages && plan->stages[id + 1].branch == stage->branch)
        return id + 1;
    if (graph->branches[stage->branch].encoder < 0)
        return -1;
    for (int32_t i = id + 1; i < plan->n_stages; i++)
        if (plan->stages[i].branch == graph->n_branches - 1)
            return i;
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
    /* fp32 gradient and two moments; below fp32 weights there is an fp32 master as well */
    return (struct cs_layer_bytes){
        .weight = elements * element,
        .state = trained * (element == 4 ? 12 : 16),
        .saved = keeps ? cs_layer_saved_bytes(graph, layer, work.tokens) / 4 * element : 0};
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
            stage->state_bytes += bytes.state;
            stage->saved_bytes += bytes.saved;
        }
    }
}
