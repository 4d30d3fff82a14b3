/* What follows from the stages of a plan: the edges between them, which of them have a backward,
 * and the stages that share a tied embedding. */
#include "core/plan/derive.h"

#include "core/plan/context.h"

static bool has_layer(const struct cs_stage *stage, int32_t layer)
{
    return layer >= stage->first_layer && layer < stage->first_layer + stage->n_layers;
}

/* Who takes in what the stage feeds: the stage with that layer, -1: none. A copy that runs all
 * slots feeds the stage on its rank, of which those use its rows that have the layer. */
static int32_t fed_stage(const struct cs_plan *plan, const struct cs_stage *from,
                         const struct cs_feed *feed)
{
    const bool is_shared = plan->share != NULL && plan->share[from->id].n > 0;
    const bool is_own = from->copies > 1 && !is_shared;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].branch == feed->to &&
            (is_own ? plan->stages[s].rank == from->rank
                    : has_layer(&plan->stages[s], feed->to_layer)))
            return s;
    return -1;
}

/* how wide the rows are that leave the stage, or go through the feed */
static int32_t width_of(const struct cs_graph *graph, const struct cs_layer *last, int32_t feed)
{
    return feed >= 0 ? graph->feeds[feed].width : graph->modules[last->module].arch.width;
}

/* that leave the layer */
static int64_t most_rows(const struct cs_graph *graph, const struct cs_item_budget *budget,
                         const struct cs_layer *layer)
{
    return cs_layer_is_inner(graph, layer)
               ? cs_front_inner_most(cs_layer_arch(graph, layer), budget->patches, budget->items)
               : budget->rows;
}

static int64_t load_bytes(const struct cs_graph *graph)
{
    return cs_experts_loads(&cs_graph_llm(graph)->arch.experts) * (int64_t)sizeof(int64_t);
}

/* What a stage leaves is also added to, or read, whole: rows of a feed come to the first layer behind it, and
 * their gradients are taken from what that layer gives back; taps read what a last layer leaves. */
static bool is_read_whole(const struct cs_graph *graph, int32_t last, int32_t next)
{
    for (int32_t f = 0; f < graph->n_feeds; f++) {
        const struct cs_feed *feed = &graph->feeds[f];
        if (feed->to_layer == next || (feed->is_tap && feed->from_layer == last))
            return true;
    }
    return false;
}

struct cs_layer_rows cs_layer_rows(const struct cs_graph *graph,
                                   const struct cs_slot_budget *budget, int32_t layer, int32_t feed)
{
    const struct cs_layer *last = &graph->layers[layer];
    const int32_t encoder = graph->branches[graph->modules[last->module].branch].encoder;
    const bool is_llm = encoder < 0;
    return (struct cs_layer_rows){.rows = is_llm     ? budget->seq_tokens
                                          : feed < 0 ? most_rows(graph, &budget->enc[encoder], last)
                                                     : cs_budget_fills(budget, encoder),
                                  .width = width_of(graph, last, feed),
                                  .load_bytes = is_llm && feed < 0 ? load_bytes(graph) : 0,
                                  .is_inner = feed < 0 && cs_layer_is_inner(graph, last),
                                  .is_read_whole =
                                      feed >= 0 || is_read_whole(graph, layer, layer + 1)};
}

bool cs_layer_reads_own_rows(const struct cs_layer *layer, bool splits_rows, int32_t cp)
{
    const bool is_moved = layer->mixer == CS_MIXER_DELTA && cp > 1;
    return splits_rows && layer->kind == CS_LAYER_BLOCK && !is_moved;
}

static bool reads_own_rows(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage,
                           int32_t layer)
{
    return cs_layer_reads_own_rows(&graph->layers[layer], plan->stages[stage].splits_rows,
                                   cs_plan_shape(plan, stage).cp);
}

/* Rows of a slot leave the layer; its gradient is wanted where it or something before it trains. */
static void add_edge(const struct cs_graph *graph, struct cs_plan *plan, int32_t from, int32_t to,
                     int32_t layer, int32_t feed)
{
    const struct cs_layer *last = &graph->layers[layer];
    if (to < 0)
        return;
    const struct cs_layer_rows of = cs_layer_rows(graph, &plan->budget, layer, feed);
    plan->edges[plan->n_edges] = (struct cs_edge){
        .id = plan->n_edges,
        .from = from,
        .to = to,
        .feed = feed,
        .width = of.width,
        .is_inner = of.is_inner,
        .takes_part = {!of.is_read_whole &&
                           reads_own_rows(graph, plan, to, plan->stages[to].first_layer),
                       !of.is_read_whole && reads_own_rows(graph, plan, from, layer)},
        .has_grad = last->needs_weight_grad || last->needs_input_grad,
        .max_rows = cs_context_share(plan, from, of.rows),
        .load_bytes = of.load_bytes
    };
    plan->n_edges++;
}

static void derive_edges(const struct cs_graph *graph, struct cs_plan *plan)
{
    plan->n_edges = 0;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        const int32_t last = stage->first_layer + stage->n_layers - 1;
        if (stage->copies <= 1 && s + 1 < plan->n_stages &&
            plan->stages[s + 1].branch == stage->branch)
            add_edge(graph, plan, s, s + 1, last, -1);
        for (int32_t f = 0; f < graph->n_feeds; f++) {
            const struct cs_feed *feed = &graph->feeds[f];
            if (feed->from == stage->branch && has_layer(stage, feed->from_layer))
                add_edge(graph, plan, s, fed_stage(plan, stage, feed), feed->from_layer, f);
        }
    }
}

int64_t cs_tied_part(int64_t n, int32_t holders)
{
    enum { UNIT = 16 };

    const int64_t all = (int64_t)UNIT * holders, part = (n + all - 1) / all * UNIT;
    return part < n ? part : n;
}

/* of the rank with most words */
static int64_t tied_part(const struct cs_graph *graph, int32_t holders, int32_t tp)
{
    const struct cs_param *table = &graph->params[graph->tied_param];
    const int64_t words = (table->dim[0] + tp - 1) / tp;
    return cs_tied_part(table->count / table->dim[0] * words, holders);
}

/* the first stage of the LLM and its last */
static void find_ends(const struct cs_graph *graph, struct cs_plan *plan)
{
    plan->head_stage = plan->n_stages - 1;
    while (plan->head_stage > 0 && plan->stages[plan->head_stage].branch != graph->llm)
        plan->head_stage--;
    plan->embed_stage = plan->head_stage;
    for (int32_t s = plan->head_stage; s >= 0; s--)
        if (plan->stages[s].branch == graph->llm)
            plan->embed_stage = s;
}

void cs_plan_derive(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan)
{
    plan->edges = CS_NEW_ARRAY(arena, struct cs_edge, plan->n_stages * (1 + graph->n_feeds));
    find_ends(graph, plan);
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
    plan->is_tied_across = graph->is_tied && plan->embed_stage != plan->head_stage;
    plan->tied_bytes = 0;
    if (plan->is_tied_across && graph->params[graph->tied_param].is_trainable)
        plan->tied_bytes =
            tied_part(graph, cs_plan_holders(plan, plan->stages[plan->embed_stage].rank),
                      cs_plan_shape(plan, plan->embed_stage).tp) *
            (graph->keeps_bf16 ? 2 : 4);
}
