/* Numbers of ranks and the table of groups, over random plans: the arithmetic goes both ways, the
 * table is sorted and every rank is where it must be, and plans of pipelines with replicas have the
 * numbers that they always had. */
#include "core/plan/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/plan_schedule.h"
#include "support/random_plan.h"

enum { ROUNDS = 400, MAX_WORLD = 4096 };

static int between(uint64_t *seed, int low, int high)
{
    return low + cs_test_random(seed, high - low + 1);
}

/* A random plan in which every stage has a program of its own and is spread over a random shape. */
static void random_shapes(struct cs_test_random_plan *m, uint64_t *seed, struct cs_arena *arena)
{
    cs_test_random_plan(m, seed, CS_TEST_OWN_RANKS, "1f1b");
    m->plan.dp = between(seed, 0, 3);
    struct cs_rank_shape shape = {.tp = between(seed, 0, 3), .cp = between(seed, 0, 3)};
    const int32_t holders = (m->plan.dp > 0 ? m->plan.dp : 1) * (shape.cp > 0 ? shape.cp : 1);
    shape.ep = between(seed, 0, holders);
    if (shape.ep > 0 && holders % shape.ep != 0)
        shape.ep = holders;
    for (int32_t s = 0; s < m->plan.n_stages; s++) {
        m->stage[s].shape =
            cs_test_random(seed, 2) ? shape : (struct cs_rank_shape){.tp = between(seed, 1, 4)};
        m->stage[s].rank = s;
    }
    m->plan.n_ranks = m->plan.n_stages;
    cs_plan_number_ranks(&m->plan, arena);
    m->plan.is_tied_across = cs_test_random(seed, 2);
    m->plan.tied_bytes = 1;
}

static bool is_as_wide(const struct cs_rank_shape *a, const struct cs_rank_shape *b)
{
    return a->tp <= b->tp && a->cp <= b->cp;
}

/* Ranks of programs that are as wide in every dimension stand opposite each other, one by one. */
static void check_peers(const struct cs_plan *plan, int32_t rank)
{
    const int32_t own = cs_plan_rank_in_replica(plan, rank);
    for (int32_t other = 0; other < plan->n_ranks; other++) {
        const int32_t peer = cs_plan_peer(plan, rank, other);
        assert_int_equal(cs_plan_rank_in_replica(plan, peer), other);
        assert_int_equal(cs_plan_replica(plan, peer), cs_plan_replica(plan, rank));
        const struct cs_rank_shape here = cs_plan_rank_shape(plan, own);
        const struct cs_rank_shape there = cs_plan_rank_shape(plan, other);
        if (is_as_wide(&here, &there))
            assert_int_equal(cs_plan_peer(plan, peer, own), rank);
    }
}

static void numbers_of_ranks_go_both_ways(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = (uint64_t)round;
        static struct cs_test_random_plan m;
        static bool seen[MAX_WORLD];
        struct cs_arena *arena = cs_arena_new(0);
        random_shapes(&m, &seed, arena);
        const int32_t world = cs_plan_world(&m.plan);
        int32_t n = 0;
        assert_in_range(world, 1, MAX_WORLD);
        memset(seen, 0, sizeof seen);
        for (int32_t s = 0; s < m.plan.n_stages; s++) {
            const struct cs_rank_shape shape = cs_plan_shape(&m.plan, s);
            int32_t last = -1;
            for (int32_t i = 0; i < shape.dp * shape.cp * shape.tp; i++, n++) {
                const struct cs_rank_at at = {.tp = i % shape.tp,
                                              .cp = i / shape.tp % shape.cp,
                                              .ep = i / shape.tp % shape.ep,
                                              .dp = i / shape.tp / shape.cp};
                struct cs_rank_at back;
                const int32_t rank = cs_plan_rank(&m.plan, s, at);
                assert_in_range(rank, last + 1, world - 1); /* tp is fastest, dp slowest */
                last = rank;
                assert_false(seen[rank]);
                seen[rank] = true;
                assert_true(cs_plan_rank_at(&m.plan, s, rank, &back));
                assert_memory_equal(&at, &back, sizeof at);
                assert_int_equal(cs_plan_replica(&m.plan, rank), at.dp);
                assert_int_equal(cs_plan_holder(&m.plan, rank), i / shape.tp);
                assert_int_equal(cs_plan_rank_in_replica(&m.plan, rank), m.stage[s].rank);
                assert_int_equal(cs_plan_rank_of(&m.plan, at.dp, m.stage[s].rank) +
                                     cs_plan_place(&m.plan, rank),
                                 rank);
                check_peers(&m.plan, rank);
                for (int32_t other = 0; other < m.plan.n_stages; other++)
                    assert_int_equal(cs_plan_rank_at(&m.plan, other, rank, &back), other == s);
            }
        }
        assert_int_equal(n, world); /* all of them were seen */
        cs_arena_free(arena);
    }
}

static int compare(const struct cs_group *a, const struct cs_group *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->of != b->of)
        return a->of < b->of ? -1 : 1;
    for (int32_t i = 0; i < a->n && i < b->n; i++)
        if (a->rank[i] != b->rank[i])
            return a->rank[i] < b->rank[i] ? -1 : 1;
    return a->n - b->n;
}

static int32_t groups_of(const struct cs_plan *plan, enum cs_group_kind kind, int32_t rank)
{
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_groups; i++)
        n += plan->group[i].kind == kind && cs_group_position(&plan->group[i], rank) >= 0;
    return n;
}

static void check_table(const struct cs_plan *plan)
{
    const int32_t world = cs_plan_world(plan);
    for (int32_t i = 0; i < plan->n_groups; i++) {
        const struct cs_group *g = &plan->group[i];
        if (i > 0)
            assert_true(compare(g - 1, g) < 0);
        for (int32_t k = 0; k < g->n; k++) {
            assert_in_range(g->rank[k], k > 0 ? g->rank[k - 1] + 1 : 0, world - 1);
            assert_int_equal(cs_group_position(g, g->rank[k]), k);
            /* but for the world, the replicas and experts, nobody leaves its replica */
            if (g->kind != CS_GROUP_WORLD && g->kind != CS_GROUP_DP && g->kind != CS_GROUP_EP &&
                g->kind != CS_GROUP_EDP)
                assert_int_equal(cs_plan_replica(plan, g->rank[k]),
                                 cs_plan_replica(plan, g->rank[0]));
        }
    }
}

/* Neighbours among the ranks with the same weights share experts, every ep-th has the same ones. */
static void check_experts(const struct cs_plan *plan, const struct cs_rank_shape *shape,
                          int32_t program, int32_t rank)
{
    const int32_t copies = shape->dp * shape->cp / shape->ep;
    const int32_t sharers = cs_plan_group(plan, CS_GROUP_EP, -1, rank),
                  same = cs_plan_group(plan, CS_GROUP_EDP, -1, rank);
    assert_int_equal(cs_plan_expert_holders(plan, program), copies);
    assert_int_equal(groups_of(plan, CS_GROUP_EP, rank), shape->ep > 1);
    assert_int_equal(groups_of(plan, CS_GROUP_EDP, rank), shape->ep > 1 && copies > 1);
    for (int32_t i = 0; sharers >= 0 && i < shape->ep; i++)
        assert_int_equal(cs_plan_at(plan, plan->group[sharers].rank[i]).ep, i);
    for (int32_t i = 0; same >= 0 && i < copies; i++)
        assert_int_equal(cs_plan_at(plan, plan->group[same].rank[i]).ep, cs_plan_at(plan, rank).ep);
}

static void every_rank_is_in_one_group_of_each_of_its_dimensions(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = (uint64_t)round;
        static struct cs_test_random_plan m;
        struct cs_arena *arena = cs_arena_new(0);
        random_shapes(&m, &seed, arena);
        cs_plan_make_groups(&m.plan, arena);
        check_table(&m.plan);
        assert_int_equal(m.plan.group[0].kind, CS_GROUP_WORLD);
        assert_int_equal(m.plan.group[0].n, cs_plan_world(&m.plan));
        for (int32_t s = 0; s < m.plan.n_stages; s++) {
            const struct cs_rank_shape shape = cs_plan_shape(&m.plan, s);
            const struct cs_rank_at first = {0}, last = {.dp = shape.dp - 1,
                                                         .cp = shape.cp - 1,
                                                         .tp = shape.tp - 1};
            const int32_t ranks[] = {cs_plan_rank(&m.plan, s, first),
                                     cs_plan_rank(&m.plan, s, last)};
            for (int i = 0; i < 2; i++) {
                const int32_t r = ranks[i];
                const int32_t tp = cs_plan_group(&m.plan, CS_GROUP_TP, -1, r);
                assert_int_equal(groups_of(&m.plan, CS_GROUP_WORLD, r), 1);
                const int32_t holders = shape.dp * shape.cp;
                assert_int_equal(cs_plan_holders(&m.plan, m.stage[s].rank), holders);
                assert_int_equal(groups_of(&m.plan, CS_GROUP_DP, r), holders > 1);
                if (holders > 1)
                    assert_int_equal(m.plan.group[cs_plan_group(&m.plan, CS_GROUP_DP, -1, r)].n,
                                     holders);
                assert_int_equal(groups_of(&m.plan, CS_GROUP_TP, r), shape.tp > 1);
                assert_int_equal(groups_of(&m.plan, CS_GROUP_CP, r), shape.cp > 1);
                check_experts(&m.plan, &shape, m.stage[s].rank, r);
                if (shape.tp > 1) {
                    assert_int_equal(m.plan.group[tp].n, shape.tp);
                    assert_int_equal(m.plan.group[tp].rank[i == 0 ? 0 : shape.tp - 1], r);
                } else {
                    assert_int_equal(tp, -1);
                }
            }
        }
        cs_arena_free(arena);
    }
}

/* rank r of replica k is k * n_ranks + r; channels join the ranks of edges, the way rows and
 * gradients go */
static void pipelines_have_the_ranks_they_always_had(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t seed = (uint64_t)round;
        static struct cs_test_random_plan m;
        static bool pair[64][64];
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_plan *plan = &m.plan;
        int32_t n_channels = 0, dp = 1 + round % 3;
        cs_test_random_plan(&m, &seed, (enum cs_test_placing)(round % 3), "1f1b");
        plan->dp = dp;
        plan->is_tied_across = true;
        plan->tied_bytes = 1;
        cs_plan_make_groups(plan, arena);
        check_table(plan);
        assert_int_equal(cs_plan_check_runs(plan, NULL), CS_OK);
        for (int32_t r = 0; r < plan->n_ranks; r++) {
            const int32_t group = cs_plan_group(plan, CS_GROUP_DP, -1, r);
            assert_int_equal(group, dp > 1 ? 1 + r : -1);
            for (int32_t k = 0; k < dp && dp > 1; k++)
                assert_int_equal(plan->group[group].rank[k], k * plan->n_ranks + r);
        }
        memset(pair, 0, sizeof pair);
        for (int32_t e = 0; e < plan->n_edges; e++) {
            const int32_t from = m.stage[m.edge[e].from].rank, to = m.stage[m.edge[e].to].rank;
            pair[from][to] |= from != to;
            pair[to][from] |= from != to && m.edge[e].has_grad;
        }
        for (int32_t i = cs_plan_collectives(plan); i < plan->n_groups; i++, n_channels++) {
            const struct cs_group *g = &plan->group[i];
            const int32_t other = g->rank[0] == g->of ? g->rank[1] : g->rank[0];
            assert_int_equal(g->kind, CS_GROUP_CHANNEL);
            assert_true(pair[g->of % plan->n_ranks][other % plan->n_ranks]);
        }
        for (int i = 0; i < 64 * 64; i++)
            n_channels -= pair[i / 64][i % 64] ? dp : 0;
        assert_int_equal(n_channels, 0);
        const int32_t embed = m.stage[plan->embed_stage].rank,
                      head = m.stage[plan->head_stage].rank;
        for (int32_t k = 0; k < dp; k++) {
            const int32_t tied = cs_plan_group(plan, CS_GROUP_TIED, -1, k * plan->n_ranks + head);
            assert_int_equal(plan->group[tied].n, embed == head ? 1 : 2);
            assert_true(cs_group_position(&plan->group[tied], k * plan->n_ranks + embed) >= 0);
        }
        cs_arena_free(arena);
    }
}

static void shapes_that_no_worker_runs_are_refused(void **state)
{
    (void)state;
    static struct cs_test_random_plan m;
    uint64_t seed = 1;
    struct cs_err err = {.text = ""};
    cs_test_random_plan(&m, &seed, CS_TEST_OWN_RANKS, "1f1b");
    m.stage[0].name = "vision.0";
    m.stage[0].shape.ep = 2;
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "vision.0 has the shape tp 1, cp 1, ep 2, dp 1: ep must"));
    m.stage[0].shape = (struct cs_rank_shape){.tp = 2};
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_OK);
    m.stage[1].name = "vision.1";
    m.stage[1].rank = m.stage[0].rank;
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "vision.1 has tp 1, vision.0 on the same rank has tp 2"));
    m.stage[1].rank = 1;
    m.stage[0].shape = (struct cs_rank_shape){.cp = 2};
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_UNSUPPORTED);
    assert_non_null(strstr(err.text, "vision.0 has cp 2: all stages of a branch must have one cp"));
    m.stage[0].shape = (struct cs_rank_shape){.dp = 2};
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_UNSUPPORTED);
    m.plan.dp = 2;
    assert_int_equal(cs_plan_check_runs(&m.plan, &err), CS_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_ranks_go_both_ways),
        cmocka_unit_test(every_rank_is_in_one_group_of_each_of_its_dimensions),
        cmocka_unit_test(pipelines_have_the_ranks_they_always_had),
        cmocka_unit_test(shapes_that_no_worker_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
