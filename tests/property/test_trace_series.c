/* Series against a plain array: whatever is put, every bucket read equals the minimum, maximum, sum
 * and counts of the steps it stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "core/trace/series.h"

enum { MAX_STEPS = 20000 };

struct model {
    double value[MAX_STEPS];
    char is_set[MAX_STEPS];
    int64_t last;
};

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void model_put(struct model *m, int64_t step, double value)
{
    for (int64_t s = step; s <= m->last; s++)
        m->is_set[s] = 0;
    m->value[step] = value;
    m->is_set[step] = 1;
    m->last = step;
}

static void check_bucket(const struct model *m, const struct cs_series_bucket *b)
{
    uint32_t n = 0, n_bad = 0;
    double sum = 0, min = 0, max = 0;
    for (int64_t s = b->first_step; s < b->first_step + b->n_steps && s < MAX_STEPS; s++) {
        if (!m->is_set[s])
            continue;
        if (!isfinite(m->value[s])) {
            n_bad++;
            continue;
        }
        min = n == 0 || m->value[s] < min ? m->value[s] : min;
        max = n == 0 || m->value[s] > max ? m->value[s] : max;
        sum += m->value[s];
        n++;
    }
    assert_int_equal(b->n, n);
    assert_int_equal(b->n_bad, n_bad);
    assert_true(fabs(b->sum - sum) <= 1e-9 * (1 + fabs(sum)));
    assert_true(b->min == min && b->max == max);
}

static void check_read(const struct cs_series *series, const struct model *m, int64_t from,
                       int64_t to, uint32_t max)
{
    struct cs_series_bucket out[200];
    uint32_t n = cs_series_read(series, from, to, max, out);
    assert_true(n <= max);
    for (uint32_t i = 0; i < n; i++) {
        check_bucket(m, &out[i]);
        assert_true(i == 0 || out[i].first_step >= out[i - 1].first_step + out[i - 1].n_steps);
        assert_true(out[i].first_step < to && out[i].first_step + out[i].n_steps > from);
    }
    for (int64_t s = from; s < to && s <= m->last; s++) { /* nothing is missing */
        int covered = !m->is_set[s];
        for (uint32_t i = 0; i < n && !covered; i++)
            covered = out[i].first_step <= s && s < out[i].first_step + out[i].n_steps;
        assert_true(covered);
    }
}

static void buckets_equal_the_plain_array(void **state)
{
    (void)state;
    static struct model m;
    for (uint64_t round = 0; round < 6; round++) {
        uint64_t seed = round + 1;
        struct cs_series *series = cs_series_new(256);
        memset(&m, 0, sizeof m);
        m.last = -1;
        for (int64_t step = 0; step < 19000; step++) {
            double value = (double)next_random(&seed) / 1e9 - 1;
            if (next_random(&seed) % 50 == 0)
                value = next_random(&seed) % 2 ? (double)NAN : (double)INFINITY;
            if (next_random(&seed) % 400 == 0) /* resumed from a checkpoint */
                step -= (int64_t)(next_random(&seed) % 30) % (step + 1);
            if (next_random(&seed) % 300 == 0)
                step += 3; /* a gap */
            cs_series_put(series, step, value);
            model_put(&m, step, value);
            if (step % 997 == 0) {
                int64_t from = (int64_t)(next_random(&seed) % (uint64_t)(step + 1));
                check_read(series, &m, 0, step + 1, 1 + (uint32_t)(next_random(&seed) % 150));
                check_read(series, &m, from, step + 1, 1 + (uint32_t)(next_random(&seed) % 150));
            }
        }
        assert_int_equal(cs_series_last_step(series), m.last);
        cs_series_free(series);
    }
}

static void recent_steps_come_one_by_one(void **state)
{
    (void)state;
    struct cs_series *series = cs_series_new(128);
    struct cs_series_bucket out[100];
    assert_int_equal(cs_series_read(series, 0, 10, 100, out), 0);
    assert_int_equal(cs_series_last_step(series), -1);
    for (int64_t step = 0; step < 5000; step++)
        cs_series_put(series, step, (double)step);
    assert_int_equal(cs_series_read(series, 4950, 5000, 100, out), 50);
    for (int i = 0; i < 50; i++)
        assert_true(cs_series_mean(&out[i]) == 4950.0 + i);
    assert_int_equal(cs_series_read(series, 0, 5000, 100, out), 5);
    assert_true(cs_series_mean(&out[0]) == 1023 / 2.0);
    cs_series_free(series);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_equal_the_plain_array),
        cmocka_unit_test(recent_steps_come_one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
