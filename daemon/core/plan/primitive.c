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

bool cs_edge_is_on_same_ranks(const struct cs_plan *plan, int32_t edge)
{
    const struct cs_edge *e = &plan->edges[edge];
    return plan->stages[e->from].rank == plan->stages[e->to].rank;
}

struct cs_edge_ends cs_edge_ends(const struct cs_plan *plan, int32_t edge)
{
    const struct cs_edge *e = &plan->edges[edge];
    struct cs_edge_ends ends = {.from = side_of(plan, e->from),
                                .to = side_of(plan, e->to),
                                .is_on_same_ranks = cs_edge_is_on_same_ranks(plan, edge),
                                .is_feed = e->feed >= 0,
                                .has_grad = e->has_grad};
    for (int f = 0; f < CS_FLOWS; f++) {
        ends.takes_part[f] = e->takes_part[f];
        ends.is_striped[f] = e->is_striped[f];
    }
    return ends;
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

enum cs_primitive cs_ends_primitive(const struct cs_edge_ends *ends, enum cs_edge_flow flow)
{
    const struct cs_edge_side *sender = flow == CS_FLOW_ROWS ? &ends->from : &ends->to,
                              *receiver = flow == CS_FLOW_ROWS ? &ends->to : &ends->from;
    if (ends->is_on_same_ranks)
        return ends->is_feed ? among_same_ranks(sender, receiver) : CS_PRIMITIVE_IDENTITY;
    if (ends->takes_part[flow] && receiver->sharers > 1)
        return CS_PRIMITIVE_NARROW;
    return ends->is_striped[flow] ? CS_PRIMITIVE_STRIPED : CS_PRIMITIVE_POINT_TO_POINT;
}

bool cs_ends_can_stripe(const struct cs_edge_ends *ends, enum cs_edge_flow flow)
{
    const struct cs_edge_side *receiver = flow == CS_FLOW_ROWS ? &ends->to : &ends->from;
    return !ends->is_on_same_ranks && receiver->sharers > 1 && !ends->takes_part[flow] &&
           (flow == CS_FLOW_ROWS || ends->has_grad);
}

enum cs_primitive cs_edge_primitive(const struct cs_plan *plan, int32_t edge,
                                    enum cs_edge_flow flow)
{
    const struct cs_edge_ends ends = cs_edge_ends(plan, edge);
    return cs_ends_primitive(&ends, flow);
}

bool cs_edge_can_stripe(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow)
{
    const struct cs_edge_ends ends = cs_edge_ends(plan, edge);
    return cs_ends_can_stripe(&ends, flow);
}

bool cs_edge_is_cut(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow)
{
    const enum cs_primitive primitive = cs_edge_primitive(plan, edge, flow);
    return !cs_edge_is_on_same_ranks(plan, edge) &&
           (primitive == CS_PRIMITIVE_NARROW || primitive == CS_PRIMITIVE_STRIPED);
}
