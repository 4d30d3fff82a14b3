/* Finds the primitive of an edge from the parts and the ranks of both stages. */
#include "core/plan/primitive.h"

const char *cs_primitive_name(enum cs_primitive primitive)
{
    static const char *const names[CS_PRIMITIVES] = {
#define X(id, name) name,
        CS_PRIMITIVES_TABLE(X)
#undef X
    };
    return names[primitive];
}

static struct cs_edge_side side_of(const struct cs_plan *plan, int32_t stage)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    return (struct cs_edge_side){cs_plan_lanes(plan, stage) * s.cp, s.tp};
}

struct cs_edge_side cs_edge_sender(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow)
{
    const struct cs_edge *e = &plan->edges[edge];
    return side_of(plan, flow == CS_FLOW_ROWS ? e->from : e->to);
}

struct cs_edge_side cs_edge_receiver(const struct cs_plan *plan, int32_t edge,
                                     enum cs_edge_flow flow)
{
    const struct cs_edge *e = &plan->edges[edge];
    return side_of(plan, flow == CS_FLOW_ROWS ? e->to : e->from);
}

bool cs_edge_is_on_same_ranks(const struct cs_plan *plan, int32_t edge)
{
    const struct cs_edge *e = &plan->edges[edge];
    return plan->stages[e->from].rank == plan->stages[e->to].rank;
}

/* Any part that sends may have rows of any part that receives, and ranks of both are the same ones, part by
 * part in one order: a rank has what its part as a sender has, and needs what its part as a receiver needs. */
static enum cs_primitive among_same_ranks(const struct cs_edge_side *sender,
                                          const struct cs_edge_side *receiver)
{
    if (sender->parts == 1)
        return receiver->parts == 1 ? CS_PRIMITIVE_IDENTITY : CS_PRIMITIVE_NARROW;
    return receiver->parts == 1 ? CS_PRIMITIVE_ALL_GATHER : CS_PRIMITIVE_POINT_TO_POINT;
}

enum cs_primitive cs_edge_primitive(const struct cs_plan *plan, int32_t edge,
                                    enum cs_edge_flow flow)
{
    const struct cs_edge *e = &plan->edges[edge];
    const struct cs_edge_side sender = cs_edge_sender(plan, edge, flow),
                              receiver = cs_edge_receiver(plan, edge, flow);
    if (cs_edge_is_on_same_ranks(plan, edge))
        return e->feed < 0 ? CS_PRIMITIVE_IDENTITY : among_same_ranks(&sender, &receiver);
    if (e->takes_part[flow] && receiver.sharers > 1)
        return CS_PRIMITIVE_NARROW;
    return e->is_striped[flow] ? CS_PRIMITIVE_STRIPED : CS_PRIMITIVE_POINT_TO_POINT;
}

bool cs_edge_is_cut(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow)
{
    const enum cs_primitive primitive = cs_edge_primitive(plan, edge, flow);
    return !cs_edge_is_on_same_ranks(plan, edge) &&
           (primitive == CS_PRIMITIVE_NARROW || primitive == CS_PRIMITIVE_STRIPED);
}

bool cs_edge_can_stripe(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow)
{
    const struct cs_edge *e = &plan->edges[edge];
    return !cs_edge_is_on_same_ranks(plan, edge) &&
           cs_edge_receiver(plan, edge, flow).sharers > 1 && !e->takes_part[flow] &&
           (flow == CS_FLOW_ROWS || e->has_grad);
}
