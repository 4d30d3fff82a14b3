/* Mixtures: shares as the weights say, every sample of a source once before any comes again, the same order in any
 * access. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/mixture.h"
#include "core/data/sample_order.h"
#include "core/data/sources.h"

enum { BLOCKS = 20 };

static const uint64_t samples[] = {1000, 37, 5000};

static int source_of(uint64_t index)
{
    return index < 1000 ? 0 : index < 1037 ? 1 : 2;
}

static void without_weights_it_is_one_permutation(void **state)
{
    struct cs_mixture m;

    (void)state;
    cs_mixture_init(&m, 3, samples, NULL);
    for (uint64_t i = 0; i < 6037; i++)
        assert_int_equal(cs_mixture_at(&m, 7, 3, i), cs_order_at(7, 3, 6037, i));
}

static void weights_are_shares_and_sources_come_round_on_their_own(void **state)
{
    static const double weights[] = {3, 1, 4};
    uint64_t count[6037] = {0}, of[3] = {0};
    struct cs_mixture m;
    uint64_t at = 0;

    (void)state;
    cs_mixture_init(&m, 3, samples, weights);
    for (uint64_t epoch = 0; at < BLOCKS * CS_MIXTURE_BLOCK; epoch++)
        for (uint64_t i = 0; i < m.total && at < BLOCKS * CS_MIXTURE_BLOCK; i++, at++) {
            uint64_t index = cs_mixture_at(&m, 11, epoch, i);
            assert_true(index < 6037);
            count[index]++;
            of[source_of(index)]++;
            if (at % CS_MIXTURE_BLOCK != CS_MIXTURE_BLOCK - 1)
                continue;
            for (int s = 0; s < 3; s++) { /* at the end of every block */
                uint64_t blocks = at / CS_MIXTURE_BLOCK + 1, least = UINT64_MAX, most = 0;
                double want = weights[s] / 8 * CS_MIXTURE_BLOCK * (double)blocks;
                assert_true((double)of[s] > want - 3.0 * (double)blocks);
                assert_true((double)of[s] < want + 3.0 * (double)blocks);
                for (uint64_t k = 0; k < 6037; k++)
                    if (source_of(k) == s) {
                        least = count[k] < least ? count[k] : least;
                        most = count[k] > most ? count[k] : most;
                    }
                assert_true(most - least <= 1);
            }
        }
}

static void tiny_weights_and_small_sources_are_not_left_out(void **state)
{
    static const uint64_t few[] = {1, 100000};
    static const double weights[] = {1e-9, 1};
    struct cs_mixture m;
    uint64_t n = 0;

    (void)state;
    cs_mixture_init(&m, 2, few, weights);
    for (uint64_t i = 0; i < CS_MIXTURE_BLOCK; i++)
        n += cs_mixture_at(&m, 1, 0, i) == 0;
    assert_int_equal(n, 1);
    cs_mixture_init(&m, 1, few, weights);
    assert_int_equal(cs_mixture_at(&m, 1, 5, 0), 0);
}

/* blocks differ, seeds differ, sources do not run in step */
static void orders_are_keyed(void **state)
{
    static const uint64_t twins[] = {500, 500};
    static const double weights[] = {1, 1};
    struct cs_mixture m;
    uint64_t same_seed = 0, same_block = 0, in_step = 0;

    (void)state;
    cs_mixture_init(&m, 2, twins, weights);
    for (uint64_t i = 0; i + 1 < 1000; i++) {
        same_seed += cs_mixture_at(&m, 1, 0, i) == cs_mixture_at(&m, 2, 0, i);
        same_block += cs_mixture_at(&m, 1, 0, i) == cs_mixture_at(&m, 1, 100, i);
        in_step += cs_mixture_at(&m, 1, 0, i) % 500 == cs_mixture_at(&m, 1, 0, i + 1) % 500;
    }
    assert_true(same_seed < 30 && same_block < 30 && in_step < 30);
}

static void names_of_sources_are_numbered_until_there_is_no_room(void **state)
{
    struct cs_sources s = {0};
    char name[200];
    (void)state;
    assert_int_equal(cs_sources_index(&s, ""), 0);
    assert_int_equal(cs_sources_index(&s, NULL), 0);
    assert_int_equal(s.n, 1);
    assert_int_equal(cs_sources_index(&s, "coco"), 1);
    assert_int_equal(cs_sources_index(&s, CS_SOURCE_OTHER), 0);
    assert_int_equal(cs_sources_index(&s, "alpaca"), 2);
    assert_int_equal(cs_sources_index(&s, "coco"), 1);
    memset(name, 'x', sizeof name);
    name[CS_SOURCE_NAME - 2] = (char)0xc3; /* a character of two bytes is not cut in the middle */
    name[CS_SOURCE_NAME - 1] = (char)0xa9;
    name[sizeof name - 1] = '\0';
    assert_int_equal(cs_sources_index(&s, name), 3);
    assert_int_equal(strlen(s.name[3]), CS_SOURCE_NAME - 2);
    name[CS_SOURCE_NAME] = 'y';
    assert_int_equal(cs_sources_index(&s, name), 3);
    for (int i = 4; i < CS_SOURCES_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(cs_sources_index(&s, name), i);
    }
    assert_string_equal(s.left_out, "");
    assert_int_equal(cs_sources_index(&s, "late"), 0);
    assert_int_equal(cs_sources_index(&s, "later"), 0);
    assert_string_equal(s.left_out, "late");
    assert_int_equal(cs_sources_index(&s, "n63"), 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_weights_it_is_one_permutation),
        cmocka_unit_test(weights_are_shares_and_sources_come_round_on_their_own),
        cmocka_unit_test(tiny_weights_and_small_sources_are_not_left_out),
        cmocka_unit_test(orders_are_keyed),
        cmocka_unit_test(names_of_sources_are_numbered_until_there_is_no_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
