/* Measured costs: exact means, the document, the simulated step. */
#include "core/sched/sim/calibrate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/lower/lower.h"
#include "core/sched/span_keys.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_are_exact_per_stage_and_op),
        cmocka_unit_test(document_gives_the_same_costs),
        cmocka_unit_test(one_core_takes_the_sum_of_all_costs),
        cmocka_unit_test(unlimited_cores_take_the_critical_path),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
