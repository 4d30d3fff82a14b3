/* Rank nodes, and the expansion of F(i) and B(i) into the stages of a rank. */
#include "core/sched/orders/order.h"

/* Longest paths by relaxation. Edges are visited from the last producer to the first, which settles
 * an acyclic graph in a few passes; a cycle never settles. */
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

/* stages after each one on the longest path */
static int32_t *tails(const struct cs_plan *plan, struct cs_arena *arena)
{
    int32_t *length = CS_NEW_ARRAY(arena, int32_t, plan->n_stages + 1);
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
    return length;
}

static void list_stages(struct cs_pipeline *p, struct cs_arena *arena)
{
    const struct cs_plan *plan = p->plan;
    for (int32_t s = 0; s < plan->n_stages; s++)
        p->node[plan->stages[s].rank].n_stages++;
    for (int32_t r = 0; r < plan->n_ranks; r++) {
        p->node[r].stages = CS_NEW_ARRAY(arena, int32_t, p->node[r].n_stages + 1);
        p->node[r].n_stages = 0;
        p->node[r].leads = true;
    }
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_rank_node *node = &p->node[plan->stages[s].rank];
        node->stages[node->n_stages++] = s;
        node->has_backward = node->has_backward || p->traits[s].has_backward;
        node->leads = node->leads && p->traits[s].leads;
    }
}

/* Every branch has p stages, stage s on the rank of the head's stage s, which has no other. A bound
 * on what encoders are ahead by leaves no room for groups of p slots. */
static void find_grid(struct cs_pipeline *pipe, struct cs_arena *arena)
{
    const struct cs_plan *plan = pipe->plan;
    int32_t p = plan->n_ranks, head = plan->n_stages - p, n_branches = plan->n_stages / p;
    if (head < p || plan->n_stages % p != 0 || n_branches < 2 || pipe->options->ahead > 0)
        return;
    pipe->head_position = CS_NEW_ARRAY(arena, int32_t, p + 1);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->index != s % p || stage->rank != plan->stages[head + s % p].rank ||
            stage->copies > 1 || pipe->traits[s].share.n > 0 ||
            stage->branch != plan->stages[s - s % p].branch)
            return;
        pipe->head_position[stage->rank] = stage->index;
    }
    for (int32_t e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].to != plan->edges[e].from + 1 && plan->edges[e].to != head)
            return;
    pipe->is_grid = true;
    pipe->n_head_ranks = p;
    pipe->n_chunks = 2;
}

void cs_pipeline_init(const struct cs_plan *plan, const struct cs_program_options *options,
                      const struct cs_stage_traits *traits, struct cs_arena *arena,
                      struct cs_pipeline *out)
{
    *out = (struct cs_pipeline){.plan = plan,
                                .options = options,
                                .traits = traits,
                                .n_ranks = plan->n_ranks,
                                .n_slots = options->n_slots,
                                .is_eval = options->is_eval};
    out->node = CS_NEW_ARRAY(arena, struct cs_rank_node, plan->n_ranks + 1);
    list_stages(out, arena);
    out->is_cyclic = !settle_depths(plan, out->node);
    if (out->is_cyclic)
        find_grid(out, arena);
    out->tail = tails(plan, arena);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (out->tail[s] + 1 > out->longest_chain)
            out->longest_chain = out->tail[s] + 1;
    for (int32_t r = 0; r < plan->n_ranks && !out->is_cyclic; r++)
        if (out->node[r].depth > out->max_depth)
            out->max_depth = out->node[r].depth;
}

enum cs_status cs_pipeline_find_chunks(struct cs_pipeline *pipeline, const char *schedule,
                                       struct cs_arena *arena, struct cs_err *err)
{
    const struct cs_plan *plan = pipeline->plan;
    int32_t branch = plan->stages[plan->head_stage].branch, n = 0, p = 0;
    int32_t *position = CS_NEW_ARRAY(arena, int32_t, plan->n_ranks + 1);
    for (int32_t r = 0; r < plan->n_ranks; r++)
        position[r] = -1;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        if (stage->branch != branch)
            continue;
        if (position[stage->rank] < 0 && p == n)
            position[stage->rank] = p++;
        if (position[stage->rank] < 0 || position[stage->rank] != n % p)
            return cs_fail(err, CS_PLAN,
                           "schedule %s: stage %s is on rank %d, out of turn: stage i belongs on "
                           "rank i modulo the ranks of its module",
                           schedule, stage->name, stage->rank);
        n++;
    }
    if (n % p != 0)
        return cs_fail(err, CS_PLAN, "schedule %s: %d stages do not fill %d ranks evenly", schedule,
                       n, p);
    pipeline->n_head_ranks = p;
    pipeline->n_chunks = n / p;
    pipeline->head_position = position;
    return CS_OK;
}

void cs_order_init(const struct cs_pipeline *pipeline, int32_t rank, struct cs_arena *arena,
                   struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    size_t per_stage = (node->has_backward ? 3 : 1) * (size_t)pipeline->n_slots +
                       (node->leads ? (size_t)pipeline->options->lead_after : 0);
    *order = (struct cs_order){
        .item = CS_NEW_ARRAY(arena, struct cs_order_item, per_stage * (size_t)node->n_stages + 1)};
}

static bool has_op(const struct cs_stage_traits *t, enum cs_op op)
{
    return cs_op_does(op, CS_PART_FORWARD) ||
           (cs_op_does(op, CS_PART_INPUT) && t->has_input_part) ||
           (cs_op_does(op, CS_PART_WEIGHT) && t->has_weight_part);
}

void cs_order_stage(const struct cs_pipeline *pipeline, enum cs_op op, int32_t stage, int32_t slot,
                    struct cs_order *order)
{
    const struct cs_stage_traits *t = &pipeline->traits[stage];
    if (has_op(t, op) && cs_stage_runs(t, slot))
        order->item[order->n++] = (struct cs_order_item){(uint8_t)op, 0, (int16_t)stage, slot};
}

void cs_order_fwd(const struct cs_pipeline *pipeline, int32_t rank, int32_t slot,
                  struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    for (int32_t i = 0; i < node->n_stages; i++)
        cs_order_stage(pipeline, CS_OP_FWD, node->stages[i], slot, order);
}

void cs_order_bwd(const struct cs_pipeline *pipeline, int32_t rank, enum cs_op op, int32_t slot,
                  struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    for (int32_t i = node->n_stages - 1; i >= 0; i--)
        cs_order_stage(pipeline, op, node->stages[i], slot, order);
}

void cs_order_forwards(const struct cs_pipeline *pipeline, int32_t rank, struct cs_order *order)
{
    const struct cs_rank_node *node = &pipeline->node[rank];
    int32_t first = node->leads ? pipeline->options->lead_before : 0;
    for (int32_t i = first; i < pipeline->n_slots; i++)
        cs_order_fwd(pipeline, rank, i, order);
    for (int32_t i = 0; node->leads && i < pipeline->options->lead_after; i++) {
        uint32_t n = order->n;
        for (cs_order_fwd(pipeline, rank, i, order); n < order->n; n++)
            order->item[n].lead = 1;
    }
}

void cs_order_one_to_one(const struct cs_pipeline *pipeline, int32_t rank, int32_t warm,
                         struct cs_order *order)
{
    int32_t m = pipeline->n_slots;
    warm = warm < m ? warm : m;
    for (int32_t i = 0; i < warm; i++)
        cs_order_fwd(pipeline, rank, i, order);
    for (int32_t i = 0; i < m; i++) {
        if (warm + i < m)
            cs_order_fwd(pipeline, rank, warm + i, order);
        cs_order_bwd(pipeline, rank, CS_OP_BWD, i, order);
    }
}
