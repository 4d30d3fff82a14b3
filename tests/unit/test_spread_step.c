/* What a sample costs, and the slots of a step that follow from it: without pool, files or
 * threads. */
#include "core/spread/step_slots.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/spread/slot_order.h"
#include "core/spread/spread.h"
#include "core/spread/weigh.h"
#include "support/planned.h"

enum { N = 40, MOST_JOBS = 32 };

static struct cs_arena *arena;
static struct cs_test_planned job[MOST_JOBS]; /* of one test */
static int n_jobs;

static int make_arena(void **state)
{
    (void)state;
    arena = cs_arena_new(0);
    return 0;
}

static int free_arena(void **state)
{
    (void)state;
    cs_arena_free(arena);
    while (n_jobs > 0)
        cs_test_planned_free(&job[--n_jobs]);
    return 0;
}

/* of a document, which is stolen */
static struct cs_test_planned make_planned(json_t *root)
{
    const struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 16};
    assert_in_range(n_jobs, 0, MOST_JOBS - 1);
    return job[n_jobs++] = cs_test_plan_json(root, &cluster);
}

static struct cs_test_planned make_placed(const char *modality, int vision, int llm,
                                          const char *balance, const char *slot_order)
{
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){
        .vision_pp = vision, .llm_pp = llm, .slots = 6, .seed = 9, .modality = modality});
    json_object_set_new(root, "balance", json_string(balance));
    json_object_set_new(root, "slot_order", json_string(slot_order));
    return make_planned(root);
}

/* the same model on two ranks, with a mask */
static struct cs_test_planned make_masked(const char *mask)
{
    return make_planned(
        cs_test_spec_json(&(struct cs_test_spec){.slots = 6, .seed = 9, .mask = mask}));
}

/* The model of the test specification on vision + llm stages. */
static struct cs_test_planned make_job(int vision, int llm, const char *balance,
                                       const char *slot_order)
{
    return make_placed("encoder-parallel", vision, llm, balance, slot_order);
}

/* Samples of one step: those with a picture come first. */
static void make_samples(const struct cs_test_planned *j, struct cs_pack_sample *pack)
{
    for (int i = 0; i < N; i++) {
        pack[i] = (struct cs_pack_sample){.tokens = 3 + i * 7 % 23 + (i < 20 ? 16 : 0),
                                          .n_labels = 1 + i % 4,
                                          .items = {i < 20 ? 1 : 0}};
        assert_true(pack[i].tokens <= j->plan->budget.seq_tokens);
    }
}

static int balance(const struct cs_test_planned *j, int64_t step, struct cs_pack_sample *pack)
{
    struct cs_step_spread *b = NULL;
    struct cs_err err = {.text = ""};
    make_samples(j, pack);
    int n_slots = cs_pack(&j->plan->budget, CS_STEP_MAX_SLOTS, pack, N);
    if (cs_step_spread_new(j->spec, j->graph, j->plan, &b, &err) != CS_OK ||
        cs_step_spread_step(b, step, pack, N, &n_slots, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_step_spread_free(b);
    return n_slots;
}

/* A full slot of one document costs what the plan says; items are linear, tokens are not. */
static void costs_are_those_of_the_plan(void **state)
{
    (void)state;
    const struct cs_test_planned j = make_job(1, 2, "list2d", "kept");
    const struct cs_slot_budget *budget = &j.plan->budget;
    struct cs_weigh w;
    double vision = 0, llm = 0;
    cs_weigh_make(j.graph, j.plan, &w);
    for (int32_t s = 0; s < j.plan->n_stages; s++) {
        const struct cs_stage *st = &j.plan->stages[s];
        *(j.graph->branches[st->branch].encoder >= 0 ? &vision : &llm) +=
            (double)(st->fwd_ns + st->bwd_input_ns + st->bwd_weight_ns);
    }
    assert_true(vision > 0 && llm > 0);
    assert_true(fabs(cs_weigh_encoder(&w, 0, NULL, budget->enc[0].items) - vision) <=
                1e-9 * vision);
    assert_true(cs_weigh_encoder(&w, 0, NULL, 0) == 0);
    const double full = cs_weigh_llm(&w, budget->seq_tokens, budget->seq_tokens / 2);
    assert_true(fabs(full - llm) <= 1e-9 * llm);
    assert_true(cs_weigh_full(&w, 0) == vision && cs_weigh_full(&w, -1) == llm);
    const double half = cs_weigh_llm(&w, budget->seq_tokens / 2, budget->seq_tokens / 4);
    assert_true(half > 0 && 2 * half < full); /* attention of a packed sample is its own */
    assert_true(cs_weigh_llm(&w, 9, 2) > cs_weigh_llm(&w, 9, 1));
}

/* An item weighs by its patches and by the pairs among them: frames see themselves only. Items of one
 * size weigh the same whether their shapes are given or not, to the bit. */
static void items_weigh_by_patches_and_pairs(void **state)
{
    (void)state;
    const struct cs_test_planned j = make_job(1, 2, "list2d", "kept");
    struct cs_weigh w;
    cs_weigh_make(j.graph, j.plan, &w);
    const struct cs_item_shape largest = cs_slot_largest_item(&j.plan->budget, 0);
    const struct cs_item_shape alike[3] = {largest, largest, largest};
    assert_true(cs_weigh_encoder(&w, 0, alike, 3) == cs_weigh_encoder(&w, 0, NULL, 3));
    struct cs_item_shape half = largest, frames = largest;
    half.grid[2] /= 2;
    half.rows /= 2;
    frames.grid[0] = 2;
    frames.grid[2] /= 2;
    const double one = cs_weigh_encoder(&w, 0, &largest, 1);
    const double of_half = cs_weigh_encoder(&w, 0, &half, 1);
    const double of_frames = cs_weigh_encoder(&w, 0, &frames, 1);
    assert_true(of_half < 0.5 * one && of_half > 0.25 * one);
    assert_true(fabs(of_frames - 2 * of_half) <= 1e-9 * one);
    /* by hand: the blocks' products and attention, forward and two backwards of what trains */
    const struct cs_branch *b = &j.graph->branches[j.graph->modules[0].branch];
    double flops[2] = {0, 0};
    for (int32_t l = b->first_layer; l < b->first_layer + b->n_layers; l++)
        for (int i = 0; i < 2; i++) {
            const struct cs_layer *layer = &j.graph->layers[l];
            const int64_t n = i == 0 ? largest.rows : half.rows;
            flops[i] += (1 + layer->needs_input_grad + layer->needs_weight_grad) *
                        (double)cs_layer_fwd_flops(j.graph, layer, n, n * n, 0);
        }
    assert_true(fabs(of_half / one - flops[1] / flops[0]) <= 1e-9);
    /* rows of pictures in the LLM: two of half the size have fewer pairs than one of the whole */
    const struct cs_test_planned masked = make_masked("item");
    cs_weigh_make(masked.graph, masked.plan, &w);
    const struct cs_item_shape halves[2] = {half, half}, *two = halves, *single = &largest;
    const int32_t n_two[CS_MAX_ENCODERS] = {2}, n_one[CS_MAX_ENCODERS] = {1};
    const double whole = cs_weigh_sample(&w, 100, 0, &single, n_one),
                 parts = cs_weigh_sample(&w, 100, 0, &two, n_two);
    const double pairs = largest.rows * largest.rows - 2.0 * half.rows * half.rows;
    assert_true(fabs(whole - parts - pairs * w.pairs[0].ns) <= 1e-9 * whole);
}

/* Under every mask a full slot of one document costs what the plan says, and pictures cost what
 * the mask lets them see. */
static void costs_follow_the_mask(void **state)
{
    (void)state;
    static const char *const masks[] = {"causal", "item", "image_bidir", "cornstarch"};
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        const struct cs_test_planned j = make_masked(masks[i]);
        const struct cs_slot_budget *budget = &j.plan->budget;
        const int32_t none[CS_MAX_ENCODERS] = {0}, one[CS_MAX_ENCODERS] = {1},
                      two[CS_MAX_ENCODERS] = {2};
        int32_t all[CS_MAX_ENCODERS] = {budget->enc[0].items};
        struct cs_weigh w;
        cs_weigh_make(j.graph, j.plan, &w);
        const double full = cs_weigh_full(&w, -1),
                     got =
                         cs_weigh_sample(&w, budget->seq_tokens, budget->seq_tokens / 2, NULL, all);
        assert_true(full > 0 && fabs(got - full) <= 1e-9 * full);
        const double text = cs_weigh_sample(&w, 100, 0, NULL, none);
        assert_true(cs_weigh_llm(&w, 100, 0) == text);
        /* of 100 tokens: nothing, 16 * 15 / 2 more, or rows of text that become rows of pictures */
        const double pair = w.pairs[0].ns, step = cs_weigh_sample(&w, 100, 0, NULL, one) - text,
                     next = cs_weigh_sample(&w, 100, 0, NULL, two) - text;
        const double want[] = {0, 16 * 16 - 16 * 101 / 2.0, 16 * 15 / 2.0,
                               16 * 16 - 16 * 101 / 2.0};
        const double want_two[] = {0, 2 * want[1], 2 * want[2], 32 * 32 - 32 * 101 / 2.0};
        assert_true(fabs(step - want[i] * pair) <= 1e-9 * text);
        assert_true(fabs(next - want_two[i] * pair) <= 1e-9 * text);
    }
}

/* Blocks with a window weigh their own pairs: a row more costs the same once the window is full. */
static void costs_follow_the_kinds_of_attention(void **state)
{
    (void)state;
    struct cs_weigh w;
    const struct cs_test_spec options = {
        .n_encoders = -1, .is_qwen2 = true, .llm_layers = 4, .sliding_window = 8, .seq_tokens = 64};
    const struct cs_test_planned j = make_planned(cs_test_spec_json(&options));
    cs_weigh_make(j.graph, j.plan, &w);
    assert_int_equal(w.n_pairs, 2);
    assert_true(fabs(w.pairs[1].ns - 3 * w.pairs[0].ns) <= 1e-9 * w.pairs[1].ns);
    const double full = cs_weigh_full(&w, -1), got = cs_weigh_llm(&w, 64, 32);
    assert_true(full > 0 && fabs(got - full) <= 1e-9 * full);
    for (int t = 8; t < 64; t += 7) {
        const double row = cs_weigh_llm(&w, t + 1, 0) - cs_weigh_llm(&w, t, 0),
                     want = w.token_ns + w.pairs[0].ns * (t + 1) + w.pairs[1].ns * 8;
        assert_true(fabs(row - want) <= 1e-9 * full);
    }
}

static void a_layout_does_not_change_the_slots(void **state)
{
    (void)state;
    static const char *const policies[] = {"stream", "list2d", "lpt", "entrain", "random"};
    for (size_t p = 0; p < CS_ARRAY_LEN(policies); p++) {
        struct cs_pack_sample one[N], other[N];
        const struct cs_test_planned a = make_job(1, 1, policies[p], "kept");
        const struct cs_test_planned b = make_job(2, 2, policies[p], "kept");
        const struct cs_test_planned c =
            make_placed("encoder-replicated", 1, 2, policies[p], "kept");
        assert_int_not_equal(a.plan->n_stages, b.plan->n_stages);
        assert_int_equal(c.plan->stages[0].copies, 2);
        assert_int_equal(balance(&a, 3, one), balance(&b, 3, other));
        assert_memory_equal(one, other, sizeof(one));
        assert_int_equal(balance(&c, 3, other), balance(&a, 3, one));
        assert_memory_equal(one, other, sizeof(one));
    }
}

static void only_random_depends_on_the_step(void **state)
{
    (void)state;
    static const char *const policies[] = {"stream", "list2d", "lpt", "entrain", "random"};
    for (size_t p = 0; p < CS_ARRAY_LEN(policies); p++) {
        struct cs_pack_sample one[N], other[N];
        const struct cs_test_planned j = make_job(1, 1, policies[p], "kept");
        balance(&j, 3, one);
        balance(&j, 3, other);
        assert_memory_equal(one, other, sizeof(one));
        balance(&j, 4, other);
        assert_int_equal(memcmp(one, other, sizeof(one)) != 0, strcmp(policies[p], "random") == 0);
    }
}

static void list2d_evens_both_branches(void **state)
{
    (void)state;
    struct cs_pack_sample streamed[N], spread[N];
    const struct cs_test_planned a = make_job(1, 1, "stream", "kept");
    const struct cs_test_planned b = make_job(1, 1, "list2d", "kept");
    const int n = balance(&a, 0, streamed), m = balance(&b, 0, spread);
    double enc[N], llm[N];
    struct cs_weigh w;
    cs_weigh_make(a.graph, a.plan, &w);
    for (int i = 0; i < N; i++) {
        enc[i] = cs_weigh_encoder(&w, 0, NULL, streamed[i].items[0]);
        llm[i] = cs_weigh_llm(&w, streamed[i].tokens, 1 + i % 4);
    }
    assert_true(m >= n);
    assert_true(cs_spread_largest(spread, N, enc) < cs_spread_largest(streamed, N, enc));
    assert_true(cs_spread_largest(spread, N, llm) < 1.15 / m);
}

static void the_searched_order_permutes_slots_and_saves_time(void **state)
{
    (void)state;
    struct cs_pack_sample kept[N], searched[N], again[N];
    const struct cs_test_planned a = make_job(2, 2, "random", "kept");
    const struct cs_test_planned b = make_job(2, 2, "random", "searched");
    int32_t slot_of[CS_STEP_MAX_SLOTS];
    const int n = balance(&a, 0, kept);
    assert_int_equal(balance(&b, 0, searched), n);
    balance(&b, 0, again);
    assert_memory_equal(searched, again, sizeof(again));
    for (int s = 0; s < n; s++)
        slot_of[s] = -1;
    for (int i = 0; i < N; i++) { /* whole slots move */
        assert_true(slot_of[kept[i].slot] < 0 || slot_of[kept[i].slot] == searched[i].slot);
        slot_of[kept[i].slot] = searched[i].slot;
    }
    double share[2][16] = {{0}}, before = 0, after = 0;
    int32_t order[8];
    struct cs_err err = {.text = ""};
    struct cs_slot_order *s = cs_slot_order_new(b.plan, b.graph);
    for (int k = 0; k < 8; k++) {
        share[0][k] = 0.1 * (k * 5 % 8 + 1);
        (&share[0][0])[8 + k] = 0.1 * (k * 3 % 8 + 1);
    }
    if (cs_slot_order_search(s, &share[0][0], 8, 1, order, &before, &after, &err) != CS_OK)
        fail_msg("%s", err.text);
    assert_true(after < before && after > 0.5 * before);
    int seen = 0;
    for (int k = 0; k < 8; k++)
        seen |= 1 << order[k];
    assert_int_equal(seen, 255);
    for (int k = 0; k < 16; k++) /* equal slots: nothing to gain */
        (&share[0][0])[k] = 0.25;
    assert_int_equal(cs_slot_order_search(s, &share[0][0], 8, 1, order, &before, &after, &err),
                     CS_OK);
    assert_true(after == before);
    cs_slot_order_free(s);
}

/* zb-h2 on two ranks needs three slots; stream order may pack a step into one. */
static void a_step_of_too_few_slots_is_refused_at_the_start(void **state)
{
    (void)state;
    struct cs_test_planned j = make_job(1, 1, "list2d", "kept");
    struct cs_step_spread *b = NULL;
    struct cs_err err = {.text = ""};
    j.plan->schedule = "zb-h2";
    assert_int_equal(cs_step_spread_new(j.spec, j.graph, j.plan, &b, &err), CS_OK);
    cs_step_spread_free(b);
    j.spec->balance = "stream";
    assert_int_equal(cs_step_spread_new(j.spec, j.graph, j.plan, &b, &err), CS_PLAN);
    assert_null(b);
    assert_non_null(strstr(err.text, "balance stream may make 1 slot "));
    assert_non_null(strstr(err.text, "at least 3 slots are needed"));
    j.spec->balance = "list2d";
    j.spec->batch_samples = 2;
    assert_int_equal(cs_step_spread_new(j.spec, j.graph, j.plan, &b, &err), CS_PLAN);
    assert_non_null(strstr(err.text, "2 slots of 2 samples"));
}

static void the_report_names_branches_and_gain(void **state)
{
    (void)state;
    const struct cs_test_planned j = make_job(1, 2, "list2d", "searched");
    struct cs_pack_sample pack[N];
    struct cs_step_spread *b = NULL;
    struct cs_buf line = {0};
    struct cs_err err = {.text = ""};
    make_samples(&j, pack);
    assert_int_equal(cs_step_spread_new(j.spec, j.graph, j.plan, &b, &err), CS_OK);
    cs_step_spread_report(b, &line);
    assert_int_equal(line.len, 0);
    int n_slots = cs_pack(&j.plan->budget, CS_STEP_MAX_SLOTS, pack, N);
    assert_int_equal(cs_step_spread_step(b, 0, pack, N, &n_slots, &err), CS_OK);
    cs_step_spread_report(b, &line);
    static const char *const want[] = {
        "balance list2d: 1 step of ", " slots", "vision ", "llm ", "(stream order ",
        "the searched order saves"};
    for (size_t i = 0; i < CS_ARRAY_LEN(want); i++)
        if (!strstr(cs_buf_str(&line), want[i]))
            fail_msg("'%s' lacks '%s'", cs_buf_str(&line), want[i]);
    cs_buf_free(&line);
    cs_step_spread_free(b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(costs_are_those_of_the_plan),
        TEST(items_weigh_by_patches_and_pairs),
        TEST(costs_follow_the_mask),
        TEST(costs_follow_the_kinds_of_attention),
        TEST(a_layout_does_not_change_the_slots),
        TEST(only_random_depends_on_the_step),
        TEST(list2d_evens_both_branches),
        TEST(the_searched_order_permutes_slots_and_saves_time),
        TEST(a_step_of_too_few_slots_is_refused_at_the_start),
        TEST(the_report_names_branches_and_gain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
