/* Who has what of a message: the rows of its two ends, and the pieces that ranks send each other. */
#include <stdlib.h>

#include "worker/exec/messages/messages.h"
#include "worker/slot/share.h"

bool cs_exec_is_at_producer(const struct cs_action *action)
{
    return (action->op == CS_OP_SEND) != (action->is_grad != 0);
}

const struct cs_row_map *cs_exec_row_map(const struct cs_exec *exec, const struct cs_action *action)
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

struct cs_row_end cs_exec_row_end(const struct cs_exec *exec, const struct cs_action *action)
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
                               .there = cs_plan_shape(plan, other).tp};
}

int cs_exec_piece_rank(const struct cs_exec *exec, const struct cs_action *action,
                       const struct cs_row_piece *piece)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const int32_t other = cs_exec_is_at_producer(action) ? edge->to : edge->from;
    const struct cs_rank_shape shape = cs_plan_shape(plan, other);
    return cs_plan_rank_of(plan, exec->config.replica, action->peer) + piece->part * shape.tp +
           piece->sharer;
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

/* all of the rows in one piece */
static int32_t whole_of(const struct cs_exec *exec, const struct cs_action *action, int32_t n,
                        struct cs_row_piece *piece)
{
    const struct cs_row_interval all = {0, 0, 0, 0, n};
    const struct cs_row_map map = {1, 1, n > 0, &all, &n, &n};
    struct cs_row_end end = cs_exec_row_end(exec, action);
    end.part = 0;
    const int32_t n_pieces = cs_row_map_pieces(&map, &end, piece);
    for (int32_t i = 0; piece != NULL && i < n_pieces; i++)
        piece[i].part = opposite(exec, action);
    return n_pieces;
}

enum cs_status cs_exec_pieces(const struct cs_exec *exec, const struct cs_action *action,
                              const struct cs_message *message, struct cs_row_piece **out,
                              int32_t *n, struct cs_err *err)
{
    const struct cs_row_map *map = cs_exec_row_map(exec, action);
    const struct cs_row_end end = cs_exec_row_end(exec, action);
    const size_t row =
        (size_t)exec->config.plan->edges[action->edge].width * exec->config.device->ops->act_bytes;
    const int32_t rows = (int32_t)(message->bytes / row);
    *n = map != NULL ? cs_row_map_pieces(map, &end, NULL) : whole_of(exec, action, rows, NULL);
    *out = calloc((size_t)*n + 1, sizeof **out);
    if (*out == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %d pieces of a message", *n);
    if (map != NULL)
        cs_row_map_pieces(map, &end, *out);
    else
        whole_of(exec, action, rows, *out);
    return CS_OK;
}
