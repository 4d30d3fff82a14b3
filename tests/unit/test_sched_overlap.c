/* What replicas cost a step where sums and weights travel while the device computes: closed forms
 * of all hidden, partly hidden and not hidden, alone and through the simulator; and in slots. */
#include "core/plan/cost/links/beside.h"
#include "core/plan/cost/stage/buckets.h"
#include "core/plan/cost/stage/zero.h"
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

/* ---- two streams of a device ---- */

/* until both are over: computing that the exchange ends within, computing that ends within it, both at once */
static void computing_and_an_exchange_slow_each_other(void **state)
{
    static const struct {
        int64_t works, alone, beside;
        double slows;
        int64_t both;
    } rows[] = {
        {1000, 400, 500, 0.25, 1000 + 125},
        {300,  400, 500, 0.25, 400 + 80  }, /* of the exchange a fifth is left */
        {375,  400, 500, 0.25, 500       },
        {0,    400, 500, 0.25, 400       },
        {1000, 400, 400, 0,    1000      },
        {100,  400, 400, 0,    400       },
        {1000, 0,   0,   0.25, 1000      },
        {1000, 400, 500, 1,    1500      }, /* nothing is computed meanwhile */
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const int64_t got = cs_beside_ns(
            rows[i].works, (struct cs_beside){rows[i].alone, rows[i].beside, rows[i].slows});
        if (got != rows[i].both)
            fail_msg("row %zu: %lld ns, not %lld", i, (long long)got, (long long)rows[i].both);
    }
}

static void exchanges_of_a_device_go_one_after_the_other(void **state)
{
    const struct cs_beside one = {100, 200, 0.5}, other = {300, 300, 0};
    struct cs_lanes lanes = {0};
    (void)state;
    const int64_t a = cs_lanes_exchange(&lanes, one), b = cs_lanes_exchange(&lanes, other);
    cs_lanes_await(&lanes, 0);
    assert_float_equal(lanes.now_ns, 0, 0.01);
    cs_lanes_compute(&lanes, 50); /* takes 100, half of the first is left: alone 50 more */
    assert_float_equal(lanes.now_ns, 100, 0.01);
    cs_lanes_await(&lanes, a);
    assert_float_equal(lanes.now_ns, 150, 0.01);
    cs_lanes_compute(&lanes, 100); /* beside the second */
    assert_float_equal(lanes.now_ns, 250, 0.01);
    cs_lanes_await(&lanes, a);
    assert_float_equal(lanes.now_ns, 250, 0.01);
    cs_lanes_await(&lanes, b);
    assert_float_equal(lanes.now_ns, 450, 0.01);
    for (int i = 0; i <= CS_LANES_QUEUE; i++) /* no more than that are on their way */
        cs_lanes_exchange(&lanes, one);
    assert_float_equal(lanes.now_ns, 550, 0.01);
}

/* ---- in slots: levels 2 and 3 of ZeRO ---- */

/* Text model of three blocks on two ranks. An exchange of two ranks sends half of its bytes at a byte a nanosecond:
 * sums take 2 ns a parameter, weights 1. */
struct zero {
    struct cs_test_planned job;
    struct cs_device_class device;
    struct cs_layer_cost cost[5];
    int64_t fwd, bwd;    /* of the stage, without exchanges */
    int64_t elements[5]; /* embedding, blocks, head */
};

static struct zero make_zero(int zero, int slots, const char *schedule)
{
    const struct cs_test_spec options = {.n_encoders = -1,
                                         .llm_layers = 3,
                                         .dp = 2,
                                         .zero = zero,
                                         .slots = slots,
                                         .schedule = schedule};
    struct zero z = {.job = cs_test_plan(&options)};
    z.device = (struct cs_device_class){.name = "test",
                                        .flops = 1,
                                        .bytes_per_s = INT64_MAX,
                                        .link_bytes_per_s = 1000000000,
                                        .mem_bytes = 1};
    assert_int_equal(z.job.graph->n_layers, 5);
    for (int l = 0; l < 5; l++)
        z.elements[l] = z.job.graph->layers[l].n_elements;
    return z;
}

/* what forwards and backwards of a slot take longer */
static void find_more(struct zero *z, bool is_split, int64_t *fwd, int64_t *bwd)
{
    struct cs_stage *stage = &z->job.plan->stages[0];
    stage->fwd_ns = stage->bwd_input_ns = stage->bwd_weight_ns = 0;
    for (int l = 0; l < 5; l++) {
        stage->fwd_ns += z->cost[l].fwd_ns;
        stage->bwd_input_ns += z->cost[l].bwd_input_ns;
        stage->bwd_weight_ns += z->cost[l].bwd_weight_ns;
    }
    const int64_t works[] = {stage->fwd_ns, stage->bwd_input_ns + stage->bwd_weight_ns};
    cs_zero_times(z->job.graph, &z->device, z->cost, is_split, z->job.plan);
    *fwd = stage->fwd_ns - works[0];
    *bwd = stage->bwd_input_ns + stage->bwd_weight_ns - works[1];
}

static void near_ns(int64_t got, int64_t want)
{
    if (got < want - 20 || got > want + 20)
        fail_msg("%lld ns, not %lld", (long long)got, (long long)want);
}

static int64_t all_of(const int64_t elements[5])
{
    return elements[0] + elements[1] + elements[2] + elements[3] + elements[4];
}

/* Layers from the last to the first: equal ones take turns; small ones, of another tower, lie where a layer was that is
 * long over, not where the last large one was; none is larger than the room. */
static void gradients_lie_where_nothing_was_made_lately(void **state)
{
    static const int64_t equal[] = {100, 100, 100, 100},
                         towers[] = {30, 30, 30, 10, 0, 100, 100, 100, 5}, alone[] = {0, 70, 0};
    int64_t at[9];
    (void)state;
    assert_int_equal(cs_zero_room(equal, 4, 2), 200);
    cs_zero_places(equal, 4, 200, at);
    assert_true(at[3] != at[2] && at[1] == at[3] && at[0] == at[2]);
    assert_int_equal(cs_zero_room(towers, 9, 2), 200);
    cs_zero_places(towers, 9, 200, at);
    for (int i = 0; i < 9; i++)
        assert_true(at[i] >= 0 && at[i] + towers[i] <= 200);
    for (int i = 0; i < 4; i++) { /* beside the last large layer, and beside each other */
        assert_true(at[i] >= at[5] + 100 || at[i] + towers[i] <= at[5]);
        for (int k = i + 1; k < 4; k++)
            assert_true(at[i] >= at[k] + towers[k] || at[i] + towers[i] <= at[k]);
    }
    assert_true(at[7] != at[6] && at[5] == at[7]);
    assert_int_equal(cs_zero_room(alone, 3, 1), 70);
    cs_zero_places(alone, 3, 70, at);
    assert_int_equal(at[1], 0);
}

/* Long layers hide all sums, and pay what these hold of the device. */
static void sums_behind_long_layers_cost_what_they_hold(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    struct zero z = make_zero(2, 8, "1f1b");
    for (int l = 0; l < 5; l++)
        z.cost[l] = (struct cs_layer_cost){10000000, 5000000, 5000000};
    find_more(&z, false, &fwd, &bwd);
    near_ns(fwd + bwd, 0);
    z.device.units = 4 * CS_GROUP_UNITS;
    find_more(&z, false, &fwd, &bwd);
    /* the embedding's is the last, beside the next slot's forward, which the first of four slots has none of */
    near_ns(fwd, 3 * (2 * z.elements[0] / 4) / 4);
    near_ns(bwd, 2 * (all_of(z.elements) - z.elements[0]) / 4);
    cs_test_planned_free(&z.job);
}

/* Without computing slots take their sums, and what is added to the parts of slots before: 6 bytes of memory for a
 * parameter of fp32. In the last of four slots nobody waits for the sums of the embedding and the first block, which
 * the step does; in the first one nothing is added. */
static void sums_that_nothing_hides_are_what_a_slot_takes(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    for (int is_split = 0; is_split < 2; is_split++) {
        struct zero z = make_zero(2, 8, is_split ? "zb-h1" : "1f1b");
        const int64_t all = all_of(z.elements), left = z.elements[0] + z.elements[1];
        find_more(&z, is_split, &fwd, &bwd);
        near_ns(4 * (fwd + bwd), 4 * 2 * all - 2 * left);
        z.device.bytes_per_s = 1000000000;
        find_more(&z, is_split, &fwd, &bwd);
        near_ns(4 * (fwd + bwd), 4 * 2 * all + 3 * 6 * all - (2 + 6) * left);
        cs_test_planned_free(&z.job);
    }
}

/* Two layers write gradients into one buffer in turn: a layer waits for the sum of the layer before the last. Here
 * the head hides its own, and the forward what the backward has left. */
static void a_layer_waits_for_the_sum_of_the_one_before_the_last(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    struct zero z = make_zero(2, 8, "1f1b");
    const int64_t sum = 2 * z.elements[2], short_ns = sum / 4;
    z.cost[0] = (struct cs_layer_cost){10000000, 0, 1000};
    z.cost[4] = (struct cs_layer_cost){0, 10000000, 0};
    for (int l = 1; l < 4; l++)
        z.cost[l] = (struct cs_layer_cost){0, short_ns / 2, short_ns / 2};
    find_more(&z, false, &fwd, &bwd);
    near_ns(fwd, 0);
    near_ns(bwd, 2 * sum - 2 * short_ns);
    cs_test_planned_free(&z.job);
}

/* Of a split backward the halves that make weights' gradients wait for sums, those of inputs for none: the long one hides
 * the sum that the loss began, though its layer writes there later. */
static void halves_of_inputs_wait_for_no_sums(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    struct zero z = make_zero(2, 8, "zb-h1");
    z.job.plan->stages[0].needs_input_grad = true;
    z.cost[0].fwd_ns = z.cost[2].bwd_input_ns = 10000000;
    find_more(&z, true, &fwd, &bwd);
    near_ns(fwd, 0);
    near_ns(bwd, 2 * (z.elements[2] + z.elements[3]));
    cs_test_planned_free(&z.job);
}

/* A forward begins with weights that nothing hides, and the embedding hides no others; blocks hide the next one's. */
static void the_first_weights_are_waited_for(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    struct zero z = make_zero(3, 2, "1f1b"); /* a slot a replica: none before it has left weights */
    for (int l = 1; l < 5; l++)
        z.cost[l] = (struct cs_layer_cost){10000000, 5000000, 5000000};
    find_more(&z, false, &fwd, &bwd);
    near_ns(fwd, z.elements[0] + z.elements[1]);
    near_ns(bwd, 0);
    /* and a short block does not: half of the next one's weights are left */
    z.cost[1].fwd_ns = z.elements[2] / 2;
    find_more(&z, false, &fwd, &bwd);
    near_ns(fwd, z.elements[0] + z.elements[1] + z.elements[2] / 2);
    cs_test_planned_free(&z.job);
}

/* Each pass leaves the weights of two layers to the next one, on CPU ranks of one, whose weights take twice as long; but
 * to the first of four slots nobody has left any, and the last leaves sums to the step. */
static void weights_that_a_pass_has_left_do_not_come_again(void **state)
{
    int64_t fwd, bwd;
    (void)state;
    struct zero z = make_zero(3, 8, "1f1b");
    const int64_t *n = z.elements, sums = 2 * all_of(n);
    find_more(&z, false, &fwd, &bwd);
    near_ns(4 * (fwd + bwd), 4 * (sums + (n[2] + n[3] + n[4]) + (n[2] + n[1] + n[0])) +
                                 (n[0] + n[1]) - 2 * (n[0] + n[1]));
    z.device.mem_bytes = 0;
    find_more(&z, false, &fwd, &bwd);
    near_ns(fwd, 2 * n[4] + 2 * (n[1] + n[2] + n[3] + n[4]) +
                     2 * n[0] / 4); /* the sum of what the loss makes */
    near_ns(bwd, sums - 2 * n[4] + 2 * (n[3] + n[2] + n[1] + n[0]));
    cs_test_planned_free(&z.job);
}

/* A step has every sum of its slots once: between layers and slots, and of the last slot what it waits for at its end, those
 * of the embedding and the first block. Long layers pay what the others hold of the device, short ones wait for them. */
static void a_step_has_every_sum_of_its_slots_once(void **state)
{
    (void)state;
    for (int slots = 1; slots <= 4; slots *= 2) {
        struct zero z = make_zero(2, 2 * slots, "1f1b");
        const int64_t all = slots * 2 * all_of(z.elements),
                      last = 2 * (z.elements[0] + z.elements[1]);
        struct cs_program_options how = {.n_slots = slots};
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_program *program;
        struct cs_err err;
        int64_t fwd, bwd;
        for (int l = 0; l < 5; l++)
            z.cost[l] = (struct cs_layer_cost){10000000, l > 0 ? 5000000 : 0, l > 0 ? 5000000 : 0};
        z.device.units = 4 * CS_GROUP_UNITS;
        find_more(&z, false, &fwd, &bwd);
        near_ns(slots * (fwd + bwd), (all - last) / 4);
        cs_stage_buckets(z.job.graph, arena, z.job.plan);
        assert_int_equal(cs_program_make_with(z.job.plan, z.job.graph, &how, arena, &program, &err),
                         CS_OK);
        near_ns(cs_overlap_reduce_ns(program, 0, &z.device), last);
        memset(z.cost, 0, sizeof z.cost);
        find_more(&z, false, &fwd, &bwd);
        near_ns(slots * (fwd + bwd), all - last);
        cs_arena_free(arena);
        cs_test_planned_free(&z.job);
    }
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

/* Where slots have summed, a step pays for what the last one leaves: here half of a bucket. */
static void a_step_pays_for_sums_that_its_last_slot_leaves(void **state)
{
    (void)state;
    static const struct cs_stage_bucket bucket = {400, 1600, 400, 400, false};
    struct made m = make(GPU, "1f1b");
    m.device.units = 4 * CS_GROUP_UNITS;
    m.job.plan->stages[0].zero = 2;
    assert_int_equal(beside_compute(&m, &bucket, 1), 400 + 400 / 4);
    m.job.plan->stages[0].zero = 3;
    assert_int_equal(beside_compute(&m, &bucket, 1), 400);
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
        cmocka_unit_test(computing_and_an_exchange_slow_each_other),
        cmocka_unit_test(exchanges_of_a_device_go_one_after_the_other),
        cmocka_unit_test(gradients_lie_where_nothing_was_made_lately),
        cmocka_unit_test(sums_behind_long_layers_cost_what_they_hold),
        cmocka_unit_test(sums_that_nothing_hides_are_what_a_slot_takes),
        cmocka_unit_test(a_layer_waits_for_the_sum_of_the_one_before_the_last),
        cmocka_unit_test(the_first_weights_are_waited_for),
        cmocka_unit_test(weights_that_a_pass_has_left_do_not_come_again),
        cmocka_unit_test(halves_of_inputs_wait_for_no_sums),
        cmocka_unit_test(a_step_has_every_sum_of_its_slots_once),
        cmocka_unit_test(a_step_hides_what_it_can),
        cmocka_unit_test(cpu_ranks_hide_nothing),
        cmocka_unit_test(hidden_transfers_take_their_part_of_the_device),
        cmocka_unit_test(a_step_pays_for_sums_that_its_last_slot_leaves),
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
