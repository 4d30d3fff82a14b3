/* Parameters of a rank: fresh values, source directories, places, what a checkpoint gets. */
#include "worker/params/params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/hash.h"
#include "core/base/philox.h"
#include "support/device.h"
#include "support/lazy_device.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/tmpdir.h"

struct fixture {
    struct cs_test_planned made;
    struct cs_params *params;
};

static void open_fixture(struct fixture *f, const struct cs_test_spec *options, bool is_single,
                         int rank)
{
    struct cs_err err = {0};
    memset(f, 0, sizeof *f);
    f->made = cs_test_plan(options);
    if (is_single)
        cs_test_put_on_one_rank(f->made.plan);
    need(cs_params_new(f->made.graph, f->made.plan, rank, cs_test_device(), &f->params, &err),
         &err);
}

static void close_fixture(struct fixture *f)
{
    cs_params_free(f->params);
    cs_test_planned_free(&f->made);
}

static void fresh_values_come_from_seed_and_name(void **state)
{
    static const struct cs_test_spec options = {.seed = 17};
    struct fixture f;
    struct cs_err err = {0};
    int n_normal = 0, n_one = 0, n_zero = 0;
    (void)state;
    open_fixture(&f, &options, true, 0);
    need(cs_params_load(f.params, 17, &err), &err);
    assert_int_equal(f.params->n, f.made.graph->n_params);
    for (int i = 0; i < f.params->n; i++) {
        const struct cs_shard *t = &f.params->shard[i];
        const uint64_t name = cs_fnv1a64(t->param->name, strlen(t->param->name));
        const float range = f.made.graph->modules[t->param->module].arch.initializer_range;
        n_normal += t->param->init == CS_INIT_NORMAL;
        n_one += t->param->init == CS_INIT_ONE;
        n_zero += t->param->init == CS_INIT_ZERO;
        for (int64_t k = 0; k < t->param->count; k += 7) {
            const float want =
                t->param->init == CS_INIT_NORMAL
                    ? (float)((double)range * (double)cs_philox_normal(17, name, (uint64_t)k))
                : t->param->init == CS_INIT_ONE ? 1.0f
                                                : 0.0f;
            const double d = (double)t->master[k] - (double)want;
            if (!(d < 1e-6 && d > -1e-6))
                fail_msg("%s[%lld] is %g, not %g", t->param->name, (long long)k,
                         (double)t->master[k], (double)want);
        }
    }
    assert_true(n_normal > 0 && n_one > 0 && n_zero > 0);
    close_fixture(&f);
}

static void every_rank_has_its_part_of_the_same_values(void **state)
{
    static const struct cs_test_spec options = {.vision_pp = 2, .llm_pp = 2, .seed = 5};
    struct fixture one, part;
    struct cs_err err = {0};
    int n = 0;
    (void)state;
    open_fixture(&one, &options, true, 0);
    need(cs_params_load(one.params, 5, &err), &err);
    for (int r = 0; r < 4; r++) {
        open_fixture(&part, &options, false, r);
        need(cs_params_load(part.params, 5, &err), &err);
        assert_true(part.params->weight_bytes < one.params->weight_bytes);
        for (int i = 0; i < part.params->n; i++, n++) {
            const struct cs_shard *t = &part.params->shard[i];
            const struct cs_shard *same = cs_params_find(one.params, t->param->id);
            assert_string_equal(t->param->name, same->param->name);
            assert_memory_equal(t->w, same->w, (size_t)t->param->count * sizeof(float));
        }
        close_fixture(&part);
    }
    assert_int_equal(n, one.params->n);
    close_fixture(&one);
}

static const struct cs_shard *find_role(const struct cs_params *p, int layer,
                                        enum cs_param_role role)
{
    for (int i = 0; i < p->n; i++)
        if (p->shard[i].param->layer == layer && p->shard[i].param->role == role)
            return &p->shard[i];
    return NULL;
}

static void weights_of_one_product_are_neighbours(void **state)
{
    static const struct cs_test_spec options = {.is_qwen2 = true};

    static const enum cs_param_role follows[][2] = {
        {CS_PARAM_Q_W,    CS_PARAM_K_W },
        {CS_PARAM_K_W,    CS_PARAM_V_W },
        {CS_PARAM_Q_B,    CS_PARAM_K_B },
        {CS_PARAM_K_B,    CS_PARAM_V_B },
        {CS_PARAM_GATE_W, CS_PARAM_UP_W},
    };
    struct fixture f;
    int n = 0;
    (void)state;
    open_fixture(&f, &options, true, 0);
    for (int l = 0; l < f.made.graph->n_layers; l++)
        for (size_t i = 0; i < CS_ARRAY_LEN(follows); i++) {
            const struct cs_shard *a = find_role(f.params, l, follows[i][0]);
            const struct cs_shard *b = find_role(f.params, l, follows[i][1]);
            if (a == NULL || b == NULL)
                continue;
            assert_ptr_equal(a->master + a->param->count, b->master);
            assert_ptr_equal((float *)a->grad + a->param->count, b->grad);
            assert_int_equal((uintptr_t)find_role(f.params, l, CS_PARAM_Q_W)->w % 64, 0);
            n++;
        }
    assert_int_equal(n, 3 * 4 + 3 * 5);
    close_fixture(&f);
}

static void frozen_parameters_have_weights_only(void **state)
{
    static const struct cs_test_spec options = {.rules = "train:vision.projector"};
    struct fixture f, all;
    (void)state;
    open_fixture(&f, &options, true, 0);
    open_fixture(&all, NULL, true, 0);
    for (int i = 0; i < f.params->n; i++) {
        const struct cs_shard *t = &f.params->shard[i];
        assert_int_equal(t->grad != NULL, t->param->is_trainable);
        assert_int_equal(t->exp_avg != NULL, t->param->is_trainable);
        assert_int_equal(t->exp_avg_sq != NULL, t->param->is_trainable);
    }
    assert_true(f.params->weight_bytes + f.params->state_bytes <
                (all.params->weight_bytes + all.params->state_bytes) / 2);
    close_fixture(&all);
    close_fixture(&f);
}

static void a_tied_head_has_a_gradient_of_its_own(void **state)
{
    static const struct cs_test_spec options = {.is_tied = true, .llm_pp = 2};
    struct fixture one, head;
    (void)state;
    open_fixture(&one, &options, true, 0);
    assert_non_null(one.params->tied);
    assert_ptr_equal(one.params->tied->w, one.params->embed->w);
    assert_ptr_not_equal(one.params->tied->grad, one.params->embed->grad);
    assert_non_null(one.params->tied->grad);
    assert_null(one.params->tied->exp_avg); /* updated once, by the embedding's entry */
    assert_false(one.params->tied->is_counted);
    assert_true(one.params->embed->is_counted);
    open_fixture(&head, &options, false, one.made.plan->stages[one.made.plan->head_stage].id);
    assert_non_null(head.params->tied);
    assert_null(head.params->embed);
    assert_non_null(head.params->tied->exp_avg);
    assert_false(head.params->tied->is_counted);
    close_fixture(&head);
    close_fixture(&one);
}

/* a copy of the golden llama without one tensor, or with another shape of it */
static void write_model(const char *dir, const char *tensor, bool is_dropped)
{
    struct cs_err err = {0};
    struct cs_st_file *file;
    struct cs_st_out out[64];
    size_t bytes;
    int n = 0;
    char *config = tmpdir_read(source_path("tests/golden/models/llama/config.json"), &bytes);
    assert_non_null(config);
    tmpdir_write(tmpdir_path(dir, "config.json"), config, bytes);
    free(config);
    need(cs_st_open(source_path("tests/golden/models/llama/model.safetensors"), &file, &err), &err);
    for (int i = 0; i < cs_st_count(file); i++) {
        const struct cs_st_tensor *t = cs_st_at(file, i);
        const bool is_it = strcmp(t->name, tensor) == 0;
        if (is_it && is_dropped)
            continue;
        out[n] = (struct cs_st_out){.name = t->name, .dtype = t->dtype, .data = t->data};
        out[n].n_dims = is_it ? 1 : t->n_dims;
        for (int d = 0; d < t->n_dims; d++)
            out[n].dim[d] = t->dim[d];
        if (is_it)
            out[n].dim[0] = t->count;
        n++;
    }
    need(cs_st_write(tmpdir_path(dir, "model.safetensors"), out, n, NULL, NULL, &err), &err);
    cs_st_close(file);
}

static enum cs_status load_model(const char *dir, struct cs_err *err)
{
    const struct cs_test_spec options = {.n_encoders = -1, .llm_dir = dir};
    json_t *root = cs_test_spec_json(&options);
    size_t bytes;
    char *config = tmpdir_read(tmpdir_path(dir, "config.json"), &bytes);
    json_object_set_new(
        json_array_get(json_object_get(json_object_get(root, "model"), "modules"), 0), "config",
        json_loadb(config, bytes, 0, NULL));
    free(config);
    struct fixture f = {.made = cs_test_plan_json(root, NULL)};
    need(cs_params_new(f.made.graph, f.made.plan, 0, cs_test_device(), &f.params, err), err);
    const enum cs_status status = cs_params_load(f.params, 0, err);
    close_fixture(&f);
    return status;
}

static void a_missing_tensor_is_refused_by_name(void **state)
{
    static const char name[] = "model.layers.1.mlp.up_proj.weight";
    char *dir = tmpdir_new();
    struct cs_err err = {0};
    (void)state;
    write_model(dir, "none", false);
    need(load_model(dir, &err), &err);
    write_model(dir, name, true);
    assert_int_equal(load_model(dir, &err), CS_NOT_FOUND);
    assert_non_null(strstr(err.text, name));
    write_model(dir, name, false);
    assert_int_equal(load_model(dir, &err), CS_INVALID);
    assert_non_null(strstr(err.text, name));
    tmpdir_free(dir);
}

/* The states of n entries as a checkpoint takes them, in memory of their own. */
static float *read_states(struct cs_params *params, const struct cs_shard *const *t, int n,
                          struct cs_ckpt_part *out)
{
    struct cs_err err = {0};
    size_t floats = 1;
    for (int i = 0; i < n; i++)
        floats += CS_STATES * (size_t)t[i]->own_n;
    float *arrays = malloc(floats * sizeof *arrays), *at = arrays;
    assert_non_null(arrays);
    for (int i = 0; i < n; i++) {
        for (int which = 0; which < CS_STATES; which++)
            need(
                cs_params_state(params, t[i], (enum cs_state)which, at + which * t[i]->own_n, &err),
                &err);
        out[i] = (struct cs_ckpt_part){t[i]->param, cs_slice_whole(t[i]->param), at,
                                       at + t[i]->own_n, at + 2 * t[i]->own_n};
        at += CS_STATES * t[i]->own_n;
    }
    return arrays;
}

/* Train everything, save, freeze the projector: its values and not the source's come back, and the
 * next checkpoint has them again. */
static void what_was_trained_before_it_was_frozen_is_kept(void **state)
{
    static const struct cs_test_spec trained = {.seed = 1},
                                     frozen = {.seed = 1, .rules = "train:llm.*"};
    struct fixture f;
    struct cs_err err = {0};
    struct cs_ckpt *ckpt;
    struct cs_ckpt_part owned[256];
    struct cs_ckpt_file files[2];
    char *dir = tmpdir_new(), path[4200];
    int32_t n_missing;
    (void)state;
    for (int round = 0; round < 3; round++) {
        open_fixture(&f, round == 0 ? &trained : &frozen, true, 0);
        need(cs_params_load(f.params, 1, &err), &err);
        struct cs_shard *t = &f.params->shard[0];
        if (round == 0) {
            assert_true(t->param->is_trainable);
            t->master[0] = 123.0f;
            ((float *)t->exp_avg)[0] = 4.0f;
        } else {
            snprintf(path, sizeof path, "%s/ckpt-%d", dir, round - 1);
            need(cs_ckpt_open(path, &ckpt, &err), &err);
            assert_true(t->master[0] < 100.0f);
            need(cs_params_resume(f.params, ckpt, &n_missing, &err), &err);
            cs_ckpt_close(ckpt);
            assert_int_equal(n_missing, 0);
            assert_false(t->param->is_trainable);
            assert_true(t->master[0] > 122.0f);
        }
        const struct cs_shard *listed[256];
        const int n = cs_params_listed(f.params, listed);
        float *arrays = read_states(f.params, listed, n, owned);
        assert_int_equal(n, f.made.graph->n_params);
        need(cs_ckpt_write_rank(dir, round, 0, owned, n, files, &err), &err);
        json_t *trainer = json_pack("{s:i}", "step", round);
        const struct cs_ckpt_origin origin = {
            f.made.spec->hash, f.made.spec->hash, f.made.plan->hash, 0, NULL, 0};
        need(cs_ckpt_commit(dir, round, &origin, trainer, files, 2, &err), &err);
        /* what a checkpoint lacks is counted where it is trained, not where it is frozen */
        need(cs_ckpt_write_rank(dir, 10, 0, owned, 1, files, &err), &err);
        need(cs_ckpt_commit(dir, 10, &origin, trainer, files, 2, &err), &err);
        snprintf(path, sizeof path, "%s/ckpt-10", dir);
        need(cs_ckpt_open(path, &ckpt, &err), &err);
        need(cs_params_resume(f.params, ckpt, &n_missing, &err), &err);
        cs_ckpt_close(ckpt);
        int n_trained = 0;
        for (int i = 1; i < n; i++)
            n_trained += listed[i]->param->is_trainable;
        assert_true(round == 0 ? n_trained == n - 1 : n_trained < n - 1);
        assert_int_equal(n_missing, n_trained);
        free(arrays);
        json_decref(trainer);
        close_fixture(&f);
    }
    tmpdir_free(dir);
}

/* Buckets hold every trained entry once, in equal parts: over the replicas every element is updated
 * exactly once, and weights lie where gradients do. */
static void replicas_update_every_element_once(void **state)
{
    static const char *const rules[] = {"train:*", "train:* freeze:vision.encoder*",
                                        "train:vision.projector train:llm.layers.1"};
    (void)state;
    for (size_t i = 0; i < 4 * CS_ARRAY_LEN(rules); i++) {
        const int dp = 1 + (int)i % 4;
        const struct cs_test_spec options = {
            .seed = 3, .is_tied = i % 2 == 0, .rules = rules[i / 4], .dp = dp, .slots = 12};
        struct fixture f;
        int64_t *updated = NULL, n_floats = 0;
        for (int k = 0; k < dp; k++) {
            open_fixture(&f, &options, true, k);
            const struct cs_params *p = f.params;
            for (int32_t b = 0, at = 0; b < p->n_buckets; b++) {
                assert_int_equal(p->bucket[b].at, at);
                assert_int_equal(p->bucket[b].n % (16 * dp), 0);
                at += (int32_t)p->bucket[b].n;
                n_floats = at;
            }
            if (updated == NULL)
                updated = calloc((size_t)n_floats + 1, sizeof *updated);
            for (int32_t t = 0; t < p->n; t++) {
                const struct cs_shard *x = &p->shard[t];
                if (x->bucket < 0)
                    continue;
                const int64_t at = x->at;
                assert_ptr_equal(x->grad, (char *)p->grads + (size_t)at * p->grad_size);
                if (x->own_n > 0)
                    assert_ptr_equal(x->own_grad,
                                     (char *)x->grad + (size_t)x->own_at * p->grad_size);
                assert_ptr_equal((char *)x->w,
                                 (char *)p->weights + (size_t)at * p->device->ops->act_bytes);
                for (int64_t e = x->own_at; e < x->own_at + x->own_n; e++)
                    updated[at + e]++;
                if (k == dp - 1)
                    for (int64_t e = 0; e < x->param->count; e++)
                        assert_int_equal(updated[at + e], 1);
            }
            assert_true((int64_t)(p->state_bytes / sizeof(float)) >=
                        (int64_t)(p->grad_bytes / sizeof(float)) + 2 * n_floats / dp);
            close_fixture(&f);
        }
        free(updated);
    }
}

static const float *grad_of(struct fixture *f, const struct cs_shard *t)
{
    struct cs_err err = {0};
    need(cs_device_sync(f->params->device, &err), &err);
    return t->grad;
}

/* On a device clearing is left to what is added first, and to settle for the rest; what one product
 * makes is new or not together. On the host it happens at once. */
static void a_device_clears_gradients_that_nothing_was_added_to(void **state)
{
    struct cs_device *lazy = cs_lazy_device_new();
    struct cs_err err = {0};
    struct fixture f;
    (void)state;
    memset(&f, 0, sizeof f);
    f.made = cs_test_plan(NULL);
    cs_test_put_on_one_rank(f.made.plan);
    need(cs_params_new(f.made.graph, f.made.plan, 0, lazy, &f.params, &err), &err);
    struct cs_params *p = f.params;
    for (int i = 0; i < p->n; i++) {
        assert_false(*p->shard[i].is_grad_new); /* they begin as 0 */
        assert_true(grad_of(&f, &p->shard[i])[p->shard[i].param->count - 1] == 0.0f);
        for (int64_t k = 0; k < p->shard[i].param->count; k++)
            ((float *)p->shard[i].grad)[k] = 7.0f;
    }
    cs_params_zero_grads(p);
    for (int i = 0; i < p->n; i++)
        assert_true(*p->shard[i].is_grad_new);
    const int layer = f.made.graph->n_layers - 2; /* a block of the LLM */
    const struct cs_shard *q = find_role(p, layer, CS_PARAM_Q_W);
    *q->is_grad_new = false; /* a product has made the gradients of q, k and v */
    assert_false(*find_role(p, layer, CS_PARAM_V_W)->is_grad_new);
    assert_true(*find_role(p, layer, CS_PARAM_O_W)->is_grad_new);
    assert_true(*find_role(p, layer - 1, CS_PARAM_Q_W)->is_grad_new);
    cs_params_settle_grads(p, -1);
    for (int i = 0; i < p->n; i++) {
        const struct cs_shard *t = &p->shard[i];
        const bool is_made = t->is_grad_new == q->is_grad_new;
        for (int64_t k = 0; k < t->param->count; k++)
            assert_true(grad_of(&f, t)[k] == (is_made ? 7.0f : 0.0f));
        assert_false(*t->is_grad_new);
    }
    close_fixture(&f);
    cs_lazy_device_free(lazy);
    open_fixture(&f, NULL, true, 0);
    for (int i = 0; i < f.params->n && cs_test_device()->mem == NULL; i++)
        ((float *)f.params->shard[i].grad)[0] = 7.0f;
    cs_params_zero_grads(f.params);
    for (int i = 0; i < f.params->n && cs_test_device()->mem == NULL; i++)
        assert_true(((float *)f.params->shard[i].grad)[0] == 0.0f);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_values_come_from_seed_and_name),
        cmocka_unit_test(every_rank_has_its_part_of_the_same_values),
        cmocka_unit_test(weights_of_one_product_are_neighbours),
        cmocka_unit_test(frozen_parameters_have_weights_only),
        cmocka_unit_test(a_tied_head_has_a_gradient_of_its_own),
        cmocka_unit_test(a_missing_tensor_is_refused_by_name),
        cmocka_unit_test(what_was_trained_before_it_was_frozen_is_kept),
        cmocka_unit_test(replicas_update_every_element_once),
        cmocka_unit_test(a_device_clears_gradients_that_nothing_was_added_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
