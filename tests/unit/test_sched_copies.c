/* Programs of plans whose encoders are copies: shared slots, replicated, sums of their gradients;
 * limits of ranks; the six rules of the verifier, each broken once. */
#include "core/plan/groups.h"
#include "core/plan/make/planner.h"
#include "core/plan/plan_schedule.h"
#include "core/sched/lower/lower.h"
#include "core/sched/proof/limits.h"
#include "core/sched/proof/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/sim/forecast.h"
#include "core/sched/sim/predict.h"
#include "tests/support/spec.h"

enum { SLOTS = 5 };

struct made {
    struct cs_arena *arena;
    json_t *root;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_program *program;
    struct cs_err err;
};

static void make_slots(struct made *m, const struct cs_test_spec *options, const char *schedule,
                       const char *modality, int slots)
{
    struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    struct cs_program_options how = {.n_slots = slots};
    struct cs_spec *spec = NULL;
    *m = (struct made){.arena = cs_arena_new(0), .root = cs_test_spec_json(options)};
    if (cs_spec_read(m->root, m->arena, &spec, &m->err) != CS_OK ||
        cs_graph_build(spec, true, m->arena, &m->graph, &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
    spec->schedule = schedule;
    spec->modality = modality;
    if (cs_plan_make(spec, m->graph, &cluster, m->arena, &m->plan, &m->err) != CS_OK ||
        cs_program_make_with(m->plan, m->graph, &how, m->arena, &m->program, &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
}

static void make(struct made *m, const struct cs_test_spec *options, const char *schedule,
                 const char *modality)
{
    make_slots(m, options, schedule, modality, SLOTS);
}

static void done(struct made *m)
{
    json_decref(m->root);
    cs_arena_free(m->arena);
}

static void check_text(const struct made *m, int stage, const char *want)
{
    struct cs_buf text = {0};
    cs_program_text(m->program, stage, &text);
    assert_string_equal(cs_buf_str(&text), want);
    cs_buf_free(&text);
}

static struct cs_action *find(const struct made *m, int rank, enum cs_op op, int nth)
{
    for (uint32_t i = 0; i < m->program->rank[rank].n_actions; i++) {
        struct cs_action *a = &m->program->rank[rank].actions[i];
        if (a->op == op && nth-- == 0)
            return a;
    }
    return NULL;
}

static int count(const struct made *m, int rank, enum cs_op op)
{
    int n = 0;
    while (find(m, rank, op, n))
        n++;
    return n;
}

static const struct cs_test_spec two = {.llm_pp = 2};

static void shared_encoders_run_their_slots_and_sum_their_gradients(void **state)
{
    (void)state;
    struct made m;
    make(&m, &two, "three-phase", "encoder-colocated"); /* vision.0 vision.1 llm.0 llm.1 */
    check_text(&m, 0, "F0 F2 F4 B0 B2 B4");
    check_text(&m, 1, "F1 F3 B1 B3");
    check_text(&m, 2, "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
    for (int rank = 0; rank < 2; rank++) {
        const struct cs_action *sum = find(&m, rank, CS_OP_COPIES, 0);
        assert_int_equal(count(&m, rank, CS_OP_COPIES), 1);
        assert_int_equal(sum->stage, rank);
        const struct cs_group *group = &m.program->plan->group[sum->comm];
        assert_int_equal(group->kind, CS_GROUP_COPIES);
        assert_int_equal(group->of, 0);
        assert_int_equal(group->n, 2);
        assert_true(sum->id < find(&m, rank, CS_OP_NORM, 0)->id);
    }
    /* rank 1 sends rows of slots 1 and 3 to llm.0, rank 0 keeps its own */
    assert_int_equal(find(&m, 1, CS_OP_SEND, 0)->slot, 1);
    assert_int_equal(find(&m, 1, CS_OP_SEND, 1)->slot, 3);
    done(&m);
}

static void anchors_of_a_plan_hold_few_encoder_slots(void **state)
{
    (void)state;
    struct made m;
    struct cs_forecast anchors, phases;
    const struct cs_cluster cpus = {cs_device_class_find("cpu"), 1, 16};
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .slots = 12}, "anchors", "encoder-colocated");
    assert_int_equal(cs_forecast_plan(m.plan, m.graph, &cpus, &(struct cs_forecast_options){0},
                                      m.arena, &anchors, &m.err),
                     CS_OK);
    assert_int_equal(cs_forecast_plan(m.plan, m.graph, &cpus,
                                      &(struct cs_forecast_options){.schedule = "three-phase"},
                                      m.arena, &phases, &m.err),
                     CS_OK);
    assert_in_range(anchors.stage[0].peak, 1, 3);
    assert_int_equal(phases.stage[0].peak, 6);
    assert_true(anchors.rank[0].needs.activations < phases.rank[0].needs.activations);
    done(&m);
}

static void replicated_encoders_feed_the_stage_beside_them(void **state)
{
    (void)state;
    struct made m;
    make(&m, &two, "1f1b", "encoder-replicated");
    for (int stage = 0; stage < 2; stage++)
        check_text(&m, stage,
                   stage == 0 ? "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4" : "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(count(&m, rank, CS_OP_COPIES), 1);
        assert_int_equal(count(&m, rank, CS_OP_SEND), SLOTS); /* of the LLM only */
    }
    done(&m);
}

/* busy per rank: replicated pays for every slot on every rank what shared copies divide */
static void replicated_pays_what_shared_copies_divide(void **state)
{
    (void)state;
    struct made m;
    struct cs_forecast shared, every;
    const struct cs_cluster cpus = {cs_device_class_find("cpu"), 1, 16};
    const struct cs_test_spec options = {.llm_pp = 2, .slots = 8, .vision_layers = 6};
    make(&m, &options, "three-phase", "encoder-colocated");
    assert_int_equal(cs_forecast_plan(m.plan, m.graph, &cpus, &(struct cs_forecast_options){0},
                                      m.arena, &shared, &m.err),
                     CS_OK);
    int64_t one =
        m.plan->stages[0].fwd_ns + m.plan->stages[0].bwd_input_ns + m.plan->stages[0].bwd_weight_ns;
    assert_int_equal(shared.stage[0].busy_ns, 4 * one);
    done(&m);
    make(&m, &options, "1f1b", "encoder-replicated");
    assert_int_equal(cs_forecast_plan(m.plan, m.graph, &cpus, &(struct cs_forecast_options){0},
                                      m.arena, &every, &m.err),
                     CS_OK);
    for (int stage = 0; stage < 2; stage++)
        assert_int_equal(every.stage[stage].busy_ns, 8 * one);
    assert_true(every.makespan_ns > shared.makespan_ns);
    done(&m);
}

static void frozen_copies_sum_nothing(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 2, .rules = "train:llm"}, "three-phase",
         "encoder-colocated");
    for (int rank = 0; rank < 2; rank++) {
        assert_int_equal(count(&m, rank, CS_OP_COPIES), 0);
        assert_true(find(&m, rank, CS_OP_BWD, 0)->stage >= 2);
    }
    done(&m);
}

/* fewer slots than copies: the last copy has no work, but takes part in the sum */
static void a_copy_without_slots_still_meets_the_others(void **state)
{
    (void)state;
    struct made m;
    make_slots(&m, &(struct cs_test_spec){.llm_pp = 3}, "three-phase", "encoder-colocated", 2);
    check_text(&m, 2, "");
    assert_int_equal(count(&m, 2, CS_OP_COPIES), 1);
    done(&m);
}

static void processes_get_such_programs(void **state)
{
    (void)state;
    struct made m;
    struct cs_program *program = NULL;
    make(&m, &two, "three-phase", "encoder-colocated");
    assert_int_equal(cs_program_make(m.plan, m.graph, SLOTS, false, m.arena, &program, &m.err),
                     CS_OK);
    assert_string_equal(program->hash, m.program->hash);
    done(&m);
}

static void check_refused(struct made *m, const char *words)
{
    assert_int_equal(cs_program_verify(m->program, &m->err), CS_PLAN);
    if (!strstr(m->err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", m->err.text, words);
}

static void damaged_sums_are_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .llm_pp = 2}, "three-phase",
         "encoder-colocated");
    struct cs_action *sum = find(&m, 0, CS_OP_COPIES, 0), *next = find(&m, 0, CS_OP_COPIES, 1);
    struct cs_action kept = *sum;
    assert_int_equal(cs_program_verify(m.program, &m.err), CS_OK);
    sum->n_deps = 0;
    check_refused(&m,
                  "rank 0: sum of the gradients over the copies of vision.0 does not wait for the "
                  "last backward of its stage");
    *sum = kept;
    sum->stage = next->stage;
    check_refused(&m, "each kind to its own");
    *sum = kept;
    struct cs_action other = *next;
    next->stage = sum->stage;
    next->comm = sum->comm;
    check_refused(&m, "is there twice");
    *next = other;
    sum->stage = 4; /* llm.0 is no copy */
    sum->comm = -1;
    check_refused(&m, "is not wanted");
    *sum = kept;
    uint32_t *fifo = m.program->rank[0].fifo[CS_STREAM_COMM];
    for (uint32_t i = 0; i + 1 < m.program->rank[0].n_fifo[CS_STREAM_COMM]; i++)
        if (fifo[i] == sum->id) {
            fifo[i] = next->id;
            fifo[i + 1] = sum->id;
            break;
        }
    check_refused(&m, "it would hang"); /* the other rank has them in order */
    struct cs_sim_options options = {.hop_ns = 1};
    struct cs_sim_result r;
    assert_int_equal(cs_simulate(m.program, &options, m.arena, &r, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "in a cycle"));
    assert_non_null(strstr(m.err.text, "sum of the gradients over the copies of depth.0"));
    done(&m);
}

static void one_missing_copy_stalls_the_others(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.llm_pp = 3}, "three-phase", "encoder-colocated");
    struct cs_rank_program *rp = &m.program->rank[1];
    uint32_t gone = find(&m, 1, CS_OP_COPIES, 0)->id, n = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMM]; i++)
        if (rp->fifo[CS_STREAM_COMM][i] != gone)
            rp->fifo[CS_STREAM_COMM][n++] = rp->fifo[CS_STREAM_COMM][i];
    rp->n_fifo[CS_STREAM_COMM] = n;
    struct cs_sim_options options = {0};
    struct cs_sim_result r;
    assert_int_equal(cs_simulate(m.program, &options, m.arena, &r, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "dead-lock"));
    assert_non_null(strstr(m.err.text, "rank 0: sum of the gradients over the copies of vision.0"));
    done(&m);
}

static void memory_over_the_cap_names_the_action(void **state)
{
    (void)state;
    struct made m;
    make(&m, &two, "gpipe", "encoder-parallel");
    const struct cs_stage *llm = &m.plan->stages[1];
    int64_t held = llm->weight_bytes + llm->state_bytes + 3 * llm->saved_bytes;
    struct cs_program_limits limits = {.mem_bytes = held};
    m.plan->stages[0].saved_bytes = m.plan->stages[2].saved_bytes = 0;
    assert_int_equal(cs_program_check_limits(m.program, &limits, &m.err), CS_PLAN);
    if (!strstr(m.err.text, "rank 1: forward of llm.0, slot 3 needs") ||
        !strstr(m.err.text, "(4 of llm.0)"))
        fail_msg("%s", m.err.text);
    limits.mem_bytes += 2 * llm->saved_bytes;
    assert_int_equal(cs_program_check_limits(m.program, &limits, &m.err), CS_OK);
    done(&m);
}

static void too_many_waiting_messages_are_refused(void **state)
{
    (void)state;
    struct made m;
    make(&m, &(struct cs_test_spec){.n_encoders = 2, .llm_pp = 2}, "1f1b", "encoder-parallel");
    /* llm.0: rows in and gradients out for two encoders, rows out and gradients in for llm.1 */
    struct cs_program_limits limits = {.channels = 6};
    assert_int_equal(cs_program_check_limits(m.program, &limits, &m.err), CS_OK);
    limits.channels = 5;
    assert_int_equal(cs_program_check_limits(m.program, &limits, &m.err), CS_PLAN);
    if (!strstr(m.err.text, "rank 2: ") || !strstr(m.err.text, "5 other peers and directions"))
        fail_msg("%s", m.err.text);
    done(&m);
}

static void predictions_refuse_what_does_not_fit_in_memory(void **state)
{
    (void)state;
    struct made m;
    struct cs_device_class small = *cs_device_class_find("a40-48g");
    struct cs_cluster cluster = {&small, 1, 16};
    make(&m, &two, "gpipe", "encoder-parallel");
    small.mem_bytes = m.plan->stages[1].weight_bytes + m.plan->stages[1].state_bytes +
                      2 * m.plan->stages[1].saved_bytes;
    assert_int_equal(cs_plan_predict(m.plan, m.graph, &cluster, m.arena, &m.err), CS_PLAN);
    assert_non_null(strstr(m.err.text, "activations of live slots"));
    small.mem_bytes = 0;
    assert_int_equal(cs_plan_predict(m.plan, m.graph, &cluster, m.arena, &m.err), CS_OK);
    done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_encoders_run_their_slots_and_sum_their_gradients),
        cmocka_unit_test(anchors_of_a_plan_hold_few_encoder_slots),
        cmocka_unit_test(replicated_encoders_feed_the_stage_beside_them),
        cmocka_unit_test(replicated_pays_what_shared_copies_divide),
        cmocka_unit_test(frozen_copies_sum_nothing),
        cmocka_unit_test(a_copy_without_slots_still_meets_the_others),
        cmocka_unit_test(processes_get_such_programs),
        cmocka_unit_test(damaged_sums_are_refused),
        cmocka_unit_test(one_missing_copy_stalls_the_others),
        cmocka_unit_test(memory_over_the_cap_names_the_action),
        cmocka_unit_test(too_many_waiting_messages_are_refused),
        cmocka_unit_test(predictions_refuse_what_does_not_fit_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
