/* The end of a step: norm, clipping, skipping, decay, AdamW. */
#include "worker/params/optim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/tmpdir.h"

struct fixture {
    struct cs_test_planned made;
    struct cs_params *params;
    struct cs_optim *optim;
};

/* groups: stolen */
static int setup_with(void **state, double clip, int warmup, json_t *groups)
{
    static const struct cs_test_spec options = {.n_encoders = -1, .llm_layers = 1};
    struct fixture *f = calloc(1, sizeof *f);
    struct cs_err err = {0};
    json_t *root = cs_test_spec_json(&options);
    json_object_set_new(root, "optimizer",
                        json_pack("{s:s, s:f, s:[f, f], s:f, s:f, s:f, s:i, s:o}", "kind", "adamw",
                                  "lr", 1e-2, "betas", 0.9, 0.95, "eps", 1e-8, "weight_decay", 0.1,
                                  "clip", clip, "warmup_steps", warmup, "groups", groups));
    f->made = cs_test_plan_json(root, NULL);
    need(cs_params_new(f->made.graph, f->made.plan, 0, cs_test_device(), &f->params, &err), &err);
    need(cs_optim_new(f->made.spec, f->made.graph, f->made.plan, f->params, cs_test_device(), 0,
                      &f->optim, &err),
         &err);
    need(cs_params_load(f->params, 3, &err), &err);
    cs_optim_begin(f->optim);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 1.0, 4, json_array());
}

/* tests/golden/make_optim.py says the same to torch */
static int setup_groups(void **state)
{
    return setup_with(state, 0.0, 0,
                      json_pack("[{s:s, s:f, s:f}, {s:s, s:f, s:f}, {s:s, s:f}]", "glob",
                                "llm.layers.0", "lr", 1e-3, "weight_decay", 0.3, "glob",
                                "llm/*norm.weight", "lr", 5e-2, "weight_decay", 0.4, "glob",
                                "llm/*down_proj.weight", "weight_decay", 0.0));
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    cs_optim_free(f->optim);
    cs_params_free(f->params);
    cs_test_planned_free(&f->made);
    free(f);
    return 0;
}

/* gradients of the loss sum: (i mod 7) - 3 in every tensor; returns the sum of squares */
static double fill_gradients(struct fixture *f)
{
    double sum = 0;
    for (int32_t i = 0; i < f->params->n; i++)
        for (int64_t k = 0; k < f->params->shard[i].param->count; k++) {
            ((float *)f->params->shard[i].grad)[k] = (float)(k % 7 - 3);
            sum += (double)((k % 7 - 3) * (k % 7 - 3));
        }
    return sum;
}

static void norm_is_of_the_mean_loss(void **state)
{
    struct fixture *f = *state;
    const double sum = fill_gradients(f);
    assert_int_equal(cs_optim_norm(f->optim, NULL, 50, 0, NULL), CS_OK);
    assert_true(fabs(f->optim->grad_norm - sqrt(sum) / 50) <= 1e-12 * sqrt(sum));
    const double clip = 1.0 / (sqrt(sum) / 50 + 1e-6);
    assert_true(clip < 1.0);
    assert_true(fabs((double)f->optim->grad_scale - clip / 50) <= 1e-7 * clip / 50);
    assert_int_equal(cs_optim_norm(f->optim, NULL, 100000, 0, NULL), CS_OK);
    assert_true(f->optim->grad_norm < 1.0); /* nothing to clip */
    assert_true(f->optim->grad_scale == 1.0f / 100000.0f);
}

static void update_is_adamw_and_decays_matrices_only(void **state)
{
    struct fixture *f = *state;
    int n_decayed = 0, n_plain = 0;
    fill_gradients(f);
    float **before = calloc((size_t)f->params->n, sizeof *before);
    for (int32_t i = 0; i < f->params->n; i++) {
        const struct cs_shard *t = &f->params->shard[i];
        before[i] = malloc((size_t)t->param->count * sizeof(float));
        memcpy(before[i], t->master, (size_t)t->param->count * sizeof(float));
    }
    assert_int_equal(cs_optim_norm(f->optim, NULL, 100000, 0, NULL), CS_OK);
    cs_optim_update(f->optim, 0);
    assert_true(fabs(f->optim->lr - 1e-2 / 4) <= 1e-12); /* the first of four warm-up steps */
    for (int32_t i = 0; i < f->params->n; i++) {
        const struct cs_shard *t = &f->params->shard[i];
        const bool is_matrix = t->param->n_dims >= 2;
        const float *grad = t->grad;
        n_decayed += is_matrix;
        n_plain += !is_matrix;
        for (int64_t k = 0; k < t->param->count; k++) {
            const double g = (double)grad[k] / 100000, w = (double)before[i][k];
            const double m = 0.1 * g, v = 0.05 * g * g, lr = f->optim->lr;
            const double want =
                w * (1.0 - lr * (is_matrix ? 0.1 : 0.0)) - lr * (m / 0.1) / (sqrt(v / 0.05) + 1e-8);
            if (!(fabs((double)t->master[k] - want) <= 2e-6 * (1.0 + fabs(want))))
                fail_msg("%s[%lld] became %.9g, not %.9g", t->param->name, (long long)k,
                         (double)t->master[k], want);
        }
        free(before[i]);
    }
    assert_true(n_decayed > 0 && n_plain > 0);
    free(before);
}

/* which of the golden's groups holds a parameter */
static const char *golden_group(const char *name)
{
    return strstr(name, "norm.weight") != NULL ? "norm"
           : strstr(name, "down_proj") != NULL ? "down"
           : strstr(name, ".layers.") != NULL  ? "block"
                                               : "plain";
}

static void begin_numbers(const struct fixture *f)
{
    for (int32_t i = 0; i < f->params->n; i++) {
        const struct cs_shard *t = &f->params->shard[i];
        for (int64_t k = 0; k < t->param->count; k++)
            ((float *)t->master)[k] = (float)(k % 35 % 5 - 2) / 4;
    }
}

static void give_gradients(const struct fixture *f, int step)
{
    for (int32_t i = 0; i < f->params->n; i++) {
        const struct cs_shard *t = &f->params->shard[i];
        for (int64_t k = 0; k < t->param->count; k++)
            ((float *)t->grad)[k] = (float)((k % 35 % 7 - 3) * (step + 1)) / 8;
    }
}

static void compare_numbers(const struct fixture *f, const json_t *golden, int step)
{
    for (int32_t i = 0; i < f->params->n; i++) {
        const struct cs_shard *t = &f->params->shard[i];
        const char *group = golden_group(t->param->name);
        const json_t *want = json_array_get(json_object_get(golden, group), (size_t)step);
        for (int64_t k = 0; k < t->param->count; k++) {
            const double w = json_number_value(json_array_get(want, (size_t)(k % 35)));
            if (!(fabs((double)t->master[k] - w) <= 1e-6))
                fail_msg("step %d: %s[%lld] is %.9g, torch has %.9g in group %s", step,
                         t->param->name, (long long)k, (double)t->master[k], w, group);
        }
    }
}

static void groups_have_rates_and_decays_of_their_own_as_in_torch(void **state)
{
    struct fixture *f = *state;
    json_error_t error;
    json_t *golden = json_load_file(source_path("tests/golden/optim.json"), 0, &error);
    assert_non_null(golden);
    begin_numbers(f);
    for (int step = 0; step < 3; step++) {
        cs_optim_begin(f->optim);
        give_gradients(f, step);
        assert_int_equal(cs_optim_norm(f->optim, NULL, 1, 0, NULL), CS_OK);
        cs_optim_update(f->optim, step);
        compare_numbers(f, golden, step);
    }
    json_decref(golden);
}

static void assert_unchanged_by_a_step(struct fixture *f)
{
    char before[64][33], after[33];
    assert_true(f->params->n <= 64);
    for (int32_t i = 0; i < f->params->n; i++)
        CS_ASSERT(cs_params_hash(f->params, &f->params->shard[i], before[i], NULL) == CS_OK);
    cs_optim_update(f->optim, 7);
    for (int32_t i = 0; i < f->params->n; i++) {
        CS_ASSERT(cs_params_hash(f->params, &f->params->shard[i], after, NULL) == CS_OK);
        assert_string_equal(before[i], after);
        assert_true(((const float *)f->params->shard[i].exp_avg)[0] == 0.0f);
    }
}

static void a_norm_that_is_not_finite_skips_the_step(void **state)
{
    static const float bad[] = {NAN, INFINITY};
    struct fixture *f = *state;
    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        cs_optim_begin(f->optim);
        fill_gradients(f);
        ((float *)f->params->shard[f->params->n / 2].grad)[1] = bad[i];
        assert_int_equal(cs_optim_norm(f->optim, NULL, 50, 0, NULL), CS_OK);
        assert_true(f->optim->is_skipped);
        assert_false(f->optim->grad_norm < 1e9);
        assert_true(f->optim->n_skipped == (int64_t)i + 1);
        assert_unchanged_by_a_step(f);
    }
    cs_optim_begin(f->optim); /* and the next step is a normal one, the first that updates */
    fill_gradients(f);
    assert_int_equal(cs_optim_norm(f->optim, NULL, 50, 0, NULL), CS_OK);
    assert_false(f->optim->is_skipped);
    assert_true(f->optim->grad_norm < 1e9);
    const struct cs_shard *t = &f->params->shard[f->params->n - 1];
    const float before = t->master[0];
    assert_false(t->param->is_decayed && before == 0.0f);
    cs_optim_update(f->optim, 2);
    /* bias corrections of update 1: the step is lr times the gradient's sign, and decay */
    const double lr = f->optim->lr, decay = t->param->is_decayed ? lr * 0.1 : 0.0;
    assert_true(((const float *)t->grad)[0] == -3.0f);
    assert_true(fabs((double)t->master[0] - ((double)before * (1.0 - decay) + lr)) <= 1e-6);
}

static void a_step_without_a_trained_token_changes_nothing(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(cs_optim_norm(f->optim, NULL, 0, 0, NULL), CS_OK);
    assert_true(f->optim->grad_norm == 0.0);
    assert_false(f->optim->is_skipped);
    assert_unchanged_by_a_step(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(norm_is_of_the_mean_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(update_is_adamw_and_decays_matrices_only, setup, teardown),
        cmocka_unit_test_setup_teardown(groups_have_rates_and_decays_of_their_own_as_in_torch,
                                        setup_groups, teardown),
        cmocka_unit_test_setup_teardown(a_norm_that_is_not_finite_skips_the_step, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_without_a_trained_token_changes_nothing, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
