/* Ragged batches: what is drawn, how it is dealt, what steps of it cost, and Pareto marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/search/replay.h"
#include "core/search/search.h"

enum { ENC = 4, LLM = 8 };

struct model {
    struct cs_search_layer enc[ENC], llm[LLM];
    struct cs_search_option option[3];
    struct cs_search_problem problem;
};

/* full slots: 100 rows of pictures, 200 of the LLM; every layer trains */
static void make(struct model *m)
{
    memset(m, 0, sizeof(*m));
    for (int i = 0; i < ENC; i++)
        m->enc[i] = (struct cs_search_layer){.fwd_ns = 1000,
                                             .bwd_weight_ns = 1000,
                                             .bwd_input_ns = i ? 1000 : 0,
                                             .blind_ns = 3000,
                                             .saved_bytes = 10,
                                             .is_trained = true};
    for (int i = 0; i < LLM; i++)
        m->llm[i] = (struct cs_search_layer){.fwd_ns = 2000,
                                             .bwd_weight_ns = 2000,
                                             .bwd_input_ns = 2000,
                                             .blind_ns = 6000,
                                             .saved_bytes = 20,
                                             .is_trained = true};
    m->option[0] = (struct cs_search_option){
        .tp = 1, .cp = 1, .recompute = CS_RECOMPUTE_NONE, .layer = m->enc};
    m->option[1] = (struct cs_search_option){
        .tp = 1, .cp = 1, .recompute = CS_RECOMPUTE_NONE, .layer = m->llm};
    m->problem = (struct cs_search_problem){
        .branch = {{.name = "vision",
                    .n_layers = ENC,
                    .n_options = 1,
                    .option = &m->option[0],
                    .rows = 100,
                    .n_items = 4},
                   {.name = "llm",
                    .n_layers = LLM,
                    .n_options = 1,
                    .option = &m->option[1],
                    .rows = 200}},
        .n_branches = 2,
        .llm = 1,
        .n_ranks = 6,
        .ranks_per_node = 8
    };
}

static const int32_t pictures[] = {0, 0, 25, 50, 100}, words[] = {5, 20, 60, 200};

static struct cs_search_samples quantiles(void)
{
    struct cs_search_samples s = {.n_batches = 6, .seed = 3};
    s.quantile[0].value = pictures;
    s.quantile[0].n = 5;
    s.quantile[1].value = words;
    s.quantile[1].n = 4;
    return s;
}

static struct cs_search_batches drawn(const struct model *m, const struct cs_search_samples *s,
                                      struct cs_arena *arena)
{
    struct cs_search_batches batches;
    struct cs_err err;
    if (cs_samples_draw(&m->problem, s, 12, arena, &batches, &err) != CS_OK)
        fail_msg("%s", err.text);
    return batches;
}

static void quantiles_are_drawn_in_proportion(void **state)
{
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = quantiles();
    int64_t zero = 0, low = 0, n = 20000;
    double sum = 0;
    (void)state;
    make(&m);
    s.n_batches = 1;
    s.n_samples = (int32_t)n;
    struct cs_search_batches b = drawn(&m, &s, arena);
    for (int64_t i = 0; i < n; i++) {
        int32_t rows = b.rows[2 * i];
        assert_in_range(rows, 0, 100);
        assert_in_range(b.rows[2 * i + 1], 5, 200);
        zero += rows == 0;
        low += rows < 25;
        sum += rows;
    }
    /* a quarter between 0 and 0 and a 25th of the next quarter; half below 25; the mean of
     * pieces */
    assert_true(llabs(zero - n * 26 / 100) < n / 50);
    assert_true(llabs(low - n / 2) < n / 50);
    double mean = (0 + 12.5 + 37.5 + 75) / 4;
    assert_true(sum / (double)n - mean < 1.5 && mean - sum / (double)n < 1.5);
    cs_arena_free(arena);
}

static void samples_of_a_list_come_whole(void **state)
{
    static const int32_t list[] = {0, 10, 100, 20, 25, 30};
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = {.row = list, .n_rows = 3, .n_batches = 4, .n_samples = 50};
    int seen[3] = {0};
    (void)state;
    make(&m);
    struct cs_search_batches b = drawn(&m, &s, arena), again = drawn(&m, &s, arena);
    assert_memory_equal(b.rows, again.rows, 4 * 50 * 2 * sizeof(int32_t));
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < 3; k++)
            if (b.rows[(size_t)2 * (size_t)i] == list[2 * k]) {
                assert_int_equal(b.rows[2 * i + 1], list[2 * k + 1]);
                seen[k]++;
            }
    assert_int_equal(seen[0] + seen[1] + seen[2], 200);
    assert_true(seen[0] > 30 && seen[1] > 30 && seen[2] > 30);
    s.seed = 9;
    again = drawn(&m, &s, arena);
    assert_memory_not_equal(b.rows, again.rows, 4 * 50 * 2 * sizeof(int32_t));
    cs_arena_free(arena);
}

/* absent: as many as fill the fuller branch to 7/8 */
static void steps_are_filled_to_seven_eighths(void **state)
{
    static const int32_t list[] = {50, 50};
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = {.row = list, .n_rows = 1};
    (void)state;
    make(&m);
    struct cs_search_batches b = drawn(&m, &s, arena); /* half of the pictures of a slot each */
    assert_int_equal(b.n_samples, 12 * 2 * 7 / 8);
    assert_int_equal(b.n_batches, 8);
    cs_arena_free(arena);
}

/* largest: rows of the largest item of the encoder, whose items differ; 0: they do not */
static void work_is_kept(int largest)
{
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = quantiles();
    make(&m);
    m.problem.branch[1].quad_share = 0.25;
    m.problem.branch[0].quad_share = largest > 0 ? 0.5 : 0;
    m.problem.branch[0].item_rows = largest;
    struct cs_search_batches b = drawn(&m, &s, arena);
    double expected[2] = {0};
    for (int32_t i = 0; i < b.n_samples; i++) {
        double x = b.rows[2 * i] / 100.0, y = b.rows[2 * i + 1] / 200.0;
        double item = largest > b.rows[2 * i] ? (double)b.rows[2 * i] / largest : 1;
        expected[0] += largest > 0 ? 0.5 * x + 0.5 * x * item : x;
        expected[1] += 0.75 * y + 0.25 * y * y;
    }
    for (int p = 0; p < CS_PLANNERS; p++) {
        struct cs_search_loads loads;
        struct cs_err err;
        if (cs_samples_deal(&m.problem, &b, 0, &cs_planner_rules[p], 2, 6, 2, 3, arena, &loads,
                            &err) != CS_OK)
            fail_msg("%s", err.text);
        for (int k = 0; k < 2; k++) {
            double fwd = 0, bwd = 0;
            for (int i = 0; i < 12; i++) {
                fwd += loads.fwd[k][i];
                bwd += loads.bwd[k][i];
            }
            assert_true(fwd - expected[k] < 1e-9 && expected[k] - fwd < 1e-9);
            assert_true(bwd - expected[k] < 1e-9 && expected[k] - bwd < 1e-9);
        }
    }
    cs_arena_free(arena);
}

static void work_is_kept_by_every_policy(void **state)
{
    (void)state;
    work_is_kept(0);
    work_is_kept(40); /* smaller items attend less, several are as one */
}

static struct cs_search_result search(const struct model *m, const struct cs_search_samples *s,
                                      int32_t slots, struct cs_arena *arena)
{
    struct cs_search_options options = {.batch_slots = slots, .samples = s, .top = 50};
    struct cs_search_result result;
    struct cs_err err;
    if (cs_search_run(&m->problem, &options, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

/* samples that fill every slot exactly: steps are those of full slots */
static void full_slots_cost_what_full_slots_cost(void **state)
{
    static const int32_t list[] = {100, 200};
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = {.row = list, .n_rows = 1, .n_batches = 3, .n_samples = 12};
    (void)state;
    make(&m);
    struct cs_search_result r = search(&m, &s, 12, arena);
    assert_int_equal(r.n_batches, 3);
    for (int32_t i = 0; i < r.n_plans; i++) {
        assert_int_equal(r.plan[i].mean_ns, r.plan[i].step_ns);
        assert_int_equal(r.plan[i].p95_ns, r.plan[i].step_ns);
    }
    cs_arena_free(arena);
}

static void ragged_batches_rank_by_their_mean(void **state)
{
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = quantiles();
    int n_tail = 0;
    (void)state;
    make(&m);
    struct cs_search_result r = search(&m, &s, 12, arena), again = search(&m, &s, 12, arena);
    assert_true(r.n_plans > 5);
    for (int32_t i = 0; i < r.n_plans; i++) {
        assert_true(r.plan[i].mean_ns > 0 && r.plan[i].p95_ns >= r.plan[i].mean_ns);
        assert_true(i == 0 || r.plan[i].mean_ns >= r.plan[i - 1].mean_ns);
        assert_int_equal(r.plan[i].mean_ns, again.plan[i].mean_ns);
        n_tail += r.plan[i].p95_ns > r.plan[i].mean_ns;
    }
    assert_true(n_tail > 0);
    for (int p = 0; p < CS_PLANNERS; p++)
        if (r.choice[p].plan)
            assert_true(r.choice[p].plan->mean_ns >= r.plan[0].mean_ns);
    cs_arena_free(arena);
}

static void pareto_plans_are_not_dominated(void **state)
{
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_samples s = quantiles();
    int n = 0;
    (void)state;
    make(&m);
    for (int sampled = 0; sampled < 2; sampled++) {
        struct cs_search_result r = search(&m, sampled ? &s : NULL, 12, arena);
        for (int32_t i = 0; i < r.n_plans; i++) {
            bool is_dominated = false;
            const struct cs_search_plan *p = &r.plan[i];
            for (int32_t k = 0; k < r.n_plans; k++) {
                const struct cs_search_plan *q = &r.plan[k];
                int64_t t = sampled ? p->mean_ns : p->step_ns,
                        u = sampled ? q->mean_ns : q->step_ns;
                is_dominated = is_dominated || (u <= t && q->peak_bytes < p->peak_bytes) ||
                               (u < t && q->peak_bytes <= p->peak_bytes);
            }
            if (p->is_pareto)
                assert_false(is_dominated);
            n += p->is_pareto;
        }
        assert_true(r.plan[0].is_pareto);
    }
    assert_true(n > 2);
    cs_arena_free(arena);
}

static void ranks_are_dealt_in_proportion(void **state)
{
    static const struct {
        double work[3];
        int32_t n, ranks, share[3];
    } row[] = {
        {{1, 3},       2, 8,  {2, 6}   },
        {{0, 1},       2, 4,  {1, 3}   },
        {{1, 1, 1},    3, 4,  {2, 1, 1}},
        {{1, 2, 4},    3, 10, {1, 3, 6}},
        {{.1, .1, 10}, 3, 4,  {1, 1, 2}},
        {{0, 0},       2, 2,  {1, 1}   },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
        int32_t share[3];
        cs_planner_deal(row[i].work, row[i].n, row[i].ranks, share);
        for (int32_t b = 0; b < row[i].n; b++)
            assert_int_equal(share[b], row[i].share[b]);
    }
}

/* one kind of sample settles at once; text without pictures beside many pictures later, and later
 * still where there are more ranks to deal */
static void least_batches_settle_the_deal(void **state)
{
    static const int32_t same[] = {50, 50}, mixed[] = {0, 60, 0, 20, 100, 30, 40, 200};
    struct model m;
    struct cs_search_samples one = {.row = same, .n_rows = 1}, many = {.row = mixed, .n_rows = 4};
    (void)state;
    make(&m);
    assert_int_equal(cs_samples_least_batch(&m.problem, &one, 16), 1);
    int32_t few = cs_samples_least_batch(&m.problem, &many, 6);
    int32_t more = cs_samples_least_batch(&m.problem, &many, 16);
    assert_true(few > 1);
    assert_true(more == 0 || more >= few);
    assert_int_equal(cs_samples_least_batch(&m.problem, &many, 1), 0); /* fewer than branches */
}

/* One stage on two ranks: a layer of the LLM takes 2000 on one of them, on both 1000 and 500 for exchanges,
 * however short the slot is. */
static void make_context(struct model *m)
{
    make(m);
    for (int i = 0; i < LLM; i++) {
        m->enc[i % ENC] = (struct cs_search_layer){.fwd_ns = 1500,
                                                   .bwd_input_ns = 1500,
                                                   .bwd_weight_ns = 1000,
                                                   .fwd_fixed_ns = 500,
                                                   .bwd_fixed_ns = 500,
                                                   .saved_bytes = 10,
                                                   .is_trained = true};
        m->llm[i].saved_bytes = 20;
    }
    m->option[0] = m->option[1];
    m->option[1] = (struct cs_search_option){
        .tp = 1, .cp = 2, .recompute = CS_RECOMPUTE_NONE, .layer = m->enc};
    m->problem.branch[0] = m->problem.branch[1];
    m->problem.branch[0].option = m->option;
    m->problem.branch[0].n_options = 2;
    m->problem.branch[0].n_layers = ENC;
    m->problem.n_branches = 1;
    m->problem.llm = 0;
    m->problem.n_ranks = m->problem.ranks_per_node = 2;
}

static struct cs_search_result search_context(const struct model *m, const int32_t *list,
                                              int32_t n_rows, struct cs_arena *arena)
{
    const struct cs_search_samples s = {
        .row = list, .n_rows = n_rows, .n_batches = 5, .n_samples = 8, .seed = 4};
    struct cs_search_options options = {
        .batch_slots = 8, .samples = &s, .top = 8, .skip_planners = true, .schedules = 1};
    struct cs_search_result result;
    struct cs_err err;
    options.fix[0].cp = m->problem.n_ranks;
    options.fix[0].pp = 1;
    if (cs_search_run(&m->problem, &options, arena, &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    return result;
}

/* what a slot of so many rows takes, on one rank or both */
static double slot_ns(int32_t rows, int ranks)
{
    const double part = rows / 200.0;
    return ENC * (ranks == 1 ? part * 6000 : 1000 + part * 3000);
}

/* Short slots among long ones stay on one rank each: a step takes what long slots take on both ranks, and half of
 * what short ones take on one, or little more where their number is odd. */
static void slots_of_many_lengths_have_few_ranks_where_they_are_short(void **state)
{
    static const int32_t mixed[] = {200, 40, 40, 40}, all_long[] = {200}, alike[] = {40},
                         nearly[] = {200, 180, 180, 180};
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_search_samples s = {
        .row = mixed, .n_rows = 4, .n_batches = 5, .n_samples = 8, .seed = 4};
    double least = 0, plain = 0;
    struct cs_search_batches b;
    struct cs_err err;
    (void)state;
    make_context(&m);
    struct cs_search_result r = search_context(&m, mixed, 4, arena);
    assert_int_equal(cs_samples_draw(&m.problem, &s, 8, arena, &b, &err), CS_OK);
    for (int i = 0; i < 5 * 8; i++) {
        plain += slot_ns(b.rows[i], 2) / 5;
        least += (b.rows[i] == 200 ? slot_ns(200, 2) : slot_ns(40, 1) / 2) / 5;
    }
    assert_int_equal(r.plan[0].context_rows, 40);
    assert_true((double)r.plan[0].mean_ns >= least - 1);
    assert_true((double)r.plan[0].mean_ns < plain - 1000);
    assert_non_null(strstr(r.plan[0].why, "slots of up to 40 rows stay on one rank"));
    json_t *row = cs_search_plan_json(&r.plan[0]);
    assert_int_equal(json_integer_value(json_object_get(row, "context_rows")), 40);
    json_decref(row);
    r = search_context(&m, all_long, 1, arena); /* all alike: nothing to tell apart */
    assert_int_equal(r.plan[0].context_rows, 0);
    assert_int_equal(r.plan[0].mean_ns, (int64_t)(8 * slot_ns(200, 2)));
    r = search_context(&m, alike, 1, arena);
    assert_int_equal(r.plan[0].context_rows, 0);
    assert_int_equal(r.plan[0].mean_ns, (int64_t)(8 * slot_ns(40, 2)));
    /* rows that one rank may have alone, 180, are more than both have of the longest slot: 166 */
    r = search_context(&m, nearly, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 180);
    m.problem.mem_bytes = r.plan[0].peak_bytes;
    r = search_context(&m, nearly, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 180);
    m.problem.mem_bytes = r.plan[0].peak_bytes - 1;
    r = search_context(&m, nearly, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 0);
    m.problem.mem_bytes = 0;
    for (int i = 0; i < ENC; i++) /* nothing to save */
        m.enc[i].fwd_fixed_ns = m.enc[i].bwd_fixed_ns = 0;
    for (int i = 0; i < ENC; i++) {
        m.enc[i].fwd_ns = m.enc[i].bwd_input_ns = m.enc[i].bwd_weight_ns = 1000;
    }
    r = search_context(&m, mixed, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 0);
    cs_arena_free(arena);
}

/* Where heads move few ranks have short slots too, of which is known what heads take on so many ranks, whatever goes
 * between these where they are all; and only as many as can share heads. */
static void short_slots_have_few_ranks_where_heads_move(void **state)
{
    static const int32_t mixed[] = {200, 90, 90, 40};
    struct model m;
    struct cs_search_layer four[ENC];
    struct cs_arena *arena = cs_arena_new(0);
    (void)state;
    make_context(&m);
    const struct cs_search_result keys = search_context(&m, mixed, 4, arena);
    m.option[1].moves_heads = true;
    m.option[1].can = 3;
    const struct cs_search_result heads = search_context(&m, mixed, 4, arena);
    assert_int_equal(keys.plan[0].context_rows, 90);
    assert_int_equal(heads.plan[0].context_rows, 90);
    assert_int_equal(heads.plan[0].mean_ns, keys.plan[0].mean_ns);
    for (int i = 0; i < ENC; i++) {
        four[i] = m.enc[i];
        four[i].fwd_ns = four[i].bwd_input_ns = 1000;
        four[i].bwd_weight_ns = 500;
    }
    m.option[1].moves_heads = false;
    m.option[1].can = 0;
    m.option[2] = m.option[1];
    m.option[2].cp = 4;
    m.option[2].layer = four;
    m.option[2].moves_heads = true;
    m.problem.branch[0].n_options = 3;
    m.problem.n_ranks = m.problem.ranks_per_node = 4;
    struct cs_search_result r = search_context(&m, mixed, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 0); /* nobody knows what heads take on two */
    m.option[1].other = m.enc;
    r = search_context(&m, mixed, 4, arena);
    assert_int_equal(r.plan[0].context_rows, 40);
    const int64_t any_ns = r.plan[0].mean_ns;
    m.option[2].can = 9; /* one or four: slots of 90 rows have four, not three */
    r = search_context(&m, mixed, 4, arena);
    assert_true(r.plan[0].mean_ns < any_ns);
    cs_arena_free(arena);
}

/* Two ranks, slots 0 and 1 on one each, slot 2 on both: it begins when both are done, and so do what comes after
 * it on either. */
static void lanes_wait_for_their_own_slots(void **state)
{
    struct cs_plan plan = {.n_ranks = 1, .n_stages = 1};
    struct cs_replay_item item[] = {{.slot = 0}, {.slot = 1}, {.slot = 2},
                                    {.slot = 2}, {.slot = 1}, {.slot = 0}};
    int32_t first_wait[] = {0, 0, 1, 2, 3, 5, 7}, wait[] = {0, 1, 2, 3, 1, 4, 0};
    int32_t first_message[7] = {0};
    const struct cs_replay r = {.plan = &plan,
                                .n_items = 6,
                                .n_slots = 3,
                                .item = item,
                                .first_wait = first_wait,
                                .wait = wait,
                                .first_message = first_message};
    const int64_t cost[] = {5, 8, 3, 6, 16, 10};
    const struct cs_context_group slot[] = {
        {0, 1},
        {1, 1},
        {0, 2}
    };
    const bool split[] = {true}, whole[] = {false};
    const struct cs_replay_lanes two = {2, split, slot}, all = {2, whole, slot};
    int64_t end[8];
    (void)state;
    assert_int_equal(cs_replay_scratch(&r, 2), 8);
    assert_int_equal(cs_replay_run(&r, cost, NULL, NULL, end), 48);
    assert_int_equal(cs_replay_run(&r, cost, NULL, &all, end), 48);
    assert_int_equal(cs_replay_run(&r, cost, NULL, &two, end), 8 + 3 + 6 + 16);
    assert_int_equal(end[5], 8 + 3 + 6 + 10);
    assert_int_equal(end[0], 5);
}

static void broken_samples_are_refused(void **state)
{
    static const int32_t down[] = {10, 5}, negative[] = {-1, 5};
    struct model m;
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_search_batches b;
    struct cs_err err;
    (void)state;
    make(&m);
    struct cs_search_samples s = quantiles();
    s.quantile[1].value = down;
    s.quantile[1].n = 2;
    assert_int_equal(cs_samples_draw(&m.problem, &s, 12, arena, &b, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "rows of llm"));
    s.quantile[1].n = 1;
    assert_int_equal(cs_samples_draw(&m.problem, &s, 12, arena, &b, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "at least 2"));
    s = (struct cs_search_samples){.row = negative, .n_rows = 1};
    assert_int_equal(cs_samples_draw(&m.problem, &s, 12, arena, &b, &err), CS_INVALID);
    s.n_rows = 0;
    assert_int_equal(cs_samples_draw(&m.problem, &s, 12, arena, &b, &err), CS_INVALID);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_drawn_in_proportion),
        cmocka_unit_test(samples_of_a_list_come_whole),
        cmocka_unit_test(steps_are_filled_to_seven_eighths),
        cmocka_unit_test(work_is_kept_by_every_policy),
        cmocka_unit_test(full_slots_cost_what_full_slots_cost),
        cmocka_unit_test(ragged_batches_rank_by_their_mean),
        cmocka_unit_test(pareto_plans_are_not_dominated),
        cmocka_unit_test(ranks_are_dealt_in_proportion),
        cmocka_unit_test(least_batches_settle_the_deal),
        cmocka_unit_test(slots_of_many_lengths_have_few_ranks_where_they_are_short),
        cmocka_unit_test(short_slots_have_few_ranks_where_heads_move),
        cmocka_unit_test(lanes_wait_for_their_own_slots),
        cmocka_unit_test(broken_samples_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
