/* Small cases of replicas, slots, order and deferral whose results are known. */
#include "core/spread/slot_policies.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/spread/assign_replicas.h"
#include "core/spread/defer.h"

#define COSTS(...) ((const double[]){__VA_ARGS__})
#define INTS(...)  ((const int32_t[]){__VA_ARGS__})

static struct cs_arena *arena;

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
    return 0;
}

static struct cs_assign_result assign(const struct cs_assign_samples *samples,
                                      enum cs_assign_how how, int32_t replicas, int32_t slots)
{
    const struct cs_assign_options options = {.how = how, .replicas = replicas, .slots = slots};
    struct cs_assign_result r;
    struct cs_err err = {.text = ""};
    if (cs_assign(samples, &options, arena, &r, &err) != CS_OK)
        fail_msg("%s", err.text);
    return r;
}

/* Costs 5 1 9 7 3 8 2 6 on 4 replicas: 41 in all; LPT reaches 11, the published contiguous slices of
 * the sorted order give 17 to the first replica. */
static void lpt_beats_contiguous_slices(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {8, COSTS(5, 1, 9, 7, 3, 8, 2, 6),
                                        COSTS(0, 0, 0, 0, 0, 0, 0, 0), NULL};
    const struct cs_assign_result r = assign(&s, CS_ASSIGN_LPT, 4, 1);
    assert_memory_equal(r.replica, INTS(3, 0, 0, 2, 2, 1, 1, 3), 8 * sizeof(int32_t));
    assert_true(r.enc[0] == 10 && r.enc[1] == 10 && r.enc[2] == 10 && r.enc[3] == 11);
}

static void list2d_balances_both_dimensions(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {4, COSTS(10, 10, 0, 0), COSTS(1, 1, 9, 9), NULL};
    const struct cs_assign_result r = assign(&s, CS_ASSIGN_LIST2D, 1, 2);
    assert_memory_equal(r.slot, INTS(0, 1, 0, 1), 4 * sizeof(int32_t));
    assert_true(r.enc[0] == 10 && r.enc[1] == 10 && r.llm[0] == 10 && r.llm[1] == 10);
}

static void tokens_are_a_third_dimension(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {4, COSTS(1, 1, 1, 1), COSTS(1, 1, 1, 1), COSTS(9, 9, 1, 1)};
    const struct cs_assign_result r = assign(&s, CS_ASSIGN_LIST2D, 1, 2);
    assert_int_not_equal(r.slot[0], r.slot[1]);
}

/* Text-only samples do not add encoder load: as published, all of them end in the slot that had the
 * least of it. */
static void the_tie_fix_spreads_text_only_samples(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {8, COSTS(4, 3, 0, 0, 0, 0, 0, 0),
                                        COSTS(1, 1, 2, 2, 2, 2, 2, 2), NULL};
    struct cs_assign_result r = assign(&s, CS_ASSIGN_ENTRAIN_LITERAL, 1, 2);
    assert_true(fmax(r.llm[0], r.llm[1]) >= 9);
    r = assign(&s, CS_ASSIGN_ENTRAIN, 1, 2);
    assert_true(r.llm[0] == 7 && r.llm[1] == 7);
    assert_true(fmax(r.enc[0], r.enc[1]) == 4);
}

static void entrain_may_use_fewer_slots_than_it_has(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {4, COSTS(6, 2, 2, 2), COSTS(1, 1, 1, 1), NULL};
    const struct cs_assign_options options = {
        .how = CS_ASSIGN_ENTRAIN, .replicas = 1, .slots = 4, .is_slots_limited = true};
    struct cs_assign_result r;
    assert_int_equal(cs_assign(&s, &options, arena, &r, NULL), CS_OK);
    for (int i = 0; i < 4; i++)
        assert_true(r.slot[i] < 2);
    assert_true(r.enc[0] == 6 && r.enc[1] == 6);
}

static void lpt_lanes_hold_equal_counts_in_order_of_arrival(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {6, COSTS(90, 1, 1, 1, 1, 1), COSTS(0, 0, 0, 0, 0, 0), NULL};
    const struct cs_assign_result r = assign(&s, CS_ASSIGN_LPT_REPLICAS, 2, 3);
    int first = 0;
    for (int i = 0; i < 6; i++)
        first += r.replica[i] == 0;
    assert_int_equal(first, 3);
    for (int l = 0; l < 2; l++)
        for (int i = 0, next = 0; i < 6; i++)
            if (r.replica[i] == l)
                assert_int_equal(r.slot[i], next++);
}

/* one stage each, f = 1, b = 2: (m + p - 1) (f + b) */
static void equal_slots_take_the_closed_form(void **state)
{
    (void)state;
    double enc[16], llm[16], scratch[8 * 2 * 17];
    for (int p = 2; p <= 8; p += 2)
        for (int m = 1; m <= 16; m++) {
            const struct cs_pipe pipe = {p / 2, p - p / 2, 2, 2};
            const struct cs_pipe_slots slots = {m, enc, NULL, llm};
            for (int i = 0; i < m; i++) {
                enc[i] = p / 2;
                llm[i] = p - p / 2;
            }
            assert_true(cs_pipe_scratch(&pipe, m) <= CS_ARRAY_LEN(scratch));
            assert_true(cs_pipe_run(&pipe, &slots, NULL, scratch, NULL) == 3 * (m + p - 1));
            assert_true(cs_pipe_even(&pipe, m, m * (p / 2), m * (p - p / 2), arena) ==
                        3 * (m + p - 1));
        }
}

static void disttrain_starts_and_ends_with_small_slots(void **state)
{
    (void)state;
    const struct cs_pipe pipe = {1, 2, 2, 2};
    const struct cs_pipe_slots slots = {7, COSTS(4, 9, 1, 5, 2, 7, 3), NULL,
                                        COSTS(8, 8, 8, 8, 8, 8, 8)};
    int32_t order[7];
    cs_order_disttrain(&pipe, &slots, arena, order);
    assert_int_equal(order[0], 2);
    assert_int_equal(order[5], 6);
    assert_int_equal(order[6], 4);
    int seen = 0;
    for (int i = 0; i < 7; i++)
        seen |= 1 << order[i];
    assert_int_equal(seen, 127);
}

static void orders_of_very_few_slots_are_whole(void **state)
{
    (void)state;
    for (int n = 0; n <= 3; n++) {
        const struct cs_pipe pipe = {3, 5, 2, 2};
        const struct cs_pipe_slots slots = {n, COSTS(3, 2, 1), NULL, COSTS(1, 1, 1)};
        int32_t order[3] = {-1, -1, -1};
        int seen = 0;
        cs_order_disttrain(&pipe, &slots, arena, order);
        for (int i = 0; i < n; i++)
            seen |= 1 << order[i];
        assert_int_equal(seen, (1 << n) - 1);
    }
}

/* One heavy slot of 3 + 3 + 2 + 2 and one light of 2: half the difference is 4, {2, 2} goes. */
static void deferral_moves_half_the_difference(void **state)
{
    (void)state;
    const struct cs_assign_samples s = {5, COSTS(1, 1, 1, 1, 1), COSTS(3, 3, 2, 2, 2), NULL};
    struct cs_assign_result r = assign(&s, CS_ASSIGN_LPT, 1, 2);
    memcpy(r.slot, INTS(1, 1, 1, 1, 0), 5 * sizeof(int32_t));
    memcpy(r.llm_slot, r.slot, 5 * sizeof(int32_t));
    cs_assign_sum(&s, &r);
    assert_true(r.llm[1] == 10 && r.llm[0] == 2);
    assert_int_equal(cs_defer(&s, arena, &r, NULL), CS_OK);
    assert_memory_equal(r.slot, INTS(0, 0, 0, 0, 1), 5 * sizeof(int32_t)); /* heavy first */
    assert_memory_equal(r.llm_slot, INTS(0, 0, 1, 1, 1), 5 * sizeof(int32_t));
    assert_true(r.llm[0] == 6 && r.llm[1] == 6);
    assert_true(r.enc[0] == 4 && r.enc[1] == 1);
    assert_true(r.enc_back[0] == 2 && r.enc_back[1] == 3);
}

static void bad_requests_are_refused_with_reasons(void **state)
{
    (void)state;

    static const struct {
        double enc, llm;
        struct cs_assign_options options;
        const char *want;
    } bad[] = {
        {1,  1,   {.replicas = 0, .slots = 1},             "0 lanes of 1 slot;"       },
        {1,  1,   {.replicas = 1, .slots = -2},            "1 lane of -2 slots"       },
        {1,  1,   {.replicas = 1 << 20, .slots = 1 << 20}, "at most 1048576"          },
        {-1, 1,   {.replicas = 1, .slots = 1},             "sample 0 costs enc -1"    },
        {1,  NAN, {.replicas = 1, .slots = 1},             "sample 0 costs enc 1, llm"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        const struct cs_assign_samples s = {1, &bad[i].enc, &bad[i].llm, NULL};
        struct cs_assign_result r;
        struct cs_err err = {.text = ""};
        assert_int_equal(cs_assign(&s, &bad[i].options, arena, &r, &err), CS_INVALID);
        if (!strstr(err.text, bad[i].want))
            fail_msg("'%s' lacks '%s'", err.text, bad[i].want);
    }
}

static void names_of_policies_come_back(void **state)
{
    (void)state;
    enum cs_assign_how how = CS_ASSIGN_LPT;
    for (int i = 0; i < CS_ASSIGN_HOWS; i++) {
        assert_true(cs_assign_how_from_name(cs_assign_how_name((enum cs_assign_how)i), &how));
        assert_int_equal(how, i);
    }
    assert_false(cs_assign_how_from_name("snake", &how));
}

/* Room for two samples of a slot, and for 10 tokens: what the policy alone would crowd is kept
 * apart, and what fits nowhere is said. */
static void room_is_never_exceeded(void **state)
{
    (void)state;

    static const enum cs_assign_how hows[] = {
        CS_ASSIGN_LIST2D, CS_ASSIGN_LPT,          CS_ASSIGN_ENTRAIN,  CS_ASSIGN_ENTRAIN_LITERAL,
        CS_ASSIGN_RANDOM, CS_ASSIGN_LPT_REPLICAS, CS_ASSIGN_DISTTRAIN};
    const struct cs_assign_samples s = {6, COSTS(9, 1, 1, 1, 1, 1), COSTS(9, 1, 1, 1, 1, 1), NULL};
    for (size_t h = 0; h < CS_ARRAY_LEN(hows); h++)
        for (int32_t tokens = 4; tokens <= 6; tokens++) {
            const int32_t size[] = {tokens, tokens, tokens, tokens, tokens, tokens};
            const struct cs_list_room room = {
                .n = 2, .size = {size, NULL},
                     .limit = {10,   2   }
            };
            const struct cs_assign_options o = {
                .how = hows[h], .replicas = 1, .slots = 3, .room = &room};
            struct cs_assign_result r;
            int32_t count[3] = {0}, unplaced = 0;
            assert_int_equal(cs_assign(&s, &o, arena, &r, NULL), CS_OK);
            for (int i = 0; i < 6; i++) {
                unplaced += r.slot[i] < 0;
                if (r.slot[i] >= 0)
                    count[r.slot[i]]++;
            }
            for (int k = 0; k < 3; k++)
                assert_true(count[k] <= (tokens <= 5 ? 2 : 1));
            assert_int_equal(unplaced, tokens <= 5 ? 0 : 3);
            assert_int_equal(r.n_unplaced, unplaced);
        }
    const struct cs_list_room room = {.n = 1, .limit = {1}};
    const struct cs_assign_options two = {.replicas = 2, .slots = 3, .room = &room};
    struct cs_assign_result r;
    struct cs_err err = {.text = ""};
    assert_int_equal(cs_assign(&s, &two, arena, &r, &err), CS_INVALID);
    assert_non_null(strstr(err.text, "one lane"));
}

/* Two encoders on ranks of their own: as one sum slots look even, apart they are not. */
static void encoders_are_balanced_one_by_one(void **state)
{
    (void)state;
    const double vision[] = {4, 4, 0, 0}, audio[] = {0, 0, 4, 4};
    const double *const parts[] = {vision, audio};
    const struct cs_assign_samples s = {4, COSTS(4, 4, 4, 4), COSTS(1, 1, 1, 1), NULL};
    const struct cs_assign_options o = {
        .replicas = 1, .slots = 2, .enc_part = parts, .n_enc_parts = 2};
    struct cs_assign_result r;
    assert_int_equal(cs_assign(&s, &o, arena, &r, NULL), CS_OK);
    assert_int_not_equal(r.slot[0], r.slot[1]);
    assert_int_not_equal(r.slot[2], r.slot[3]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, free_arena)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lpt_beats_contiguous_slices),
        TEST(list2d_balances_both_dimensions),
        TEST(tokens_are_a_third_dimension),
        TEST(the_tie_fix_spreads_text_only_samples),
        TEST(entrain_may_use_fewer_slots_than_it_has),
        TEST(lpt_lanes_hold_equal_counts_in_order_of_arrival),
        TEST(equal_slots_take_the_closed_form),
        TEST(disttrain_starts_and_ends_with_small_slots),
        TEST(orders_of_very_few_slots_are_whole),
        TEST(deferral_moves_half_the_difference),
        TEST(bad_requests_are_refused_with_reasons),
        TEST(names_of_policies_come_back),
        TEST(room_is_never_exceeded),
        TEST(encoders_are_balanced_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
