/* Layouts as values: how every branch of a model is laid out over ranks. A planning value: searched
 * and simulated. What workers run of it is said by the plan that is made from it
 * (cs_plan_check_runs), and which rank is which in a job by cs_plan_rank (core/plan/ranks.c).
 *
 * Rank mesh (source: Cornstarch, rank mesh), for layouts whose branches differ: ranks are handed out
 * branch by branch (encoders in their order, then the LLM); within a branch by stage, then dp, then
 * cp, then tp. */
#ifndef CS_PLAN_LAYOUT_H
#define CS_PLAN_LAYOUT_H

#include "core/model/graph.h"
#include "core/model/keeps.h"
#include "core/model/placements.h"
#include "core/plan/cluster.h"
#include "core/plan/groups.h"

enum { CS_LAYOUT_MAX_BRANCHES = CS_MAX_ENCODERS + 1, CS_LAYOUT_MAX_RANKS = 1 << 20 };

const char *cs_recompute_name(enum cs_recompute recompute); /* "none", "selective", "full" */
bool cs_recompute_from_name(const char *name, enum cs_recompute *out);

struct cs_branch_layout {
    const char *name;
    int32_t tp, cp, pp;
    enum cs_recompute recompute;
    /* Own ranks; whole on the ranks of every LLM stage, which share its slots (colocated); or again
     * on every LLM stage for every slot (replicated, a baseline). The LLM has ranks of its own. */
    enum cs_placement place;
    int32_t dp;    /* replicas of this branch, 0: as many as the layout says */
    int32_t vpp;   /* chunks of every stage (interleaved), 0: 1 */
    int32_t ep;    /* of dp * cp ranks, those that share the experts of a layer, 0: 1 */
    bool sp;       /* with tp: rows between products are split over its ranks */
    int32_t shard; /* 1 + zero level of this branch, 0: the layout's */
};

struct cs_layout {
    struct cs_branch_layout branch[CS_LAYOUT_MAX_BRANCHES];
    int32_t n_branches, llm; /* llm: which branch is the LLM */
    int32_t dp;
    int32_t zero;        /* 1: optimizer, 2: and gradients, 3: and weights sharded; 0: nothing */
    bool may_leave_node; /* a tp * cp group may reach over nodes */
};

int32_t cs_layout_ranks(const struct cs_layout *layout); /* sum of dp * pp * tp * cp, own ranks */
int32_t cs_layout_dp(const struct cs_layout *layout, int32_t branch);
int32_t cs_layout_zero(const struct cs_layout *layout, int32_t branch);
/* CS_PLAN with figures and a hint: heads, kv heads and widths that tp does not divide, more stages
 * than layers, an ep that does not divide dp * cp or a branch without experts, a dp that neither divides that of the LLM nor is divided
 * by it, a placement that the LLM's ranks cannot hold, a tp * cp group over nodes, more ranks than
 * devices. */
enum cs_status cs_layout_check(const struct cs_layout *layout, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_err *err) CS_NODISCARD;
/* the constraints of one branch alone: tp against its architectures */
enum cs_status cs_layout_check_tp(const struct cs_graph *graph, int32_t branch, int32_t tp,
                                  struct cs_err *err) CS_NODISCARD;
/* Every tp * cp block of branches with ranks of their own lies in one node when ranks fill nodes in
 * order. */
bool cs_layout_stays_in_nodes(const struct cs_layout *layout, int32_t devices_per_node);

/* cells: (n_stages, dp, cp, tp) with the largest dp, cp and tp of all branches; a rank of a branch
 * with a smaller one stands in several cells. Stages are those of branches with ranks of their
 * own. */
struct cs_mesh {
    int32_t n_stages, dp, cp, tp, n_ranks;
    const int32_t *rank;      /* cells */
    const int32_t *branch_of; /* (n_stages) */
};

/* world: ranks in all. CS_PLAN: tp, cp or dp that do not divide the largest. Where no branch has a
 * dp of its own: world is no multiple of a replica's ranks, a dp that is neither 0 nor world /
 * replica. Else: world is not the sum of the branches' ranks. */
enum cs_status cs_mesh_make(const struct cs_layout *layout, int32_t world, struct cs_arena *arena,
                            struct cs_mesh **out, struct cs_err *err) CS_NODISCARD;
int32_t cs_mesh_rank(const struct cs_mesh *mesh, int32_t stage, int32_t dp, int32_t cp, int32_t tp);

/* The groups TP, CP, DP and PP of two ranks or more, each once, sorted (groups.h). Returns the
 * count. */
int32_t cs_mesh_groups(const struct cs_mesh *mesh, struct cs_arena *arena, struct cs_group **out);

#endif
