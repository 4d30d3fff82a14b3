/* Who has what of a message: the rows of its two ends, and the pieces that ranks send each other. */
#include "core/plan/primitive.h"
#include "worker/exec/messages/messages.h"
#include "worker/slot/share.h"

bool cs_exec_is_at_producer(const struct cs_action *action)
{
    return (action->op == CS_OP_SEND) != (action->is_grad != 0);
}

enum cs_edge_flow cs_exec_flow(const struct cs_action *action)
{
    return action->is_grad ? CS_FLOW_GRADIENTS : CS_FLOW_ROWS;
}

static const struct cs_row_map *row_map(const struct cs_exec *exec, const struct cs_action *action)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const int32_t e = exec->config.graph->branches[plan->stages[edge->from].branch].encoder;
    const struct cs_item_share *share =
        edge->feed >= 0 ? exec->inputs[action->slot].share[e] : NULL;
    return share != NULL ? &share->map : NULL;
}

/* of a rank of a stage: which part of it */
static int32_t part_of(const struct cs_plan *plan, int32_t stage, const struct cs_rank_at *at)
{
    return at->dp % cs_plan_lanes(plan, stage) * cs_plan_shape(plan, stage).cp + at->cp;
}

static struct cs_row_end row_end(const struct cs_exec *exec, const struct cs_action *action)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const bool is_maker = cs_exec_is_at_producer(action);
    const int32_t own = is_maker ? edge->from : edge->to, other = is_maker ? edge->to : edge->from;
    struct cs_rank_at at = {0};
    CS_ASSERT(cs_plan_rank_at(plan, own, cs_exec_own_rank(exec), &at));
    return (struct cs_row_end){.is_maker = is_maker,
                               .is_send = action->op == CS_OP_SEND,
                               .part = part_of(plan, own, &at),
                               .sharer = at.tp,
                               .here = cs_plan_shape(plan, own).tp,
                               .there = cs_plan_shape(plan, other).tp,
                               .is_cut = cs_edge_is_cut(plan, action->edge, cs_exec_flow(action))};
}

/* the part of the other end that stands where this one stands */
static int32_t opposite(const struct cs_exec *exec, const struct cs_action *action)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const int32_t other = cs_exec_is_at_producer(action) ? edge->to : edge->from;
    struct cs_rank_at at = {0};
    CS_ASSERT(cs_plan_rank_at(plan, other, cs_exec_rank(exec, action->peer), &at));
    return part_of(plan, other, &at);
}

/* Between stages of one branch a part at each end, of which the other one is `opposite`. */
static void make_whole(const struct cs_exec *exec, const struct cs_action *action, int32_t rows,
                       struct cs_exec_way *way)
{
    way->rows = rows;
    way->all = (struct cs_row_interval){0, 0, 0, 0, rows};
    way->whole = (struct cs_row_map){1, 1, rows > 0, &way->all, &way->rows, &way->rows};
    way->map = &way->whole;
    way->end.part = 0;
    way->opposite = opposite(exec, action);
}

void cs_exec_find_way(const struct cs_exec *exec, const struct cs_action *action, int32_t rows,
                      struct cs_exec_way *way)
{
    *way = (struct cs_exec_way){
        .map = row_map(exec, action), .end = row_end(exec, action), .opposite = -1};
    if (way->map == NULL)
        make_whole(exec, action, rows, way);
}

int cs_exec_way_rank(const struct cs_exec *exec, const struct cs_action *action,
                     const struct cs_exec_way *way, int32_t part, int32_t sharer)
{
    return cs_plan_rank_of(exec->config.plan, exec->config.replica, action->peer) +
           (way->opposite >= 0 ? way->opposite : part) * way->end.there + sharer;
}
