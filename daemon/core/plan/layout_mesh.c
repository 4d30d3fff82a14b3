/* The mesh of a layout whose branches differ in dp, cp and tp, numbered as Cornstarch numbers it. A
 * study of layouts; which rank is which in a job's plan is said by ranks.c. */
#include "core/base/units.h"
#include "core/plan/layout.h"

static enum cs_status check_branch(const struct cs_branch_layout *at, struct cs_mesh *mesh,
                                   struct cs_err *err)
{
    if (at->tp < 1 || at->cp < 1 || at->pp < 1 || at->tp > 4096 || at->cp > 4096 || at->pp > 4096)
        return cs_fail(err, CS_PLAN, "mesh of %s: tp %d, cp %d, pp %d: each is 1 to 4096", at->name,
                       at->tp, at->cp, at->pp);
    mesh->tp = at->tp > mesh->tp ? at->tp : mesh->tp;
    mesh->cp = at->cp > mesh->cp ? at->cp : mesh->cp;
    mesh->n_stages += at->pp;
    return CS_OK;
}

/* dp of every branch: as asked, else as many replicas as the world holds */
static enum cs_status find_replicas(const struct cs_layout *layout, int32_t world, int32_t *dp,
                                    struct cs_err *err)
{
    int64_t replica = 0, fixed = 0;
    bool has_own = false;
    for (int32_t b = 0; b < layout->n_branches; b++) {
        const struct cs_branch_layout *at = &layout->branch[b];
        if (at->place != CS_PLACE_OWN)
            continue;
        replica += (int64_t)at->pp * at->tp * at->cp;
        fixed += (int64_t)at->pp * at->tp * at->cp * cs_layout_dp(layout, b);
        has_own = has_own || at->dp > 0;
    }
    if (has_own && fixed != world)
        return cs_fail(err, CS_PLAN,
                       "the branches take %lld rank%s (dp * pp * tp * cp of each), not %d",
                       (long long)fixed, CS_PLURAL(fixed), world);
    if (world < 1 || world > CS_LAYOUT_MAX_RANKS || (!has_own && world % replica != 0))
        return cs_fail(err, CS_PLAN,
                       "%d ranks are no multiple of a replica's %lld (sum of pp * tp * cp)", world,
                       (long long)replica);
    if (!has_own && layout->dp != 0 && layout->dp != world / replica)
        return cs_fail(err, CS_PLAN, "dp is %d, but %d ranks hold %lld replica%s of %lld",
                       layout->dp, world, (long long)(world / replica),
                       CS_PLURAL((world / replica)), (long long)replica);
    for (int32_t b = 0; b < layout->n_branches; b++)
        dp[b] = has_own ? cs_layout_dp(layout, b) : (int32_t)(world / replica);
    return CS_OK;
}

static enum cs_status check(const struct cs_layout *layout, int32_t world, struct cs_mesh *mesh,
                            int32_t *dp, struct cs_err *err)
{
    if (layout->n_branches < 1 || layout->n_branches > CS_LAYOUT_MAX_BRANCHES)
        return cs_fail(err, CS_PLAN, "a mesh of %d branches: 1 to %d", layout->n_branches,
                       CS_LAYOUT_MAX_BRANCHES);
    mesh->tp = mesh->cp = mesh->dp = 1;
    for (int32_t b = 0; b < layout->n_branches; b++)
        if (layout->branch[b].place == CS_PLACE_OWN)
            CS_TRY(check_branch(&layout->branch[b], mesh, err));
    if (mesh->n_stages == 0)
        return cs_fail(err, CS_PLAN, "a mesh without a branch that has ranks of its own");
    CS_TRY(find_replicas(layout, world, dp, err));
    for (int32_t b = 0; b < layout->n_branches; b++)
        if (layout->branch[b].place == CS_PLACE_OWN && dp[b] > mesh->dp)
            mesh->dp = dp[b];
    for (int32_t b = 0; b < layout->n_branches; b++) {
        const struct cs_branch_layout *at = &layout->branch[b];
        if (at->place != CS_PLACE_OWN)
            continue;
        if (mesh->tp % at->tp != 0 || mesh->cp % at->cp != 0)
            return cs_fail(err, CS_PLAN,
                           "mesh of %s: tp %d and cp %d must divide the largest ones, %d and %d",
                           at->name, at->tp, at->cp, mesh->tp, mesh->cp);
        if (mesh->dp % dp[b] != 0)
            return cs_fail(err, CS_PLAN, "mesh of %s: dp %d must divide the largest one, %d",
                           at->name, dp[b], mesh->dp);
    }
    return CS_OK;
}

enum cs_status cs_mesh_make(const struct cs_layout *layout, int32_t world, struct cs_arena *arena,
                            struct cs_mesh **out, struct cs_err *err)
{
    struct cs_mesh *mesh = CS_NEW(arena, struct cs_mesh);
    int32_t dp[CS_LAYOUT_MAX_BRANCHES];
    CS_TRY(check(layout, world, mesh, dp, err));
    int64_t cells = (int64_t)mesh->n_stages * mesh->dp * mesh->cp * mesh->tp;
    if (cells > 64 * (int64_t)CS_LAYOUT_MAX_RANKS)
        return cs_fail(err, CS_PLAN, "a mesh of %lld cells is too large", (long long)cells);
    int32_t *rank = CS_NEW_ARRAY(arena, int32_t, cells);
    int32_t *branch_of = CS_NEW_ARRAY(arena, int32_t, mesh->n_stages);
    int32_t base = 0, stage = 0;
    int64_t at = 0;
    for (int32_t b = 0; b < layout->n_branches; b++) {
        int32_t tp = layout->branch[b].tp, cp = layout->branch[b].cp;
        bool is_own = layout->branch[b].place == CS_PLACE_OWN;
        for (int32_t s = 0; is_own && s < layout->branch[b].pp; s++, stage++) {
            branch_of[stage] = b;
            for (int32_t d = 0; d < mesh->dp; d++)
                for (int32_t c = 0; c < mesh->cp; c++)
                    for (int32_t t = 0; t < mesh->tp; t++)
                        rank[at++] = base + d / (mesh->dp / dp[b]) * cp * tp +
                                     c / (mesh->cp / cp) * tp + t / (mesh->tp / tp);
            base += dp[b] * cp * tp;
        }
    }
    mesh->rank = rank;
    mesh->branch_of = branch_of;
    mesh->n_ranks = base;
    *out = mesh;
    return CS_OK;
}

int32_t cs_mesh_rank(const struct cs_mesh *mesh, int32_t stage, int32_t dp, int32_t cp, int32_t tp)
{
    int64_t row = (int64_t)stage * mesh->dp + dp;
    return mesh->rank[(row * mesh->cp + cp) * mesh->tp + tp];
}

struct groups {
    struct cs_arena *arena;
    struct cs_group *group;
    int32_t n;
};

/* the ranks along one axis, each once (they ascend) */
static void add(struct groups *g, const struct cs_mesh *mesh, enum cs_group_kind kind,
                const int32_t at[4])
{
    const int32_t size[CS_GROUP_KINDS] = {[CS_GROUP_TP] = mesh->tp,
                                          [CS_GROUP_CP] = mesh->cp,
                                          [CS_GROUP_DP] = mesh->dp,
                                          [CS_GROUP_PP] = mesh->n_stages};
    static const int axis_of[CS_GROUP_KINDS] = {
        [CS_GROUP_TP] = 3, [CS_GROUP_CP] = 2, [CS_GROUP_DP] = 1, [CS_GROUP_PP] = 0};
    int32_t cell[4] = {at[0], at[1], at[2], at[3]}, n = 0;
    int32_t *rank = CS_NEW_ARRAY(g->arena, int32_t, size[kind]);
    for (int32_t i = 0; i < size[kind]; i++) {
        cell[axis_of[kind]] = i;
        int32_t r = cs_mesh_rank(mesh, cell[0], cell[1], cell[2], cell[3]);
        if (n == 0 || rank[n - 1] != r)
            rank[n++] = r;
    }
    if (n > 1)
        g->group[g->n++] = (struct cs_group){.kind = kind, .of = -1, .n = n, .rank = rank};
}

int32_t cs_mesh_groups(const struct cs_mesh *mesh, struct cs_arena *arena, struct cs_group **out)
{
    int64_t s = mesh->n_stages, d = mesh->dp, c = mesh->cp, t = mesh->tp;
    struct groups g = {.arena = arena};
    g.group = CS_NEW_ARRAY(arena, struct cs_group, s * d * c + s * d * t + s * c * t + d * c * t);
    for (int32_t i = 0; i < s * d * c; i++)
        add(&g, mesh, CS_GROUP_TP,
            (int32_t[]){(int32_t)(i / (d * c)), (int32_t)(i / c % d), (int32_t)(i % c), 0});
    for (int32_t i = 0; i < s * d * t; i++)
        add(&g, mesh, CS_GROUP_CP,
            (int32_t[]){(int32_t)(i / (d * t)), (int32_t)(i / t % d), 0, (int32_t)(i % t)});
    for (int32_t i = 0; i < s * c * t; i++)
        add(&g, mesh, CS_GROUP_DP,
            (int32_t[]){(int32_t)(i / (c * t)), 0, (int32_t)(i / t % c), (int32_t)(i % t)});
    for (int32_t i = 0; i < d * c * t; i++)
        add(&g, mesh, CS_GROUP_PP,
            (int32_t[]){0, (int32_t)(i / (c * t)), (int32_t)(i / t % c), (int32_t)(i % t)});
    *out = g.group;
    /* cells of a repeated rank give a group twice */
    return cs_groups_sort(g.group, g.n);
}
