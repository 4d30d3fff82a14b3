/* Heads that move between ranks of a context (worker/model/halves/context_heads.h), all or some neighbours, for random
 * slots, any permutation of rows over these, ranks without rows and heads of keys that several have: outputs and
 * gradients are those of one rank; and where every row sees itself alone, what comes back is the adjoint of what went. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/plan/context.h"
#include "support/context_ranks.h"
#include "support/random_mask.h"

enum { ROUNDS = 60, DIM = CS_TEST_CONTEXT_DIM, ROWS = CS_TEST_MASK_TOKENS };

static const struct {
    int ranks, heads, kv_heads;
} shapes[] = {
    {1, 4,  2 },
    {2, 4,  2 },
    {2, 4,  4 },
    {4, 4,  2 },
    {3, 12, 6 },
    {4, 12, 12},
    {6, 12, 3 },
    {3, 3,  1 },
    {6, 6,  1 },
};

enum { SHAPES = sizeof shapes / sizeof *shapes };

/* so many of the ranks that they can share the heads; often all */
static int some_ranks(uint64_t *seed, int shape)
{
    const struct cs_attention attention = {.n_heads = shapes[shape].heads,
                                           .n_kv_heads = shapes[shape].kv_heads};
    int n = shapes[shape].ranks;
    if (cs_test_random_between(seed, 0, 1) == 0)
        n = cs_test_random_between(seed, 1, n);
    while (!cs_context_attention_divides(&attention, 1, n))
        n--;
    return n;
}

/* owner: (n_tokens), filled */
static void open_lab(struct cs_test_context *lab, uint64_t *seed, const struct cs_mask_plan *mask,
                     int32_t *owner, int round)
{
    *lab = (struct cs_test_context){.ranks = shapes[round % SHAPES].ranks,
                                    .heads = shapes[round % SHAPES].heads,
                                    .kv_heads = shapes[round % SHAPES].kv_heads,
                                    .groups = 1 + round % 3,
                                    .way = CS_TEST_HEADS,
                                    .has_sinks = round % 4 == 1,
                                    .mask = mask,
                                    .owner = owner};
    lab->n = some_ranks(seed, round % SHAPES);
    lab->first = cs_test_random_between(seed, 0, lab->ranks - lab->n);
    /* some ranks have no rows */
    const int with_rows = cs_test_random_between(seed, 1, lab->n);
    for (int32_t i = 0; i < mask->n_tokens; i++)
        owner[i] = lab->first + cs_test_random_between(seed, 0, with_rows - 1);
    cs_test_context_open(lab, seed);
}

static void heads_over_ranks_equal_one_rank(void **state)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 6, .longest = ROWS / 3, .has_short = true, .blind_of = 20};
    static struct cs_test_mask m;
    static int32_t owner[ROWS];
    uint64_t seed = 7;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct cs_test_context lab;
        char what[32];
        cs_test_random_mask(&seed, &slots, &m);
        open_lab(&lab, &seed, &m.plan, owner, round);
        cs_test_context_one(&lab);
        cs_test_context_many(&lab);
        snprintf(what, sizeof what, "round %d", round);
        cs_test_context_check(&lab, what);
        cs_test_context_close(&lab);
    }
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Where a row sees itself alone attention gives its values back, to every head of queries of them: heads go there and
 * back as they are, and <T v, d_o> = <v, T' d_o>. */
static void what_comes_back_is_the_adjoint(void **state)
{
    static int32_t doc[ROWS], pos[ROWS], segment[ROWS + 1], owner[ROWS];
    uint64_t seed = 8;
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int32_t n = cs_test_random_between(&seed, 1, ROWS);
        struct cs_test_context lab;
        for (int32_t i = 0; i < n; i++)
            doc[i] = i, pos[i] = 0;
        const struct cs_mask_plan mask = {.rule = {.kind = CS_MASK_CAUSAL},
                                          .n_tokens = n,
                                          .doc = doc,
                                          .pos = pos,
                                          .n_segments = cs_mask_segments(doc, n, segment),
                                          .segment = segment};
        open_lab(&lab, &seed, &mask, owner, round);
        lab.has_sinks = false;
        cs_test_context_many(&lab);
        const int q = cs_test_context_columns(&lab, CS_TEST_Q),
                  kv = cs_test_context_columns(&lab, CS_TEST_V), group = q / kv;
        for (int i = 0; i < n; i++)
            for (int c = 0; c < q; c++) {
                const int of = c / DIM / group * DIM + c % DIM;
                if (lab.many[CS_TEST_O][i * q + c] != lab.one[CS_TEST_V][i * kv + of])
                    fail_msg("round %d: row %d, column %d is %g, not %g", round, i, c,
                             (double)lab.many[CS_TEST_O][i * q + c],
                             (double)lab.one[CS_TEST_V][i * kv + of]);
            }
        const double there = dot(lab.many[CS_TEST_O], lab.one[CS_TEST_D_O], n * q),
                     back = dot(lab.one[CS_TEST_V], lab.many[CS_TEST_DV], n * kv);
        if (!(fabs(there - back) <= 1e-5 * (1 + fabs(there))))
            fail_msg("round %d: <T v, d_o> = %g, <v, T' d_o> = %g", round, there, back);
        cs_test_context_close(&lab);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_over_ranks_equal_one_rank),
        cmocka_unit_test(what_comes_back_is_the_adjoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
