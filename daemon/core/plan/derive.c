/* What follows from the stages of a plan: the edges between them, which of them have a backward, and
 * the stages that share a tied embedding. */
#include "core/plan/derive.h"

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

void cs_plan_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan)
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
