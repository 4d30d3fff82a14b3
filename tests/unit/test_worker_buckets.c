/* The buckets that predictions count with are those that the worker sums. */
#include "worker/params/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/cost/stage/buckets.h"
#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"

/* Of a layer, or of the tied table (-1); where gradients are divided those of a layer are in several. */
static int64_t of_layer(const struct cs_params *params, int32_t layer, int32_t *n_seen)
{
    int64_t n = 0;
    for (int32_t i = 0; i < params->n_buckets; i++) {
        const int32_t first = params->bucket[i].first_layer;
        n += first == layer ? params->bucket[i].n : 0;
        *n_seen += first == layer;
    }
    return n;
}

/* The worker rounds the size of a bucket up, so that its parts are equal and aligned. */
static void compare_bucket(const struct cs_stage *stage, int32_t b, int64_t got)
{
    const struct cs_stage_bucket *want = &stage->bucket[b];
    const int64_t rounding = 4096; /* every tensor begins at a cache line */
    if (got < want->params || got > want->params + rounding)
        fail_msg("%s, bucket %d: %lld parameters%s, the worker has %lld", stage->name, b,
                 (long long)want->params, want->is_late ? " late" : "", (long long)got);
}

/* Layers ascend in both; a bucket of the worker that has several begins at the lowest. */
static void compare_stage(const struct cs_params *params, const struct cs_stage *stage, int32_t *n)
{
    int32_t layer = stage->first_layer;
    for (int32_t b = 0; b < stage->n_buckets; b++) {
        int64_t got = 0;
        if (stage->bucket[b].is_late)
            got = of_layer(params, -1, n);
        while (got == 0 && layer < stage->first_layer + stage->n_layers)
            got = of_layer(params, layer++, n);
        compare_bucket(stage, b, got);
    }
}

static void compare_rank(const struct cs_graph *graph, const struct cs_plan *plan, int rank)
{
    struct cs_params *params;
    struct cs_err err = {.text = ""};
    int32_t n = 0;
    need(cs_params_new(graph, plan, rank, cs_test_device(), &params, &err), &err);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank)
            compare_stage(params, &plan->stages[s], &n);
    assert_int_equal(n, params->n_buckets);
    cs_params_free(params);
}

/* is_one: all stages on one rank */
static void compare(const struct cs_test_spec *options, bool is_one)
{
    struct cs_test_planned made = cs_test_plan(options);
    if (is_one) {
        cs_test_put_on_one_rank(made.plan);
        cs_stage_buckets(made.graph, made.arena, made.plan);
    }
    for (int r = 0; r < made.plan->n_ranks; r++)
        compare_rank(made.graph, made.plan, r);
    cs_test_planned_free(&made);
}

static void predictions_and_worker_have_the_same_buckets(void **state)
{
    (void)state;
    static const char *const rules[] = {"train:*", "train:* freeze:vision.encoder*",
                                        "train:vision.projector", "train:* freeze:llm.layers.1"};
    for (size_t i = 0; i < 4 * CS_ARRAY_LEN(rules); i++) {
        struct cs_test_spec options = {.dp = 2,
                                       .is_tied = i % 2 != 0,
                                       .rules = rules[i / 4],
                                       .llm_pp = 2,
                                       .zero = (int)i % 3,
                                       .schedule = i % 5 < 2 ? "zb-h1" : NULL};
        compare(&options, i / 2 % 2 != 0);
    }
}

/* blocks of 13 MB of gradients: two fill a bucket */
static void large_layers_fill_buckets_in_the_same_places(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct cs_test_spec options = {
            .dp = 2, .llm_layers = 5, .llm_width = 640, .is_tied = i != 0, .zero = i};
        compare(&options, false);
        compare(&options, true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(predictions_and_worker_have_the_same_buckets),
        cmocka_unit_test(large_layers_fill_buckets_in_the_same_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
