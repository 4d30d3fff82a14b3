/* The LLM's layers under every mask against an fp64 model whose mask is a matrix: the loss, and
 * every kind of gradient through the slope of that model's loss along it and along random
 * directions. On a device that attends from lists of tiles (CORNSTARCH_TEST_DEVICE) the slot is
 * larger and its query tiles may be cut at pictures. */
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

#include "core/base/philox.h"
#include "support/device.h"
#include "support/llm_oracle.h"
#include "support/need.h"
#include "support/planned.h"
#include "support/step.h"

enum { WINDOW = 9, PREFIX = 13, MAX_ROWS = 1100 };

struct fixture {
    struct cs_test_planned made;
    struct cs_trainer *trainer;
    struct cs_test_step step;
    struct cs_oracle oracle;
    double *values, *grads; /* (oracle.n_values): what the worker computes with, what it gives */
    float *cos, *sin;       /* rope, of every row */
    uint8_t *allow;
    int n_pictures, picture[MAX_ROWS]; /* of every row, counted over the slot, -1: text */
    double loss;
};

static bool is_large(void)
{
    return cs_test_device()->mem != NULL;
}

static bool is_f32(void)
{
    return cs_device_is_f32(cs_test_device());
}

static json_t *config_of(json_t *root, size_t module)
{
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules");
    return json_object_get(json_array_get(modules, module), "config");
}

/* 16 rows a picture and heads of 12; large: 144 rows and heads of 64 */
static json_t *make_document(const char *mask)
{
    const struct cs_test_spec options = {
        .seed = 21,
        .llm_layers = 2,
        .vision_layers = 1,
        .llm_width = is_large() ? 128 : 48,
        .seq_tokens = is_large() ? MAX_ROWS : 100,
        .mask = mask,
        .window = strcmp(mask, "window") == 0 ? WINDOW : 0,
        .prefix = strcmp(mask, "prefix") == 0 ? PREFIX : 0,
    };
    json_t *root = cs_test_spec_json(&options);
    json_object_set_new(config_of(root, 2), "initializer_range", json_real(0.1));
    if (is_large()) {
        json_object_set_new(config_of(root, 0), "image_size", json_integer(84));
        json_object_set_new(config_of(root, 2), "num_attention_heads", json_integer(2));
        json_object_set_new(config_of(root, 2), "num_key_value_heads", json_integer(1));
        json_object_set_new(config_of(root, 2), "intermediate_size", json_integer(256));
        json_object_set_new(config_of(root, 2), "max_position_embeddings", json_integer(1024));
    }
    return root;
}

/* ---- the slot ---- */

struct sample {
    int n;
    int32_t id[MAX_ROWS], label[MAX_ROWS];
    int8_t encoder[MAX_ROWS];
};

static void add_rows(struct sample *s, int rows, bool is_picture)
{
    for (int i = 0; i < rows; i++, s->n++) {
        const bool is_label = !is_picture && i % 3 == 1;
        s->id[s->n] = is_picture ? 198 : (s->n * 37 + 11) % 198;
        s->label[s->n] = is_label ? (s->n * 53 + 7) % 198 : -1;
        s->encoder[s->n] = is_picture ? 0 : -1;
    }
}

/* Rows of text, in turn with pictures. Large: query tiles of rule item are cut at the pictures. */
static const int small_text[] = {6, 5, 8}, large_text[] = {34, 64, 64, 64, 44};

static void add_sample(struct fixture *f, const struct sample *s)
{
    const int first = f->step.slot[0].head->n_tokens;
    cs_test_step_add(&f->step, 0, s->n, s->id, s->label, s->encoder);
    for (int r = 0; r < s->n; r++) {
        const bool is_picture = s->encoder[r] >= 0;
        f->n_pictures += is_picture && (r == 0 || s->encoder[r - 1] < 0);
        f->picture[first + r] = is_picture ? f->n_pictures : -1;
    }
}

/* Text and pictures in turn; a sample that begins with a picture; one of text. */
static void make_slot(struct fixture *f)
{
    struct sample s[3] = {{.n = 0}};
    const int rows = f->made.plan->budget.enc[0].item_rows;
    const int *text = is_large() ? large_text : small_text;
    const int n = is_large() ? 5 : 3;
    cs_test_step_new(&f->step, &f->made.plan->budget, 1, 0);
    for (int i = 0; i < n; i++) {
        add_rows(&s[0], text[i], false);
        add_rows(&s[0], i + 1 < n ? rows : 0, true);
    }
    add_rows(&s[1], rows, true);
    add_rows(&s[1], 7, false);
    add_rows(&s[2], 9, false);
    for (int i = 0; i < 3; i++)
        add_sample(f, &s[i]);
}

/* The rules in their own words, not those of core/mask. */
static bool allows(const char *mask, const struct fixture *f, int q, int k)
{
    const struct cs_slot *s = &f->step.slot[0];
    const int own = f->picture[q], other = f->picture[k];
    const bool is_earlier = s->pos[k] <= s->pos[q], is_same = own >= 0 && own == other;
    if (s->doc[q] != s->doc[k])
        return false;
    if (strcmp(mask, "cornstarch") == 0)
        return own < 0 ? is_earlier : other >= 0;
    if (strcmp(mask, "item") == 0)
        return own < 0 ? is_earlier : is_same;
    if (strcmp(mask, "image_bidir") == 0)
        return is_earlier || is_same;
    if (strcmp(mask, "modality_bidir") == 0)
        return is_earlier || (own >= 0 && other >= 0);
    if (strcmp(mask, "window") == 0)
        return is_earlier && s->pos[q] - s->pos[k] < WINDOW;
    if (strcmp(mask, "prefix") == 0)
        return is_earlier || (s->pos[q] < PREFIX && s->pos[k] < PREFIX);
    return is_earlier;
}

/* ---- the worker's side ---- */

/* acts of the device */
static void fetch(const void *acts, int64_t n, double *out)
{
    struct cs_device *d = cs_test_device();
    struct cs_err err = {0};
    float *f32 = malloc(((size_t)n + 1) * sizeof *f32);
    uint16_t *bf16 = malloc(((size_t)n + 1) * sizeof *bf16);
    assert_non_null(f32);
    assert_non_null(bf16);
    need(cs_device_read(d, is_f32() ? (void *)f32 : (void *)bf16, acts,
                        (size_t)n * d->ops->act_bytes, &err),
         &err);
    for (int64_t i = 0; i < n; i++)
        out[i] = (double)(is_f32() ? f32[i] : cs_f32_from_bf16(bf16[i]));
    free(f32);
    free(bf16);
}

/* n acts in the memory of the device, random normals or as they are */
static void *new_acts(int64_t n, bool is_random)
{
    struct cs_device *d = cs_test_device();
    struct cs_err err = {0};
    void *out;
    float *host = malloc(((size_t)n + 1) * sizeof *host);
    uint16_t *bf16 = malloc(((size_t)n + 1) * sizeof *bf16);
    assert_non_null(host);
    assert_non_null(bf16);
    need(cs_device_alloc(d, (size_t)n * d->ops->act_bytes, &out, &err), &err);
    cs_philox_fill_normal(77, 1, 0, n, 0.3, host);
    for (int64_t i = 0; i < n; i++)
        bf16[i] = cs_bf16_from_f32(host[i]);
    if (is_random)
        cs_device_copy(d, out, is_f32() ? (const void *)host : bf16, (size_t)n * d->ops->act_bytes);
    need(cs_device_sync(d, &err), &err);
    free(host);
    free(bf16);
    return out;
}

static void open_fixture(struct fixture *f, const char *mask)
{
    struct cs_err err = {0};
    memset(f, 0, sizeof *f);
    f->made = cs_test_plan_json(make_document(mask), NULL);
    cs_test_put_on_one_rank(f->made.plan);
    const struct cs_trainer_config config = {.spec = f->made.spec,
                                             .graph = f->made.graph,
                                             .plan = f->made.plan,
                                             .device = cs_test_device()};
    need(cs_trainer_new(&config, &f->trainer, &err), &err);
    need(cs_params_load(f->trainer->params, f->made.spec->seed, &err), &err);
    make_slot(f);
}

static void close_fixture(struct fixture *f)
{
    cs_test_step_free(&f->step);
    cs_trainer_free(f->trainer);
    cs_test_planned_free(&f->made);
    free(f->values);
    free(f->grads);
    free(f->cos);
    free(f->sin);
    free(f->allow);
}

static void read_params(struct fixture *f, bool is_grad, double *out)
{
    struct cs_err err = {0};
    for (int32_t i = 0; i < f->made.graph->n_params; i++) {
        const struct cs_param *p = &f->made.graph->params[i];
        const struct cs_shard *t = cs_params_find(f->trainer->params, i);
        if (p->module != f->made.graph->n_modules - 1)
            continue;
        double *to = out + f->oracle.at[p->role][f->made.graph->layers[p->layer].index];
        float *grad = malloc((size_t)p->count * sizeof *grad);
        assert_non_null(grad);
        if (!is_grad)
            fetch(t->w, p->count, to);
        else
            need(cs_device_read(cs_test_device(), grad, t->grad, (size_t)p->count * sizeof *grad,
                                &err),
                 &err);
        for (int64_t k = 0; is_grad && k < p->count; k++)
            to[k] = (double)grad[k];
        free(grad);
    }
}

/* forward and backward of the LLM's stage over the slot, with random rows for the pictures */
static void run_worker(struct fixture *f)
{
    struct cs_err err = {0};
    struct cs_device *d = cs_test_device();
    struct cs_input *in = &f->trainer->inputs[0];
    const struct cs_stage_model *stage =
        cs_exec_stage(f->trainer->exec, f->made.plan->n_stages - 1);
    struct cs_scratch scratch = {.device = d};
    struct cs_saved saved = {.memory = {.device = d}};
    struct cs_ctx ctx = cs_device_ctx(d);
    need(cs_input_prepare(in, f->trainer->tables, &f->step.manifest, 0, &f->step.slot[0],
                          CS_INPUT_TOKENS | CS_INPUT_LABELS, &err),
         &err);
    need(cs_input_make_room(in, &err), &err);
    cs_input_place(in);
    const int64_t n_fill = (int64_t)in->n_rows[0] * stage->layer[0].arch->width;
    cs_oracle_lay_out(&f->oracle, f->made.graph, in->n_rows[0]);
    f->values = calloc((size_t)f->oracle.n_values, sizeof *f->values);
    f->grads = calloc((size_t)f->oracle.n_values, sizeof *f->grads);
    assert_non_null(f->values);
    assert_non_null(f->grads);
    struct cs_layer_ends ends = {.fill = {new_acts(n_fill, true)},
                                 .d_fill = {new_acts(n_fill, false)}};
    struct cs_run run = {.device = d, .ops = d->ops, .ctx = &ctx, .scratch = &scratch, .input = in};
    cs_optim_begin(f->trainer->optim);
    cs_stage_fwd(stage, &run, NULL, &ends, NULL, &saved);
    cs_stage_bwd(stage, &run, NULL, NULL, &ends, &saved);
    need(cs_input_fetch(in, &err), &err);
    need(cs_input_check(in, &err), &err);
    f->loss = in->loss;
    read_params(f, false, f->values);
    read_params(f, true, f->grads);
    fetch(ends.fill[0], n_fill, f->values + f->oracle.fill_at);
    fetch(ends.d_fill[0], n_fill, f->grads + f->oracle.fill_at);
    cs_device_free(d, (void *)(uintptr_t)ends.fill[0], 0);
    cs_device_free(d, ends.d_fill[0], 0);
    cs_scratch_free(&scratch);
    cs_scratch_free(&saved.memory);
    free(saved.kept);
}

/* ---- both ---- */

static float *rope_rows(const struct fixture *f, const float *table)
{
    const int n = f->trainer->inputs[0].n_tokens, half = f->trainer->tables->rope[0].half;
    float *out = malloc((size_t)n * (size_t)half * sizeof *out);
    assert_non_null(out);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < half; i++)
            out[r * half + i] = table[f->step.slot[0].pos[r] * half + i];
    return out;
}

static void make_oracle(struct fixture *f, const char *mask)
{
    const struct cs_input *in = &f->trainer->inputs[0];
    struct cs_oracle *o = &f->oracle;
    const int n = in->n_tokens;
    f->allow = malloc((size_t)n * (size_t)n);
    assert_non_null(f->allow);
    for (int q = 0; q < n; q++)
        for (int k = 0; k < n; k++)
            f->allow[q * n + k] = allows(mask, f, q, k);
    o->n = n;
    o->n_labels = in->n_labels;
    o->ids = in->embed_ids;
    o->cos = f->cos = rope_rows(f, f->trainer->tables->rope[0].cos);
    o->sin = f->sin = rope_rows(f, f->trainer->tables->rope[0].sin);
    o->allow = f->allow;
    o->label_rows = in->label_rows;
    o->label_ids = in->label_ids;
}

/* change of the oracle's loss along a direction, by a central difference */
static double slope(const struct fixture *f, const double *direction)
{
    const double step = 1e-5;
    const int64_t n = f->oracle.n_values;
    double *moved = malloc((size_t)n * sizeof *moved), loss[2];
    assert_non_null(moved);
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++)
            moved[i] = f->values[i] + (side ? step : -step) * direction[i];
        loss[side] = cs_oracle_loss(&f->oracle, moved);
    }
    free(moved);
    return (loss[1] - loss[0]) / (2 * step);
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* The gradient of [begin, end) of the values: its size is the slope along itself, its part along
 * a random direction that direction's slope. */
static void check_gradient(const struct fixture *f, const char *what, int64_t begin, int64_t end,
                           bool has_random)
{
    const int64_t n = f->oracle.n_values;
    const double size = sqrt(dot(f->grads + begin, f->grads + begin, end - begin));
    const double off = (is_f32() ? 1e-4 : 3e-2) * size;
    double *direction = calloc((size_t)n, sizeof *direction);
    float *normal = malloc((size_t)n * sizeof *normal);
    assert_non_null(direction);
    assert_non_null(normal);
    assert_true(size > 0);
    for (int64_t i = begin; i < end; i++)
        direction[i] = f->grads[i] / size;
    const double along = slope(f, direction);
    if (!(fabs(along - size) <= off))
        fail_msg("%s: gradient of size %.9g, the loss changes by %.9g along it", what, size, along);
    cs_philox_fill_normal(99, 2, 0, end - begin, 1 / sqrt((double)(end - begin)), normal);
    for (int64_t i = begin; i < end; i++)
        direction[i] = (double)normal[i - begin];
    if (has_random) {
        const double got = dot(f->grads, direction, n), want = slope(f, direction);
        if (!(fabs(got - want) <= off))
            fail_msg("%s: along a random direction %.9g, the loss changes by %.9g", what, got,
                     want);
    }
    free(direction);
    free(normal);
}

static void check_gradients(const struct fixture *f)
{
    const struct cs_oracle *o = &f->oracle;
    const bool is_exact = is_f32();
    check_gradient(f, "everything", 0, o->n_values, is_exact);
    check_gradient(f, "encoder rows", o->fill_at, o->n_values, is_exact);
    for (int32_t i = 0; i < f->made.graph->n_params && !is_large(); i++) {
        const struct cs_param *p = &f->made.graph->params[i];
        const int64_t at = p->module == f->made.graph->n_modules - 1
                               ? o->at[p->role][f->made.graph->layers[p->layer].index]
                               : -1;
        if (at >= 0)
            check_gradient(f, p->name, at, at + p->count, is_exact);
    }
}

static void mask_equals_its_matrix(const char *mask)
{
    struct fixture f;
    open_fixture(&f, mask);
    run_worker(&f);
    make_oracle(&f, mask);
    const double want = cs_oracle_loss(&f.oracle, f.values);
    if (!(fabs(f.loss - want) <= (is_f32() ? 1e-5 : 1e-2) * want))
        fail_msg("%s: loss %.9g, the oracle has %.9g", mask, f.loss, want);
    check_gradients(&f);
    const struct cs_mask_cells *c = f.trainer->inputs[0].at.mask[0].cells;
    if (c != NULL && (c->n_q > c->n_k) != (strcmp(mask, "item") == 0))
        fail_msg("%s: %d tiles of queries, %d of keys", mask, c->n_q, c->n_k);
    close_fixture(&f);
}

#define MASK(NAME)                                                                                 \
    static void NAME##_equals_its_matrix(void **state)                                             \
    {                                                                                              \
        (void)state;                                                                               \
        mask_equals_its_matrix(#NAME);                                                             \
    }
MASK(causal)
MASK(packed)
MASK(cornstarch)
MASK(image_bidir)
MASK(modality_bidir)
MASK(item)
MASK(window)
MASK(prefix)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(item_equals_its_matrix),
        cmocka_unit_test(cornstarch_equals_its_matrix),
        cmocka_unit_test(image_bidir_equals_its_matrix),
        cmocka_unit_test(causal_equals_its_matrix),
        cmocka_unit_test(packed_equals_its_matrix),
        cmocka_unit_test(modality_bidir_equals_its_matrix),
        cmocka_unit_test(window_equals_its_matrix),
        cmocka_unit_test(prefix_equals_its_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
