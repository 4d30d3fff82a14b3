/* Goldens of the token balance. Source: Cornstarch, distribution algorithms and balance study. */
#include "core/plan/tokens/balance_tokens.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/span.h"
#include "core/plan/context.h"
#include "core/plan/tokens/context_groups.h"
#include "core/plan/tokens/ranges.h"

#define OWNERS(...) ((const int32_t[]){__VA_ARGS__})
#define WORK(...)   ((const double[]){__VA_ARGS__})
#define N(list)     ((int32_t)CS_ARRAY_LEN(list))

static const double mixed[] = {4, 8, 12, 12, 12, 24, 28, 32}; /* active tiles per block */
static struct cs_arena *arena;

static struct cs_balance_result balance(const double *work, int32_t n, int32_t ranks,
                                        enum cs_balance_how how)
{
    const struct cs_balance_options options = {.how = how, .ranks = ranks};
    struct cs_balance_result out;
    struct cs_err err = {.text = ""};
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    if (cs_balance(work, n, &options, arena, &out, &err) != CS_OK)
        fail_msg("%s", err.text);
    return out;
}

/* active key tiles of 32 per block of 128 under a causal mask; the last block may be ragged */
static int32_t causal_work(int32_t tokens, double *work)
{
    const int32_t n = (tokens + 127) / 128;
    for (int32_t b = 0; b < n; b++)
        work[b] = b < n - 1 ? 4 * (b + 1) : (tokens + 31) / 32;
    return n;
}

static void check_loads(const struct cs_balance_result *r, const double *want, int32_t ranks)
{
    for (int32_t i = 0; i < ranks; i++)
        assert_true(r->load[i] == want[i]);
}

static void check_lpt_causal(int32_t tokens, const int32_t *owner, const double *load)
{
    double work[64];
    const int32_t n = causal_work(tokens, work);
    const struct cs_balance_result r = balance(work, n, 4, CS_BALANCE_LPT);
    assert_memory_equal(r.owner, owner, (size_t)n * sizeof *owner);
    check_loads(&r, load, 4);
}

static void lpt_of_causal_masks_is_golden(void **state)
{
    (void)state;
    check_lpt_causal(1024, OWNERS(0, 1, 2, 3, 3, 2, 1, 0), WORK(36, 36, 36, 36));
    check_lpt_causal(2003, OWNERS(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0),
                     WORK(135, 136, 136, 136));
    check_lpt_causal(3712,
                     OWNERS(3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2,
                            3, 3, 2, 1, 0),
                     WORK(440, 436, 432, 432));
}

static void equal_blocks_are_dealt_in_order(void **state)
{
    (void)state;
    const double full[] = {32, 32, 32, 32, 32, 32, 32, 32};
    const struct cs_balance_result r = balance(full, 8, 4, CS_BALANCE_LPT);
    assert_memory_equal(r.owner, OWNERS(0, 1, 2, 3, 0, 1, 2, 3), 8 * sizeof(int32_t));
}

static void the_mixed_map_is_golden_on_two_and_four_ranks(void **state)
{
    (void)state;
    struct cs_balance_result r = balance(mixed, 8, 2, CS_BALANCE_LPT);
    assert_memory_equal(r.owner, OWNERS(0, 0, 0, 0, 1, 1, 1, 0), 8 * sizeof(int32_t));
    check_loads(&r, WORK(68, 64), 2);
    r = balance(mixed, 8, 2, CS_BALANCE_ZIGZAG);
    check_loads(&r, WORK(72, 60), 2);
    r = balance(mixed, 8, 2, CS_BALANCE_UNIFORM);
    check_loads(&r, WORK(36, 96), 2);
    r = balance(mixed, 8, 4, CS_BALANCE_LPT);
    assert_memory_equal(r.owner, OWNERS(1, 3, 3, 3, 2, 2, 1, 0), 8 * sizeof(int32_t));
    check_loads(&r, WORK(32, 32, 36, 32), 4);
    r = balance(mixed, 8, 4, CS_BALANCE_ZIGZAG);
    check_loads(&r, WORK(36, 36, 36, 24), 4);
    r = balance(mixed, 8, 4, CS_BALANCE_UNIFORM);
    check_loads(&r, WORK(12, 24, 36, 60), 4);
}

static void striped_goes_there_and_back(void **state)
{
    (void)state;
    double work[512];
    for (int i = 0; i < 512; i++)
        work[i] = 1;
    struct cs_balance_result r = balance(work, 128, 8, CS_BALANCE_STRIPED);
    for (int b = 0; b < 128; b++) /* 16384 tokens: stripes of 1024 */
        assert_int_equal(r.owner[b], b / 8 < 8 ? b / 8 : 15 - b / 8);
    r = balance(work, 512, 8, CS_BALANCE_STRIPED);
    for (int b = 0; b < 512; b++) /* 65536 tokens: stripes of 2048 */
        assert_int_equal(r.owner[b], b / 16 < 16 ? b / 16 % 8 : 7 - b / 16 % 8);
}

static void check_part(int32_t n, int32_t parts, int32_t i, int32_t begin, int32_t end)
{
    const struct cs_token_range part = cs_balance_part(n, parts, i);
    assert_int_equal(part.begin, begin);
    assert_int_equal(part.end, end);
}

static void uniform_gives_the_remainder_to_the_first(void **state)
{
    (void)state;
    static const int32_t of_335[] = {0, 84, 168, 252, 335}, of_2003[] = {0, 501, 1002, 1503, 2003};
    for (int32_t r = 0; r < 4; r++) {
        check_part(335, 4, r, of_335[r], of_335[r + 1]);
        check_part(2003, 4, r, of_2003[r], of_2003[r + 1]);
    }
}

static void zigzag_pairs_the_ends(void **state)
{
    (void)state;
    static const struct cs_token_range want[2][4][2] = {
        {{{0, 128}, {896, 1024}},
         {{128, 256}, {768, 896}},
         {{256, 384}, {640, 768}},
         {{384, 512}, {512, 640}}   },
        {{{0, 251}, {1753, 2003}},
         {{251, 502}, {1503, 1753}},
         {{502, 753}, {1253, 1503}},
         {{753, 1003}, {1003, 1253}}},
    };
    for (int32_t r = 0; r < 4; r++) {
        struct cs_token_range range[2];
        cs_balance_zigzag_ranges(1024, 4, r, range);
        assert_memory_equal(range, want[0][r], sizeof range);
        cs_balance_zigzag_ranges(2003, 4, r, range);
        assert_memory_equal(range, want[1][r], sizeof range);
    }
}

static void exact_closes_the_gaps_of_lpt(void **state)
{
    (void)state;
    struct cs_balance_result r = balance(WORK(3, 3, 2, 2, 2), 5, 2, CS_BALANCE_LPT);
    assert_true(r.max == 7 && !r.is_proven);
    r = balance(WORK(3, 3, 2, 2, 2), 5, 2, CS_BALANCE_EXACT);
    assert_true(r.max == 6 && r.is_proven);
    r = balance(WORK(5, 5, 4, 4, 3, 3, 3), 7, 3, CS_BALANCE_LPT);
    assert_true(r.max == 11 && !r.is_proven);
    r = balance(WORK(5, 5, 4, 4, 3, 3, 3), 7, 3, CS_BALANCE_EXACT);
    assert_true(r.max == 9 && r.is_proven);
    r = balance(WORK(5, 5, 4, 4, 3, 3, 3), 7, 3, CS_BALANCE_BEST);
    assert_true(r.max == 9 && r.is_proven && r.how == CS_BALANCE_EXACT);
}

static void the_best_of_a_full_mask_is_the_contiguous_one(void **state)
{
    (void)state;
    const double full[] = {8, 8, 8, 8, 8, 8, 8, 8};
    const struct cs_balance_result r = balance(full, 8, 4, CS_BALANCE_BEST);
    assert_int_equal(r.how, CS_BALANCE_UNIFORM);
    assert_memory_equal(r.owner, OWNERS(0, 0, 1, 1, 2, 2, 3, 3), 8 * sizeof(int32_t));
    assert_true(r.is_proven && r.mean == 16);
}

static void nodes_stop_the_search_at_the_same_place(void **state)
{
    (void)state;
    double work[40];
    for (int i = 0; i < 40; i++)
        work[i] = 100 + i * i % 37;
    struct cs_balance_options options = {.how = CS_BALANCE_EXACT, .ranks = 7, .nodes = 1};
    struct cs_balance_result a, b;
    balance(work, 40, 7, CS_BALANCE_LPT);
    assert_int_equal(cs_balance(work, 40, &options, arena, &a, NULL), CS_OK);
    options.nodes = 5000;
    assert_int_equal(cs_balance(work, 40, &options, arena, &a, NULL), CS_OK);
    assert_int_equal(cs_balance(work, 40, &options, arena, &b, NULL), CS_OK);
    assert_true(a.nodes == b.nodes && a.nodes <= 5001);
    assert_memory_equal(a.owner, b.owner, 40 * sizeof(int32_t));
}

static void linear_layers_count_with_their_cost(void **state)
{
    (void)state;
    const struct cs_balance_cost cost = {0.5, 3, 5, 2};
    const struct cs_mask_span span = {CS_SPAN_TEXT, 300, 0, -1};
    struct cs_mask_plan plan;
    struct cs_mask_runs runs;
    struct cs_mask_tiles tiles;
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    assert_int_equal(cs_mask_from_spans(&span, 1, (struct cs_mask_rule){CS_MASK_CAUSAL, 0, 0},
                                        CS_TEXT_SEES_ALL, arena, &plan, NULL),
                     CS_OK);
    assert_int_equal(cs_mask_runs_make(&plan, arena, &runs, NULL), CS_OK);
    assert_int_equal(cs_mask_tiles_make(&runs, 128, 32, arena, &tiles, NULL), CS_OK);
    int32_t rows[300];
    int64_t pairs[3];
    double work[3];
    cs_mask_row_pairs(&runs, arena, rows);
    cs_mask_block_pairs(rows, 300, 128, pairs);
    cs_balance_work(&cost, 300, 128, pairs, &tiles, work);
    assert_true(work[0] == 0.5 * 8256 + 5 * 4 + 2 * 128);
    assert_true(work[1] == 0.5 * 24640 + 3 * 4 + 5 * 4 + 2 * 128);
    assert_true(work[2] == 0.5 * (45150 - 8256 - 24640) + 3 * 8 + 5 * 2 + 2 * 44);
}

static void a_cap_makes_equal_tokens(void **state)
{
    (void)state;

    static const enum cs_balance_how hows[] = {CS_BALANCE_LPT, CS_BALANCE_EXACT, CS_BALANCE_BEST};

    const double work[] = {90, 1, 1, 1, 1, 1, 1, 1};
    for (size_t h = 0; h < CS_ARRAY_LEN(hows); h++) {
        const struct cs_balance_options options = {.how = hows[h], .ranks = 2, .cap = 4};
        struct cs_balance_result r = balance(work, 8, 2, CS_BALANCE_LPT);
        assert_true(r.max == 90);
        assert_int_equal(cs_balance(work, 8, &options, arena, &r, NULL), CS_OK);
        int first = 0;
        for (int b = 0; b < 8; b++)
            first += r.owner[b] == 0;
        assert_int_equal(first, 4);
        assert_true(r.max == 93);
    }
}

static void impossible_balances_are_refused_with_reasons(void **state)
{
    (void)state;

    static const struct {
        double work[2];
        int32_t n;
        struct cs_balance_options options;
        const char *want;
    } bad[] = {
        {{1, 1},        0, {.ranks = 2},           "0 blocks on 2 ranks"       },
        {{1, 1},        2, {.ranks = 0},           "2 blocks on 0 ranks"       },
        {{1, -1},       2, {.ranks = 2},           "work of block 1 is -1"     },
        {{NAN, 1},      2, {.ranks = 2},           "work of block 0 is"        },
        {{INFINITY, 1}, 2, {.ranks = 2},           "work of block 0 is inf"    },
        {{1, 1},        2, {.ranks = 1, .cap = 1}, "the cap must be at least 2"},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        struct cs_balance_result r;
        struct cs_err err = {.text = ""};
        assert_int_equal(cs_balance(bad[i].work, bad[i].n, &bad[i].options, arena, &r, &err),
                         CS_INVALID);
        if (!strstr(err.text, bad[i].want))
            fail_msg("'%s' lacks '%s'", err.text, bad[i].want);
    }
}

struct study {
    struct cs_mask_span span[64];
    int n;
    int32_t ranks;
    double want[3]; /* max / mean of uniform, zigzag, lpt */
};

static double ratio(const double *work, int32_t n, int32_t ranks, enum cs_balance_how how)
{
    const struct cs_balance_result r = balance(work, n, ranks, how);
    return r.max / r.mean;
}

static void check_study(const struct study *s)
{
    static const struct cs_balance_cost cost = {0, 1, 1, 0};
    static double work[1024];
    struct cs_arena *own = cs_arena_new(0);
    struct cs_mask_plan plan;
    struct cs_mask_runs runs;
    struct cs_mask_tiles tiles;
    assert_int_equal(cs_mask_from_spans(s->span, s->n,
                                        (struct cs_mask_rule){CS_MASK_CORNSTARCH, 0, 0},
                                        CS_TEXT_SEES_ALL, own, &plan, NULL),
                     CS_OK);
    assert_int_equal(cs_mask_runs_make(&plan, own, &runs, NULL), CS_OK);
    assert_int_equal(cs_mask_tiles_make(&runs, 128, 32, own, &tiles, NULL), CS_OK);
    cs_balance_work(&cost, plan.n_tokens, 128, NULL, &tiles, work);
    for (int i = 0; i < 3; i++) {
        static const enum cs_balance_how hows[] = {CS_BALANCE_UNIFORM, CS_BALANCE_ZIGZAG,
                                                   CS_BALANCE_LPT};

        const double got = ratio(work, tiles.n_q, s->ranks, hows[i]);
        if (!(fabs(got - s->want[i]) <= 0.0006))
            fail_msg("%s: %.4f, want %.3f", cs_balance_how_name(hows[i]), got, s->want[i]);
    }
    cs_arena_free(own);
}

static void the_balance_study_comes_out(void **state)
{
    (void)state;
    struct study shared = {
        .span = {{CS_SPAN_TEXT, 2048, 0, -1}},
          .n = 1, .ranks = 8, .want = { 1.535, 1.053, 1.002}
    };
    for (int i = 0; i < 28; i++)
        shared.span[shared.n++] = (struct cs_mask_span){i % 2 ? CS_SPAN_TEXT : 0, 512, 0, -1};
    check_study(&shared);
    struct study apart = shared;
    for (int i = 1; i < apart.n; i += 2)
        apart.span[i].modality = i / 2;
    memcpy(apart.want, (double[]){1.786, 1.042, 1.003}, sizeof apart.want);
    check_study(&apart);
    const struct study big = {
        .span = {{-1, 1024, 0, -1},
                 {0, 6144, 0, -1},
                 {-1, 1024, 0, -1},
                 {1, 6144, 0, -1},
                 {-1, 2048, 0, -1}},
        .n = 5,
        .ranks = 8,
        .want = {2.186, 1.492, 1.000}
    };
    check_study(&big);
}

static void short_sequences_stay_whole(void **state)
{
    (void)state;
    static const struct cs_balance_cost cost = {1, 0, 0, 0};
    const struct cs_mask_span span = {CS_SPAN_TEXT, 335, 0, -1};
    const struct cs_balance_options options = {.ranks = 4, .cap = 1};
    struct cs_mask_plan plan;
    struct cs_token_split split;
    struct cs_balance_result r;
    assert_false(cs_balance_splits(511, 4, 128));
    assert_true(cs_balance_splits(512, 4, 128));
    assert_false(cs_balance_splits(4096, 1, 128));
    cs_arena_free(arena);
    arena = cs_arena_new(0);
    assert_int_equal(cs_mask_from_spans(&span, 1, (struct cs_mask_rule){CS_MASK_CAUSAL, 0, 0},
                                        CS_TEXT_SEES_ALL, arena, &plan, NULL),
                     CS_OK);
    assert_int_equal(cs_balance_tokens(&plan, &cost, &options, arena, &split, &r, NULL), CS_OK);
    assert_int_equal(split.first[1], 335);
    assert_int_equal(split.first[4], 335);
    assert_true(r.load[0] == 335 * 336 / 2 && r.load[3] == 0);
}

static void names_of_balances_come_back(void **state)
{
    (void)state;
    enum cs_balance_how how = CS_BALANCE_LPT;
    for (int i = 0; i < CS_BALANCE_HOWS; i++) {
        assert_true(cs_balance_how_from_name(cs_balance_how_name((enum cs_balance_how)i), &how));
        assert_int_equal(how, i);
    }
    assert_false(cs_balance_how_from_name("ilp", &how));
}

/* A slot has the fewest ranks that can split it, and no more rows on one than there is room for, dealt out or in order. */
static void check_degrees(const struct cs_context_degrees *degrees, int32_t most)
{
    const int32_t ranks = degrees->ranks, each = degrees->rows_each;
    for (int32_t n = 1; n <= most; n++) {
        const int32_t d = cs_context_degree(degrees, n);
        assert_in_range(d, 1, ranks);
        assert_true(cs_context_can_split(degrees, d));
        assert_true(each > 0 || d == ranks);
        assert_true(d == ranks || (int64_t)d * each >= n);
        for (int32_t fewer = 1; each > 0 && fewer < d; fewer++)
            assert_true((int64_t)fewer * each < n || !cs_context_can_split(degrees, fewer));
        assert_in_range(cs_context_most(n, d), 1, cs_context_room(most, ranks, each));
        assert_in_range((n + d - 1) / d, 1, cs_context_room_in_order(most, ranks, each));
    }
}

static void there_is_room_for_slots_of_every_degree(void **state)
{
    static const int32_t each[] = {0, 1, 8, 33, 100, 128, 250, 299};
    (void)state;
    for (size_t k = 0; k < CS_ARRAY_LEN(each); k++)
        for (int32_t ranks = 2; ranks <= 6; ranks++)
            for (uint64_t can = 0; can < 64; can++)
                check_degrees(&(struct cs_context_degrees){ranks, each[k], can}, 300);
    const struct cs_context_degrees some = {.ranks = 6, .rows_each = 10, .can = 0x25}; /* 1, 3, 6 */
    assert_int_equal(cs_context_degree(&some, 10), 1);
    assert_int_equal(cs_context_degree(&some, 11), 3);
    assert_int_equal(cs_context_degree(&some, 31), 6);
    const struct cs_context_degrees most = {.ranks = 64, .rows_each = 1, .can = 1};
    assert_int_equal(cs_context_degree(&most, 2), 64);
    assert_int_equal(cs_context_room(4096, 4, 0), cs_context_most(4096, 4));
    assert_int_equal(cs_context_room_in_order(4097, 4, 0), 1025);
    assert_int_equal(cs_context_room(4096, 4, 2048), cs_context_most(4096, 2));
}

/* Two of four ranks have more heads each of as many rows as there are, and take more than all do; none takes what ranks
 * that cannot share the heads would, nor one alone. */
static void heads_take_most_in_slots_of_few_ranks(void **state)
{
    const struct cs_attention a = {.n_heads = 12, .n_kv_heads = 4, .head_dim = 8};
    const struct cs_context_degrees two = {.ranks = 2}, three = {.ranks = 3}, four = {.ranks = 4},
                                    one_to_four = {.ranks = 4, .rows_each = 200},
                                    one_or_two = {.ranks = 2, .rows_each = 399};
    (void)state;
    assert_int_equal(cs_context_heads_bytes(&a, &three, 400, 150, 2), 0);
    const int64_t of_two = cs_context_heads_bytes(&a, &two, 400, 150, 2);
    /* (2 * 150 + 2 * 400) rows of 6 + 2 * 2 heads and twice 6, and 400 of the first */
    assert_int_equal(of_two, (1100 * 22 + 400 * 10) * 8 * 2);
    assert_true(of_two > cs_context_heads_bytes(&a, &four, 400, 150, 2));
    assert_int_equal(cs_context_heads_bytes(&a, &one_to_four, 400, 150, 2), of_two);
    assert_int_equal(cs_context_heads_bytes(&a, &one_or_two, 400, 150, 2), of_two);
}

static void check_groups(const int32_t *n_rows, int32_t n, const int32_t *first, const int32_t *of,
                         const double *want)
{
    const struct cs_context_rule rule = {
        .degrees = {.ranks = 4, .rows_each = 100},
          .per_row = 1
    };
    struct cs_context_group group[16];
    double busy[4];
    cs_context_groups(&rule, n_rows, n, group, busy);
    for (int32_t i = 0; i < n; i++) {
        assert_int_equal(group[i].first, first[i]);
        assert_int_equal(group[i].n, of[i]);
    }
    for (int r = 0; r < 4; r++)
        assert_true(busy[r] == want[r]);
}

/* The heaviest first, on neighbours that can begin first; all ranks meet where all split a slot. */
static void short_slots_are_spread_over_the_ranks(void **state)
{
    (void)state;
    check_groups(OWNERS(50, 80, 70, 60, 40), 5, OWNERS(3, 0, 1, 2, 3), OWNERS(1, 1, 1, 1, 1),
                 WORK(80, 70, 60, 90));
    check_groups(OWNERS(100, 200, 90, 10), 4, OWNERS(2, 0, 3, 3), OWNERS(1, 2, 1, 1),
                 WORK(100, 100, 100, 100));
    check_groups(OWNERS(30, 400, 20), 3, OWNERS(0, 0, 0), OWNERS(1, 4, 1),
                 WORK(150, 130, 130, 130));
    check_groups(OWNERS(0, 401, 250), 3, OWNERS(0, 0, 0), OWNERS(1, 4, 3),
                 WORK(100.25 + 250.0 / 3, 100.25 + 250.0 / 3, 100.25 + 250.0 / 3, 100.25));
}

static int clean_up(void **state)
{
    (void)state;
    cs_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lpt_of_causal_masks_is_golden),
        cmocka_unit_test(equal_blocks_are_dealt_in_order),
        cmocka_unit_test(the_mixed_map_is_golden_on_two_and_four_ranks),
        cmocka_unit_test(striped_goes_there_and_back),
        cmocka_unit_test(uniform_gives_the_remainder_to_the_first),
        cmocka_unit_test(zigzag_pairs_the_ends),
        cmocka_unit_test(exact_closes_the_gaps_of_lpt),
        cmocka_unit_test(the_best_of_a_full_mask_is_the_contiguous_one),
        cmocka_unit_test(nodes_stop_the_search_at_the_same_place),
        cmocka_unit_test(linear_layers_count_with_their_cost),
        cmocka_unit_test(a_cap_makes_equal_tokens),
        cmocka_unit_test(impossible_balances_are_refused_with_reasons),
        cmocka_unit_test(the_balance_study_comes_out),
        cmocka_unit_test(short_sequences_stay_whole),
        cmocka_unit_test(names_of_balances_come_back),
        cmocka_unit_test(there_is_room_for_slots_of_every_degree),
        cmocka_unit_test(heads_take_most_in_slots_of_few_ranks),
        cmocka_unit_test(short_slots_are_spread_over_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, clean_up);
}
