/* Costs of primitives, and which messages are striped for them. */
#include "core/plan/cost/links/edges.h"

#include <string.h>

#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/round.h"

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
static struct cs_edge_cost cost_on_same_ranks(const struct cs_edge_ends *ends,
                                              enum cs_edge_flow flow, enum cs_primitive primitive,
                                              int64_t bytes, const struct cs_edge_links *links)
{
    const int64_t made = cs_over(bytes, ends->from.parts);
    const int64_t times = flow == CS_FLOW_ROWS ? ends->to.sharers / ends->from.sharers : 1;
    struct cs_edge_cost c = {0};
    if (primitive != CS_PRIMITIVE_ALL_GATHER && primitive != CS_PRIMITIVE_POINT_TO_POINT)
        return c;
    c.part_bytes = made * times - made / ends->to.parts;
    c.part_ns = over_link(c.part_bytes, links->part_latency_ns, links->part_bytes_per_s);
    return c;
}

bool cs_plan_leaves_node(const struct cs_plan *plan, int32_t a, int32_t b, int32_t per_node)
{
    return per_node > 0 &&
           cs_plan_rank_of(plan, 0, a) / per_node != cs_plan_rank_of(plan, 0, b) / per_node;
}

struct cs_edge_links cs_edge_links(const struct cs_device_class *d, bool leaves_node)
{
    const struct cs_link_curve channel = cs_channel_of(d);
    return (struct cs_edge_links){
        .latency_ns = leaves_node ? d->net_latency_ns : channel.latency_ns,
        .bytes_per_s = leaves_node ? d->net_bytes_per_s : channel.bytes_per_s,
        .part_latency_ns = d->link_latency_ns,
        .part_bytes_per_s = d->link_bytes_per_s};
}

static struct cs_edge_cost cost_by(const struct cs_edge_ends *ends, enum cs_edge_flow flow,
                                   enum cs_primitive primitive, int64_t bytes,
                                   const struct cs_edge_links *links)
{
    const bool is_rows = flow == CS_FLOW_ROWS;
    if (ends->is_on_same_ranks)
        return cost_on_same_ranks(ends, flow, primitive, bytes, links);
    return cs_primitive_cost(primitive, (is_rows ? ends->from : ends->to).sharers,
                             (is_rows ? ends->to : ends->from).sharers, bytes, links);
}

struct cs_edge_cost cs_ends_cost(const struct cs_edge_ends *ends, enum cs_edge_flow flow,
                                 int64_t bytes, const struct cs_edge_links *links)
{
    if (flow == CS_FLOW_GRADIENTS && !ends->has_grad)
        return (struct cs_edge_cost){0};
    return cost_by(ends, flow, cs_ends_primitive(ends, flow), bytes, links);
}

static bool is_faster(const struct cs_edge_ends *ends, enum cs_edge_flow flow, int64_t bytes,
                      const struct cs_edge_links *links)
{
    const struct cs_edge_cost whole =
                                  cost_by(ends, flow, CS_PRIMITIVE_POINT_TO_POINT, bytes, links),
                              cut = cost_by(ends, flow, CS_PRIMITIVE_STRIPED, bytes, links);
    return cut.ns + cut.part_ns < whole.ns;
}

void cs_ends_choose(struct cs_edge_ends *ends, int64_t bytes, const struct cs_edge_links *links,
                    const char *stripes)
{
    const bool is_always = strcmp(stripes, "always") == 0, is_never = strcmp(stripes, "never") == 0;
    for (int f = 0; f < CS_FLOWS; f++) {
        const enum cs_edge_flow flow = (enum cs_edge_flow)f;
        ends->is_striped[f] = !is_never && cs_ends_can_stripe(ends, flow) &&
                              (is_always || is_faster(ends, flow, bytes, links));
    }
}

/* On the same ranks the encoder moves them, both ways. */
void cs_ends_times(const struct cs_edge_ends *ends, int64_t bytes,
                   const struct cs_edge_links *links, struct cs_stage *from, struct cs_stage *to)
{
    const int64_t back_ns = cs_ends_cost(ends, CS_FLOW_GRADIENTS, bytes, links).part_ns;
    (ends->is_on_same_ranks ? from : to)->fwd_ns +=
        cs_ends_cost(ends, CS_FLOW_ROWS, bytes, links).part_ns;
    *(from->needs_input_grad ? &from->bwd_input_ns : &from->bwd_weight_ns) += back_ns;
}

/* ---- of a plan ---- */

struct edge {
    struct cs_edge_ends ends;
    struct cs_edge_links links;
    int64_t bytes;
};

static struct edge edge_of(const struct cs_plan *plan, int32_t edge,
                           const struct cs_cluster *cluster)
{
    const struct cs_edge *e = &plan->edges[edge];
    const bool leaves = cs_plan_leaves_node(plan, plan->stages[e->from].rank,
                                            plan->stages[e->to].rank, cluster->devices_per_node);
    return (struct edge){cs_edge_ends(plan, edge), cs_edge_links(cluster->device, leaves),
                         cs_edge_bytes(e, cs_device_element_bytes(cluster->device))};
}

struct cs_edge_cost cs_edge_cost(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow,
                                 const struct cs_cluster *cluster)
{
    const struct edge x = edge_of(plan, edge, cluster);
    return cs_ends_cost(&x.ends, flow, x.bytes, &x.links);
}

void cs_plan_choose_primitives(struct cs_plan *plan, const struct cs_cluster *cluster,
                               const char *stripes)
{
    for (int32_t i = 0; i < plan->n_edges; i++) {
        struct edge x = edge_of(plan, i, cluster);
        cs_ends_choose(&x.ends, x.bytes, &x.links, stripes);
        for (int f = 0; f < CS_FLOWS; f++)
            plan->edges[i].is_striped[f] = x.ends.is_striped[f];
    }
}

void cs_plan_primitive_times(struct cs_plan *plan, const struct cs_cluster *cluster)
{
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct edge x = edge_of(plan, i, cluster);
        cs_ends_times(&x.ends, x.bytes, &x.links, &plan->stages[plan->edges[i].from],
                      &plan->stages[plan->edges[i].to]);
    }
}
