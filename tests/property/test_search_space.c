/* What must hold between searches that differ in one thing: cheaper layers, the order of branches,
 * a larger space, replicas, zero levels, sampled batches; and what every plan handed back
 * satisfies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/search/search.h"

enum { MAX = 6, TRIALS = 30, TPS = 3 };

static uint64_t state_of;

static int64_t draw(int64_t low, int64_t high)
{
    state_of = state_of * 6364136223846793005u + 1442695040888963407u;
    return low + (int64_t)((state_of >> 33) % (uint64_t)(high - low + 1));
}

struct model {
    struct cs_search_layer layer[3][TPS][MAX];
    struct cs_search_option option[3][TPS];
    struct cs_search_problem problem;
};

static const char *const names[] = {"a", "v", "llm"};

static void draw_layer(struct cs_search_layer *l, bool upstream, bool trains)
{
    *l = (struct cs_search_layer){.fwd_ns = draw(40, 900), .weight_bytes = draw(100, 900)};
    l->blind_ns = 3 * l->fwd_ns;
    l->needs_input_grad = upstream;
    l->is_trained = trains;
    l->bwd_input_ns = upstream ? l->fwd_ns : 0;
    l->bwd_weight_ns = trains ? l->fwd_ns : 0;
    l->grad_bytes = trains ? 2 * l->weight_bytes : 0;
    l->optim_bytes = trains ? 6 * l->weight_bytes : 0;
    l->saved_bytes = upstream || trains ? draw(10, 90) : 0;
}

/* tp divides times and bytes, and costs a little */
static struct cs_search_layer over_tp(const struct cs_search_layer *one, int32_t tp)
{
    struct cs_search_layer l = *one;
    int64_t toll = tp > 1 ? 5 * tp : 0;
    l.fwd_ns = l.fwd_ns / tp + toll;
    l.bwd_input_ns = l.bwd_input_ns ? l.bwd_input_ns / tp + toll : 0;
    l.bwd_weight_ns /= tp;
    l.blind_ns = 3 * l.fwd_ns;
    l.weight_bytes = (l.weight_bytes + tp - 1) / tp;
    l.grad_bytes /= tp;
    l.optim_bytes /= tp;
    l.saved_bytes = (l.saved_bytes + tp - 1) / tp;
    return l;
}

static void link_model(struct model *m)
{
    for (int b = 0; b < 3; b++)
        for (int t = 0; t < TPS; t++) {
            m->option[b][t] = (struct cs_search_option){
                .tp = 1 << t, .cp = 1, .recompute = CS_RECOMPUTE_NONE, .layer = m->layer[b][t]};
            m->problem.branch[b].option = m->option[b];
        }
}

static void draw_model(struct model *m, int32_t ranks)
{
    bool feeds = false;
    memset(m, 0, sizeof(*m));
    m->problem = (struct cs_search_problem){.n_branches = 3,
                                            .llm = 2,
                                            .n_ranks = ranks,
                                            .ranks_per_node = 8,
                                            .bytes_per_s = 1000000000000,
                                            .link_bytes_per_s = 100000000000,
                                            .link_latency_ns = 4,
                                            .net_bytes_per_s = 10000000000,
                                            .net_latency_ns = 20};
    for (int b = 0; b < 3; b++) {
        bool trains = b == 2 && feeds, is_trained = draw(0, 1) == 0;
        int n = (int)draw(2, MAX);
        for (int i = 0; i < n; i++) {
            draw_layer(&m->layer[b][0][i], trains, is_trained);
            trains = trains || is_trained;
            for (int t = 1; t < TPS; t++)
                m->layer[b][t][i] = over_tp(&m->layer[b][0][i], 1 << t);
        }
        feeds = feeds || trains;
        m->problem.branch[b] =
            (struct cs_search_branch){.name = names[b],
                                      .n_layers = n,
                                      .n_options = TPS,
                                      .inner_bytes = draw(0, 500),
                                      .out_bytes = b == 2 ? 0 : draw(0, 500),
                                      .n_items = b == 2 ? 0 : (int32_t)draw(1, 8),
                                      .rows = 512,
                                      .quad_share = b == 2 ? 0.25 : 0};
    }
    link_model(m);
}

static struct cs_search_result run(const struct model *m, const struct cs_search_options *options,
                                   struct cs_arena *arena)
{
    struct cs_search_result result;
    struct cs_err err;
    if (cs_search_run(&m->problem, options, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

static struct cs_search_options all_of(int32_t slots)
{
    return (struct cs_search_options){.batch_slots = slots, .n_simulate = 60, .top = 400};
}

/* ranks, placements and levels of every plan hold together */
static void check_plan(const struct model *m, const struct cs_search_plan *p)
{
    int64_t ranks = 0;
    const struct cs_branch_layout *llm = &p->layout.branch[2];
    for (int32_t b = 0; b < 3; b++) {
        const struct cs_branch_layout *at = &p->layout.branch[b];
        int32_t dp = cs_layout_dp(&p->layout, b), zero = cs_layout_zero(&p->layout, b);
        assert_true(zero >= 0 && zero <= 3);
        if (at->place == CS_PLACE_OWN) {
            ranks += (int64_t)at->tp * at->cp * at->pp * dp;
            assert_true(m->problem.n_ranks <= 16 || dp % p->layout.dp == 0 ||
                        p->layout.dp % dp == 0);
            assert_true(dp <= p->layout.dp || dp <= p->layout.dp * m->problem.branch[b].n_items);
        }
        if (at->place == CS_PLACE_COLOCATED) {
            assert_int_equal(llm->tp % at->tp, 0);
            assert_int_equal(dp, p->layout.dp * llm->pp * (llm->tp / at->tp));
        }
        if (at->place == CS_PLACE_REPLICATED)
            assert_int_equal(at->tp, llm->tp);
    }
    assert_int_equal(ranks, p->n_ranks);
    assert_int_equal(cs_layout_ranks(&p->layout), p->n_ranks);
    assert_true(p->n_ranks <= m->problem.n_ranks);
    assert_true(cs_layout_stays_in_nodes(&p->layout, m->problem.ranks_per_node));
    assert_int_equal(p->step_ns, p->pipeline_ns + p->sync_ns + p->optim_ns);
    assert_true(p->bubble >= 0 && p->bubble < 1);
    assert_true(m->problem.mem_bytes == 0 || p->peak_bytes <= m->problem.mem_bytes);
}

static void plans_hold_together(void **state)
{
    int n_dp = 0, n_mixed = 0, n_vpp = 0, n_zero = 0;
    (void)state;
    state_of = 41;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m;
        struct cs_search_options options = all_of(24);
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, (int32_t)draw(4, 24));
        options.modalities = 15;
        m.problem.mem_bytes = trial % 3 ? 0 : draw(3000, 30000);
        struct cs_search_result result;
        struct cs_err err;
        enum cs_status st = cs_search_run(&m.problem, &options, arena, &result, &err);
        assert_true(st == CS_OK || (st == CS_PLAN && m.problem.mem_bytes > 0));
        for (int32_t i = 0; st == CS_OK && i < result.n_plans; i++) {
            const struct cs_search_plan *p = &result.plan[i];
            check_plan(&m, p);
            n_mixed += p->modality == CS_SEARCH_MIXED;
            n_vpp += p->layout.branch[2].vpp > 2;
            for (int b = 0; b < 2; b++) {
                n_dp += p->layout.branch[b].place == CS_PLACE_OWN &&
                        cs_layout_dp(&p->layout, b) != p->layout.dp;
                n_zero += cs_layout_zero(&p->layout, b) > 1;
            }
            n_zero += cs_layout_zero(&p->layout, 2) > 1;
        }
        cs_arena_free(arena);
    }
    assert_true(n_dp > 20 && n_mixed > 20 && n_vpp > 0 && n_zero > 5);
}

/* The order of encoders decides nothing but names of ties. */
static void order_of_branches_does_not_matter(void **state)
{
    (void)state;
    state_of = 43;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m, other;
        struct cs_search_options options = all_of(12);
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, (int32_t)draw(3, 8));
        m.problem.link_bytes_per_s = m.problem.net_bytes_per_s = 0; /* ranks of a node shift */
        m.problem.ranks_per_node = 1024;
        other = m;
        memcpy(other.layer[0], m.layer[1], sizeof(m.layer[0]));
        memcpy(other.layer[1], m.layer[0], sizeof(m.layer[0]));
        other.problem.branch[0] = m.problem.branch[1];
        other.problem.branch[1] = m.problem.branch[0];
        link_model(&m);
        link_model(&other);
        options.n_simulate = 4000;
        options.skip_planners = true;
        struct cs_search_result a = run(&m, &options, arena), b = run(&other, &options, arena);
        assert_int_equal(a.plan[0].step_ns, b.plan[0].step_ns);
        assert_int_equal(a.plan[0].peak_bytes, b.plan[0].peak_bytes);
        cs_arena_free(arena);
    }
}

/* a cheaper layer never makes the best plan slower; all plans of the small problem are simulated
 * and all their cuts tried, so the best is the best */
static void cheaper_layers_never_make_it_slower(void **state)
{
    int n_faster = 0;
    (void)state;
    state_of = 47;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m;
        struct cs_search_options options = all_of(6);
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, 4);
        m.problem.branch[0].n_layers = m.problem.branch[1].n_layers = 2;
        m.problem.branch[2].n_layers =
            m.problem.branch[2].n_layers < 4 ? m.problem.branch[2].n_layers : 4;
        options.schedules = 1;
        options.n_simulate = options.n_refine = 4000;
        options.skip_planners = true;
        int64_t before = run(&m, &options, arena).plan[0].step_ns;
        int b = (int)draw(0, 2), i = (int)draw(0, m.problem.branch[b].n_layers - 1);
        for (int t = 0; t < TPS; t++) {
            m.layer[b][t][i].fwd_ns /= 3;
            m.layer[b][t][i].bwd_input_ns /= 3;
            m.layer[b][t][i].bwd_weight_ns /= 3;
            if (m.layer[b][0][i].bwd_input_ns == 0)
                m.layer[b][t][i].bwd_input_ns = 0;
        }
        int64_t after = run(&m, &options, arena).plan[0].step_ns;
        assert_true(after <= before);
        n_faster += after < before;
        cs_arena_free(arena);
    }
    assert_true(n_faster > TRIALS / 3);
}

/* the other planners' choices are among the candidates */
static void no_planner_beats_the_search(void **state)
{
    int n[CS_PLANNERS] = {0};
    (void)state;
    state_of = 53;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m;
        struct cs_search_options options = all_of(24);
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, (int32_t)draw(4, 24));
        struct cs_search_result result = run(&m, &options, arena);
        for (int p = 0; p < CS_PLANNERS; p++) {
            const struct cs_search_choice *c = &result.choice[p];
            if (c->plan) {
                assert_int_equal(c->plan->planner == (enum cs_search_planner)p ||
                                     p == CS_PLANNER_CORNSTARCH,
                                 true);
                assert_true(c->plan->step_ns >= result.plan[0].step_ns);
                n[p]++;
            } else {
                assert_non_null(c->why_not);
            }
        }
        cs_arena_free(arena);
    }
    for (int p = 0; p < CS_PLANNERS; p++)
        assert_true(n[p] > TRIALS / 2);
}

static void planners_keep_their_rules(void **state)
{
    (void)state;
    state_of = 59;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m;
        struct cs_search_options options = all_of(24);
        struct cs_search_result result;
        struct cs_err err;
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, (int32_t)draw(4, 24));
        options.skip_planners = true;
        options.planner = CS_PLANNER_DISTTRAIN;
        options.n_refine = -1;
        result = run(&m, &options, arena);
        for (int32_t i = 0; i < result.n_plans; i++) {
            const struct cs_search_plan *p = &result.plan[i];
            assert_int_equal(p->modality, CS_PLACE_OWN);
            assert_string_equal(p->schedule, "1f1b");
            int32_t most[3] = {0}, least[3] = {99, 99, 99};
            for (int32_t k = 0; k < p->n_stages; k++) {
                int32_t b = p->stage[k].branch, layers = p->stage[k].n_layers;
                most[b] = layers > most[b] ? layers : most[b];
                least[b] = layers < least[b] ? layers : least[b];
            }
            for (int b = 0; b < 3; b++) /* the smallest largest stage */
                assert_int_equal(most[b],
                                 (m.problem.branch[b].n_layers + p->layout.branch[b].pp - 1) /
                                     p->layout.branch[b].pp);
        }
        options.planner = CS_PLANNER_ENTRAIN;
        if (cs_search_run(&m.problem, &options, arena, &result, &err) == CS_OK)
            for (int32_t i = 0; i < result.n_plans; i++)
                for (int b = 0; b < 3; b++)
                    assert_int_equal(cs_layout_dp(&result.plan[i].layout, b),
                                     result.plan[i].layout.dp);
        cs_arena_free(arena);
    }
}

static void zero_levels_are_taken_when_nothing_cheaper_fits(void **state)
{
    struct model m;
    struct cs_search_options options = all_of(8);
    struct cs_arena *arena = cs_arena_new(0);
    int64_t last_step = 0, last_bytes = INT64_MAX;
    (void)state;
    state_of = 61;
    draw_model(&m, 12);
    for (int b = 0; b < 3; b++)
        for (int i = 0; i < MAX; i++) {
            draw_layer(&m.layer[b][0][i], b > 0 || i > 0, true);
            for (int t = 1; t < TPS; t++)
                m.layer[b][t][i] = over_tp(&m.layer[b][0][i], 1 << t);
        }
    options.dp = 4;
    options.schedules = 1;
    options.modalities = 1u << CS_PLACE_OWN;
    options.skip_planners = true;
    options.n_refine = -1;
    for (int z = 0; z < 3; z++)
        for (int b = 0; b < 3; b++)
            options.fix[b].tp = options.fix[b].pp = 1;
    for (unsigned z = 1; z <= 3; z++) { /* alone: slower and smaller */
        options.zeros = 1u << z;
        struct cs_search_result r = run(&m, &options, arena);
        assert_int_equal(r.n_plans, 1);
        assert_true(r.plan[0].step_ns > last_step || z == 1);
        assert_true(r.plan[0].peak_bytes < last_bytes);
        last_step = r.plan[0].step_ns;
        last_bytes = r.plan[0].peak_bytes;
    }
    options.zeros = 0; /* all: as little as needed */
    assert_int_equal(run(&m, &options, arena).plan[0].layout.zero, 1);
    m.problem.mem_bytes = last_bytes;
    struct cs_search_result r = run(&m, &options, arena);
    assert_true(r.plan[0].peak_bytes <= last_bytes);
    bool has_level = false;
    for (int b = 0; b < 3; b++)
        has_level = has_level || cs_layout_zero(&r.plan[0].layout, b) > 1;
    assert_true(has_level);
    cs_arena_free(arena);
}

/* chunks that are asked for come alone, and are whole layers on the right ranks */
static void chunks_are_those_asked_for(void **state)
{
    (void)state;
    state_of = 71;
    for (int trial = 0; trial < TRIALS; trial++) {
        struct model m;
        struct cs_search_options options = all_of(12);
        struct cs_arena *arena = cs_arena_new(0);
        draw_model(&m, 16);
        m.problem.branch[2].n_layers = MAX;
        for (int i = 0; i < MAX; i++) {
            draw_layer(&m.layer[2][0][i], true, true);
            for (int t = 1; t < TPS; t++)
                m.layer[2][t][i] = over_tp(&m.layer[2][0][i], 1 << t);
        }
        options.fix[2].vpp = 1 + trial % 3;
        options.skip_planners = true;
        struct cs_search_result r = run(&m, &options, arena);
        for (int32_t i = 0; i < r.n_plans; i++) {
            bool is_cut = strcmp(r.plan[i].schedule, "interleaved") == 0;
            int32_t layers = 0;
            assert_int_equal(r.plan[i].layout.branch[2].vpp, options.fix[2].vpp);
            assert_int_equal(is_cut, options.fix[2].vpp > 1);
            for (int32_t k = 0; k < r.plan[i].n_stages; k++)
                if (r.plan[i].stage[k].branch == 2) {
                    layers += r.plan[i].stage[k].n_layers;
                    assert_true(r.plan[i].stage[k].n_layers >= options.fix[2].vpp);
                }
            assert_int_equal(layers, MAX);
        }
        cs_arena_free(arena);
    }
}

static void what_cannot_be_is_refused(void **state)
{
    struct model m;
    struct cs_search_options options = all_of(8);
    struct cs_search_result result;
    struct cs_err err;
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    state_of = 67;
    draw_model(&m, 8);
    options.fix[2].ep = 2;
    assert_int_equal(cs_search_run(&m.problem, &options, arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "parallel.llm.ep = 2: llm has no layers with experts"));
    options.fix[2].ep = 0;
    options.fix[0].vpp = 2;
    assert_int_equal(cs_search_run(&m.problem, &options, arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "parallel.a.vpp = 2: only stages of the LLM"));
    options.fix[0].vpp = 0;
    options.fix[2].place = 1 + CS_PLACE_COLOCATED;
    assert_int_equal(cs_search_run(&m.problem, &options, arena, &result, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "the LLM has ranks of its own"));
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_hold_together),
        cmocka_unit_test(order_of_branches_does_not_matter),
        cmocka_unit_test(cheaper_layers_never_make_it_slower),
        cmocka_unit_test(no_planner_beats_the_search),
        cmocka_unit_test(planners_keep_their_rules),
        cmocka_unit_test(zero_levels_are_taken_when_nothing_cheaper_fits),
        cmocka_unit_test(chunks_are_those_asked_for),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
