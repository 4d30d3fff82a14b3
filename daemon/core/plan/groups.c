/* Makes the table of groups of a plan, and finds groups and members in it. */
#include "core/plan/groups.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/plan.h"

/* A table that grows. */
struct table {
    const struct cs_plan *plan;
    struct cs_arena *arena;
    struct cs_group *group;
    int32_t n, room;
};

static int compare_numbers(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Adds a group of n ranks in any order, some of them maybe twice; fewer than `least` different ones
 * are no group. */
static void add(struct table *t, enum cs_group_kind kind, int32_t of, int32_t *rank, int32_t n,
                int32_t least)
{
    int32_t m = 0;
    qsort(rank, (size_t)n, sizeof *rank, compare_numbers);
    for (int32_t i = 0; i < n; i++)
        if (m == 0 || rank[m - 1] != rank[i])
            rank[m++] = rank[i];
    if (m < least)
        return;
    if (t->n == t->room) {
        t->room = t->room > 0 ? 2 * t->room : 64;
        struct cs_group *grown = CS_NEW_ARRAY(t->arena, struct cs_group, t->room);
        if (t->n > 0)
            memcpy(grown, t->group, (size_t)t->n * sizeof *grown);
        t->group = grown;
    }
    t->group[t->n++] = (struct cs_group){.kind = kind, .of = of, .n = m, .rank = rank};
}

static void add_world(struct table *t)
{
    const int32_t n = cs_plan_world(t->plan);
    int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, n);
    for (int32_t r = 0; r < n; r++)
        rank[r] = r;
    add(t, CS_GROUP_WORLD, -1, rank, n, 1);
}

/* The place that comes after `at` in a shape; false: it was the last. */
static bool next_place(const struct cs_rank_shape *s, struct cs_rank_at *at)
{
    int32_t *const digit[] = {&at->tp, &at->cp, &at->dp};
    const int32_t size[] = {s->tp, s->cp, s->dp};
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        if (++*digit[i] < size[i])
            return true;
        *digit[i] = 0;
    }
    return false;
}

/* the dimension of a place that a kind of group runs along */
static int32_t *along(enum cs_group_kind kind, struct cs_rank_at *at)
{
    return kind == CS_GROUP_TP ? &at->tp : &at->cp;
}

/* The same weights: all replicas of a place, and all parts of the context. */
static void add_holders(struct table *t, int32_t stage)
{
    const struct cs_rank_shape s = cs_plan_shape(t->plan, stage);
    struct cs_rank_at at = {0};
    do {
        struct cs_rank_at one = at;
        int32_t *rank = NULL, n = 0;
        if (at.dp > 0 || at.cp > 0)
            continue;
        rank = CS_NEW_ARRAY(t->arena, int32_t, s.dp * s.cp);
        for (one.dp = 0; one.dp < s.dp; one.dp++)
            for (one.cp = 0; one.cp < s.cp; one.cp++)
                rank[n++] = cs_plan_rank(t->plan, stage, one);
        add(t, CS_GROUP_DP, -1, rank, n, 2);
    } while (next_place(&s, &at));
}

/* of one place of a stage's matrices: n ranks among those with the same weights, `step` apart from the
 * first on */
static void add_some_holders(struct table *t, int32_t stage, enum cs_group_kind kind, int32_t tp,
                             int32_t first, int32_t step, int32_t n)
{
    const int32_t cp = cs_plan_shape(t->plan, stage).cp;
    int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t holder = first + i * step;
        rank[i] = cs_plan_rank(t->plan, stage,
                               (struct cs_rank_at){.dp = holder / cp, .cp = holder % cp, .tp = tp});
    }
    add(t, kind, -1, rank, n, 2);
}

/* Neighbours share the experts; those that stand alike among theirs have the same ones. */
static void add_experts(struct table *t, int32_t stage)
{
    const struct cs_rank_shape s = cs_plan_shape(t->plan, stage);
    const int32_t copies = s.dp * s.cp / s.ep;
    for (int32_t tp = 0; s.ep > 1 && tp < s.tp; tp++) {
        for (int32_t i = 0; i < copies; i++)
            add_some_holders(t, stage, CS_GROUP_EP, tp, i * s.ep, 1, s.ep);
        for (int32_t e = 0; e < s.ep; e++)
            add_some_holders(t, stage, CS_GROUP_EDP, tp, e, s.ep, copies);
    }
}

static void add_dimension(struct table *t, int32_t stage, enum cs_group_kind kind)
{
    const struct cs_rank_shape s = cs_plan_shape(t->plan, stage);
    const int32_t n = kind == CS_GROUP_TP ? s.tp : s.cp;
    struct cs_rank_at at = {0};
    do {
        struct cs_rank_at one = at;
        if (n < 2 || *along(kind, &at) != 0)
            continue;
        int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, n);
        for (int32_t i = 0; i < n; i++) {
            *along(kind, &one) = i;
            rank[i] = cs_plan_rank(t->plan, stage, one);
        }
        add(t, kind, -1, rank, n, 2);
    } while (next_place(&s, &at));
}

/* All ranks of a stage, in every replica: encoders there share their items among them. */
static void add_sharers(struct table *t, int32_t stage)
{
    const int32_t at = t->plan->stages[stage].rank, n = cs_plan_width(t->plan, at);
    for (int32_t k = 0; k < cs_plan_replicas(t->plan); k++) {
        int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, n);
        for (int32_t i = 0; i < n; i++)
            rank[i] = cs_plan_rank_of(t->plan, k, at) + i;
        add(t, CS_GROUP_ITEMS, -1, rank, n, 2);
    }
}

/* The place of another stage that talks to a place of this one; a dimension that is shorter there is
 * shared. */
static struct cs_rank_at opposite(const struct cs_plan *plan, int32_t from, int32_t stage,
                                  const struct cs_rank_at *at)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    const int32_t own = cs_plan_lanes(plan, from), lanes = cs_plan_lanes(plan, stage);
    return (struct cs_rank_at){.dp = at->dp / own * lanes + at->dp % own % lanes,
                               .cp = at->cp % s.cp,
                               .tp = at->tp % s.tp};
}

static void add_tied(struct table *t)
{
    const struct cs_plan *plan = t->plan;
    if (!plan->is_tied_across || plan->tied_bytes == 0)
        return;
    const struct cs_rank_shape s = cs_plan_shape(plan, plan->embed_stage);
    struct cs_rank_at at = {0};
    do {
        int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, 2);
        rank[0] = cs_plan_rank(plan, plan->embed_stage, at);
        rank[1] = cs_plan_rank(plan, plan->head_stage,
                               opposite(plan, plan->embed_stage, plan->head_stage, &at));
        add(t, CS_GROUP_TIED, -1, rank, 2, 1);
    } while (next_place(&s, &at));
}

/* the copies of a branch follow each other, `first` is the first of them */
static void add_copies(struct table *t, int32_t first)
{
    const struct cs_stage *stage = &t->plan->stages[first];
    const struct cs_rank_shape s = cs_plan_shape(t->plan, first);
    struct cs_rank_at at = {0};
    if (stage->copies < 2 || stage->index != 0)
        return;
    do {
        int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, stage->copies);
        for (int32_t i = 0; i < stage->copies; i++)
            rank[i] = cs_plan_rank(t->plan, first + i, at);
        add(t, CS_GROUP_COPIES, stage->branch, rank, stage->copies, 2);
    } while (next_place(&s, &at));
}

static void add_channel(struct table *t, int32_t from, int32_t to)
{
    int32_t *rank = CS_NEW_ARRAY(t->arena, int32_t, 2);
    rank[0] = from;
    rank[1] = to;
    add(t, CS_GROUP_CHANNEL, from, rank, 2, 2);
}

/* Different numbers of lanes, or ranks that share the items and are others than those of the LLM; or stripes
 * from ranks that share matrices and have the rows of all parts of the LLM. */
static bool goes_anywhere(const struct cs_plan *plan, const struct cs_edge *edge)
{
    const struct cs_rank_shape from = cs_plan_shape(plan, edge->from),
                               to = cs_plan_shape(plan, edge->to);
    const bool is_striped = edge->is_striped[CS_FLOW_ROWS] && to.cp > 1 && from.tp > to.tp;
    const bool is_shared = edge->feed >= 0 && (from.cp > 1 || is_striped) &&
                           plan->stages[edge->from].rank != plan->stages[edge->to].rank;
    return is_shared || cs_plan_lanes(plan, edge->from) != cs_plan_lanes(plan, edge->to);
}

/* Rows of items go from any part of an encoder to any of the LLM, in every replica. */
static void add_ways(struct table *t, const struct cs_edge *edge)
{
    const struct cs_plan *plan = t->plan;
    const int32_t n_from = cs_plan_stage_ranks(plan, edge->from),
                  n_to = cs_plan_stage_ranks(plan, edge->to);
    for (int32_t k = 0; k < cs_plan_replicas(plan); k++)
        for (int32_t i = 0; i < n_from * n_to; i++) {
            const int32_t a = cs_plan_rank_of(plan, k, plan->stages[edge->from].rank) + i / n_to,
                          b = cs_plan_rank_of(plan, k, plan->stages[edge->to].rank) + i % n_to;
            add_channel(t, a, b);
            if (edge->has_grad)
                add_channel(t, b, a);
        }
}

/* every rank of one end talks to its opposite at the other */
static void add_edge(struct table *t, const struct cs_edge *edge, int32_t end)
{
    const struct cs_rank_shape s = cs_plan_shape(t->plan, end);
    struct cs_rank_at at = {0};
    do {
        const struct cs_rank_at from = opposite(t->plan, end, edge->from, &at),
                                to = opposite(t->plan, end, edge->to, &at);
        const int32_t a = cs_plan_rank(t->plan, edge->from, from),
                      b = cs_plan_rank(t->plan, edge->to, to);
        add_channel(t, a, b);
        if (edge->has_grad)
            add_channel(t, b, a);
    } while (next_place(&s, &at));
}

static void add_channels(struct table *t)
{
    const struct cs_plan *plan = t->plan;
    for (int32_t e = 0; e < plan->n_edges; e++) {
        add_edge(t, &plan->edges[e], plan->edges[e].from);
        if (plan->first != NULL)
            add_edge(t, &plan->edges[e], plan->edges[e].to);
        if (goes_anywhere(plan, &plan->edges[e]))
            add_ways(t, &plan->edges[e]);
    }
}

static int compare(const void *a, const void *b)
{
    const struct cs_group *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->of != y->of)
        return x->of < y->of ? -1 : 1;
    for (int32_t i = 0; i < x->n && i < y->n; i++)
        if (x->rank[i] != y->rank[i])
            return x->rank[i] < y->rank[i] ? -1 : 1;
    return (x->n > y->n) - (x->n < y->n);
}

int32_t cs_groups_sort(struct cs_group *group, int32_t n)
{
    int32_t m = 0;
    if (n > 0)
        qsort(group, (size_t)n, sizeof *group, compare);
    for (int32_t i = 0; i < n; i++)
        if (m == 0 || compare(&group[m - 1], &group[i]) != 0)
            group[m++] = group[i];
    return m;
}

void cs_plan_make_groups(struct cs_plan *plan, struct cs_arena *arena)
{
    struct table t = {.plan = plan, .arena = arena};
    cs_plan_number_ranks(plan, arena);
    add_world(&t);
    add_tied(&t);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        add_copies(&t, s);
        if (cs_plan_shares_all(plan, s))
            add_sharers(&t, s);
        if (cs_plan_is_guest(plan, s)) /* its ranks meet as those of its host */
            continue;
        add_holders(&t, s);
        add_dimension(&t, s, CS_GROUP_TP);
        add_dimension(&t, s, CS_GROUP_CP);
        add_experts(&t, s);
    }
    add_channels(&t);
    plan->n_groups = cs_groups_sort(t.group, t.n);
    plan->group = t.group;
}

void cs_plan_make_channels(struct cs_plan *plan, struct cs_arena *arena)
{
    struct table t = {.plan = plan, .arena = arena};
    cs_plan_number_ranks(plan, arena);
    add_channels(&t);
    plan->n_groups = cs_groups_sort(t.group, t.n);
    plan->group = t.group;
}

const struct cs_plan *cs_plan_with_groups(const struct cs_plan *plan, struct cs_arena *arena)
{
    if (plan->n_groups > 0)
        return plan;
    struct cs_plan *copy = CS_NEW(arena, struct cs_plan);
    *copy = *plan;
    cs_plan_make_groups(copy, arena);
    return copy;
}

int32_t cs_group_position(const struct cs_group *group, int32_t rank)
{
    const int32_t *at = bsearch(&rank, group->rank, (size_t)group->n, sizeof rank, compare_numbers);
    return at != NULL ? (int32_t)(at - group->rank) : -1;
}

/* the first group of a kind or of one after it */
static int32_t first_of(const struct cs_plan *plan, enum cs_group_kind kind)
{
    int32_t low = 0, high = plan->n_groups;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (plan->group[middle].kind < kind)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t cs_plan_group(const struct cs_plan *plan, enum cs_group_kind kind, int32_t of, int32_t rank)
{
    for (int32_t i = first_of(plan, kind); i < plan->n_groups && plan->group[i].kind == kind; i++)
        if ((of < 0 || plan->group[i].of == of) && cs_group_position(&plan->group[i], rank) >= 0)
            return i;
    return -1;
}

int32_t cs_plan_collectives(const struct cs_plan *plan)
{
    return first_of(plan, CS_GROUP_CHANNEL);
}
