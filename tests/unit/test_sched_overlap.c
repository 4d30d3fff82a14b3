/* What replicas cost a step where sums and weights travel while the device computes: closed forms
 * of all hidden, partly hidden and not hidden, alone and through the simulator. */
#include "core/plan/cost/stage/buckets.h"
#include "core/plan/json/plan_json.h"
#include "core/sched/sim/overlap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "tests/support/planned.h"

/* ---- the two rules ---- */

static void sums_that_fit_before_the_end_cost_nothing(void **state)
{
    (void)state;
    static const struct cs_overlap_item item[] = {
        {100, 50},
        {200, 50},
        {300, 50}
    };
    assert_int_equal(cs_overlap_left(item, 3, 350), 0);
    assert_int_equal(cs_overlap_left(item, 3, 349), 1);
    assert_int_equal(cs_overlap_left(item, 0, 0), 0);
}

/* the second waits for the first: 100 + 150, then 150 more; the third is not complete before 500 */
static void sums_go_one_after_the_other(void **state)
{
    (void)state;
    static const struct cs_overlap_item item[] = {
        {100, 150},
        {200, 150},
        {500, 150}
    };
    assert_int_equal(cs_overlap_left(item, 2, 300), 100);
    assert_int_equal(cs_overlap_left(item, 3, 500), 150);
    assert_int_equal(cs_overlap_left(item, 3, 650), 0);
    /* times may lie before 0: they count back from the end */
    static const struct cs_overlap_item back[] = {
        {-300, 400},
        {-100, 50 }
    };
    assert_int_equal(cs_overlap_left(back, 2, 0), 150);
}

/* arrivals 100, 200, 300; the longest delay counts, the others are within it */
static void weights_cost_their_longest_delay(void **state)
{
    (void)state;
    static const struct cs_overlap_item hidden[] = {
        {100, 100},
        {300, 100},
        {300, 100}
    };
    static const struct cs_overlap_item late[] = {
        {40,  100},
        {150, 100},
        {290, 100}
    };
    assert_int_equal(cs_overlap_delay(hidden, 3), 0);
    assert_int_equal(cs_overlap_delay(late, 3), 60);
    assert_int_equal(cs_overlap_delay(late, 0), 0);
}

/* ---- in a step ---- */

struct made {
    struct cs_test_planned job;
    struct cs_device_class device;
};

enum { FWD = 1000, BWD = 2000, CPU = 0, GPU = 1 };

/* Two replicas of a text model on one rank each, two slots a replica: F F B B or F B F B. A byte
 * takes a nanosecond; half of every bucket is sent. */
static struct made make(int mem_bytes, const char *schedule)
{
    const struct cs_test_spec options = {
        .n_encoders = -1, .dp = 2, .slots = 4, .schedule = schedule};
    struct made m = {.job = cs_test_plan(&options)};
    m.device = (struct cs_device_class){
        .name = "test", .flops = 1, .link_bytes_per_s = 1000000000, .mem_bytes = mem_bytes};
    assert_int_equal(m.job.plan->n_stages, 1);
    m.job.plan->stages[0].fwd_ns = FWD;
    m.job.plan->stages[0].bwd_input_ns = BWD / 2;
    m.job.plan->stages[0].bwd_weight_ns = BWD / 2;
    m.job.plan->stages[0].state_bytes = 0;
    return m;
}

static void done(struct made *m)
{
    cs_test_planned_free(&m->job);
}

/* the step with these buckets beside the two forwards and backwards of a replica */
static int64_t beside_compute(const struct made *m, const struct cs_stage_bucket *bucket, int32_t n)
{
    struct cs_program *program;
    struct cs_sim_result result;
    struct cs_device_class device = m->device;
    struct cs_err err = {.text = ""};
    const struct cs_sim_options options = {.cost = cs_predict_cost, .user = &device};
    m->job.plan->stages[0].bucket = bucket;
    m->job.plan->stages[0].n_buckets = n;
    if (cs_program_make(m->job.plan, m->job.graph, cs_plan_own_slots(m->job.plan, 4), false,
                        m->job.arena, &program, &err) != CS_OK ||
        cs_simulate(program, &options, m->job.arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result.makespan_ns - 2 * (FWD + BWD);
}

/* 400 params: 800 ns of gradients, 400 of weights */
static void a_step_hides_what_it_can(void **state)
{
    (void)state;

    static const struct {
        struct cs_stage_bucket bucket[2];
        int n;
        int64_t cost;
    } rows[] = {
  /* gradients 800 before the end, weights not needed before 400 */
        {{{400, 1600, 800, 400, false}},                                1, 0              },
 /* half of the gradients' way is left */
        {{{400, 1600, 400, 400, false}},                                1, 400            },
 /* half of the weights' way as well */
        {{{400, 1600, 400, 200, false}},                                1, 600            },
 /* nothing is hidden: complete at the end, needed at once */
        {{{400, 1600, 0, 0, false}},                                    1, 1200           },
 /* the upper one is summed while the lower one's backward runs; its weights come second */
        {{{400, 1600, 0, 0, false}, {400, 1600, 1000, 800, false}},     2, 800 + 400      },
        {{{400, 1600, 0, 0, false}, {400, 1600, 500, 800, false}},      2, 300 + 800 + 400},
 /* the second's weights arrive at 800 and are needed at 500; the first's at 400, at 0 */
        {{{400, 1600, 0, 0, false}, {400, 1600, 1000, 350, false}},     2, 800 + 450      },
 /* a tied table is complete at the end, whatever is left of the backward, and the first
  * layer waits for it */
        {{{400, 1600, 1500, 900, true}},                                1, 800 + 400      },
        {{{400, 1600, 1500, 900, true}, {400, 1600, 1000, 800, false}}, 2, 800 + 400      },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct made m = make(GPU, "1f1b");
        m.device.mem_bytes = 1;
        const int64_t got = beside_compute(&m, rows[i].bucket, rows[i].n);
        if (got != rows[i].cost)
            fail_msg("row %zu: %lld ns, %lld are not hidden", i, (long long)got,
                     (long long)rows[i].cost);
        done(&m);
    }
}

/* the sums of CPU ranks go over sockets when all is computed */
static void cpu_ranks_hide_nothing(void **state)
{
    (void)state;
    static const struct cs_stage_bucket bucket = {400, 1600, 800, 400, false};
    struct made m = make(CPU, "1f1b");
    m.job.plan->stages[0].state_bytes = 400 * (4 + 8 / 2); /* gradients, half of the moments */
    const int64_t got = beside_compute(&m, &bucket, 1);
    assert_int_equal(got, 800 + 800);
    done(&m);
}

/* what is hidden holds 16 of 64 multiprocessors: a quarter of its time is lost to the computing */
static void hidden_transfers_take_their_part_of_the_device(void **state)
{
    (void)state;
    static const struct cs_stage_bucket bucket = {400, 1600, 400, 400, false};
    struct made m = make(GPU, "1f1b");
    m.device.units = 4 * CS_GROUP_UNITS;
    assert_int_equal(beside_compute(&m, &bucket, 1), 400 + 400 / 4 + 400 / 4);
    done(&m);
}

/* Weight gradients in actions of their own: a bucket is complete within the last of those. */
static void split_backwards_complete_in_their_weight_half(void **state)
{
    (void)state;
    static const struct cs_stage_bucket bucket = {400, 1600, 1000, 400, false};
    struct made m = make(GPU, "zb-h1");
    struct cs_program *program;
    struct cs_err err = {.text = ""};
    m.job.plan->stages[0].bucket = &bucket;
    m.job.plan->stages[0].n_buckets = 1;
    if (cs_program_make(m.job.plan, m.job.graph, 2, false, m.job.arena, &program, &err) != CS_OK)
        fail_msg("%s", err.text);
    /* half of the weight half is left: 500 of 800 are hidden */
    assert_int_equal(cs_overlap_reduce_ns(program, 0, &m.device), 300);
    assert_int_equal(cs_overlap_gather_ns(program, 0, 0, &m.device), 0);
    assert_int_equal(cs_overlap_gather_ns(program, 0, 0, &m.device), 0);
    done(&m);
}

/* What a rank does before its first forward hides weights too. */
static void preparing_a_step_hides_weights(void **state)
{
    (void)state;
    static const struct cs_stage_bucket bucket = {400, 1600, 800, 0, false};
    struct made m = make(GPU, "1f1b");
    m.job.plan->stages[0].update_ns = 10;
    assert_int_equal(beside_compute(&m, &bucket, 1), 400 + 10 / 2);
    m.job.plan->stages[0].clear_ns = 100;
    m.job.plan->stages[0].prepare_ns = 50;
    assert_int_equal(beside_compute(&m, &bucket, 1), 250 + 150 + 5);
    done(&m);
}

/* An accelerator has work as soon as the first slot is prepared. */
static void the_host_prepares_slots_beside_an_accelerator(void **state)
{
    (void)state;
    static const int devices[] = {GPU, CPU};
    for (int i = 0; i < 2; i++) {
        struct made m = make(devices[i], "1f1b");
        m.job.plan->stages[0].update_ns = 10; /* measured */
        const int64_t without = beside_compute(&m, NULL, 0);
        m.job.plan->stages[0].prepare_ns = 50;
        assert_int_equal(beside_compute(&m, NULL, 0) - without, devices[i] == GPU ? 50 : 2 * 50);
        done(&m);
    }
}

/* ---- buckets of a model ---- */

static int64_t trained(const struct cs_graph *graph, const struct cs_stage *stage)
{
    int64_t n = 0;
    for (int32_t l = 0; l < stage->n_layers; l++)
        n += graph->layers[stage->first_layer + l].n_trained;
    return n;
}

static void buckets_hold_what_trains_and_fall_with_the_layers(void **state)
{
    (void)state;
    const struct cs_test_spec options = {.dp = 2, .llm_layers = 6, .llm_width = 640};
    struct made m = {.job = cs_test_plan(&options)};
    for (int32_t s = 0; s < m.job.plan->n_stages; s++) {
        const struct cs_stage *stage = &m.job.plan->stages[s];
        int64_t params = 0, left = -1, into = -1;
        for (int32_t b = 0; b < stage->n_buckets; b++) {
            const struct cs_stage_bucket *bucket = &stage->bucket[b];
            params += bucket->params;
            assert_true(bucket->left_ns >= left && bucket->into_ns >= into);
            left = bucket->left_ns;
            into = bucket->into_ns;
            assert_false(bucket->is_late);
            if (b + 1 < stage->n_buckets)
                assert_true(bucket->grad_bytes >= CS_BUCKET_BYTES);
        }
        assert_int_equal(params, trained(m.job.graph, stage));
        assert_true(left < stage->bwd_input_ns + stage->bwd_weight_ns && into < stage->fwd_ns);
    }
    /* embedding and two blocks, two blocks, two blocks, head */
    assert_int_equal(m.job.plan->stages[m.job.plan->n_stages - 1].n_buckets, 4);
    done(&m);
}

/* half the bytes a parameter: buckets of twice as many */
static void gradients_in_bf16_fill_buckets_later(void **state)
{
    (void)state;
    const struct cs_test_spec options = {.dp = 2, .llm_layers = 6, .llm_width = 640};
    struct made m = {.job = cs_test_plan(&options)};
    const struct cs_stage *llm = &m.job.plan->stages[m.job.plan->n_stages - 1];
    int64_t bytes = 0;
    m.job.graph->keeps_bf16 = true;
    cs_stage_buckets(m.job.graph, m.job.arena, m.job.plan);
    for (int32_t b = 0; b < llm->n_buckets; b++)
        bytes += llm->bucket[b].grad_bytes;
    assert_int_equal(bytes, 2 * trained(m.job.graph, llm));
    /* embedding and four blocks, two blocks and the head */
    assert_int_equal(llm->n_buckets, 2);
    done(&m);
}

static void one_replica_and_frozen_stages_have_no_buckets(void **state)
{
    (void)state;
    const struct cs_test_spec one = {.dp = 1},
                              frozen = {.dp = 2, .rules = "train:* freeze:vision.*"};
    struct made m = {.job = cs_test_plan(&one)};
    for (int32_t s = 0; s < m.job.plan->n_stages; s++)
        assert_int_equal(m.job.plan->stages[s].n_buckets, 0);
    done(&m);
    m.job = cs_test_plan(&frozen);
    assert_int_equal(m.job.plan->stages[0].n_buckets, 0);
    assert_int_equal(m.job.plan->stages[1].n_buckets, 1);
    done(&m);
}

static void a_plan_that_was_read_has_the_same_buckets(void **state)
{
    (void)state;
    const struct cs_test_spec options = {.dp = 2, .is_tied = true, .llm_pp = 2, .llm_layers = 4};
    struct made m = {.job = cs_test_plan(&options)};
    struct cs_plan *read;
    struct cs_err err = {.text = ""};
    json_t *json = cs_plan_json(m.job.plan, m.job.graph);
    if (cs_plan_read(json, m.job.graph, m.job.arena, &read, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_stage_buckets(m.job.graph, m.job.arena, read);
    for (int32_t s = 0; s < m.job.plan->n_stages; s++) {
        assert_int_equal(read->stages[s].n_buckets, m.job.plan->stages[s].n_buckets);
        assert_true(read->stages[s].n_buckets > 0);
        for (int32_t b = 0; b < read->stages[s].n_buckets; b++) {
            const struct cs_stage_bucket *x = &read->stages[s].bucket[b],
                                         *y = &m.job.plan->stages[s].bucket[b];
            assert_true(x->params == y->params && x->left_ns == y->left_ns &&
                        x->into_ns == y->into_ns && x->is_late == y->is_late);
        }
    }
    json_decref(json);
    done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_that_fit_before_the_end_cost_nothing),
        cmocka_unit_test(sums_go_one_after_the_other),
        cmocka_unit_test(weights_cost_their_longest_delay),
        cmocka_unit_test(a_step_hides_what_it_can),
        cmocka_unit_test(cpu_ranks_hide_nothing),
        cmocka_unit_test(hidden_transfers_take_their_part_of_the_device),
        cmocka_unit_test(split_backwards_complete_in_their_weight_half),
        cmocka_unit_test(preparing_a_step_hides_weights),
        cmocka_unit_test(the_host_prepares_slots_beside_an_accelerator),
        cmocka_unit_test(buckets_hold_what_trains_and_fall_with_the_layers),
        cmocka_unit_test(gradients_in_bf16_fill_buckets_later),
        cmocka_unit_test(one_replica_and_frozen_stages_have_no_buckets),
        cmocka_unit_test(a_plan_that_was_read_has_the_same_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
