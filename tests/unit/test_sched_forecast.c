/* Forecasts: what a view is told about a simulated step agrees with the simulator and with sums
 * that are done by hand. */
#include "core/sched/sim/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/units.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "tests/support/planned.h"

struct made {
    struct cs_test_planned job;
    struct cs_err err;
};

static void make(struct made *m, const struct cs_test_spec *options)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    *m = (struct made){.job = cs_test_plan_json(cs_test_spec_json(options), &cluster)};
}

static void done(struct made *m)
{
    cs_test_planned_free(&m->job);
}

static struct cs_forecast forecast(struct made *m, const struct cs_forecast_options *options)
{
    struct cs_forecast out;
    if (cs_forecast_plan(m->job.plan, m->job.graph, &m->job.cluster, options, m->job.arena, &out,
                         &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
    return out;
}

/* two stages on two ranks; stage 0: F 10, B 20; stage 1: F 20, B 40; rows of 5 x 2 */
static struct cs_plan two_stages(struct cs_stage *stage, struct cs_edge *edge)
{
    stage[0] = (struct cs_stage){.name = "llm.0",
                                 .fwd_ns = 10,
                                 .bwd_weight_ns = 20,
                                 .has_backward = true,
                                 .weight_bytes = 1000,
                                 .state_bytes = 3000,
                                 .saved_bytes = 7};
    stage[1] = (struct cs_stage){.name = "llm.1",
                                 .id = 1,
                                 .index = 1,
                                 .rank = 1,
                                 .fwd_ns = 20,
                                 .bwd_input_ns = 10,
                                 .bwd_weight_ns = 30,
                                 .has_backward = true,
                                 .needs_input_grad = true,
                                 .weight_bytes = 500,
                                 .saved_bytes = 9};
    *edge = (struct cs_edge){.from = 0, .to = 1, .width = 2, .has_grad = true, .max_rows = 5};
    return (struct cs_plan){.stages = stage,
                            .edges = edge,
                            .n_stages = 2,
                            .n_edges = 1,
                            .n_ranks = 2,
                            .schedule = "1f1b",
                            .slots = 2,
                            .head_stage = 1};
}

struct point {
    int64_t at, weights, state, activations, boundary;
};

static void check_curve(const struct cs_forecast_rank *rank, const struct point *want, uint32_t n)
{
    assert_int_equal(rank->n_points, n);
    for (uint32_t i = 0; i < n; i++) {
        const int64_t *bytes = rank->memory[i].bytes;
        assert_int_equal(rank->memory[i].at_ns, want[i].at);
        assert_int_equal(bytes[CS_HELD_WEIGHTS], want[i].weights);
        assert_int_equal(bytes[CS_HELD_STATE], want[i].state);
        assert_int_equal(bytes[CS_HELD_ACTIVATIONS], want[i].activations);
        assert_int_equal(bytes[CS_HELD_BOUNDARY], want[i].boundary);
    }
}

/* hop 5:  rank 0  F0 0-10, F1 10-20                   B0 80-100            B1 145-165
 *         rank 1      F0 15-35, B0 35-75, F1 75-95, B1 95-135
 * rows 0 travel 10-15, rows 1 20-25, gradients 75-80 and 135-140 */
static void two_stages_are_drawn_as_computed_by_hand(void **state)
{
    (void)state;
    struct cs_stage stage[2];
    struct cs_edge edge;
    struct cs_plan plan = two_stages(stage, &edge);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    struct cs_forecast f;
    struct cs_err err = {.text = ""};
    struct cs_sim_options options = {.hop_ns = 5};
    if (cs_program_make(&plan, NULL, 2, false, arena, &program, &err) != CS_OK ||
        cs_forecast_program(program, &options, 4, arena, &f, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_int_equal(f.makespan_ns, 160);
    static const struct point first[] = {
        {0,   1000, 3000, 7,  0 }, /* F0 */
        {10,  1000, 3000, 14, 40}, /* F1; rows of slot 0 leave */
        {15,  1000, 3000, 14, 0 },
        {20,  1000, 3000, 14, 40}, /* rows of slot 1 */
        {25,  1000, 3000, 14, 0 },
        {75,  1000, 3000, 14, 40}, /* gradient of slot 0 until B0 is done */
        {100, 1000, 3000, 7,  0 },
        {135, 1000, 3000, 7,  40},
        {160, 1000, 3000, 0,  0 },
    };
    static const struct point second[] = {
        {0,   500, 0, 0, 0 },
        {10,  500, 0, 0, 40}, /* rows of slot 0 arrive, used until 35 */
        {15,  500, 0, 9, 40},
        {20,  500, 0, 9, 80}, /* rows of slot 1, used until 95 */
        {35,  500, 0, 9, 40},
        {75,  500, 0, 9, 80}, /* slot 0 released, slot 1 live; its gradient
  leaves */
        {80,  500, 0, 9, 40},
        {95,  500, 0, 9, 0 },
        {135, 500, 0, 0, 40},
        {140, 500, 0, 0, 0 },
    };
    check_curve(&f.rank[0], first, CS_ARRAY_LEN(first));
    check_curve(&f.rank[1], second, CS_ARRAY_LEN(second));
    /* two buffers: of rank 0's two slots rows may be under way */
    assert_int_equal(cs_rank_needs_bytes(&f.rank[0].needs), 4000 + 14 + 2 * 40);
    assert_int_equal(cs_rank_needs_bytes(&f.rank[1].needs), 500 + 9 + 2 * 40);
    assert_int_equal(f.rank[0].busy_ns, 60);
    assert_int_equal(f.rank[0].span_idle_ns, 100);
    assert_int_equal(f.rank[0].exposed_ns, 10); /* two gradients */
    assert_int_equal(f.stage[0].exposed_ns, 10);
    assert_int_equal(f.stage[1].exposed_ns, 5); /* the first rows */
    assert_int_equal(f.stage[1].span_idle_ns, 0);
    assert_int_equal(f.stage[1].fwd_ns, 40);
    assert_int_equal(f.stage[1].bwd_ns, 80);
    assert_true(fabs(f.stage[0].span_bubble - 100.0 / 160) < 1e-15);
    assert_true(fabs(f.stage[1].bubble - 40.0 / 160) < 1e-15);
    assert_true(fabs(f.bubble - (1 - 180.0 / 320)) < 1e-15);
    assert_int_equal(f.module[0].n_ranks, 2);
    assert_true(fabs(f.module[0].bubble - f.bubble) < 1e-15);
    cs_arena_free(arena);
}

static void critical_path_is_a_gapless_chain(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .llm_pp = 3, .slots = 6});
    struct cs_forecast f = forecast(&m, &(struct cs_forecast_options){0});
    int64_t at = 0;
    uint32_t marked = 0;
    assert_true(f.n_critical > 6);
    for (int32_t i = 0; i < f.n_critical; i++) {
        const struct cs_forecast_action *a = &f.rank[f.critical[i].rank].action[f.critical[i].id];
        assert_true(a->is_critical);
        assert_int_equal(a->start_ns, at);
        assert_true(a->end_ns > at);
        at = a->end_ns;
    }
    assert_int_equal(at, f.makespan_ns);
    for (int32_t r = 0; r < f.n_ranks; r++)
        for (uint32_t i = 0; i < f.rank[r].n_actions; i++)
            marked += f.rank[r].action[i].is_critical;
    assert_int_equal(marked, f.n_critical);
    done(&m);
}

static void forecasts_agree_with_the_simulator(void **state)
{
    (void)state;
    static const char *const schedules[] = {"1f1b", "gpipe", "zb-h1"};
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .llm_pp = 2, .slots = 5});
    for (size_t k = 0; k < CS_ARRAY_LEN(schedules); k++) {
        struct cs_device_class device = *m.job.cluster.device;
        struct cs_sim_options options = {.cost = cs_predict_cost, .user = &device};
        struct cs_forecast f =
            forecast(&m, &(struct cs_forecast_options){.schedule = schedules[k]});
        struct cs_program *program = NULL;
        struct cs_sim_result r;
        m.job.plan->schedule = schedules[k];
        assert_int_equal(cs_program_make(m.job.plan, m.job.graph, m.job.plan->slots, false,
                                         m.job.arena, &program, &m.err),
                         CS_OK);
        assert_int_equal(cs_simulate(program, &options, m.job.arena, &r, &m.err), CS_OK);
        assert_int_equal(f.makespan_ns, r.makespan_ns);
        assert_string_equal(f.program_hash, program->hash);
        for (int32_t s = 0; s < f.n_stages; s++) {
            assert_int_equal(f.stage[s].busy_ns, r.busy_ns[s]);
            assert_int_equal(f.stage[s].peak, r.peak[s]);
            assert_int_equal(f.stage[s].exposed_ns, r.stage_exposed_ns[s]);
            assert_true(!(fabs(f.stage[s].bubble - r.bubble[s]) > 1e-15));
        }
        for (int32_t rank = 0; rank < f.n_ranks; rank++) {
            const struct cs_forecast_rank *at = &f.rank[rank];
            int64_t held = 0;
            for (uint32_t i = 0; i < at->n_points; i++) {
                const int64_t *b = at->memory[i].bytes;
                int64_t sum = b[CS_HELD_WEIGHTS] + b[CS_HELD_STATE] + b[CS_HELD_ACTIVATIONS];
                held = sum > held ? sum : held;
                assert_true(b[CS_HELD_ACTIVATIONS] >= 0 && b[CS_HELD_BOUNDARY] >= 0);
                assert_true(i == 0 || at->memory[i].at_ns > at->memory[i - 1].at_ns);
            }
            /* the simulator counts nothing between the halves of a split backward */
            if (strcmp(schedules[k], "zb-h1") == 0)
                assert_true(held > r.peak_bytes[rank]);
            else
                assert_int_equal(held, r.peak_bytes[rank]);
            assert_int_equal(at->memory[0].at_ns, 0);
            assert_int_equal(at->memory[at->n_points - 1].bytes[CS_HELD_ACTIVATIONS], 0);
            assert_int_equal(at->memory[at->n_points - 1].bytes[CS_HELD_BOUNDARY], 0);
            for (uint32_t i = 0; i < at->n_actions; i++) {
                assert_int_equal(at->action[i].start_ns, r.events[rank][i].start_ns);
                assert_int_equal(at->action[i].end_ns, r.events[rank][i].end_ns);
            }
        }
    }
    done(&m);
}

/* What a plan is checked for is what forecasts tell: with exactly that memory it can be made, with a byte less it
 * cannot, and the refusal names it. */
static void plans_are_checked_for_what_forecasts_tell(void **state)
{
    /* clang-format off */
    static const struct cs_test_spec layouts[] = {
        {.llm_pp = 2, .slots = 6},
        {.llm_pp = 2, .slots = 6, .schedule = "zb-h1"},
        {.llm_pp = 2, .slots = 6, .schedule = "zb-h1", .recompute = "full", .n_encoders = 2},
        {.llm_pp = 2, .slots = 7, .schedule = "zb-h2"},
        {.llm_pp = 2, .slots = 6, .schedule = "gpipe", .recompute = "selective"},
        {.llm_pp = 2, .slots = 6, .schedule = "interleaved", .llm_layers = 8},
        {.llm_pp = 2, .slots = 12, .schedule = "interleaved", .llm_layers = 8, .llm_vpp = 4, .vision_pp = 2},
        {.llm_pp = 2, .slots = 6, .llm_tp = 2},
        {.llm_pp = 2, .slots = 6, .llm_tp = 2, .llm_sp = true, .recompute = "selective"},
        {.llm_tp = 2, .slots = 6, .vision_tp = 2, .schedule = "zb-h1"},
        {.llm_pp = 2, .slots = 6, .dp = 2, .zero = 2},
        {.llm_pp = 2, .slots = 6, .dp = 2, .zero = 3, .schedule = "zb-h1"},
        {.llm_pp = 2, .slots = 6, .llm_cp = 2},
        {.llm_pp = 2, .slots = 6, .dp = 2, .has_experts = true, .llm_ep = 2},
        {.llm_pp = 2, .slots = 6, .modality = "encoder-colocated", .vision_pp = 2},
        {.llm_pp = 2, .slots = 6, .modality = "encoder-colocated", .schedule = "zb-h1"},
        {.llm_pp = 2, .slots = 6, .modality = "encoder-replicated"},
        {.llm_pp = 2, .slots = 6, .modality = "encoder-colocated", .schedule = "three-phase"},
        {.llm_pp = 2, .slots = 8, .modality = "encoder-colocated", .schedule = "anchors"},
        {.llm_pp = 2, .slots = 12, .schedule = "gpipe", .offloads = true},
    };
    /* clang-format on */
    size_t n_refused = 0;
    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(layouts); i++) {
        struct cs_device_class gpu = *cs_device_class_find("h100-80g");
        const struct cs_cluster cluster = {&gpu, 1, 16};
        struct made m = {.job = cs_test_plan_json(cs_test_spec_json(&layouts[i]), &cluster)};
        const struct cs_forecast f = forecast(&m, &(struct cs_forecast_options){0});
        const struct cs_forecast_figures figures = cs_forecast_figures(&f, m.job.plan, m.job.arena);
        const struct cs_rank_needs *needs = &f.rank[figures.peak_rank].needs;
        struct cs_test_planned other;
        char said[64];
        assert_int_equal(cs_rank_needs_bytes(needs), figures.peak_bytes);
        assert_true(needs->scratch > 0 && needs->weights > 0);
        for (int32_t r = 0; r < f.n_ranks; r++) {
            int64_t most = 0;
            for (uint32_t k = 0; k < f.rank[r].n_points; k++)
                if (f.rank[r].memory[k].bytes[CS_HELD_ACTIVATIONS] > most)
                    most = f.rank[r].memory[k].bytes[CS_HELD_ACTIVATIONS];
            assert_int_equal(most, f.rank[r].needs.activations);
        }
        gpu.mem_bytes = figures.peak_bytes;
        if (cs_test_try_plan(&other, cs_test_spec_json(&layouts[i]), &cluster) != CS_OK)
            fail_msg("layout %zu: %s", i, other.err.text);
        assert_string_equal(other.plan->hash, m.job.plan->hash);
        cs_test_planned_free(&other);
        gpu.mem_bytes--; /* now it is another plan, or none */
        const enum cs_status status =
            cs_test_try_plan(&other, cs_test_spec_json(&layouts[i]), &cluster);
        cs_bytes_print(said, sizeof said, (uint64_t)figures.peak_bytes);
        if (status == CS_OK)
            assert_string_not_equal(other.plan->hash, m.job.plan->hash);
        else if (strstr(other.err.text, said) == NULL)
            fail_msg("layout %zu: \"%s\" does not say %s", i, other.err.text, said);
        n_refused += status != CS_OK;
        cs_test_planned_free(&other);
        done(&m);
    }
    assert_true(n_refused > 0 && n_refused < CS_ARRAY_LEN(layouts));
}

static void frozen_encoders_hold_nothing_but_rows_on_their_way(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .slots = 4, .rules = "train:llm.layers.*"});
    struct cs_forecast f = forecast(&m, &(struct cs_forecast_options){0});
    for (uint32_t i = 0; i < f.rank[0].n_points; i++)
        assert_int_equal(f.rank[0].memory[i].bytes[CS_HELD_ACTIVATIONS], 0);
    assert_int_equal(f.stage[0].bwd_ns, 0);
    done(&m);
}

static void inputs_reach_the_prediction(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .slots = 6});
    static const int32_t slow[] = {1000, 1000, 2000};
    struct cs_sim_options inputs = {.rank_permille = slow};
    struct cs_forecast plain = forecast(&m, &(struct cs_forecast_options){0});
    struct cs_forecast late = forecast(&m, &(struct cs_forecast_options){.sim = &inputs});
    assert_true(late.makespan_ns > plain.makespan_ns);
    assert_int_equal(late.stage[2].busy_ns, 2 * plain.stage[2].busy_ns);
    assert_int_equal(late.stage[1].busy_ns, plain.stage[1].busy_ns);
    assert_int_equal(
        cs_plan_predict_with(m.job.plan, m.job.graph, &m.job.cluster, &inputs, m.job.arena, &m.err),
        CS_OK);
    assert_int_equal(m.job.plan->predicted_step_ns, late.makespan_ns);
    assert_int_equal(cs_plan_predict(m.job.plan, m.job.graph, &m.job.cluster, m.job.arena, &m.err),
                     CS_OK);
    assert_int_equal(m.job.plan->predicted_step_ns, plain.makespan_ns);
    done(&m);
}

/* two ranks a node: the message between nodes takes the network's time; shared links never help */
static void other_nodes_are_reached_over_the_network(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .llm_pp = 2, .slots = 6});
    struct cs_device_class gpu = *cs_device_class_find("h100-80g");
    gpu.net_latency_ns = 5000;
    gpu.net_bytes_per_s = 1000000000;
    m.job.cluster = (struct cs_cluster){&gpu, 1, 8};
    struct cs_forecast one = forecast(&m, &(struct cs_forecast_options){0});
    m.job.cluster.devices_per_node = 2; /* vision, depth | llm.0, llm.1 */
    struct cs_forecast two = forecast(&m, &(struct cs_forecast_options){0});
    struct cs_forecast shared = forecast(&m, &(struct cs_forecast_options){.shares_links = true});
    for (int rank = 0; rank < 4; rank++)
        for (uint32_t i = 0; i < two.rank[rank].n_actions; i++) {
            const struct cs_forecast_action *a = &two.rank[rank].action[i],
                                            *in_node = &one.rank[rank].action[i],
                                            *s = &shared.rank[rank].action[i];
            if (a->op != CS_OP_SEND)
                continue;
            const struct cs_edge *edge = &m.job.plan->edges[a->edge];
            int64_t bytes = edge->max_rows * edge->width * 2;
            bool leaves = rank / 2 != a->peer / 2;
            assert_int_equal(a->end_ns - a->start_ns,
                             leaves ? 5000 + bytes : in_node->end_ns - in_node->start_ns);
            assert_true(s->end_ns - s->start_ns >= a->end_ns - a->start_ns);
        }
    assert_true(two.makespan_ns > one.makespan_ns);
    assert_true(shared.makespan_ns >= two.makespan_ns);
    assert_int_equal(cs_plan_predict(m.job.plan, m.job.graph, &m.job.cluster, m.job.arena, &m.err),
                     CS_OK);
    assert_int_equal(m.job.plan->predicted_step_ns, two.makespan_ns);
    done(&m);
}

static void impossible_forecasts_are_refused(void **state)
{
    (void)state;
    struct made m;
    struct cs_forecast out;
    make(&m, &(struct cs_test_spec){.llm_pp = 2});
    static const int32_t minus[] = {1000, -1, 1000};
    struct cs_sim_options bad = {.stage_permille = minus};

    static const struct {
        struct cs_forecast_options options;
        const char *word;
    } rows[] = {
        {{.schedule = "1f1c"},              "did you mean \"1f1b\""      },
        {{.schedule = "zb-h2", .slots = 4}, "at least 5 slots are needed"},
        {{.slots = -1},                     "-1 slots"                   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        assert_int_equal(cs_forecast_plan(m.job.plan, m.job.graph, &m.job.cluster, &rows[i].options,
                                          m.job.arena, &out, &m.err),
                         CS_PLAN);
        if (!strstr(m.err.text, rows[i].word))
            fail_msg("\"%s\" does not say \"%s\"", m.err.text, rows[i].word);
    }
    struct cs_forecast_options with = {.sim = &bad};
    assert_int_equal(
        cs_forecast_plan(m.job.plan, m.job.graph, &m.job.cluster, &with, m.job.arena, &out, &m.err),
        CS_PLAN);
    assert_non_null(strstr(m.err.text, "stage 1 is -1 thousandths"));
    done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_stages_are_drawn_as_computed_by_hand),
        cmocka_unit_test(critical_path_is_a_gapless_chain),
        cmocka_unit_test(forecasts_agree_with_the_simulator),
        cmocka_unit_test(plans_are_checked_for_what_forecasts_tell),
        cmocka_unit_test(frozen_encoders_hold_nothing_but_rows_on_their_way),
        cmocka_unit_test(inputs_reach_the_prediction),
        cmocka_unit_test(other_nodes_are_reached_over_the_network),
        cmocka_unit_test(impossible_forecasts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
