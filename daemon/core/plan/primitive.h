/* How rows of an edge go from the layout of one stage to that of another, and their gradients back: the
 * cheapest of a few primitives. It follows from who has which rows and who needs which, by the ranks of both
 * stages; only whether a message is striped is a choice, by what it costs (core/plan/cost/links/edges.h).
 * Source: heterogeneity, boundaries.
 *
 * A part of a stage is the ranks that share its matrices, all of which have the same rows; parts are lanes
 * and, in them, parts of a context or of the items. The way back of gradients is the same map read from the
 * other end, and has a primitive of its own. */
#ifndef CS_PLAN_PRIMITIVE_H
#define CS_PLAN_PRIMITIVE_H

#include "core/plan/plan.h"

/* X(id, name)
 *
 * IDENTITY        rows are where they are needed: nothing moves.
 * NARROW          every rank takes its part of what it has, or of what the rank opposite has: ranks that split
 *                 rows between products (sequence parallelism) ask for no others.
 * ALL_GATHER      all ranks of the stage need what each of them has a part of.
 * POINT_TO_POINT  every rank is sent all that it needs.
 * STRIPED         every rank is sent a stripe of the rows that its part needs, and these put them together
 *                 over their own link. */
#define CS_PRIMITIVES_TABLE(X)                                                                     \
    X(IDENTITY, "identity")                                                                        \
    X(NARROW, "narrow")                                                                            \
    X(ALL_GATHER, "all-gather")                                                                    \
    X(POINT_TO_POINT, "point to point")                                                            \
    X(STRIPED, "striped")

enum cs_primitive {

#define X(id, name) CS_PRIMITIVE_##id,
    CS_PRIMITIVES_TABLE(X)
#undef X
        CS_PRIMITIVES
};

const char *cs_primitive_name(enum cs_primitive primitive);

/* Parts that have different rows, each of `sharers` ranks that have the same. */
struct cs_edge_side {
    int32_t parts, sharers;
};

/* All of an edge that its primitives follow from; is_feed: it goes to another branch. */
struct cs_edge_ends {
    struct cs_edge_side from, to; /* of rows; gradients go the other way */
    bool is_on_same_ranks, is_feed, has_grad;
    bool takes_part[CS_FLOWS], is_striped[CS_FLOWS];
};

struct cs_edge_ends cs_edge_ends(const struct cs_plan *plan, int32_t edge);
enum cs_primitive cs_ends_primitive(const struct cs_edge_ends *ends, enum cs_edge_flow flow);
/* It could be striped: its ends are on different ranks, and those that need the same rows are several. */
bool cs_ends_can_stripe(const struct cs_edge_ends *ends, enum cs_edge_flow flow);

/* The same of an edge of a plan. */
enum cs_primitive cs_edge_primitive(const struct cs_plan *plan, int32_t edge,
                                    enum cs_edge_flow flow);
bool cs_edge_can_stripe(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow);
/* Messages are cut by who receives them: narrow or striped. */
bool cs_edge_is_cut(const struct cs_plan *plan, int32_t edge, enum cs_edge_flow flow);
bool cs_edge_is_on_same_ranks(const struct cs_plan *plan, int32_t edge);

#endif
