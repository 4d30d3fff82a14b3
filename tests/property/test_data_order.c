/* The keyed order of samples is a permutation of [0, n) for every n, and mixes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/data/sample_order.h"

static void assert_permutation(uint64_t seed, uint64_t epoch, uint64_t n)
{
    unsigned char *seen = calloc(n, 1);
    assert_non_null(seen);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = cs_order_at(seed, epoch, n, i);
        assert_true(at < n);
        assert_int_equal(seen[at], 0);
        seen[at] = 1;
    }
    free(seen);
}

static void every_small_n_is_a_permutation(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 3000; n++)
        assert_permutation(n * 17, n % 5, n);
}

static void larger_n_is_a_permutation(void **state)
{
    (void)state;
    static const uint64_t n[] = {4095, 4096, 4097, 65535, 65536, 65537, 262145, 1000003};
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
        assert_permutation(99, i, n[i]);
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* a sample of positions of a domain too large to enumerate: images are distinct and inside */
static void huge_n_has_no_collisions(void **state)
{
    (void)state;
    static const uint64_t n[] = {(1ull << 32) - 5, (1ull << 40) + 1, (1ull << 63) + 12345,
                                 UINT64_MAX};

    enum { POSITIONS = 20000 };

    uint64_t *image = malloc(POSITIONS * sizeof *image);
    assert_non_null(image);
    for (size_t k = 0; k < sizeof n / sizeof n[0]; k++) {
        for (uint64_t i = 0; i < POSITIONS; i++) {
            image[i] = cs_order_at(5, 1, n[k], i % 2 ? n[k] - 1 - i : i);
            assert_true(image[i] < n[k]);
        }
        qsort(image, POSITIONS, sizeof *image, compare);
        for (int i = 1; i < POSITIONS; i++)
            assert_true(image[i] != image[i - 1]);
    }
    free(image);
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    int same_epoch = 0, same_seed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t at = cs_order_at(1, 0, 1000, i);
        assert_int_equal(at, cs_order_at(1, 0, 1000, i));
        same_epoch += at == cs_order_at(1, 1, 1000, i);
        same_seed += at == cs_order_at(2, 0, 1000, i);
    }
    assert_true(same_epoch < 20 && same_seed < 20); /* 1 expected of a random pair */
}

/* first position over many keys: every image about equally often (chi squared, 99.99 % bound) */
static void images_are_uniform_over_keys(void **state)
{
    (void)state;

    enum { N = 13, KEYS = 26000 };

    double count[N] = {0}, chi = 0;
    for (uint64_t key = 0; key < KEYS; key++)
        count[cs_order_at(key, 3, N, 4)] += 1;
    for (int i = 0; i < N; i++)
        chi += (count[i] - KEYS / (double)N) * (count[i] - KEYS / (double)N) / (KEYS / (double)N);
    assert_true(chi <= 39.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_n_is_a_permutation),
        cmocka_unit_test(larger_n_is_a_permutation),
        cmocka_unit_test(huge_n_has_no_collisions),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(images_are_uniform_over_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
