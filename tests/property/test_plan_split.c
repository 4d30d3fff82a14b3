/* The partition against brute force on all cuts. */
#include "core/plan/make/split.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

struct best {
    double value;
    int sizes[10];
};

static void brute(const double *cost, int n, int stages, struct best *best)
{
    best->value = INFINITY;
    for (unsigned mask = 0; mask < 1u << (n - 1); mask++) {
        int sizes[10] = {1}, stage = 0;
        double sum = cost[0], worst = 0;
        for (int i = 1; i < n; i++) {
            if (mask >> (i - 1) & 1) {
                worst = sum > worst ? sum : worst;
                sum = 0;
                stage++;
                sizes[stage] = 0;
            }
            sum += cost[i];
            sizes[stage]++;
        }
        worst = sum > worst ? sum : worst;
        if (stage + 1 == stages && worst < best->value) {
            best->value = worst;
            memcpy(best->sizes, sizes, sizeof sizes);
        }
    }
}

/* the rule of ties, prefix by prefix: the earliest last cut that reaches the optimum of the
 * prefix */
static void earliest(const double *cost, int n, int stages, int *sizes)
{
    struct best whole, head;
    for (int end = n, k = stages; k > 0; k--) {
        brute(cost, end, k, &whole);
        int cut = k == 1 ? 0 : k - 1;
        for (; k > 1; cut++) {
            double tail = 0;
            for (int i = cut; i < end; i++)
                tail += cost[i];
            brute(cost, cut, k - 1, &head);
            if (fmax(head.value, tail) <= whole.value)
                break;
        }
        sizes[k - 1] = end - cut;
        end = cut;
    }
}

static void split_equals_brute_force(void **state)
{
    (void)state;
    uint64_t seed = 17;
    for (int round = 0; round < 400; round++) {
        int n = 1 + (int)(next_random(&seed) % 10), sizes[10], want[10];
        int stages = 1 + (int)(next_random(&seed) % (uint64_t)n);
        double cost[10], bottleneck = NAN;
        struct best best;
        struct cs_err err;
        for (int i = 0; i < n; i++)
            cost[i] = (double)(next_random(&seed) % (round % 2 ? 4 : 50));
        brute(cost, n, stages, &best);
        assert_int_equal(cs_split(cost, n, stages, sizes, &bottleneck, &err), CS_OK);
        assert_true(bottleneck == best.value);
        earliest(cost, n, stages, want);
        assert_memory_equal(sizes, want, (size_t)stages * sizeof *sizes);
    }
}

static void more_stages_never_raise_the_bottleneck(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 50; round++) {
        double cost[60], before = INFINITY;
        int sizes[60];
        struct cs_err err;
        for (int i = 0; i < 60; i++)
            cost[i] = (double)(next_random(&seed) % 100);
        for (int stages = 1; stages <= 60; stages++) {
            double bottleneck = NAN;
            int sum = 0;
            assert_int_equal(cs_split(cost, 60, stages, sizes, &bottleneck, &err), CS_OK);
            for (int s = 0; s < stages; s++) {
                assert_true(sizes[s] >= 1);
                sum += sizes[s];
            }
            assert_int_equal(sum, 60);
            assert_true(bottleneck <= before);
            before = bottleneck;
        }
    }
}

/* best bottleneck of all cuts that stay under the cap; INFINITY: there is none */
static double brute_capped(const double *cost, int n, int stages,
                           const struct cs_split_memory *memory)
{
    double best = INFINITY;
    for (unsigned mask = 0; mask < 1u << (n - 1); mask++) {
        int stage = 0, first = 0;
        double worst = 0;
        bool fits = true;
        for (int end = 1; end <= n; end++) {
            if (end < n && !(mask >> (end - 1) & 1))
                continue;
            double sum = 0, held = 0;
            for (int i = first; i < end; i++) {
                sum += cost[i];
                held += memory->weight[i] +
                        (stage < stages ? memory->in_flight[stage] : 0) * memory->saved[i];
            }
            fits = fits && held <= memory->cap;
            worst = sum > worst ? sum : worst;
            first = end;
            stage++;
        }
        if (fits && stage == stages && worst < best)
            best = worst;
    }
    return best;
}

static void capped_split_equals_brute_force(void **state)
{
    (void)state;
    uint64_t seed = 17;
    int refused = 0, moved = 0;
    for (int round = 0; round < 1500; round++) {
        int n = 1 + (int)(next_random(&seed) % 9), stages = 1 + (int)(next_random(&seed) % 5);
        double cost[10], weight[10], saved[10], in_flight[5], bottleneck = 0, loose = 0;
        int sizes[10], free_sizes[10];
        struct cs_err err;
        stages = stages < n ? stages : n;
        for (int i = 0; i < n; i++) {
            cost[i] = (double)(next_random(&seed) % 20);
            weight[i] = (double)(next_random(&seed) % 10);
            saved[i] = (double)(next_random(&seed) % 10);
        }
        for (int s = 0; s < stages; s++)
            in_flight[s] = stages - s; /* 1F1B */
        struct cs_split_memory memory = {weight, saved, in_flight, NULL,
                                         (double)(5 + next_random(&seed) % 90)};
        double want = brute_capped(cost, n, stages, &memory);
        enum cs_status status = cs_split_capped(cost, n, stages, &memory, sizes, &bottleneck, &err);
        assert_int_equal(status, isinf(want) ? CS_PLAN : CS_OK);
        refused += isinf(want);
        if (isinf(want))
            continue;
        assert_true(!(fabs(bottleneck - want) > 0));
        assert_int_equal(cs_split(cost, n, stages, free_sizes, &loose, &err), CS_OK);
        assert_true(loose <= bottleneck);
        moved += loose < bottleneck;
        /* what it returns has that bottleneck and stays under the cap */
        for (int s = 0, i = 0; s < stages; s++) {
            double sum = 0, held = 0;
            for (int k = 0; k < sizes[s]; k++, i++) {
                sum += cost[i];
                held += weight[i] + in_flight[s] * saved[i];
            }
            assert_true(sum <= bottleneck && held <= memory.cap);
        }
    }
    assert_true(refused > 100 && moved > 50);
}

static void higher_costs_never_lower_the_bottleneck(void **state)
{
    (void)state;
    uint64_t seed = 23;
    for (int round = 0; round < 500; round++) {
        int n = 1 + (int)(next_random(&seed) % 40), stages = 1 + (int)(next_random(&seed) % 8);
        double cost[40], before = 0, after = 0, scaled = 0;
        int sizes[40], again[40];
        stages = stages < n ? stages : n;
        for (int i = 0; i < n; i++)
            cost[i] = (double)(next_random(&seed) % 30);
        assert_int_equal(cs_split(cost, n, stages, sizes, &before, NULL), CS_OK);
        for (int i = 0; i < n; i++)
            cost[i] *= 4;
        assert_int_equal(cs_split(cost, n, stages, again, &scaled, NULL), CS_OK);
        assert_true(!(fabs(scaled - 4 * before) > 0));
        assert_memory_equal(sizes, again, (size_t)stages * sizeof *sizes);
        cost[next_random(&seed) % (uint64_t)n] += (double)(next_random(&seed) % 30);
        assert_int_equal(cs_split(cost, n, stages, sizes, &after, NULL), CS_OK);
        assert_true(after >= scaled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(split_equals_brute_force),
        cmocka_unit_test(more_stages_never_raise_the_bottleneck),
        cmocka_unit_test(capped_split_equals_brute_force),
        cmocka_unit_test(higher_costs_never_lower_the_bottleneck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
