/* Rank nodes, the table of schedules and the expansion of F(i) and B(i) into stages; see order.h.
 */
#include "core/sched/order.h"

#include <string.h>

static const struct cs_schedule schedules[] = {
    {"1f1b",  cs_schedule_1f1b },
    {"gpipe", cs_schedule_gpipe},
};

const struct cs_schedule *cs_schedule_find(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++)
        if (strcmp(schedules[i].name, name) == 0)
            return &schedules[i];
    return NULL;
}

/* Longest paths by relaxation. Edges are visited from the last producer to the first, which settles
 * an acyclic graph in a few passes; a circle never settles. */
static bool settle_depths(const struct cs_plan *plan, struct cs_rank_node *node)
{
    for (int32_t pass = 0; pass <= plan->n_ranks; pass++) {
        bool changed = false;
        for (int32_t e = plan->n_edges - 1; e >= 0; e--) {
            int32_t from = plan->stages[plan->edges[e].from].rank;
            int32_t to = plan->stages[plan->edges[e].to].rank;
            if (from != to && node[from].depth < node[to].depth + 1) {
                node[from].depth = node[to].depth + 1;
                changed = true;
            }
        }
        if (!changed)
            return true;
    }
    return false;
}

static int32_t longest_chain(const struct cs_plan *plan, struct cs_arena *arena)
{
    int32_t *length = CS_NEW_ARRAY(arena, int32_t, plan->n_stages), longest = 1;
    bool changed = true;
    for (int32_t pass = 0; changed && pass <= plan->n_stages; pass++) {
        changed = false;
        for (int32_t e = plan->n_edges - 1; e >= 0; e--) {
            const struct cs_edge *edge = &plan->edges[e];
            if (length[edge->from] < length[edge->to] + 1) {
                length[edge->from] = length[edge->to] + 1;
                changed = true;
            }
        }
    }
    for (int32_t s = 0; s < plan->n_stages; s++)
        longest = length[s] + 1 > longest ? length[s] + 1 : longest;
    return longest;
}

void cs_pipeline_init(const struct cs_plan *plan, int n_slots, bool is_eval, struct cs_arena *arena,
                      struct cs_pipeline *out)
{
    *out = (struct cs_pipeline){
        .plan = plan, .n_ranks = plan->n_ranks, .n_slots = n_slots, .is_eval = is_eval};
    out->node = CS_NEW_ARRAY(arena, struct cs_rank_node, plan->n_ranks);
    for (int32_t s = 0; s < plan->n_stages; s++)
        out->node[plan->stages[s].rank].n_stages++;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        out->node[r].stages = CS_NEW_ARRAY(arena, int32_t, out->node[r].n_stages + 1);
        out->node[r].n_stages = 0;
    }
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_rank_node *node = &out->node[plan->stages[s].rank];
        node->stages[node->n_stages++] = s;
        node->has_backward = node->has_backward || (plan->stages[s].has_backward && !is_eval);
    }
    out->is_cyclic = !settle_depths(plan, out->node);
    out->longest_chain = longest_chain(plan, arena);
}

void cs_order_init(const struct cs_pipeline *pipeline, int32_t rank, struct cs_arena *arena,
                   struct cs_order *order)
{
    size_t n = 2 * (size_t)pipeline->n_slots * (size_t)pipeline->node[rank].n_stages;
    *order = (struct cs_order){.item = CS_NEW_ARRAY(arena, struct cs_order_item, n + 1)};
}

void cs_order_fwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    for (int32_t i = 0; i < node->n_stages; i++)
        order->item[order->n++] = (struct cs_order_item){CS_OP_FWD, (int16_t)node->stages[i], slot};
}

void cs_order_bwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    for (int32_t i = node->n_stages - 1; i >= 0; i--)
        if (pipeline->plan->stages[node->stages[i]].has_backward)
            order->item[order->n++] =
                (struct cs_order_item){CS_OP_BWD, (int16_t)node->stages[i], slot};
}
