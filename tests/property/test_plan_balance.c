/* Token balance against brute force and against its own promises. */
#include "core/plan/tokens/balance_tokens.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/mask/span.h"
#include "core/plan/tokens/ranges.h"

enum { MAX_BLOCKS = 12 };

static uint64_t seed = 11;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

static int32_t random_work(double *work, int32_t least, int32_t most, int32_t heaviest)
{
    const int32_t n = between(least, most);
    for (int32_t b = 0; b < n; b++)
        work[b] = between(0, heaviest);
    return n;
}

struct brute {
    const double *work;
    int32_t n, ranks, cap;
    double load[MAX_BLOCKS];
    int32_t blocks[MAX_BLOCKS];
    double best;
};

static void try_all(struct brute *s, int32_t b, double max)
{
    if (max >= s->best)
        return;
    if (b == s->n) {
        s->best = max;
        return;
    }
    for (int32_t r = 0; r < s->ranks; r++) {
        if (s->cap > 0 && s->blocks[r] == s->cap)
            continue;
        s->load[r] += s->work[b];
        s->blocks[r]++;
        try_all(s, b + 1, fmax(max, s->load[r]));
        s->load[r] -= s->work[b];
        s->blocks[r]--;
    }
}

static double optimum(const double *work, int32_t n, int32_t ranks, int32_t cap)
{
    struct brute s = {.work = work, .n = n, .ranks = ranks, .cap = cap, .best = INFINITY};
    try_all(&s, 0, 0);
    return s.best;
}

static double run(const double *work, int32_t n, struct cs_balance_options options,
                  struct cs_balance_result *kept, struct cs_arena *arena)
{
    struct cs_balance_result r;
    struct cs_err err = {.text = ""};
    if (cs_balance(work, n, &options, arena, &r, &err) != CS_OK)
        fail_msg("%s", err.text);
    double load[64] = {0};
    for (int32_t b = 0; b < n; b++) {
        assert_in_range(r.owner[b], 0, options.ranks - 1);
        load[r.owner[b]] += work[b];
    }
    for (int32_t i = 0; i < options.ranks; i++)
        assert_true(load[i] == r.load[i] && load[i] <= r.max);
    if (kept)
        *kept = r;
    return r.max;
}

static void exact_equals_brute_force_and_lpt_keeps_its_bound(void **state)
{
    (void)state;
    for (int c = 0; c < 400; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        double work[MAX_BLOCKS];
        const int32_t n = random_work(work, 1, 10, between(1, 40)), ranks = between(1, 4);
        const double best = optimum(work, n, ranks, 0);
        struct cs_balance_options o = {.how = CS_BALANCE_EXACT, .ranks = ranks};
        struct cs_balance_result r;
        assert_true(run(work, n, o, &r, arena) == best);
        assert_true(r.is_proven);
        o.how = CS_BALANCE_BEST;
        assert_true(run(work, n, o, &r, arena) == best);
        o.how = CS_BALANCE_LPT;
        const double lpt = run(work, n, o, &r, arena);
        assert_true(lpt <= (4.0 / 3 - 1.0 / (3 * ranks)) * best + 1e-9);
        assert_true(!r.is_proven || lpt == best);
        cs_arena_free(arena);
    }
}

static void a_capped_search_equals_brute_force(void **state)
{
    (void)state;
    for (int c = 0; c < 300; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        double work[MAX_BLOCKS];
        const int32_t n = random_work(work, 1, 9, 30), ranks = between(1, 4);
        const int32_t cap = (n - 1) / ranks + 1 + between(0, 1);
        const struct cs_balance_options o = {.how = CS_BALANCE_EXACT, .ranks = ranks, .cap = cap};
        struct cs_balance_result r;
        assert_true(run(work, n, o, &r, arena) == optimum(work, n, ranks, cap));
        int32_t blocks[4] = {0};
        for (int32_t b = 0; b < n; b++)
            assert_true(++blocks[r.owner[b]] <= cap);
        cs_arena_free(arena);
    }
}

static void the_best_is_never_worse_than_any_other(void **state)
{
    (void)state;
    for (int c = 0; c < 300; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        double work[300];
        const int32_t n = random_work(work, 1, 300, 1000), ranks = between(1, 16);
        struct cs_balance_options o = {.how = CS_BALANCE_BEST, .ranks = ranks};
        const double best = run(work, n, o, NULL, arena);
        for (int how = CS_BALANCE_UNIFORM; how < CS_BALANCE_HOWS; how++) {
            o.how = (enum cs_balance_how)how;
            o.nodes = CS_BALANCE_BEST_NODES;
            o.seed = (uint64_t)c;
            assert_true(best <= run(work, n, o, NULL, arena));
        }
        cs_arena_free(arena);
    }
}

/* heavier blocks, fewer ranks: the optimum cannot fall; scaling scales it */
static void the_optimum_is_monotone(void **state)
{
    (void)state;
    for (int c = 0; c < 200; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        double work[MAX_BLOCKS];
        const int32_t n = random_work(work, 2, 12, 50), ranks = between(2, 4);
        struct cs_balance_options o = {.how = CS_BALANCE_EXACT, .ranks = ranks};
        const double before = run(work, n, o, NULL, arena);
        o.ranks--;
        assert_true(run(work, n, o, NULL, arena) >= before);
        o.ranks++;
        for (int32_t b = 0; b < n; b++)
            work[b] *= 4;
        assert_true(run(work, n, o, NULL, arena) == 4 * before);
        work[between(0, n - 1)] += between(1, 50);
        assert_true(run(work, n, o, NULL, arena) >= 4 * before);
        cs_arena_free(arena);
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* What looks at work only does not see where a block stands; scaling changes no owner. */
static void permuted_and_scaled_blocks_load_alike(void **state)
{
    (void)state;

    static const enum cs_balance_how hows[] = {CS_BALANCE_LPT, CS_BALANCE_EXACT, CS_BALANCE_BEST};

    for (int c = 0; c < 200; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        double work[200], other[200];
        const int32_t n = random_work(work, 1, c % 3 == 0 ? 12 : 200, 1000), ranks = between(1, 8);
        for (int32_t b = 0; b < n; b++)
            other[b] = work[n - 1 - b];
        for (size_t h = 0; h < CS_ARRAY_LEN(hows); h++) {
            const struct cs_balance_options o = {
                .how = hows[h], .ranks = ranks, .nodes = 2000, .cap = (n - 1) / ranks + 1};
            struct cs_balance_result a, b;
            const double max = run(work, n, o, &a, arena);
            if (hows[h] == CS_BALANCE_LPT) { /* the others may stop at another of equal worth */
                assert_true(run(other, n, o, &b, arena) == max);
                qsort(a.load, (size_t)ranks, sizeof *a.load, by_value);
                qsort(b.load, (size_t)ranks, sizeof *b.load, by_value);
                assert_memory_equal(a.load, b.load, (size_t)ranks * sizeof *a.load);
            }
            double scaled[200];
            for (int32_t k = 0; k < n; k++)
                scaled[k] = 8 * work[k];
            assert_true(run(scaled, n, o, &b, arena) == 8 * max);
            assert_memory_equal(a.owner, b.owner, (size_t)n * sizeof *a.owner);
            int32_t blocks[8] = {0}; /* the cap makes tokens equal to one block */
            for (int32_t k = 0; k < n; k++)
                assert_true(++blocks[a.owner[k]] <= o.cap);
        }
        cs_arena_free(arena);
    }
}

/* Lengths that no block divides: every rank's positions are whole blocks but for the last one, and
 * the loads are the sums of what the mask says of these rows. */
static void ragged_sequences_carry_the_work_of_their_rows(void **state)
{
    (void)state;
    for (int c = 0; c < 60; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const int32_t text = between(1, 900), image = between(0, 900), tail = between(0, 900);
        const struct cs_mask_span span[] = {
            {CS_SPAN_TEXT, text,  0, -1},
            {0,            image, 0, -1},
            {CS_SPAN_TEXT, tail,  0, -1}
        };
        static const struct cs_balance_cost cost = {1, 0, 0, 50};
        const struct cs_balance_options o = {.how = CS_BALANCE_LPT, .ranks = between(1, 4)};
        struct cs_mask_plan mask;
        struct cs_mask_runs runs;
        struct cs_token_split split;
        struct cs_balance_result r;
        struct cs_err err = {.text = ""};
        if (cs_mask_from_spans(span, 3, (struct cs_mask_rule){CS_MASK_CORNSTARCH, 0, 0},
                               CS_TEXT_SEES_ALL, arena, &mask, &err) != CS_OK ||
            cs_mask_runs_make(&mask, arena, &runs, &err) != CS_OK ||
            cs_balance_tokens(&mask, &cost, &o, arena, &split, &r, &err) != CS_OK)
            fail_msg("%s", err.text);
        int32_t *pairs = CS_NEW_ARRAY(arena, int32_t, mask.n_tokens);
        cs_mask_row_pairs(&runs, arena, pairs);
        for (int32_t k = 0; k < o.ranks; k++) {
            double load = 0;
            for (int32_t i = split.first[k]; i < split.first[k + 1]; i++)
                load += pairs[split.position[i]] + 50;
            assert_true(load == r.load[k]);
        }
        assert_int_equal(split.first[o.ranks], mask.n_tokens);
        cs_arena_free(arena);
    }
}

static void every_position_is_owned_once(void **state)
{
    (void)state;
    for (int c = 0; c < 600; c++) {
        struct cs_arena *arena = cs_arena_new(0);
        const int32_t tokens = between(1, 5000), ranks = between(1, 9), n = (tokens - 1) / 128 + 1;
        double work[64];
        uint8_t seen[5000] = {0};
        for (int32_t b = 0; b < n; b++)
            work[b] = between(0, 99);
        const struct cs_balance_options o = {
            .how = (enum cs_balance_how)between(0, CS_BALANCE_HOWS - 1), .ranks = ranks, .seed = 3};
        struct cs_balance_result r;
        struct cs_token_split split;
        run(work, n, o, &r, arena);
        cs_balance_expand(r.owner, tokens, 128, ranks, arena, &split);
        assert_int_equal(split.first[0], 0);
        assert_int_equal(split.first[ranks], tokens);
        for (int32_t k = 0; k < ranks; k++)
            for (int32_t i = split.first[k]; i < split.first[k + 1]; i++) {
                const int32_t p = split.position[i];
                assert_in_range(p, 0, tokens - 1);
                assert_int_equal(r.owner[p / 128], k);
                assert_true(i == split.first[k] || split.position[i - 1] < p);
                assert_int_equal(seen[p]++, 0);
            }
        int32_t at = 0, covered = 0;
        for (int32_t k = 0; k < ranks; k++) {
            const struct cs_token_range part = cs_balance_part(tokens, ranks, k);
            struct cs_token_range pair[2];
            cs_balance_zigzag_ranges(tokens, ranks, k, pair);
            assert_int_equal(part.begin, at);
            at = part.end;
            covered += pair[0].end - pair[0].begin + pair[1].end - pair[1].begin;
        }
        assert_int_equal(at, tokens);
        assert_int_equal(covered, tokens);
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_equals_brute_force_and_lpt_keeps_its_bound),
        cmocka_unit_test(a_capped_search_equals_brute_force),
        cmocka_unit_test(the_best_is_never_worse_than_any_other),
        cmocka_unit_test(the_optimum_is_monotone),
        cmocka_unit_test(permuted_and_scaled_blocks_load_alike),
        cmocka_unit_test(ragged_sequences_carry_the_work_of_their_rows),
        cmocka_unit_test(every_position_is_owned_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
