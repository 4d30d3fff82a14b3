/* Costs of primitives, and which messages are striped for them. */
#include "core/plan/cost/edges.h"

#include <string.h>

#include "core/plan/cost/bytes.h"
#include "core/plan/cost/round.h"

static int64_t over_link(int64_t bytes, int64_t latency_ns, int64_t bytes_per_s)
{
    if (bytes == 0 || bytes_per_s <= 0)
        return 0;
    return latency_ns + (int64_t)((double)bytes * 1e9 / (double)bytes_per_s);
}

struct cs_edge_cost cs_primitive_cost(enum cs_primitive primitive, int32_t senders,
                                      int32_t receivers, int64_t bytes,
                                      const struct cs_edge_links *links)
{
    const int64_t each = cs_over(receivers, senders); /* that a sender serves */
    const int64_t share = cs_over(bytes, receivers);
    struct cs_edge_cost c = {0};
    switch (primitive) {
    case CS_PRIMITIVE_NARROW:
        c.bytes = each * share;
        break;
    case CS_PRIMITIVE_STRIPED:
        c.bytes = each * share;
        c.part_bytes = (receivers - 1) * share;
        break;
    case CS_PRIMITIVE_POINT_TO_POINT:
        c.bytes = each * bytes;
        break;
    case CS_PRIMITIVE_IDENTITY:
    case CS_PRIMITIVE_ALL_GATHER: /* between ranks of one stage */
    case CS_PRIMITIVES:
        break;
    }
    c.ns = over_link(c.bytes, links->latency_ns, links->bytes_per_s);
    c.part_ns = over_link(c.part_bytes, links->part_latency_ns, links->part_bytes_per_s);
    return c;
}

/* Both ends on the same ranks. What a part has made goes to all ranks that need it but to itself; gradients,
 * which all sharers of a part have, go once. */
static struct cs_edge_cost cost_on_same_ranks(const struct cs_plan *plan, int32_t edge,
                                              enum cs_edge_flow flow, enum cs_primitive primitive,
                                              int64_t bytes, const struct cs_edge_links *links)
{
    const struct cs_edge_side from = cs_edge_sender(plan, edge, CS_FLOW_ROWS),
                              to = cs_edge_receiver(plan, edge, CS_FLOW_ROWS);
    const int64_t made = cs_over(bytes, from.parts);
    const int64_t times = flow == CS_FLOW_ROWS ? to.sharers / from.sharers : 1;
    struct cs_edge_cost c = {0};
    if (primitive != CS_PRIMITIVE_ALL_GATHER && primitive != CS_PRIMITIVE_POINT_TO_POINT)
        return c;
    c.part_bytes = made * times - made / to.parts;
    c.part_ns = over_link(c.part_bytes, links->part_latency_ns, links->part_bytes_per_s);
    return c;
}

bool cs_plan_leaves_node(const struct cs_plan *plan, int32_t a, int32_t b, int32_t per_node)
{
    return per_node > 0 &&
           cs_plan_rank_of(plan, 0, a) / per_node != cs_plan_rank_of(plan, 0, b) / per_node;
}

static struct cs_edge_links links_of(const struct cs_plan *plan, const struct cs_edge *e,
                                     const struct cs_cluster *cluster)
{
    const struct cs_device_class *d = cluster->device;
    const bool leaves = cs_plan_leaves_node(plan, plan->stages[e->from].rank,
                                            plan->stages[e->to].rank, cluster->devices_per_node);
    const struct cs_link_curve channel = cs_channel_of(d);
    return (struct cs_edge_links){.latency_ns = leaves ? d->net_latency_ns : channel.latency_ns,
                                  .bytes_per_s = leaves ? d->net_bytes_per_s : channel.bytes_per_s,
                                  .part_latency_ns = d->link_latency_ns,
                                  .part_bytes_per_s = d->link_bytes_per_s};
}

static struct cs_edge_cost cost_of(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow,
                                   enum cs_primitive primitive, const struct cs_cluster *cluster)
{
    const struct cs_edge *e = &plan->edges[edge];
    const int64_t bytes = cs_edge_bytes(e, cs_device_element_bytes(cluster->device));
    const struct cs_edge_links links = links_of(plan, e, cluster);
    if (cs_edge_is_on_same_ranks(plan, edge))
        return cost_on_same_ranks(plan, edge, flow, primitive, bytes, &links);
    return cs_primitive_cost(primitive, cs_edge_sender(plan, edge, flow).sharers,
                             cs_edge_receiver(plan, edge, flow).sharers, bytes, &links);
}

struct cs_edge_cost cs_edge_cost(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow,
                                 const struct cs_cluster *cluster)
{
    if (flow == CS_FLOW_GRADIENTS && !plan->edges[edge].has_grad)
        return (struct cs_edge_cost){0};
    return cost_of(plan, edge, flow, cs_edge_primitive(plan, edge, flow), cluster);
}

static bool is_faster(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow,
                      const struct cs_cluster *cluster)
{
    const struct cs_edge_cost whole =
                                  cost_of(plan, edge, flow, CS_PRIMITIVE_POINT_TO_POINT, cluster),
                              cut = cost_of(plan, edge, flow, CS_PRIMITIVE_STRIPED, cluster);
    return cut.ns + cut.part_ns < whole.ns;
}

void cs_plan_choose_primitives(struct cs_plan *plan, const struct cs_cluster *cluster,
                               const char *stripes)
{
    const bool is_always = strcmp(stripes, "always") == 0, is_never = strcmp(stripes, "never") == 0;
    for (int32_t i = 0; i < plan->n_edges; i++)
        for (int f = 0; f < CS_FLOWS; f++) {
            struct cs_edge *e = &plan->edges[i];
            const enum cs_edge_flow flow = (enum cs_edge_flow)f;
            e->is_striped[f] = !is_never && cs_edge_can_stripe(plan, i, flow) &&
                               (is_always || is_faster(plan, i, flow, cluster));
        }
}

void cs_plan_primitive_times(struct cs_plan *plan, const struct cs_cluster *cluster)
{
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *e = &plan->edges[i];
        const bool is_same =
            cs_edge_is_on_same_ranks(plan, i); /* whose encoder moves them, both ways */
        struct cs_stage *from = &plan->stages[e->from], *to = &plan->stages[e->to];
        (is_same ? from : to)->fwd_ns += cs_edge_cost(plan, i, CS_FLOW_ROWS, cluster).part_ns;
        const int64_t back_ns = cs_edge_cost(plan, i, CS_FLOW_GRADIENTS, cluster).part_ns;
        *(from->needs_input_grad ? &from->bwd_input_ns : &from->bwd_weight_ns) += back_ns;
    }
}
