/* Freezing and cutting into slots change what is computed, never its value: whatever the rules
 * train, its gradients are those of training everything; whatever slots a step is cut into, sums
 * agree. */
#include "worker/train/trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"

struct job {
    struct cs_test_planned made;
    struct cs_trainer *trainer;
};

static void open_job(struct job *j, const struct cs_test_spec *options)
{
    struct cs_err err = {0};
    *j = (struct job){.made = cs_test_plan(options)};
    cs_test_put_on_one_rank(j->made.plan);
    const struct cs_trainer_config config = {.spec = j->made.spec,
                                             .graph = j->made.graph,
                                             .plan = j->made.plan,
                                             .device = cs_test_device()};
    need(cs_trainer_new(&config, &j->trainer, &err), &err);
    need(cs_params_load(j->trainer->params, 9, &err), &err);
}

static void close_job(struct job *j)
{
    cs_trainer_free(j->trainer);
    cs_test_planned_free(&j->made);
}

static void run(struct job *j, const struct cs_test_step *step, struct cs_step_result *result)
{
    struct cs_err err = {0};
    if (cs_trainer_step(j->trainer, &step->manifest, step->slot, NULL, result, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static const char *const patterns[] = {
    "train:vision.projector",
    "train:vision.encoder.*",
    "train:llm.*",
    "train:* freeze:vision.projector",
    "train:* freeze:vision.encoder.*",
    "train:* freeze:llm.*",
    "train:* freeze:llm.layers.*",
    "train:vision.encoder.embed",
    "train:vision.encoder.layers.1",
    "train:llm.layers.0 train:llm.layers.2",
    "train:llm.head",
    "train:llm.embed",
    /* single tensors of a layer */
    "train:llm/model.layers.1.mlp.down_proj.weight",
    "train:llm/*.layers.0-1.*norm.weight",
    "train:vision.encoder/*.layers.1.self_attn.*.bias",
    "train:vision.projector/linear_2.bias train:llm/model.layers.0.self_attn.*",
};

static void gradients_do_not_depend_on_what_else_is_frozen(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        struct cs_test_spec options = {.is_tied = tied != 0, .seed = 2};
        struct job all, some;
        struct cs_test_step step;
        struct cs_step_result full, part;
        open_job(&all, &options);
        cs_test_step_new(&step, &all.made.plan->budget, 3, 0);
        cs_test_step_random(&step, 77, 199, 70);
        run(&all, &step, &full);
        for (size_t i = 0; i < CS_ARRAY_LEN(patterns); i++) {
            options.rules = patterns[i];
            open_job(&some, &options);
            run(&some, &step, &part);
            assert_memory_equal(&full.loss_sum, &part.loss_sum, sizeof(double));
            assert_true(part.counts.saved_bytes < full.counts.saved_bytes);
            int n = 0;
            for (int32_t p = 0; p < some.made.graph->n_params; p++) {
                const struct cs_shard *a = cs_params_find(all.trainer->params, p);
                const struct cs_shard *b = cs_params_find(some.trainer->params, p);
                if (b->grad == NULL)
                    continue;
                n++;
                if (memcmp(a->grad, b->grad, (size_t)a->param->count * sizeof(float)) != 0)
                    fail_msg("%s: another gradient under \"%s\"", a->param->name, patterns[i]);
            }
            assert_true(n > 0);
            close_job(&some);
        }
        cs_test_step_free(&step);
        close_job(&all);
    }
}

/* the same samples in one slot, or each in its own */
static void one_slot_and_many_agree(void **state)
{
    static const struct cs_test_spec options = {.seed = 2, .seq_tokens = 256};
    struct job one, many;
    struct cs_test_step together, apart;
    struct cs_step_result a, b;
    int32_t id[40], label[40];
    int8_t encoder[40];
    (void)state;
    open_job(&one, &options);
    open_job(&many, &options);
    cs_test_step_new(&together, &one.made.plan->budget, 1, 0);
    cs_test_step_new(&apart, &one.made.plan->budget, 3, 0);
    for (int s = 0; s < 3; s++) {
        const int n = s == 1 ? 5 : 40; /* lengths differ, one has no picture */
        for (int i = 0; i < n; i++) {
            encoder[i] = s != 1 && i >= 3 && i < 19 ? 0 : -1;
            id[i] = (i * 31 + s * 17) % 190;
            label[i] = encoder[i] < 0 && i % 3 == s % 3 ? (i * 7 + s) % 190 : -1;
        }
        cs_test_step_add(&together, 0, n, id, label, encoder);
        cs_test_step_add(&apart, s, n, id, label, encoder);
    }
    run(&one, &together, &a);
    run(&many, &apart, &b);
    assert_int_equal(a.trained_tokens, b.trained_tokens);
    assert_true(fabs(a.loss_sum - b.loss_sum) <= 1e-5 * a.loss_sum);
    assert_true(fabs(a.grad_norm - b.grad_norm) <= 1e-5 * a.grad_norm);
    for (int32_t p = 0; p < one.made.graph->n_params; p++) {
        const struct cs_shard *x = cs_params_find(one.trainer->params, p);
        const struct cs_shard *y = cs_params_find(many.trainer->params, p);
        const float *x_grad = x->grad, *y_grad = y->grad;
        double diff = 0, norm = 0;
        for (int64_t k = 0; k < x->param->count; k++) {
            const double d = (double)x_grad[k] - (double)y_grad[k];
            diff += d * d;
            norm += (double)x_grad[k] * (double)x_grad[k];
        }
        if (!(sqrt(diff) <= 1e-4 * sqrt(norm) + 1e-5 * a.grad_norm))
            fail_msg("%s: off by %g of %g", x->param->name, sqrt(diff), sqrt(norm));
    }
    cs_test_step_free(&together);
    cs_test_step_free(&apart);
    close_job(&one);
    close_job(&many);
}

/* what a step leaves behind does not leak into the next: the same step twice from the same
 * weights */
static void a_step_does_not_remember_the_one_before(void **state)
{
    static const struct cs_test_spec options = {.seed = 2, .is_tied = true};
    struct job fresh, used;
    struct cs_test_step big, small;
    struct cs_step_result a, b;
    struct cs_err err = {0};
    (void)state;
    open_job(&fresh, &options);
    open_job(&used, &options);
    cs_test_step_new(&big, &fresh.made.plan->budget, 6, 0);
    cs_test_step_new(&small, &fresh.made.plan->budget, 2, 0);
    cs_test_step_random(&big, 3, 199, 100);
    cs_test_step_random(&small, 4, 199, 30);
    run(&fresh, &small, &a);
    run(&used, &big, &b);
    if (cs_params_load(used.trainer->params, 9, &err) != CS_OK)
        fail_msg("%s", err.text);
    run(&used, &small, &b);
    assert_memory_equal(&a.loss_sum, &b.loss_sum, sizeof(double));
    assert_memory_equal(&a.grad_norm, &b.grad_norm, sizeof(double));
    assert_int_equal(a.counts.saved_bytes, b.counts.saved_bytes);
    cs_test_step_free(&big);
    cs_test_step_free(&small);
    close_job(&fresh);
    close_job(&used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_do_not_depend_on_what_else_is_frozen),
        cmocka_unit_test(one_slot_and_many_agree),
        cmocka_unit_test(a_step_does_not_remember_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
