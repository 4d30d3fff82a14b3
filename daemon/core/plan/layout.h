/* Layouts as values: how every branch of a model is spread over ranks, which rank is which, and
 * which ranks talk. A planning value: searched and simulated. Workers run pipelines only, so a
 * layout with tp, cp or dp above 1 is refused by cs_layout_check_runs.
 *
 * Rank mesh (source: Cornstarch, rank mesh): ranks are handed out branch by branch (encoders in
 * their order, then the LLM); within a branch by stage, then dp, then cp, then tp. */
#ifndef CS_PLAN_LAYOUT_H
#define CS_PLAN_LAYOUT_H

#include "core/model/graph.h"
#include "core/plan/cluster.h"

enum { CS_LAYOUT_MAX_BRANCHES = CS_MAX_ENCODERS + 1, CS_LAYOUT_MAX_RANKS = 1 << 20 };

/* What a layer with a backward does again there instead of keeping it: nothing; norms and
 * activation functions (no matrix product twice); its whole forward from its input. */
enum cs_recompute { CS_RECOMPUTE_NONE, CS_RECOMPUTE_SELECTIVE, CS_RECOMPUTE_FULL, CS_RECOMPUTES };

const char *cs_recompute_name(enum cs_recompute recompute); /* "none", "selective", "full" */
bool cs_recompute_from_name(const char *name, enum cs_recompute *out);

struct cs_branch_layout {
    const char *name;
    int32_t tp, cp, pp;
    enum cs_recompute recompute;
};

struct cs_layout {
    struct cs_branch_layout branch[CS_LAYOUT_MAX_BRANCHES];
    int32_t n_branches;
    int32_t dp;
    int32_t zero;        /* 1: optimizer, 2: and gradients, 3: and weights sharded; 0: nothing */
    bool may_leave_node; /* a tp * cp group may reach over nodes */
};

int32_t cs_layout_ranks(const struct cs_layout *layout); /* dp * sum of pp * tp * cp */
/* CS_PLAN with figures and a hint: heads, kv heads and widths that tp does not divide, more stages
 * than layers, a tp * cp group over nodes, more ranks than devices. */
enum cs_status cs_layout_check(const struct cs_layout *layout, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_err *err) CS_NODISCARD;
/* the constraints of one branch alone: tp against its architectures */
enum cs_status cs_layout_check_tp(const struct cs_graph *graph, int32_t branch, int32_t tp,
                                  struct cs_err *err) CS_NODISCARD;
/* CS_PLAN unless it is a bare pipeline, which is what jobs run */
enum cs_status cs_layout_check_runs(const struct cs_layout *layout,
                                    struct cs_err *err) CS_NODISCARD;
/* Every tp * cp block lies in one node when ranks fill nodes in order. */
bool cs_layout_stays_in_nodes(const struct cs_layout *layout, int32_t devices_per_node);

/* cells: (n_stages, dp, cp, tp) with the largest cp and tp of all branches; a rank of a branch with
 * a smaller one stands in several cells. */
struct cs_mesh {
    int32_t n_stages, dp, cp, tp, n_ranks;
    const int32_t *rank;      /* cells */
    const int32_t *branch_of; /* (n_stages) */
};

/* world: ranks in all. CS_PLAN: no multiple of a replica's ranks, tp or cp that do not divide the
 * largest, a dp that is neither 0 nor world / replica. */
enum cs_status cs_mesh_make(const struct cs_layout *layout, int32_t world, struct cs_arena *arena,
                            struct cs_mesh **out, struct cs_err *err) CS_NODISCARD;
int32_t cs_mesh_rank(const struct cs_mesh *mesh, int32_t stage, int32_t dp, int32_t cp, int32_t tp);

enum cs_group_kind { CS_GROUP_TP, CS_GROUP_CP, CS_GROUP_DP, CS_GROUP_PP, CS_GROUP_KINDS };

struct cs_group {
    enum cs_group_kind kind;
    int32_t n;
    const int32_t *rank; /* ascending */
};

/* All groups of two ranks or more, each once, sorted by kind, then by ranks: the one order in which
 * everybody creates communicators. Returns the count. */
int32_t cs_mesh_groups(const struct cs_mesh *mesh, struct cs_arena *arena, struct cs_group **out);

#endif
