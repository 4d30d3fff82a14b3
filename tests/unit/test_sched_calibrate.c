/* Measured costs: exact means, the document, the simulated step. */
#include "core/sched/sim/waits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "core/sched/span_keys.h"
#include "core/sched/traits.h"
#include "tests/support/need.h"
#include "tests/support/planned.h"

enum { SLOTS = 4, STEPS = 3 };

static struct cs_test_planned job;
static struct cs_arena *arena; /* the job's */
static struct cs_program *program;
static struct cs_measured *measured;

/* the CPU time that step k reports for an action; mean over k = 0, 1, 2: base + 1 */
static int32_t cpu_us(const struct cs_action *a, int rank, int k)
{
    if (cs_op_stream((enum cs_op)a->op) != CS_STREAM_COMPUTE)
        return 777; /* must not count */
    return (a->op == CS_OP_BWD ? 200 : a->op == CS_OP_FWD ? 100 : 0) + 10 * rank + k;
}

static int set_up(void **state)
{
    (void)state;
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    struct cs_err err = {0};
    job = cs_test_plan_json(cs_test_spec_json(&(struct cs_test_spec){.llm_pp = 2}), &cluster);
    arena = job.arena;
    need(cs_program_make(job.plan, job.graph, SLOTS, false, arena, &program, &err), &err);
    measured = cs_measured_new(job.plan->n_stages, job.plan->n_ranks, cluster.device, arena);
    for (int k = 0; k < STEPS; k++) {
        struct cs_span_events events[8] = {0};
        for (int r = 0; r < program->n_ranks; r++) {
            uint32_t n = program->rank[r].n_actions;
            struct cs_event *e = CS_NEW_ARRAY(arena, struct cs_event, n + 3);
            for (uint32_t i = 0; i < n; i++)
                e[i] = (struct cs_event){.action = i,
                                         .value = cpu_us(&program->rank[r].actions[i], r, k)};
            e[n] = (struct cs_event){.value = 9999, .kind = CS_EVENT_WAIT};
            e[n + 1] = (struct cs_event){.value = 9999, .flags = CS_EVENT_EVAL};
            e[n + 2] = (struct cs_event){.value = 9999, .action = n};
            events[r] = (struct cs_span_events){e, n + 3};
        }
        cs_measured_add(measured, cs_program_keys(program, arena), events);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cs_test_planned_free(&job);
    return 0;
}

static void means_are_exact_per_stage_and_op(void **state)
{
    (void)state;
    assert_int_equal(measured->n_steps, STEPS);
    assert_int_equal(program->plan->n_stages, 3); /* vision.0, llm.0, llm.1 on ranks 0, 1, 2 */
    for (int s = 0; s < 3; s++) {
        assert_int_equal(cs_measured_mean_ns(measured, s, s, CS_OP_FWD), (101 + 10 * s) * 1000);
        assert_int_equal(cs_measured_mean_ns(measured, s, s, CS_OP_BWD), (201 + 10 * s) * 1000);
        assert_int_equal(cs_measured_mean_ns(measured, -1, s, CS_OP_STEP), (1 + 10 * s) * 1000);
        assert_int_equal(measured->row[s][CS_OP_FWD].n, STEPS * SLOTS);
        assert_int_equal(cs_measured_mean_ns(measured, s, s, CS_OP_SEND), -1);
    }
}

static void document_gives_the_same_costs(void **state)
{
    (void)state;
    struct cs_err err = {0};
    struct cs_measured *read = NULL;
    int32_t cores = 0;
    json_t *json = cs_measured_encode(measured, 2), *again;
    assert_int_equal(cs_measured_decode(json, measured->device, arena, &read, &cores, &err), CS_OK);
    assert_int_equal(cores, 2);
    assert_int_equal(read->n_steps, STEPS);
    again = cs_measured_encode(read, cores);
    assert_true(json_equal(json, again));
    json_decref(again);
    json_object_set_new(json_array_get(json_object_get(json, "costs"), 0), "stage",
                        json_integer(3));
    assert_int_equal(cs_measured_decode(json, measured->device, arena, &read, &cores, &err),
                     CS_CORRUPT);
    assert_non_null(strstr(err.text, "stage"));
    json_decref(json);
}

/* What was measured is what it is; of the rest slots take their part, and messages and steps what they take. */
static void what_was_not_measured_is_of_slots_as_they_are_filled(void **state)
{
    (void)state;
    struct cs_err err = {0};
    struct cs_measured *read = NULL, none;
    struct cs_device_class device = *measured->device;
    int32_t cores = 0, permille[3] = {250, 500, 1000};
    assert_int_equal(measured->n_stages, CS_ARRAY_LEN(permille));
    none = *cs_measured_new(measured->n_stages, measured->n_ranks, measured->device, arena);
    none.permille = permille;
    json_t *json = cs_measured_encode(&none, 2);
    assert_int_equal(cs_measured_decode(json, measured->device, arena, &read, &cores, &err), CS_OK);
    struct cs_measured both = *measured;
    both.permille = permille;
    for (int32_t r = 0; r < program->n_ranks; r++)
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++) {
            const struct cs_action *a = &program->rank[r].actions[i];
            const bool is_work = cs_op_is((enum cs_op)a->op, CS_OP_KIND_WORK);
            const int64_t full = cs_predict_cost(&device, program, r, a);
            assert_int_equal(cs_measured_sim_cost(read, program, r, a),
                             is_work ? full * permille[a->stage] / 1000 : full);
            if (is_work)
                assert_int_equal(cs_measured_sim_cost(&both, program, r, a),
                                 cs_measured_sim_cost(measured, program, r, a));
        }
    json_array_append_new(json_object_get(json, "permille"), json_integer(1));
    assert_int_equal(cs_measured_decode(json, measured->device, arena, &read, &cores, &err),
                     CS_CORRUPT);
    assert_non_null(strstr(err.text, "permille"));
    json_decref(json);
}

/* measured compute only: messages for nothing */
static int64_t compute_only(void *user, const struct cs_program *p, int rank,
                            const struct cs_action *a)
{
    return cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE
               ? cs_measured_sim_cost(user, p, rank, a)
               : 0;
}

static int64_t simulate(int32_t cores)
{
    struct cs_err err = {0};
    struct cs_sim_result result;
    const struct cs_sim_options options = {.cost = compute_only, .user = measured, .cores = cores};
    assert_int_equal(cs_simulate(program, &options, arena, &result, &err), CS_OK);
    return result.makespan_ns;
}

static void one_core_takes_the_sum_of_all_costs(void **state)
{
    (void)state;
    int64_t sum = 0;
    for (int r = 0; r < program->n_ranks; r++)
        for (uint32_t i = 0; i < program->rank[r].n_actions; i++)
            sum += compute_only(measured, program, r, &program->rank[r].actions[i]);
    assert_int_equal(simulate(1), sum);
}

static void unlimited_cores_take_the_critical_path(void **state)
{
    (void)state;
    /* 1f1b, the last rank is the slowest: vision.0 and llm.0 fill, llm.1 runs all slots without a
     * gap, then the last backward drains to vision.0; every rank steps and marks in parallel after
     * the norm, so the slowest one counts. us: 101 + 111 + 4 x (121 + 221) + 211 + 201 + 21 + 21 */
    assert_int_equal(simulate(0), (101 + 111 + 4 * (121 + 221) + 211 + 201 + 21 + 21) * 1000);
}

/* as a run does it: the whole costs, messages and all */
static int64_t simulate_all(struct cs_measured *m, const struct cs_program *p, int32_t cores)
{
    struct cs_err err = {0};
    struct cs_sim_result result;
    const struct cs_sim_options options = {.cost = cs_measured_sim_cost, .user = m, .cores = cores};
    assert_int_equal(cs_simulate(p, &options, arena, &result, &err), CS_OK);
    return result.makespan_ns;
}

static void messages_take_what_steps_took_beside_work(void **state)
{
    (void)state;
    for (int32_t cores = 0; cores <= 2; cores++) {
        struct cs_measured m = *measured, *read;
        struct cs_err err = {0};
        const int64_t bare = simulate_all(&m, program, cores), target = bare + bare / 3;
        int32_t read_cores;
        assert_int_equal(cs_measured_step_ns(&m), 0);
        assert_int_equal(cs_measured_fit_waits(&m, program, cores, &err), CS_OK);
        assert_int_equal(m.hop_ns, 0);                   /* no step was noted */
        for (int i = 0; i < 2 * CS_CALIBRATE_STEPS; i++) /* the first count, some took long */
            cs_measured_note_step(&m, i % 4 == 0 ? 50 * target : i < 20 ? target : 3 * target);
        assert_int_equal(cs_measured_step_ns(&m), target);
        assert_int_equal(cs_measured_fit_waits(&m, program, cores, &err), CS_OK);
        assert_true(m.hop_ns > 0);
        const double off = (double)(simulate_all(&m, program, cores) - target) / (double)target;
        assert_true(off < 0.006 && off > -0.006);
        json_t *json = cs_measured_encode(&m, cores);
        assert_int_equal(cs_measured_decode(json, m.device, arena, &read, &read_cores, &err),
                         CS_OK);
        assert_true(read->hop_ns == m.hop_ns && read->rest_ns == m.rest_ns);
        json_object_set_new(json, "hop_ns", json_integer(-1));
        assert_int_equal(cs_measured_decode(json, m.device, arena, &read, &read_cores, &err),
                         CS_CORRUPT);
        json_decref(json);
    }
}

/* Ranks of one stage wait for each other inside of actions, as long as these took beside computing; messages take what
 * is left. Others wait for nobody: they had no core. */
static void ranks_of_a_stage_wait_inside_of_actions(void **state)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    struct cs_test_planned made =
        cs_test_plan_json(cs_test_spec_json(&(struct cs_test_spec){.llm_cp = 2}), &cluster);
    const int32_t llm = made.plan->n_stages - 1;
    struct cs_measured *m =
        cs_measured_new(made.plan->n_stages, made.plan->n_ranks, cluster.device, arena);
    struct cs_measured *read;
    struct cs_program *p;
    struct cs_err err = {0};
    int32_t cores;
    (void)state;
    need(cs_program_make(made.plan, made.graph, SLOTS, false, arena, &p, &err), &err);
    for (int32_t s = 0; s < made.plan->n_stages; s++)
        m->row[s][CS_OP_FWD] = m->row[s][CS_OP_BWD] =
            (struct cs_measured_cost){.n = 1, .cpu_us = 1000, .wall_us = 3000};
    const int64_t bare = simulate_all(m, p, 0), most = 2 * SLOTS * INT64_C(2000000);
    cs_measured_note_step(m, bare + most / 2);
    assert_int_equal(cs_measured_fit_waits(m, p, 0, &err), CS_OK);
    assert_int_equal(m->hop_ns, 0);
    assert_int_equal(m->row[0][CS_OP_FWD].inside_us, 0);
    assert_in_range(m->row[llm][CS_OP_FWD].inside_us, 990, 1010); /* half of what it was more */
    assert_in_range(cs_measured_mean_ns(m, llm, made.plan->stages[llm].rank, CS_OP_BWD), 1990000,
                    2010000);
    json_t *json = cs_measured_encode(m, 0);
    assert_int_equal(cs_measured_decode(json, m->device, arena, &read, &cores, &err), CS_OK);
    assert_true(read->row[llm][CS_OP_FWD].inside_us == m->row[llm][CS_OP_FWD].inside_us);
    assert_int_equal(simulate_all(read, p, 0), simulate_all(m, p, 0));
    json_object_set_new(json_array_get(json_object_get(json, "costs"), 2), "inside_us",
                        json_integer(-1));
    assert_int_equal(cs_measured_decode(json, m->device, arena, &read, &cores, &err), CS_CORRUPT);
    json_decref(json);

    m->n_noted = 0;
    cs_measured_note_step(m, bare + 2 * most);
    assert_int_equal(cs_measured_fit_waits(m, p, 0, &err), CS_OK);
    assert_int_equal(m->row[llm][CS_OP_FWD].inside_us, 2000);
    assert_true(m->hop_ns > 0);
    cs_test_planned_free(&made);
}

static void without_messages_the_rest_is_of_the_step(void **state)
{
    struct cs_err err = {0};
    struct cs_program *alone;
    struct cs_test_planned one = cs_test_plan(&(struct cs_test_spec){.n_encoders = -1});
    (void)state;
    need(cs_program_make(one.plan, one.graph, SLOTS, false, arena, &alone, &err), &err);
    struct cs_measured *m = cs_measured_new(1, 1, measured->device, arena);
    const int64_t bare = simulate_all(m, alone, 2);
    cs_measured_note_step(m, bare + 4000000);
    assert_int_equal(cs_measured_fit_waits(m, alone, 2, &err), CS_OK);
    assert_int_equal(m->hop_ns, 0);
    assert_int_equal(m->rest_ns, 4000000);
    assert_int_equal(simulate_all(m, alone, 2), bare + 4000000);
    cs_test_planned_free(&one);
}

/* Ranks of one stage run one program; on one core they run it one after the other. */
static void all_ranks_of_a_stage_want_a_core(void **state)
{
    static const struct {
        int tp, cp, dp, vision_tp;
    } rows[] = {
        {2, 1, 1, 1},
        {1, 3, 1, 1},
        {1, 1, 2, 1},
        {2, 2, 2, 2},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_err err = {0};
        struct cs_sim_result result;
        struct cs_program *p;
        const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
        const struct cs_test_spec options = {.llm_tp = rows[i].tp,
                                             .llm_cp = rows[i].cp,
                                             .dp = rows[i].dp,
                                             .vision_tp = rows[i].vision_tp};
        struct cs_test_planned made = cs_test_plan_json(cs_test_spec_json(&options), &cluster);
        need(cs_program_make(made.plan, made.graph, SLOTS, false, arena, &p, &err), &err);
        struct cs_measured *m =
            cs_measured_new(p->plan->n_stages, p->n_ranks, cluster.device, arena);
        int64_t sum = 0;
        for (int s = 0; s < p->plan->n_stages; s++)
            m->row[s][CS_OP_FWD] = m->row[s][CS_OP_BWD] =
                (struct cs_measured_cost){.n = 1, .cpu_us = 100 + 7 * s};
        for (int r = 0; r < p->n_ranks; r++) {
            const struct cs_rank_shape shape = cs_plan_rank_shape(p->plan, r);
            m->row[p->plan->n_stages + r][CS_OP_STEP] =
                (struct cs_measured_cost){.n = 1, .cpu_us = 50};
            for (uint32_t k = 0; k < p->rank[r].n_actions; k++)
                sum +=
                    compute_only(m, p, r, &p->rank[r].actions[k]) * shape.tp * shape.cp * shape.dp;
        }
        const struct cs_sim_options sim = {.cost = compute_only, .user = m, .cores = 1};
        assert_int_equal(cs_simulate(p, &sim, arena, &result, &err), CS_OK);
        assert_int_equal(result.makespan_ns, sum);
        cs_test_planned_free(&made);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_exact_per_stage_and_op),
        cmocka_unit_test(document_gives_the_same_costs),
        cmocka_unit_test(what_was_not_measured_is_of_slots_as_they_are_filled),
        cmocka_unit_test(one_core_takes_the_sum_of_all_costs),
        cmocka_unit_test(unlimited_cores_take_the_critical_path),
        cmocka_unit_test(messages_take_what_steps_took_beside_work),
        cmocka_unit_test(ranks_of_a_stage_wait_inside_of_actions),
        cmocka_unit_test(without_messages_the_rest_is_of_the_step),
        cmocka_unit_test(all_ranks_of_a_stage_want_a_core),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
