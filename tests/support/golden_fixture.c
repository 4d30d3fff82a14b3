/* The batch of a golden becomes slots, its pictures rows of patches. */
#include "support/golden_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/device.h"
#include "support/golden_document.h"
#include "support/need.h"

float *golden_values(const struct golden_fixture *f, const char *name, int64_t *count)
{
    struct cs_err err = {0};
    const struct cs_st_tensor *t = cs_st_find(f->golden, name);
    if (t == NULL)
        fail_msg("the golden has no %s", name);
    float *out = malloc((size_t)(t->count + 1) * sizeof *out);
    assert_non_null(out);
    need(cs_st_read_f32(t, 0, t->count, out, &err), &err);
    if (count != NULL)
        *count = t->count;
    return out;
}

double golden_scalar(const struct golden_fixture *f, const char *name)
{
    float *v = golden_values(f, name, NULL);
    const double out = (double)v[0];
    free(v);
    return out;
}

/* (items, channels, height, width) pictures to rows of patches */
static void make_patches(struct golden_fixture *f)
{
    enum { C = 3, S = 28, P = 7, SIDE = S / P };

    int64_t count;
    float *x = golden_values(f, "in.x", &count);
    f->n_pictures = (int)(count / (C * S * S));
    f->patches = malloc((size_t)count * sizeof *f->patches);
    assert_non_null(f->patches);
    float *to = f->patches;
    for (int i = 0; i < f->n_pictures; i++)
        for (int patch = 0; patch < SIDE * SIDE; patch++)
            for (int c = 0; c < C; c++)
                for (int r = 0; r < P; r++) {
                    const int row = patch / SIDE * P + r, column = patch % SIDE * P;
                    memcpy(to, x + ((i * C + c) * S + row) * S + column, P * sizeof *to);
                    to += P;
                }
    free(x);
}

void golden_open(struct golden_fixture *f, const char *family)
{
    struct cs_err err = {0};
    memset(f, 0, sizeof *f);
    need(cs_st_open(golden_path(family, "golden.safetensors"), &f->golden, &err), &err);
    f->made = cs_test_plan_json(golden_document(family), NULL);
    cs_test_put_on_one_rank(f->made.plan);
    const struct cs_trainer_config config = {.spec = f->made.spec,
                                             .graph = f->made.graph,
                                             .plan = f->made.plan,
                                             .device = cs_test_device()};
    need(cs_trainer_new(&config, &f->trainer, &err), &err);
    need(cs_params_load(f->trainer->params, f->made.spec->seed, &err), &err);
    if (cs_st_find(f->golden, "in.x") != NULL)
        make_patches(f);
}

void golden_close(struct golden_fixture *f)
{
    cs_test_step_free(&f->step);
    cs_trainer_free(f->trainer);
    cs_st_close(f->golden);
    cs_test_planned_free(&f->made);
    free(f->patches);
}

void golden_slots(struct golden_fixture *f, bool is_packed)
{
    const struct cs_st_tensor *ids = cs_st_find(f->golden, "in.ids"),
                              *labels = cs_st_find(f->golden, "in.labels");
    const int n = (int)ids->dim[1];
    int64_t id[128], label[128];
    int32_t id32[128], label32[128];
    int8_t encoder[128];
    assert_in_range(n, 1, 128);
    cs_test_step_new(&f->step, &f->made.plan->budget, is_packed ? 1 : (int)ids->dim[0], 0);
    for (int64_t b = 0; b < ids->dim[0]; b++) {
        memcpy(id, (const char *)ids->data + (size_t)b * (size_t)n * sizeof *id,
               (size_t)n * sizeof *id);
        memcpy(label, (const char *)labels->data + (size_t)b * (size_t)n * sizeof *label,
               (size_t)n * sizeof *label);
        for (int i = 0; i < n; i++) {
            id32[i] = (int32_t)id[i];
            label32[i] = i + 1 < n && label[i + 1] >= 0 ? (int32_t)label[i + 1] : -1;
            encoder[i] = f->patches != NULL && id[i] == 198 ? 0 : -1;
        }
        cs_test_step_add(&f->step, is_packed ? 0 : (int)b, n, id32, label32, encoder);
    }
    int64_t tokens = 0;
    memcpy(&tokens, cs_st_find(f->golden, "out.tokens")->data, sizeof tokens);
    assert_int_equal(f->step.manifest.trained_tokens, tokens);
}

void golden_run(struct golden_fixture *f, int64_t number, struct cs_step_result *result)
{
    struct cs_err err = {0};
    const float *const patches[CS_TEST_SLOTS][CS_MAX_ENCODERS] = {{f->patches}};
    f->step.manifest.step = number;
    need(cs_trainer_step(f->trainer, &f->step.manifest, f->step.slot, patches, result, &err), &err);
}
