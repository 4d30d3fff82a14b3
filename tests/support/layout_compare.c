/* Bits where sums have one order, Frobenius norms where they have another. */
#include "support/layout_compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

void layout_assert_same(const struct layout_outcome *a, const struct layout_outcome *b)
{
    assert_int_equal(a->n_params, b->n_params);
    for (int s = 0; s < LAYOUT_STEPS; s++) {
        assert_true(isfinite(a->loss[s]) && a->loss[s] > 0.0);
        assert_memory_equal(&a->loss[s], &b->loss[s], sizeof(double));
        assert_memory_equal(&a->norm[s], &b->norm[s], sizeof(double));
    }
    for (int i = 0; i < a->n_params; i++) {
        assert_int_equal(strlen(a->hash[i]), 32);
        assert_string_equal(a->before[i], b->before[i]);
        assert_string_equal(a->hash[i], b->hash[i]);
    }
    assert_memory_equal(&a->eval_loss, &b->eval_loss, sizeof(double));
    assert_memory_equal(a->source, b->source, sizeof a->source);
    assert_int_equal(a->eval_samples, b->eval_samples);
    assert_int_equal(a->eval_exact, b->eval_exact);
    assert_true(a->eval_samples > 0);
}

/* Frobenius norms: |a - b| <= 1e-4 |b| after some steps of AdamW, `slack` times that */
static void assert_near(const float *a, const float *b, int64_t n, const char *name, double slack)
{
    double apart = 0.0, size = 0.0;
    for (int64_t i = 0; i < n; i++) {
        apart += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    if (!(sqrt(apart) <= slack * (1e-4 * sqrt(size) + 1e-7)))
        fail_msg("%s: %g apart, of %g", name, sqrt(apart), sqrt(size));
}

static bool has_copies(const struct cs_test_planned *made)
{
    return made->plan->stages[0].copies > 1;
}

void layout_assert_near(const struct cs_test_spec *options, const struct layout_outcome *one,
                        const struct layout_outcome *many)
{
    struct cs_test_planned made = cs_test_plan(options);
    /* strong decays of recurrent layers are differences of large sums: rounding grows. AdamW's first
     * steps are as long where a gradient is rounding only, which every row's order of keys changes, and
     * every other grouping of items, and sums of a row's experts by their ranks on devices, and behind the
     * first step the other numbers of rows that devices have */
    const bool shares = options->llm_tp > 1 || options->vision_tp > 1;
    const bool groups =
        options->llm_cp > 1 || options->vision_dp > 0 || options->llm_ep > 1 || has_copies(&made);
    const double first = (options->is_recurrent ? 100 : 1) * (shares   ? 8
                                                              : groups ? 4
                                                                       : 1),
                 slack = first * (many->rounds_rows == one->rounds_rows ? 1
                                  : shares                              ? 2
                                                                        : 8);
    for (int s = 0; s < LAYOUT_STEPS; s++) {
        const double allowed = 1e-5 * (s == 0 ? first : slack);
        if (!(fabs(one->loss[s] - many->loss[s]) <= allowed * one->loss[s]) ||
            !(fabs(one->norm[s] - many->norm[s]) <= allowed * one->norm[s]))
            fail_msg("step %d: loss %.9g and %.9g, norm %.9g and %.9g", s, one->loss[s],
                     many->loss[s], one->norm[s], many->norm[s]);
    }
    assert_int_equal(one->eval_samples, many->eval_samples);
    assert_int_equal(one->eval_exact, many->eval_exact);
    assert_true(fabs(one->eval_loss - many->eval_loss) <= slack * 1e-5 * one->eval_loss);
    for (int i = 0; i < made.graph->n_params; i++)
        if (made.graph->params[i].role != CS_PARAM_K_B) /* gradient 0 but for rounding: AdamW
                                                          makes steps of noise of it */
            assert_near(many->value[i], one->value[i], made.graph->params[i].count,
                        made.graph->params[i].name, slack);
    cs_test_planned_free(&made);
}

const struct layout_mask layout_masks[LAYOUT_MASKS] = {
    {"causal",             0,  0,  0},
    {"packed",             0,  0,  0},
    {"cornstarch",         0,  0,  1},
    {"item",               0,  0,  1},
    {"image_bidir",        0,  0,  2},
    {"modality_bidir",     0,  0,  2},
    {"image_bidir_window", 12, 0,  5},
    {"image_window",       12, 0,  6},
    {"window",             7,  0,  3},
    {"prefix",             0,  19, 4},
};

struct cs_test_spec layout_with_mask(const struct layout_mask *mask)
{
    return (struct cs_test_spec){
        .seed = 13, .mask = mask->name, .window = mask->window, .prefix = mask->prefix};
}

void layout_agrees_on(bool is_lazy, struct cs_test_spec options, int ranks)
{
    struct cs_test_spec alone = options;
    struct layout_outcome one, many;
    alone.llm_tp = alone.vision_tp = alone.llm_ep = 1;
    alone.llm_sp = alone.vision_sp = false;
    alone.llm_cp = alone.dp = alone.vision_pp = alone.depth_pp = alone.llm_pp = 1;
    alone.vision_cp = alone.context_rows = alone.vision_dp = alone.depth_dp = 0;
    alone.modality = alone.exchange = NULL;
    alone.zero = alone.vision_zero = 0;
    alone.schedule = alone.recompute = NULL;
    layout_run(&alone, layout_single, &one);
    layout_run_on(is_lazy, &options, NULL, &many);
    assert_int_equal(many.n_ranks, ranks);
    /* no update before it, but sums have another order, of partial results too; gradients of decays move as much with
     * the number of rows in a chunk */
    const double near = options.is_recurrent ? 5e-5 : 2e-6;
    if (!(fabs(one.loss[0] - many.loss[0]) <= 1e-6 * one.loss[0]) ||
        !(fabs(one.norm[0] - many.norm[0]) <= near * one.norm[0]))
        fail_msg("seed %d: loss %.9g and %.9g, norm %.9g and %.9g", options.seed, one.loss[0],
                 many.loss[0], one.norm[0], many.norm[0]);
    layout_assert_near(&options, &one, &many);
    layout_free(&one);
    layout_free(&many);
}

void layout_agrees_with_hosts(struct cs_test_spec options, int ranks)
{
    struct layout_outcome hosts, devices;
    layout_run(&options, NULL, &hosts);
    layout_run_on(true, &options, NULL, &devices);
    assert_int_equal(devices.n_ranks, ranks);
    layout_assert_near(&options, &hosts, &devices);
    layout_free(&hosts);
    layout_free(&devices);
}

void layout_agrees(struct cs_test_spec options, int ranks)
{
    layout_agrees_on(false, options, ranks);
}

static struct cs_test_spec options_of(const struct layout_row *row, int seed, int slots)
{
    struct cs_test_spec options = row->options;
    options.seed = options.seed != 0 ? options.seed : seed;
    options.slots = slots;
    return options;
}

void layout_all_agree(const struct layout_row *row, size_t n, int seed, int slots)
{
    for (size_t i = 0; i < n; i++)
        layout_agrees(options_of(&row[i], seed + (int)i, slots), row[i].ranks);
}

void layout_all_agree_on_devices(const struct layout_row *row, size_t n, int seed, int slots)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(setenv("CORNSTARCH_GRAPHS", i % 2 == 0 ? "always" : "auto", 1), 0);
        layout_agrees_on(true, options_of(&row[i], seed + (int)i, slots), row[i].ranks);
    }
    unsetenv("CORNSTARCH_GRAPHS");
}
