/* Attention over the ranks of a context, for random slots under every rule, 1 to 5 ranks, every rule of
 * balance and any permutation at all: maps are complete and bounded, what a rank needs is what its
 * queries see, and with nothing else moved outputs and gradients are those of one rank: as operators make them, and
 * as layers do with exchanges, whether they wait for keys or look at the own ones first. */
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
#include "core/plan/tokens/context_view.h"
#include "kernels/ops.h"
#include "support/context_ranks.h"
#include "support/random_mask.h"

enum { ROUNDS = 250, MOST_RANKS = 5, MOST_ROWS = 4096, HEADS = 2, DIM = 4, WIDE = HEADS * DIM };

static uint64_t seed;

static int between(int lo, int hi)
{
    return cs_test_random_between(&seed, lo, hi);
}

static void *room(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);
    assert_non_null(p);
    return p;
}

static float *new_floats(int n)
{
    float *x = room((size_t)n, sizeof *x);
    for (int i = 0; i < n; i++)
        x[i] = (float)cs_test_random_bits(&seed) / 1073741824.0f - 1.0f;
    return x;
}

/* ---- attention of some queries over keys ---- */

struct arrays {
    float *q, *o, *d_o, *dq; /* of the queries */
    float *k, *v, *dk, *dv;  /* of the keys */
};

static struct arrays new_arrays(int n_queries, int n_keys)
{
    return (struct arrays){new_floats(n_queries * WIDE), new_floats(n_queries * WIDE),
                           new_floats(n_queries * WIDE), new_floats(n_queries * WIDE),
                           new_floats(n_keys * DIM),     new_floats(n_keys * DIM),
                           new_floats(n_keys * DIM),     new_floats(n_keys * DIM)};
}

static void free_arrays(struct arrays *a)
{
    free(a->q), free(a->o), free(a->d_o), free(a->dq);
    free(a->k), free(a->v), free(a->dk), free(a->dv);
}

static void attend(const struct cs_mask_plan *mask, int n_keys, const struct arrays *a)
{
    const struct cs_attention_shape shape = {.tokens = mask->n_tokens,
                                             .heads = HEADS,
                                             .kv_heads = 1,
                                             .head_dim = DIM,
                                             .k_tokens = n_keys,
                                             .q_stride = WIDE,
                                             .kv_stride = DIM,
                                             .o_stride = WIDE,
                                             .scale = 0.7f};
    const size_t bytes = cs_ops_cpu()->attention_workspace(&shape, mask);
    struct cs_ctx ctx = {.workspace = room(bytes, 1), .workspace_bytes = bytes};
    float *lse = room((size_t)mask->n_tokens * HEADS, sizeof *lse);
    cs_ops_cpu()->attention(&ctx, &shape, mask, a->q, a->k, a->v, a->o, lse);
    cs_ops_cpu()->attention_grad(&ctx, &shape, mask, a->q, a->k, a->v, a->o, lse, a->d_o, a->dq,
                                 a->dk, a->dv);
    free(lse);
    free(ctx.workspace);
}

/* ---- one rank's part ---- */

struct part {
    struct cs_mask_plan mask;
    int32_t doc[MOST_ROWS], pos[MOST_ROWS], item[MOST_ROWS], row[MOST_ROWS];
    uint64_t word[MOST_ROWS];
};

static void take_part(const struct cs_mask_plan *all, const int32_t *owner, int32_t rank,
                      struct part *p)
{
    static const int32_t no_segment = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < all->n_tokens; i++) {
        if (owner[i] != rank)
            continue;
        p->doc[n] = all->doc[i];
        p->pos[n] = all->pos[i];
        p->item[n] = all->item != NULL ? all->item[i] : -1;
        p->word[n] = all->word != NULL ? all->word[i] : CS_MASK_TEXT;
        p->row[n++] = i;
    }
    p->mask = (struct cs_mask_plan){.rule = all->rule,
                                    .n_tokens = n,
                                    .doc = p->doc,
                                    .pos = p->pos,
                                    .item = p->item,
                                    .word = p->word,
                                    .segment = &no_segment,
                                    .keys = all};
}

static void assert_near(const float *got, const float *want, int n, const char *what)
{
    for (int i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-5 * (1 + fabs((double)want[i]))))
            fail_msg("%s: element %d is %g, not %g", what, i, (double)got[i], (double)want[i]);
}

/* need NULL: all keys move */
static void assert_equal_to_one_rank(const struct cs_mask_plan *mask, const int32_t *owner,
                                     int32_t ranks, const uint8_t *need)
{
    static struct part p;
    const int32_t n = mask->n_tokens, block = cs_context_block(n, ranks);
    const int32_t n_blocks = (n - 1) / block + 1;
    struct arrays one = new_arrays(n, n);
    float *dk = room((size_t)n * DIM, sizeof *dk), *dv = room((size_t)n * DIM, sizeof *dv);
    attend(mask, 0, &one);
    for (int32_t r = 0; r < ranks; r++) {
        take_part(mask, owner, r, &p);
        const int32_t n_own = p.mask.n_tokens;
        struct arrays own = new_arrays(n_own, n);
        for (int32_t i = 0; i < n_own; i++) {
            memcpy(own.q + i * WIDE, one.q + p.row[i] * WIDE, WIDE * sizeof *own.q);
            memcpy(own.d_o + i * WIDE, one.d_o + p.row[i] * WIDE, WIDE * sizeof *own.q);
        }
        for (int32_t i = 0; i < n; i++) {
            const bool moves = need == NULL || need[r * n_blocks + i / block];
            for (int j = 0; j < DIM; j++) {
                own.k[i * DIM + j] = moves ? one.k[i * DIM + j] : 0;
                own.v[i * DIM + j] = moves ? one.v[i * DIM + j] : 0;
            }
        }
        if (n_own > 0)
            attend(&p.mask, n, &own);
        for (int32_t i = 0; i < n_own; i++) {
            assert_near(own.o + i * WIDE, one.o + p.row[i] * WIDE, WIDE, "output");
            assert_near(own.dq + i * WIDE, one.dq + p.row[i] * WIDE, WIDE, "gradient of queries");
        }
        for (int32_t i = 0; n_own > 0 && i < n * DIM; i++) {
            if (need != NULL && !need[r * n_blocks + i / DIM / block])
                continue; /* stays where it is */
            dk[i] += own.dk[i];
            dv[i] += own.dv[i];
        }
        free_arrays(&own);
    }
    assert_near(dk, one.dk, n * DIM, "gradient of keys");
    assert_near(dv, one.dv, n * DIM, "gradient of values");
    free(dk), free(dv);
    free_arrays(&one);
}

/* ---- maps ---- */

static void make_map(const struct cs_mask_plan *mask, enum cs_balance_how how, int32_t ranks,
                     int32_t *owner, struct cs_context_load *load)
{
    const double per_pair = 3;
    const struct cs_context_cost cost = {.per_row = 100, .per_pair = &per_pair};
    assert_int_equal(cs_context_map(mask, 1, &cost, how, ranks, owner, load, NULL), CS_OK);
}

static void check_map(const struct cs_mask_plan *mask, int32_t ranks, const int32_t *owner,
                      const struct cs_context_load *load)
{
    const int32_t n = mask->n_tokens, block = cs_context_block(n, ranks);
    int64_t rows[MOST_RANKS] = {0}, pairs[MOST_RANKS] = {0};
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(owner[i], 0, ranks - 1);
        assert_int_equal(owner[i], owner[i / block * block]);
        rows[owner[i]]++;
        for (int32_t j = 0; j < n; j++)
            pairs[owner[i]] +=
                cs_mask_allows(mask->rule, cs_mask_token_at(mask, i), cs_mask_token_at(mask, j));
    }
    for (int32_t r = 0; r < ranks; r++) {
        assert_int_equal(load[r].rows, rows[r]);
        assert_int_equal(load[r].pairs, pairs[r]);
        assert_true(load[r].work == 100.0 * (double)rows[r] + 3.0 * (double)pairs[r]);
        assert_in_range(rows[r], 0, cs_context_most(n, ranks));
        assert_in_range(rows[r], 0, cs_context_most(n + 7, ranks)); /* of any larger budget too */
    }
}

static void check_needs(const struct cs_mask_plan *mask, int32_t ranks, const int32_t *owner,
                        const uint8_t *need)
{
    static uint8_t wants[MOST_RANKS * MOST_ROWS];
    const int32_t n = mask->n_tokens, block = cs_context_block(n, ranks);
    const int32_t n_blocks = (n - 1) / block + 1;
    memset(wants, 0, sizeof wants);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            wants[owner[i] * n_blocks + j / block] |=
                cs_mask_allows(mask->rule, cs_mask_token_at(mask, i), cs_mask_token_at(mask, j));
    assert_memory_equal(need, wants, (size_t)(ranks * n_blocks));
}

/* ---- layers ---- */

static const struct {
    int heads, kv_heads;
} shapes[] = {
    {2, 1},
    {4, 2},
    {3, 3},
    {6, 3},
};

enum { SHAPES = sizeof shapes / sizeof *shapes, LAYERS = 120 };

/* one of every heads, groups, sinks and so on; they have no divisors in common */
static struct cs_test_context variant(const struct cs_mask_plan *mask, const int32_t *owner,
                                      int32_t ranks, int round)
{
    return (struct cs_test_context){.ranks = ranks,
                                    .heads = shapes[round % SHAPES].heads,
                                    .kv_heads = shapes[round % SHAPES].kv_heads,
                                    .groups = 1 + round / 4 % 3,
                                    .has_sinks = round % 3 == 1,
                                    .stays_unsorted = round / 2 % 2 == 1,
                                    .softcap = round % 5 == 2 ? 3.0f : 0,
                                    .mask = mask,
                                    .owner = owner};
}

static size_t bytes_of(const struct cs_test_context *c, enum cs_test_array a)
{
    return (size_t)(c->mask->n_tokens * cs_test_context_columns(c, a)) * sizeof(float);
}

/* Both ways make what one rank makes and move as much; a second run makes the same bits. */
static void check_layers(const struct cs_mask_plan *mask, const int32_t *owner, int32_t ranks,
                         int round)
{
    struct cs_test_context c = variant(mask, owner, ranks, round);
    float *first[CS_TEST_ARRAYS];
    char what[64];
    cs_test_context_open(&c, &seed);
    cs_test_context_one(&c);
    cs_test_context_many(&c);
    snprintf(what, sizeof what, "round %d, %d ranks, keys", round, (int)ranks);
    cs_test_context_check(&c, what);
    const int64_t came = c.came;
    c.way = CS_TEST_OWN_FIRST;
    cs_test_context_many(&c);
    snprintf(what, sizeof what, "round %d, %d ranks, own first", round, (int)ranks);
    cs_test_context_check(&c, what);
    assert_int_equal(c.came, came);
    for (enum cs_test_array a = CS_TEST_O; a < CS_TEST_ARRAYS; a++) {
        first[a] = room(bytes_of(&c, a), 1);
        memcpy(first[a], c.many[a], bytes_of(&c, a));
    }
    cs_test_context_many(&c);
    for (enum cs_test_array a = CS_TEST_O; a < CS_TEST_ARRAYS; a++) {
        assert_memory_equal(first[a], c.many[a], bytes_of(&c, a));
        free(first[a]);
    }
    cs_test_context_close(&c);
}

static void layers_over_ranks_equal_one_rank(void **state)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 6, .longest = CS_TEST_MASK_TOKENS / 3, .has_short = true, .blind_of = 20};
    static struct cs_test_mask m;
    static int32_t owner[MOST_ROWS];
    (void)state;
    seed = 3;
    for (int round = 0; round < LAYERS; round++) {
        const int32_t ranks = between(1, MOST_RANKS), with_rows = between(1, ranks);
        struct cs_context_load load[MOST_RANKS];
        cs_test_random_mask(&seed, &slots, &m);
        const int32_t n = m.plan.n_tokens, block = cs_context_block(n, ranks);
        make_map(&m.plan, (enum cs_balance_how)between(0, CS_BALANCE_HOWS - 1), ranks, owner, load);
        /* or any map, in which some ranks have no rows */
        for (int32_t i = 0; round % 2 == 1 && i < n; i++)
            owner[i] = i % block == 0 ? between(0, with_rows - 1) : owner[i - 1];
        check_layers(&m.plan, owner, ranks, round);
    }
}

/* ---- properties ---- */

static void random_slots_over_ranks_equal_one_rank(void **state)
{
    static const struct cs_test_mask_options slots = {
        .most_docs = 6, .longest = CS_TEST_MASK_TOKENS / 3, .has_short = true, .blind_of = 20};
    static uint8_t need[MOST_RANKS * MOST_ROWS];
    static int32_t owner[MOST_ROWS];
    int64_t n_needed = 0, n_all = 0;
    (void)state;
    seed = 1;
    for (int round = 0; round < ROUNDS; round++) {
        struct cs_test_mask *m = room(1, sizeof *m);
        struct cs_context_load load[MOST_RANKS];
        const int32_t ranks = 1 + round % MOST_RANKS;
        cs_test_random_mask(&seed, &slots, m);
        make_map(&m->plan, (enum cs_balance_how)between(0, CS_BALANCE_HOWS - 1), ranks, owner,
                 load);
        check_map(&m->plan, ranks, owner, load);
        cs_context_needs(&m->plan, owner, ranks, need);
        check_needs(&m->plan, ranks, owner, need);
        assert_equal_to_one_rank(&m->plan, owner, ranks, need);
        for (int32_t i = 0; i < m->plan.n_tokens; i++) /* any permutation is legal */
            owner[i] = between(0, ranks - 1);
        assert_equal_to_one_rank(&m->plan, owner, ranks, NULL);
        const int32_t n_blocks = (m->plan.n_tokens - 1) / cs_context_block(m->plan.n_tokens, ranks);
        for (int32_t i = 0; i < ranks * (n_blocks + 1); i++)
            n_needed += need[i];
        n_all += ranks * (n_blocks + 1);
        free(m);
    }
    assert_true(n_needed < n_all * 3 / 4); /* packed documents see little of each other */
}

/* Rows whose positions jump have no closed form: every rank that has rows needs all. */
static void rows_without_a_closed_form_are_needed_by_all(void **state)
{
    static int32_t doc[64], pos[64], owner[64], segment[65];
    uint8_t need[3 * 64] = {0};
    (void)state;
    for (int32_t i = 0; i < 64; i++)
        pos[i] = 2 * i, owner[i] = i < 32 ? 0 : 2;
    const struct cs_mask_plan mask = {.rule = {.kind = CS_MASK_CAUSAL},
                                      .n_tokens = 64,
                                      .doc = doc,
                                      .pos = pos,
                                      .n_segments = cs_mask_segments(doc, 64, segment),
                                      .segment = segment};
    const int32_t n_blocks = 64 / cs_context_block(64, 3);
    cs_context_needs(&mask, owner, 3, need);
    for (int32_t b = 0; b < 3 * n_blocks; b++)
        assert_int_equal(need[b], b / n_blocks != 1);
}

/* Lengths that no rank and no tile divides: text with a large picture, one document or several. */
static void ragged_lengths_equal_one_rank(void **state)
{
    static const int32_t lengths[] = {1, 7, 335, 1000, 2003};
    static int32_t doc[MOST_ROWS], pos[MOST_ROWS], item[MOST_ROWS], owner[MOST_ROWS],
        segment[MOST_ROWS + 1];
    static uint8_t need[MOST_RANKS * MOST_ROWS];
    (void)state;
    seed = 2;
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int how = 0; how < CS_BALANCE_HOWS; how++) {
            const int32_t n = lengths[l], ranks = 2 + (int32_t)(how + (int)l) % 3;
            struct cs_context_load load[MOST_RANKS];
            for (int32_t i = 0; i < n; i++) {
                doc[i] = how % 2 == 0 ? 0 : i / 501;
                pos[i] = how % 2 == 0 ? i : i % 501;
                item[i] = pos[i] >= n / 8 && pos[i] < n / 3 ? 0 : -1;
            }
            struct cs_mask_plan mask = {.rule = {.kind = CS_MASK_IMAGE_BIDIR},
                                        .n_tokens = n,
                                        .doc = doc,
                                        .pos = pos,
                                        .item = item,
                                        .segment = segment};
            mask.n_segments = cs_mask_segments(doc, n, segment);
            make_map(&mask, (enum cs_balance_how)how, ranks, owner, load);
            check_map(&mask, ranks, owner, load);
            cs_context_needs(&mask, owner, ranks, need);
            assert_equal_to_one_rank(&mask, owner, ranks, need);
            check_layers(&mask, owner, ranks, how + 5 * (int)l);
        }
}

/* What people see of a slot is what is mapped: loads of every rule, all rows and all work once. */
static void what_is_shown_is_what_is_mapped(void **state)
{
    const struct cs_test_mask_options options = {.most_docs = 4, .longest = 200, .blind_of = 17};
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const double per_pair = 3;
        const struct cs_context_cost cost = {.per_row = 100, .per_pair = &per_pair};
        struct cs_test_mask m;
        struct cs_context_view view;
        struct cs_context_load load[MOST_RANKS];
        int32_t owner[CS_TEST_MASK_TOKENS];
        cs_test_random_mask(&seed, &options, &m);
        const int32_t ranks = between(2, MOST_RANKS);
        struct cs_arena *arena = cs_arena_new(0);
        assert_int_equal(cs_context_view_make(&m.plan, 1, &cost, ranks, NULL, arena, &view, NULL),
                         CS_OK);
        assert_int_equal(view.n_rows, m.plan.n_tokens);
        assert_int_equal(view.n_cells, view.n_rows > 0 ? (view.n_rows - 1) / view.block + 1 : 0);
        assert_int_equal(strlen(view.what), view.n_cells);
        assert_int_equal(strspn(view.what, "tTaAbBcCdDeEfFgGhH"), view.n_cells);
        assert_int_equal(view.n_docs, m.plan.n_segments);
        for (int how = 0; view.n_rows > 0 && how < CS_BALANCE_HOWS; how++) {
            double sum = 0;
            make_map(&m.plan, (enum cs_balance_how)how, ranks, owner, load);
            for (int32_t r = 0; r < ranks; r++) {
                const double shown = view.load[how][r];
                sum += shown;
                if (!(fabs(shown * view.even - load[r].work) <= 1e-9 * (1 + load[r].work)))
                    fail_msg("%s, rank %d: %g shown, %g mapped",
                             cs_balance_how_name((enum cs_balance_how)how), (int)r,
                             shown * view.even, load[r].work);
            }
            assert_true(fabs(sum - ranks) <= 1e-9);
        }
        cs_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_slots_over_ranks_equal_one_rank),
        cmocka_unit_test(layers_over_ranks_equal_one_rank),
        cmocka_unit_test(rows_without_a_closed_form_are_needed_by_all),
        cmocka_unit_test(ragged_lengths_equal_one_rank),
        cmocka_unit_test(what_is_shown_is_what_is_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
