/* Hashes and Philox against published vectors, and the moments of what they draw. */
#include "core/base/hash.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/philox.h"
#include "core/base/system/normals.h"

static void sha256_equals_published_vectors(void **state)
{
    char hex[65];
    (void)state;
    cs_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cs_sha256_hex("", 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    struct cs_sha256 *sha = cs_sha256_new();
    cs_sha256_add(sha, "a", 1);
    cs_sha256_add(sha, "bc", 2);
    cs_sha256_end(sha, hex);
    cs_sha256_free(sha);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

static void xxh3_of_nothing_is_the_published_value(void **state)
{
    char hex[33];
    (void)state;
    cs_xxh3_128_hex("", 0, hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
}

static void xxh3_in_pieces_equals_whole(void **state)
{
    unsigned char data[5000];
    char whole[33], pieces[33];
    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (unsigned char)(i * 131 + i / 7);
    struct cs_xxh3 *xxh = cs_xxh3_new();
    size_t at = 0;
    for (size_t step = 1; at < sizeof(data); step = step * 3 + 1) {
        size_t n = sizeof(data) - at < step ? sizeof(data) - at : step;
        cs_xxh3_add(xxh, data + at, n);
        at += n;
    }
    cs_xxh3_end(xxh, pieces);
    cs_xxh3_free(xxh);
    cs_xxh3_128_hex(data, sizeof(data), whole);
    assert_string_equal(pieces, whole);
    data[4999] ^= 1;
    cs_xxh3_128_hex(data, sizeof(data), pieces);
    assert_string_not_equal(pieces, whole);
}

static void fnv1a_equals_published_vectors(void **state)
{
    (void)state;
    assert_true(cs_fnv1a64("", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(cs_fnv1a64("a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(cs_fnv1a64("foobar", 6) == UINT64_C(0x85944171f73967e8));
}

static void philox_equals_known_answers_of_random123(void **state)
{
    static const struct {
        uint64_t key;
        uint32_t counter[4], out[4];
    } rows[] = {
        {0,                            {0, 0, 0, 0},       {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {UINT64_MAX,
         {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}                                                  },
        {UINT64_C(0x299f31d0a4093822),
         {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}                                                  },
    };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        uint32_t out[4];
        cs_philox(rows[i].key, rows[i].counter, out);
        assert_memory_equal(out, rows[i].out, sizeof(out));
    }
}

static void normals_have_the_right_moments(void **state)
{
    enum { N = 20000 };

    double sum[5] = {0};
    (void)state;
    for (uint64_t i = 0; i < N; i++) {
        double x = cs_philox_normal(17, 99, i);
        for (int k = 1; k <= 4; k++)
            sum[k] += pow(x, k);
    }
    /* five standard errors of each sample moment */
    assert_true(fabs(sum[1] / N) <= 5 * sqrt(1.0 / N));
    assert_true(fabs(sum[2] / N - 1) <= 5 * sqrt(2.0 / N));
    assert_true(fabs(sum[3] / N) <= 5 * sqrt(15.0 / N));
    assert_true(fabs(sum[4] / N - 3) <= 5 * sqrt(96.0 / N));
}

static void filling_equals_single_draws_from_any_start(void **state)
{
    float out[9];
    (void)state;
    for (uint64_t first = 0; first < 3; first++) {
        cs_philox_fill_normal(5, 7, first, 9, 1.0, out);
        for (uint64_t i = 0; i < 9; i++) {
            float one = cs_philox_normal(5, 7, first + i);
            assert_memory_equal(&one, &out[i], sizeof(one));
        }
    }
    assert_true(fabs((double)cs_philox_normal(5, 7, 0) - (double)cs_philox_normal(6, 7, 0)) > 0);
    assert_true(fabs((double)cs_philox_normal(5, 7, 0) - (double)cs_philox_normal(5, 8, 0)) > 0);
}

static void decay_is_filled_from_any_start(void **state)
{
    float all[9], part[4];
    (void)state;
    cs_philox_fill_decay(5, 7, 0, 9, all);
    for (int i = 0; i < 9; i++)
        assert_true(all[i] >= logf(0.01f) - 1e-5f && all[i] < logf(16.0f));
    assert_true(fabsf(all[3] - all[0]) > 0);
    cs_philox_fill_decay(5, 7, 3, 4, part);
    assert_memory_equal(part, &all[3], sizeof part);
}

static void values_do_not_depend_on_threads(void **state)
{
    enum { N = 200001 };

    static float whole[N + 1], parts[N + 1];
    static const int threads[] = {0, 1, 2, 7};
    (void)state;
    cs_philox_fill_normal(5, 7, 0, N, 0.02, whole);
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        memset(parts, 0xff, sizeof parts);
        memset(&whole[N], 0xff, sizeof *whole);
        cs_philox_fill_normal_on(threads[i], 5, 7, N, 0.02, parts);
        assert_memory_equal(parts, whole, sizeof parts); /* nothing behind the last either */
    }
}

static void uniforms_stay_in_the_unit_interval(void **state)
{
    double sum = 0;
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        double u = cs_philox_uniform(1, 2, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
    }
    assert_true(fabs(sum / 10000 - 0.5) <= 5 * sqrt(1.0 / 12 / 10000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_equals_published_vectors),
        cmocka_unit_test(xxh3_of_nothing_is_the_published_value),
        cmocka_unit_test(xxh3_in_pieces_equals_whole),
        cmocka_unit_test(fnv1a_equals_published_vectors),
        cmocka_unit_test(philox_equals_known_answers_of_random123),
        cmocka_unit_test(normals_have_the_right_moments),
        cmocka_unit_test(filling_equals_single_draws_from_any_start),
        cmocka_unit_test(decay_is_filled_from_any_start),
        cmocka_unit_test(values_do_not_depend_on_threads),
        cmocka_unit_test(uniforms_stay_in_the_unit_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
