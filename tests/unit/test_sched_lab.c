/* Goldens of schedules and simulator: orders, warm-ups, peaks, iteration times. */
#include "core/sched/sim/lab.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#define T(...) ((const double[]){__VA_ARGS__})
#define MODULE(name, feeds, n, f, b, w)                                                            \
    {                                                                                              \
        name, feeds, n, f, b, w                                                                    \
    }
#define RUN(modules, schedule, slots, hop)                                                         \
    run((modules), (int)CS_ARRAY_LEN(modules), (schedule), (slots), (hop))

static struct cs_arena *arena;
static struct cs_lab *lab;

static struct cs_lab_result run(const struct cs_lab_module *modules, int n, const char *schedule,
                                int slots, double hop)
{
    struct cs_lab_options options = {schedule, slots, hop};
    struct cs_lab_result result;
    struct cs_err err = {.text = ""};
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    if (cs_lab_make(modules, n, &options, arena, &lab, &err) != CS_OK)
        fail_msg("%s", err.text);
    if (cs_lab_simulate(lab, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

static const struct cs_lab_module va_llm[] = {
    MODULE("v", "llm", 1, T(1), T(2), NULL),
    MODULE("a", "llm", 2, T(1, 1), T(2, 2), NULL),
    MODULE("llm", NULL, 3, T(1, 1, 1), T(2, 2, 2), NULL),
};

static void check_text(int stage, const char *want)
{
    struct cs_buf text = {0};
    cs_lab_text(lab, stage, &text);
    assert_string_equal(cs_buf_str(&text), want);
    cs_buf_free(&text);
}

static void orders_for_six_slots_are_the_golden_ones(void **state)
{
    (void)state;
    RUN(va_llm, "1f1b", 6, 0);
    check_text(0, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
    check_text(1, "F0 F1 F2 F3 F4 B0 F5 B1 B2 B3 B4 B5");
    check_text(2, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
    check_text(3, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5");
    check_text(4, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5");
    check_text(5, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
    assert_string_equal(lab->stage_name[0], "v.0");
    assert_string_equal(lab->stage_name[5], "llm.2");
}

static void gpipe_runs_all_forwards_first(void **state)
{
    (void)state;
    struct cs_lab_result r = RUN(va_llm, "gpipe", 3, 0);
    for (int s = 0; s < 6; s++) {
        check_text(s, "F0 F1 F2 B0 B1 B2");
        assert_int_equal(r.peak[s], 3);
    }
}

static void warm_up_decides_the_live_slots(void **state)
{
    (void)state;
    static const int many[] = {4, 5, 4, 3, 2, 1}, two[] = {2, 2, 2, 2, 2, 1};
    struct cs_lab_result r = RUN(va_llm, "1f1b", 16, 0);
    for (int s = 0; s < 6; s++)
        assert_int_equal(r.peak[s], many[s]);
    r = RUN(va_llm, "1f1b", 2, 0);
    for (int s = 0; s < 6; s++)
        assert_int_equal(r.peak[s], two[s]);
}

static void simulated_times_are_33_36_36_33_31(void **state)
{
    (void)state;
    const struct cs_lab_module chain[] = {
        MODULE("llm", NULL, 4, T(1, 1, 1, 1), T(2, 2, 2, 2), NULL)};
    const struct cs_lab_module frozen[] = {
        MODULE("v", "llm", 1, T(3), T(0), NULL),
        MODULE("a", "llm", 2, T(3, 3), T(0, 0), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(2, 2, 2), NULL),
    };
    const struct cs_lab_module one[] = {
        MODULE("v", "llm", 1, T(3), T(0), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(2, 2, 2), NULL),
    };
    const struct cs_lab_module light[] = {
        MODULE("v", "llm", 1, T(1), T(0), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(2, 2, 2), NULL),
    };
    assert_true(RUN(chain, "1f1b", 8, 0).makespan == 33);
    assert_true(RUN(va_llm, "1f1b", 8, 0).makespan == 36);
    assert_true(RUN(frozen, "1f1b", 8, 0).makespan == 36);
    assert_true(RUN(one, "1f1b", 8, 0).makespan == 33);
    assert_true(RUN(light, "1f1b", 8, 0).makespan == 31);
    check_text(0, "F0 F1 F2 F3 F4 F5 F6 F7"); /* frozen: no backward */
}

static void frozen_aware_iteration_is_448_and_blind_568(void **state)
{
    (void)state;
    const struct cs_lab_module aware[] = {
        MODULE("v", "llm", 1, T(24), T(0), NULL),
        MODULE("llm", NULL, 3, T(10, 10, 12), T(10, 10, 12), NULL)};
    const struct cs_lab_module blind[] = {MODULE("v", "llm", 2, T(12, 12), T(0, 0), NULL),
                                          MODULE("llm", NULL, 2, T(16, 16), T(16, 16), NULL)};
    const struct cs_lab_module aware_re[] = {
        MODULE("v", "llm", 1, T(24), T(0), NULL),
        MODULE("llm", NULL, 3, T(10, 10, 12), T(20, 20, 24), NULL)};
    const struct cs_lab_module blind_re[] = {MODULE("v", "llm", 2, T(12, 12), T(0, 0), NULL),
                                             MODULE("llm", NULL, 2, T(16, 16), T(32, 32), NULL)};
    assert_true(RUN(aware, "1f1b", 16, 0).makespan == 448);
    assert_true(RUN(blind, "1f1b", 16, 0).makespan == 568);
    assert_true(RUN(aware_re, "1f1b", 16, 0).makespan == 660);
    assert_true(RUN(blind_re, "1f1b", 16, 0).makespan == 840);
}

static void parallel_beats_colocated_encoders(void **state)
{
    (void)state;
    static const int peaks[] = {5, 4, 3, 2, 1};
    const struct cs_lab_module parallel[] = {
        MODULE("v", "llm", 1, T(2), T(0), NULL),
        MODULE("a", "llm", 1, T(1), T(0), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(1, 1, 1), NULL),
    };
    const struct cs_lab_module colocated[] = {
        MODULE("va", "llm", 2, T(1.5, 1.5), T(0, 0), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(1, 1, 1), NULL),
    };
    const struct cs_lab_module trained[] = {
        MODULE("va", "llm", 2, T(1.5, 1.5), T(1, 1), NULL),
        MODULE("llm", NULL, 3, T(1, 1, 1), T(1, 1, 1), NULL),
    };
    const struct cs_lab_module short_llm[] = {
        MODULE("v", "llm", 2, T(1, 1), T(0, 0), NULL),
        MODULE("llm", NULL, 2, T(1.5, 1.5), T(1.5, 1.5), NULL),
    };
    assert_true(RUN(parallel, "1f1b", 8, 0).makespan == 22);
    assert_true(RUN(colocated, "1f1b", 8, 0).makespan == 23);
    assert_true(RUN(short_llm, "1f1b", 8, 0).makespan == 29);
    struct cs_lab_result r = RUN(trained, "1f1b", 8, 0);
    for (int s = 0; s < 5; s++)
        assert_int_equal(r.peak[s], peaks[s]);
}

static void bubble_is_one_minus_busy_over_makespan(void **state)
{
    (void)state;
    struct cs_lab_result r = RUN(va_llm, "1f1b", 8, 0);
    for (int s = 0; s < 6; s++) {
        assert_true(r.busy[s] == 24);
        assert_true(fabs(r.bubble[s] - (1 - 24.0 / 36)) < 1e-15);
    }
}

static void weight_gradients_add_to_the_backward(void **state)
{
    (void)state;
    const struct cs_lab_module split[] = {MODULE("llm", NULL, 2, T(1, 1), T(0, 1), T(2, 1))};
    const struct cs_lab_module whole[] = {MODULE("llm", NULL, 2, T(1, 1), T(2, 2), NULL)};
    assert_true(RUN(split, "1f1b", 5, 0).makespan == RUN(whole, "1f1b", 5, 0).makespan);
}

static void critical_path_adds_up_to_the_makespan(void **state)
{
    (void)state;
    const struct cs_lab_module two[] = {MODULE("llm", NULL, 2, T(1, 2), T(2, 4), NULL)};
    struct cs_lab_result r = RUN(two, "1f1b", 2, 0.5);
    static const char *const want[] = {"F0 llm.0",          "s0 llm.0 -> llm.1", "F0 llm.1",
                                       "B0 llm.1",          "F1 llm.1",          "B1 llm.1",
                                       "s1 llm.1 -> llm.0", "B1 llm.0"};
    assert_true(r.makespan == 1 + 0.5 + 6 + 6 + 0.5 + 2);
    assert_int_equal(r.n_critical, CS_ARRAY_LEN(want));
    for (int32_t i = 0; i < r.n_critical; i++)
        assert_string_equal(r.critical[i], want[i]);
}

static void order_of_the_modules_does_not_matter(void **state)
{
    (void)state;
    const struct cs_lab_module turned[] = {
        MODULE("llm", NULL, 3, T(1, 1, 1), T(2, 2, 2), NULL),
        MODULE("a", "llm", 2, T(1, 1), T(2, 2), NULL),
        MODULE("v", "llm", 1, T(1), T(2), NULL),
    };
    struct cs_lab_result r = RUN(turned, "1f1b", 8, 0);
    assert_true(r.makespan == 36);
    assert_int_equal(r.peak[0], 3);
    assert_int_equal(r.peak[3], 5);
    check_text(2, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

static void check_refused(const struct cs_lab_module *modules, int n,
                          const struct cs_lab_options *options, enum cs_status want,
                          const char *words)
{
    struct cs_arena *a = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_lab *made = NULL;
    assert_int_equal(cs_lab_make(modules, n, options, a, &made, &err), want);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    cs_arena_free(a);
}

static void bad_experiments_are_refused(void **state)
{
    (void)state;
    struct cs_lab_options ok = {"1f1b", 4, 0}, none = {"1f1b", 0, 0}, name = {"1f1c", 4, 0},
                          hop = {"1f1b", 4, NAN};
    const struct cs_lab_module good = MODULE("llm", NULL, 1, T(1), T(1), NULL);
    const struct cs_lab_module stray[] = {good, MODULE("v", "lm", 1, T(1), T(1), NULL)};
    const struct cs_lab_module cycle[] = {MODULE("a", "b", 1, T(1), T(1), NULL),
                                          MODULE("b", "a", 1, T(1), T(1), NULL)};
    const struct cs_lab_module twice[] = {good, good};
    const struct cs_lab_module nan[] = {good, MODULE("v", "llm", 1, T(NAN), T(1), NULL)};
    const struct cs_lab_module minus[] = {good, MODULE("v", "llm", 1, T(1), T(-1), NULL)};
    const struct cs_lab_module empty[] = {good, MODULE("v", "llm", 0, T(1), T(1), NULL)};
    const struct cs_lab_module endless[] = {good, MODULE("v", "llm", 1, T(INFINITY), T(1), NULL)};
    check_refused(stray, 2, &ok, CS_INVALID, "v feeds lm");
    check_refused(cycle, 2, &ok, CS_INVALID, "cycle");
    check_refused(twice, 2, &ok, CS_INVALID, "llm is there twice");
    check_refused(nan, 2, &ok, CS_INVALID, "v.0");
    check_refused(minus, 2, &ok, CS_INVALID, "v.0");
    check_refused(empty, 2, &ok, CS_INVALID, "0 stages");
    check_refused(endless, 2, &ok, CS_INVALID, "v.0");
    check_refused(&good, 0, &ok, CS_INVALID, "0 modules");
    check_refused(&good, 1, &none, CS_PLAN, "0 slots");
    check_refused(&good, 1, &name, CS_PLAN, "did you mean \"1f1b\"");
    check_refused(&good, 1, &hop, CS_INVALID, "hop");
}

static struct cs_lab_result tuned(const struct cs_lab_module *modules, int n, const char *schedule,
                                  int slots, const struct cs_lab_tuning *tuning)
{
    struct cs_lab_options options = {schedule, slots, 0};
    struct cs_lab_result result;
    struct cs_err err = {.text = ""};
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    if (cs_lab_make_tuned(modules, n, &options, tuning, arena, &lab, &err) != CS_OK ||
        cs_lab_simulate(lab, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

static const struct cs_lab_module three[] = {
    MODULE("llm", NULL, 3, T(1, 1, 1), T(1, 1, 1), T(1, 1, 1))};

static void zb_h2_orders_are_the_golden_ones(void **state)
{
    (void)state;
    RUN(three, "zb-h2", 6, 0);
    check_text(0, "F0 F1 F2 F3 F4 F5 B0 W0 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5");
    check_text(1, "F0 F1 F2 F3 B0 W0 F4 B1 W1 F5 B2 W2 B3 W3 B4 W4 B5 W5");
    check_text(2, "F0 F1 B0 W0 F2 B1 W1 F3 B2 W2 F4 B3 W3 F5 B4 W4 B5 W5");
}

/* weights done <= inputs done <= forwards done <= slots, always */
static void zero_bubble_counters_never_overtake(void **state)
{
    (void)state;
    static const char *const names[] = {"zb-h1", "zb-h2", "zb-h2-late"};
    for (size_t k = 0; k < CS_ARRAY_LEN(names); k++)
        for (int slots = 5; slots < 12; slots++) {
            RUN(three, names[k], slots, 0);
            for (int r = 0; r < 3; r++) {
                int f = 0, b = 0, w = 0;
                const struct cs_rank_program *rp = &lab->program->rank[r];
                for (uint32_t i = 0; i < rp->n_actions; i++) {
                    f += rp->actions[i].op == CS_OP_FWD;
                    b += rp->actions[i].op == CS_OP_BWD_INPUT;
                    w += rp->actions[i].op == CS_OP_BWD_WEIGHT;
                    assert_true(0 <= w && w <= b && b <= f && f <= slots);
                }
                assert_int_equal(w, slots);
            }
        }
}

static void zb_h2_wants_2p_minus_1_slots(void **state)
{
    (void)state;
    struct cs_lab_options few = {"zb-h2", 4, 0}, enough = {"zb-h2", 5, 0};
    check_refused(three, 1, &few, CS_PLAN, "at least 5 slots are needed");
    RUN(three, enough.schedule, enough.slots, 0);
}

static void zb_h1_delays_weights_by_the_position(void **state)
{
    (void)state;
    RUN(three, "zb-h1", 5, 0);
    check_text(0, "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4");
    check_text(1, "F0 F1 B0 F2 B1 W0 F3 B2 W1 F4 B3 W2 B4 W3 W4");
    check_text(2, "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4");
}

static void frozen_weights_have_no_weight_part(void **state)
{
    (void)state;
    const struct cs_lab_module modules[] = {
        MODULE("v", "llm", 1, T(1), T(0), NULL),
        MODULE("p", "llm", 1, T(1), T(0), T(1)), /* nothing upstream: weights only */
        MODULE("llm", NULL, 2, T(1, 1), T(1, 1), T(0, 0)),
    };
    RUN(modules, "zb-h1", 3, 0);
    check_text(0, "F0 F1 F2");
    check_text(1, "F0 F1 F2 W0 W1 W2");
    check_text(2, "F0 F1 B0 F2 B1 B2");
    check_text(3, "F0 B0 F1 B1 F2 B2");
}

static void chunks_are_printed_with_their_slots(void **state)
{
    (void)state;
    const struct cs_lab_module llm[] = {MODULE("llm", NULL, 2, T(2, 2), T(4, 4), NULL)};
    struct cs_lab_result r = RUN(llm, "interleaved", 2, 0);
    check_text(0, "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
    check_text(1, "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 B0.0 B1.0");
    assert_true(r.makespan == 2 * 6 + 1 * 3);
    r = tuned(llm, 1, "interleaved", 2, &(struct cs_lab_tuning){.chunks = 1});
    check_text(1, "F0 B0 F1 B1");
}

static void colocated_encoders_share_the_slots(void **state)
{
    (void)state;
    const struct cs_lab_module modules[] = {MODULE("v", "llm", 1, T(2), T(2), NULL),
                                            MODULE("llm", NULL, 2, T(1, 1), T(2, 2), NULL)};
    RUN(modules, "three-phase", 4, 0);
    assert_int_equal(lab->n_stages, 4);
    assert_string_equal(lab->stage_name[1], "v.1");
    check_text(0, "F0 F2 B0 B2");
    check_text(1, "F1 F3 B1 B3");
    check_text(2, "F0 F1 B0 F2 B1 F3 B2 B3");
    assert_int_equal(lab->rank[1], lab->rank[3]);
    struct cs_buf text = {0};
    tuned(modules, 2, "anchors", 6, &(struct cs_lab_tuning){.window = 1});
    const struct cs_rank_program *rp = &lab->program->rank[1];
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        bool is_encoder = a->stage >= 0 && lab->stage_of[a->stage] < 2;
        if (a->stage >= 0)
            cs_buf_addf(&text, "%s%d ",
                        is_encoder ? (a->op == CS_OP_FWD ? "E" : "e")
                                   : cs_op_letter((enum cs_op)a->op),
                        a->slot);
    }
    assert_string_equal(cs_buf_str(&text),
                        "E1 F0 B0 F1 E3 B1 F2 B2 e1 F3 E5 B3 F4 B4 e3 F5 B5 e5 ");
    cs_buf_free(&text);
}

static void slots_of_the_next_step_are_marked(void **state)
{
    (void)state;
    const struct cs_lab_module modules[] = {MODULE("v", "llm", 2, T(2, 2), T(0, 0), NULL),
                                            MODULE("llm", NULL, 1, T(1), T(2), NULL)};
    tuned(modules, 2, "1f1b", 3, &(struct cs_lab_tuning){.lead_before = 1, .lead_after = 2});
    check_text(0, "F1 F2 F0' F1'");
    check_text(1, "F1 F2 F0' F1'");
    check_text(2, "F0 B0 F1 B1 F2 B2");
}

static void check_tuning_refused(const struct cs_lab_module *modules, int n, const char *schedule,
                                 const struct cs_lab_tuning *tuning, const char *words)
{
    struct cs_arena *a = cs_arena_new(0);
    struct cs_lab_options options = {schedule, 4, 0};
    struct cs_err err = {.text = ""};
    struct cs_lab *made = NULL;
    assert_int_not_equal(cs_lab_make_tuned(modules, n, &options, tuning, a, &made, &err), CS_OK);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
    cs_arena_free(a);
}

static void impossible_tunings_are_refused(void **state)
{
    (void)state;
    const struct cs_lab_module apart[] = {MODULE("a", NULL, 1, T(1), T(1), NULL),
                                          MODULE("b", NULL, 1, T(1), T(1), NULL)};
    check_tuning_refused(va_llm, 3, "1f1b", &(struct cs_lab_tuning){.lead_after = 1},
                         "only encoders without any backward");
    check_tuning_refused(va_llm, 3, "1f1b", &(struct cs_lab_tuning){.lead_after = 5},
                         "5 leading slots in a step of 4");
    check_tuning_refused(va_llm, 3, "1f1b", &(struct cs_lab_tuning){.ahead = -1}, "not negative");
    check_tuning_refused(three, 1, "interleaved", &(struct cs_lab_tuning){.chunks = -1}, "chunks");
    check_tuning_refused(three, 1, "interleaved", &(struct cs_lab_tuning){.chunks = 9000},
                         "more than");
    check_tuning_refused(apart, 2, "interleaved", &(struct cs_lab_tuning){0},
                         "modules a and b both feed none");
}

static int free_arena(void **state)
{
    (void)state;
    cs_arena_free(arena);
    arena = NULL;
    return 0;
}

static struct cs_lab_result disturbed(const struct cs_lab_inputs *inputs)
{
    struct cs_lab_result result;
    struct cs_err err = {.text = ""};
    if (cs_lab_simulate_with(lab, inputs, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

/* v is ready at 1, a at 4; a hop of 10, of which 4 occupy nothing. v travels alone from 5 to 8,
 * then both divide the link into llm: v arrives at 14, not 11, a at 17, not 14. */
static void messages_that_share_a_link_divide_it(void **state)
{
    (void)state;
    const struct cs_lab_module modules[] = {
        MODULE("v", "llm", 1, T(1), T(0), NULL),
        MODULE("a", "llm", 1, T(4), T(0), NULL),
        MODULE("llm", NULL, 1, T(1), T(0), NULL),
    };

    static const struct {
        int32_t per_node, per_nic;
        double want;
    } rows[] = {
        {0, 0, 15}, /* nothing shared */
        {1, 1, 18}, /* the NIC into llm */
        {3, 1, 18}, /* one node: the port of llm's device */
        {2, 2, 18}, /* v and a leave through one NIC as well */
    };

    assert_true(RUN(modules, "1f1b", 1, 10).makespan == 15);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_lab_inputs in = {.latency = rows[i].per_node ? 4 : 0,
                                   .ranks_per_node = rows[i].per_node,
                                   .ranks_per_nic = rows[i].per_nic};
        struct cs_lab_result r = disturbed(&in);
        assert_true(r.makespan == rows[i].want);
        assert_true(r.stage_exposed[2] == (i == 0 ? 13 : 16));
    }
    struct cs_lab_result r = disturbed(&(struct cs_lab_inputs){.latency = 4, .ranks_per_node = 1});
    assert_int_equal(r.n_critical, 3);
    assert_string_equal(r.critical[1], "s0 a.0 -> llm.0");
}

/* links into one rank and out of it do not meet */
static void directions_are_links_of_their_own(void **state)
{
    (void)state;
    const struct cs_lab_module chain[] = {MODULE("llm", NULL, 3, T(1, 1, 1), T(1, 1, 1), NULL)};
    double plain = RUN(chain, "gpipe", 4, 2).makespan;
    assert_true(disturbed(&(struct cs_lab_inputs){.ranks_per_node = 3}).makespan == plain);
    /* all ranks behind one NIC: rows of one pair and rows of the other meet there */
    struct cs_lab_inputs in = {.ranks_per_node = 1, .ranks_per_nic = 3};
    assert_true(disturbed(&in).makespan > plain);
}

static void stragglers_slow_their_stage_or_rank(void **state)
{
    (void)state;
    const struct cs_lab_module modules[] = {
        MODULE("v", "llm", 1, T(4), T(4), NULL),
        MODULE("llm", NULL, 2, T(1, 1), T(2, 2), NULL),
    };
    RUN(modules, "three-phase", 4, 0); /* v.0 v.1 llm.0 llm.1 on two ranks */
    struct cs_lab_result r = disturbed(&(struct cs_lab_inputs){.stage_factor = T(1, 3, 1, 1)});
    assert_true(r.busy[0] == 16 && r.busy[1] == 48 && r.busy[3] == 12);
    r = disturbed(&(struct cs_lab_inputs){.rank_factor = T(1, 3)});
    assert_true(r.busy[0] == 16 && r.busy[1] == 48 && r.busy[2] == 12 && r.busy[3] == 36);
    r = disturbed(&(struct cs_lab_inputs){.rank_factor = T(1, 3, 1, 1), .copies = 2});
    assert_int_equal(r.n_classes, 2);
    assert_true(r.busy[3] == 36 && r.busy[4 + 3] == 12);
}

static void memory_follows_the_live_slots(void **state)
{
    (void)state;
    const struct cs_lab_module chain[] = {MODULE("llm", NULL, 2, T(1, 1), T(2, 2), NULL)};
    RUN(chain, "1f1b", 2, 0);
    struct cs_lab_result r = disturbed(&(struct cs_lab_inputs){.bytes = T(10, 7)});
    /* F0 0-1, F1 1-2, B0 4-6, B1 7-9;  F0 1-2, B0 2-4, F1 4-5, B1 5-7 */
    static const struct cs_lab_point first[] = {
        {0, 10},
        {1, 20},
        {6, 10},
        {9, 0 }
    };
    static const struct cs_lab_point second[] = {
        {0, 0},
        {1, 7},
        {4, 7},
        {7, 0}
    };
    assert_int_equal(r.n_points[0], CS_ARRAY_LEN(first));
    assert_int_equal(r.n_points[1], CS_ARRAY_LEN(second));
    for (int i = 0; i < 4; i++) {
        assert_true(r.curve[0][i].at == first[i].at && r.curve[0][i].bytes == first[i].bytes);
        assert_true(r.curve[1][i].at == second[i].at && r.curve[1][i].bytes == second[i].bytes);
    }
    assert_null(disturbed(&(struct cs_lab_inputs){0}).curve);
}

static void bad_inputs_are_refused(void **state)
{
    (void)state;
    const struct cs_lab_module chain[] = {MODULE("llm", NULL, 2, T(1, 1), T(2, 2), NULL)};

    const struct {
        struct cs_lab_inputs in;
        const char *word;
    } rows[] = {
        {{.jitter = -0.1},                   "jitter is -0.1: 0 to 1"       },
        {{.jitter = 1.5},                    "jitter is 1.5: 0 to 1"        },
        {{.jitter = NAN},                    "jitter"                       },
        {{.latency = 3},                     "latency is 3: 0 to the hop, 2"},
        {{.rank_factor = T(1, -1)},          "factor of rank 1 is -1"       },
        {{.rank_factor = T(1, NAN)},         "factor of rank 1"             },
        {{.stage_factor = T(1, INFINITY)},   "factor of llm.1 is inf"       },
        {{.bytes = T(-4, 1)},                "llm.0 keeps -4 bytes"         },
        {{.copies = -1},                     "-1 copies"                    },
        {{.copies = 40000, .is_full = true}, "40000 distinct copies"        },
    };

    RUN(chain, "1f1b", 2, 2);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_lab_result r;
        struct cs_err err = {.text = ""};
        assert_int_not_equal(cs_lab_simulate_with(lab, &rows[i].in, arena, &r, &err), CS_OK);
        if (!strstr(err.text, rows[i].word))
            fail_msg("\"%s\" does not say \"%s\"", err.text, rows[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_for_six_slots_are_the_golden_ones),
        cmocka_unit_test(gpipe_runs_all_forwards_first),
        cmocka_unit_test(warm_up_decides_the_live_slots),
        cmocka_unit_test(simulated_times_are_33_36_36_33_31),
        cmocka_unit_test(frozen_aware_iteration_is_448_and_blind_568),
        cmocka_unit_test(parallel_beats_colocated_encoders),
        cmocka_unit_test(bubble_is_one_minus_busy_over_makespan),
        cmocka_unit_test(weight_gradients_add_to_the_backward),
        cmocka_unit_test(critical_path_adds_up_to_the_makespan),
        cmocka_unit_test(order_of_the_modules_does_not_matter),
        cmocka_unit_test(bad_experiments_are_refused),
        cmocka_unit_test(messages_that_share_a_link_divide_it),
        cmocka_unit_test(directions_are_links_of_their_own),
        cmocka_unit_test(stragglers_slow_their_stage_or_rank),
        cmocka_unit_test(memory_follows_the_live_slots),
        cmocka_unit_test(bad_inputs_are_refused),
        cmocka_unit_test(zb_h2_orders_are_the_golden_ones),
        cmocka_unit_test(zero_bubble_counters_never_overtake),
        cmocka_unit_test(zb_h2_wants_2p_minus_1_slots),
        cmocka_unit_test(zb_h1_delays_weights_by_the_position),
        cmocka_unit_test(frozen_weights_have_no_weight_part),
        cmocka_unit_test(chunks_are_printed_with_their_slots),
        cmocka_unit_test(colocated_encoders_share_the_slots),
        cmocka_unit_test(slots_of_the_next_step_are_marked),
        cmocka_unit_test(impossible_tunings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, free_arena);
}
