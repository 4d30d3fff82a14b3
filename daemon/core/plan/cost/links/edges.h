/* What rows of an edge, and their gradients, take on their way by each primitive (core/plan/primitive.h), and the
 * choice that follows. */
#ifndef CS_PLAN_COST_EDGES_H
#define CS_PLAN_COST_EDGES_H

#include "core/plan/primitive.h"

/* Between ranks of both ends, and among those of a part. 0 bytes a second: moving takes no time. */
struct cs_edge_links {
    int64_t latency_ns, bytes_per_s, part_latency_ns, part_bytes_per_s;
};

/* Of a slot filled to its budgets. */
struct cs_edge_cost {
    int64_t bytes;      /* that a rank sends over the link between the ends, or that come to one */
    int64_t part_bytes; /* that a rank then sends among those of its part, or of its stage */
    int64_t ns, part_ns;
};

/* senders, receivers: ranks of a part at both ends; bytes: rows of a part */
struct cs_edge_cost cs_primitive_cost(enum cs_primitive primitive, int32_t senders,
                                      int32_t receivers, int64_t bytes,
                                      const struct cs_edge_links *links);
/* leaves_node: between the ends; ranks of a part share a node */
struct cs_edge_links cs_edge_links(const struct cs_device_class *device, bool leaves_node);
/* bytes: rows of a part that makes them. No gradients: nothing. */
struct cs_edge_cost cs_ends_cost(const struct cs_edge_ends *ends, enum cs_edge_flow flow,
                                 int64_t bytes, const struct cs_edge_links *links);
/* Stripes what is faster so. stripes: "auto", "never", or "always" where it can be. */
void cs_ends_choose(struct cs_edge_ends *ends, int64_t bytes, const struct cs_edge_links *links,
                    const char *stripes);
/* What stages do to put rows together that others made is part of their times. */
void cs_ends_times(const struct cs_edge_ends *ends, int64_t bytes,
                   const struct cs_edge_links *links, struct cs_stage *from, struct cs_stage *to);

/* Of an edge of a plan. */
struct cs_edge_cost cs_edge_cost(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow,
                                 const struct cs_cluster *cluster);

/* Ranks of programs whose first ranks are on different nodes. */
bool cs_plan_leaves_node(const struct cs_plan *plan, int32_t a, int32_t b, int32_t per_node);

/* Chooses for every edge (cs_ends_choose). Before the plan's groups are made. */
void cs_plan_choose_primitives(struct cs_plan *plan, const struct cs_cluster *cluster,
                               const char *stripes);
void cs_plan_primitive_times(struct cs_plan *plan, const struct cs_cluster *cluster);

#endif
