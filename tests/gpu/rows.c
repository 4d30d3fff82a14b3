/* Row-wise and element-wise operators against their CPU twins. */
#include "core/base/buf.h"
#include "gpu/groups.h"

static const int64_t sizes[][2] = {
    {0,    64  },
    {1,    1   },
    {3,    7   },
    {5,    127 },
    {127,  128 },
    {128,  129 },
    {33,   1000},
    {1000, 72  },
    {300,  1152},
    {5,    1536},
    {700,  2048},
    {3,    3000},
    {9,    4096},
    {6,    8192},
    {17,   9001}
};

static double act_rel(const struct lab *lab)
{
    return lab_is_bf16(lab) ? 4e-3 : 2e-6;
}

/* ---- norms ---- */

struct norm_args {
    enum cs_norm kind;
    int64_t rows, n;
    float offset;
};

static void call_norm(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct norm_args *g = args;
    ops->norm(ctx, g->kind, g->rows, g->n, 1e-5f, g->offset, p[0], p[1], p[2], p[3], p[4]);
}

static void call_add_norm(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                          const void *args)
{
    const struct norm_args *g = args;
    ops->add_norm(ctx, g->kind, g->rows, g->n, 1e-5f, g->offset, p[0], p[1], p[2], p[3], p[4], p[5],
                  p[6]);
}

/* the sum in place of b */
static void call_add_norm_in_place(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                                   const void *args)
{
    const struct norm_args *g = args;
    ops->add_norm(ctx, g->kind, g->rows, g->n, 1e-5f, g->offset, p[0], p[1], p[2], p[3], p[1], p[4],
                  p[5]);
}

static void call_norm_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct norm_args *g = args;
    ops->norm_grad(ctx, g->kind, g->rows, g->n, g->offset, p[0], p[1], p[2], p[3], p[4], p[5], p[6],
                   p[7]);
}

static void one_norm(struct lab *lab, struct norm_args g)
{
    struct lab_case c = {.what = "norm", .call = call_norm, .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 3);
    lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
    if (g.kind == CS_NORM_LAYER)
        lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
    else
        lab_null(&c);
    lab_output(lab, &c, LAB_ACT, g.rows * g.n, act_rel(lab), 4e-6);
    lab_output(lab, &c, LAB_F32, g.rows * 2, 1e-5, 1e-6);
    lab_run(lab, &c);
}

static void one_add_norm(struct lab *lab, struct norm_args g, bool is_in_place)
{
    struct lab_case c = {.what = "add_norm",
                         .call = is_in_place ? call_add_norm_in_place : call_add_norm,
                         .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 3);
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 3)->rel = is_in_place ? act_rel(lab) : 0;
    lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
    if (g.kind == CS_NORM_LAYER)
        lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
    else
        lab_null(&c);
    if (!is_in_place)
        lab_output(lab, &c, LAB_ACT, g.rows * g.n, act_rel(lab), 0);
    /* bf16: the norm of the rounded sum, the twin's is not rounded */
    lab_output(lab, &c, LAB_ACT, g.rows * g.n, lab_is_bf16(lab) ? 8e-3 : 2e-6,
               lab_is_bf16(lab) ? 4e-3 : 4e-6);
    lab_output(lab, &c, LAB_F32, g.rows * 2, lab_is_bf16(lab) ? 4e-3 : 1e-5,
               lab_is_bf16(lab) ? 2e-3 : 1e-6);
    lab_run(lab, &c);
}

static void one_norm_grad(struct lab *lab, struct norm_args g, bool has_residual, bool wants_dw)
{
    struct lab_case c = {.what = "norm_grad", .call = call_norm_grad, .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 3);
    lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
    float *stat = lab_real(lab, &c, LAB_F32, g.rows * 2, 0.5f, 1.5f)->host;
    for (int64_t i = 0; i < g.rows && g.kind == CS_NORM_RMS; i++)
        stat[2 * i] = 0.0f;
    lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
    if (has_residual)
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
    else
        lab_null(&c);
    lab_output(lab, &c, LAB_ACT, g.rows * g.n, act_rel(lab), 1e-5);
    for (int i = 0; i < 2; i++) {
        if (!wants_dw || (i == 1 && g.kind == CS_NORM_RMS)) {
            lab_null(&c);
            continue;
        }
        struct lab_tensor *t = lab_real(lab, &c, LAB_F32, g.n, -1, 1);
        t->rel = 1e-5;
        t->scale = 1e-5;
    }
    lab_run(lab, &c);
}

static void one_size_of_norms(struct lab *lab, int64_t rows, int64_t n, float offset)
{
    for (int kind = 0; kind < CS_NORM_KINDS; kind++)
        one_norm(lab, (struct norm_args){(enum cs_norm)kind, rows, n, offset});
    for (int kind = 0; kind < 2 * CS_NORM_KINDS; kind++)
        one_add_norm(lab, (struct norm_args){(enum cs_norm)(kind / 2), rows, n, offset},
                     kind % 2 != 0);
    for (int kind = 0; kind < CS_NORM_KINDS; kind++)
        for (int what = 0; what < 4; what++)
            one_norm_grad(lab, (struct norm_args){(enum cs_norm)kind, rows, n, offset},
                          (what & 1) != 0, (what & 2) != 0);
}

static void test_norm(struct lab *lab)
{
    /* so many rows that every block works on several, and steps between the numbers of columns at
     * which other kernels are taken */
    static const int64_t more[][2] = {
        {9000, 40  },
        {5000, 264 },
        {1300, 640 },
        {1700, 1152},
        {1100, 2048},
        {600,  2056},
        {3,    5000},
        {37,   4104},
        {260,  1288},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
        one_size_of_norms(lab, sizes[i][0], sizes[i][1], i % 2 == 0 ? 0.0f : 1.0f);
    for (size_t i = 0; i < CS_ARRAY_LEN(more); i++)
        one_size_of_norms(lab, more[i][0], more[i][1], i % 2 == 0 ? 0.0f : 1.0f);
    lab_group(lab, "norms");
}

/* ---- rope ---- */

struct rope_args {
    int64_t rows, ld;
    int32_t heads, head_dim, rot_dim;
    int inverse;
};

static void call_rope(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct rope_args *g = args;
    ops->rope(ctx, g->rows, g->heads, g->head_dim, g->rot_dim, g->ld, p[0], p[1], p[2], g->inverse);
}

static void test_rope(struct lab *lab)
{
    static const struct rope_args size[] = {
        {0,    64,  1, 64,  64,  0},
        {1,    64,  1, 64,  64,  0},
        {127,  260, 4, 64,  64,  1},
        {129,  384, 3, 128, 128, 0},
        {1000, 200, 2, 80,  40,  0},
        {65,   640, 9, 64,  64,  1},
        {33,   75,  5, 15,  6,   1}
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        struct lab_case c = {.what = "rope", .call = call_rope, .args = &size[i]};
        struct lab_tensor *t = lab_real(lab, &c, LAB_ACT, size[i].rows * size[i].ld, -1, 1);
        t->rel = act_rel(lab);
        t->scale = 1e-6;
        lab_real(lab, &c, LAB_F32, size[i].rows * size[i].rot_dim / 2, -1, 1);
        lab_real(lab, &c, LAB_F32, size[i].rows * size[i].rot_dim / 2, -1, 1);
        lab_run(lab, &c);
    }
    lab_group(lab, "rope");
}

/* ---- activations ---- */

struct act_args {
    enum cs_act kind;
    int64_t rows, n, ld;
};

static void call_act(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p, const void *args)
{
    const struct act_args *g = args;
    ops->act(ctx, g->kind, g->n, p[0], p[1]);
}

static void call_act_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                          const void *args)
{
    const struct act_args *g = args;
    ops->act_grad(ctx, g->kind, g->n, p[0], p[1], p[2]);
}

static void call_gated(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct act_args *g = args;
    ops->gated(ctx, g->kind, g->rows, g->n, p[0], p[1], g->ld, p[2]);
}

/* whole packs, and rows that begin anywhere */
static int64_t grad_stride(const struct act_args *g)
{
    return g->ld + (g->ld % 16 == 0 ? 8 : 3);
}

static void call_gated_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct act_args *g = args;
    ops->gated_grad(ctx, g->kind, g->rows, g->n, p[0], p[1], g->ld, p[2], p[3], p[4],
                    grad_stride(g));
}

static void call_add(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p, const void *args)
{
    ops->add(ctx, ((const struct act_args *)args)->n, p[0], p[1], p[1]);
}

static void one_act(struct lab *lab, struct act_args g)
{
    struct lab_case value = {.what = "act", .call = call_act, .args = &g};
    lab_real(lab, &value, LAB_ACT, g.n, -6, 6);
    lab_output(lab, &value, LAB_ACT, g.n, act_rel(lab), 1e-6)->floor = 1e-6; /* 1 + tanh near 0 */
    lab_run(lab, &value);
    struct lab_case grad = {.what = "act_grad", .call = call_act_grad, .args = &g};
    lab_real(lab, &grad, LAB_ACT, g.n, -6, 6);
    lab_real(lab, &grad, LAB_ACT, g.n, -1, 1);
    lab_output(lab, &grad, LAB_ACT, g.n, act_rel(lab), 1e-6)->floor = 1e-6;
    lab_run(lab, &grad);
}

static void one_gated(struct lab *lab, struct act_args g)
{
    struct lab_case value = {.what = "gated", .call = call_gated, .args = &g};
    lab_real(lab, &value, LAB_ACT, g.rows * g.ld, -6, 6);
    lab_real(lab, &value, LAB_ACT, g.rows * g.ld, -1, 1);
    lab_output(lab, &value, LAB_ACT, g.rows * g.n, act_rel(lab), 1e-6)->floor = 1e-6;
    lab_run(lab, &value);
    struct lab_case grad = {.what = "gated_grad", .call = call_gated_grad, .args = &g};
    lab_real(lab, &grad, LAB_ACT, g.rows * g.ld, -6, 6);
    lab_real(lab, &grad, LAB_ACT, g.rows * g.ld, -1, 1);
    lab_real(lab, &grad, LAB_ACT, g.rows * g.n, -1, 1);
    for (int i = 0; i < 2; i++)
        lab_output(lab, &grad, LAB_ACT, g.rows * grad_stride(&g), act_rel(lab), 1e-6)->floor = 1e-6;
    lab_run(lab, &grad);
}

static void test_activations(struct lab *lab)
{
    for (int kind = 0; kind < CS_ACT_KINDS; kind++)
        for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
            one_act(lab, (struct act_args){(enum cs_act)kind, 1, sizes[i][0] * sizes[i][1], 0});
    lab_group(lab, "act");
    for (int kind = 0; kind < CS_ACT_KINDS; kind++)
        for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
            one_gated(lab, (struct act_args){(enum cs_act)kind, sizes[i][0], sizes[i][1],
                                             sizes[i][1] + (i % 2 == 0 ? 0 : 8)});
    lab_group(lab, "gated");
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        struct act_args g = {CS_ACT_NONE, 1, sizes[i][0] * sizes[i][1], 0};
        struct lab_case c = {.what = "add", .call = call_add, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
        lab_real(lab, &c, LAB_ACT, g.n, -1, 1)->rel = act_rel(lab);
        lab_run(lab, &c);
    }
    lab_group(lab, "add");
}

/* ---- rows by index ---- */

struct row_args {
    int64_t rows, n;
    int32_t targets;
    int add;
};

static void call_embed(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct row_args *g = args;
    ops->embed(ctx, g->rows, g->n, p[0], p[1], 1.5f, p[2]);
}

static void call_embed_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                            const void *args)
{
    const struct row_args *g = args;
    ops->embed_grad(ctx, g->rows, g->n, p[0], p[1], 1.5f, p[2]);
}

static void call_gather(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                        const void *args)
{
    const struct row_args *g = args;
    ops->gather_rows(ctx, g->rows, g->n, p[0], p[1], p[2]);
}

static void call_scatter(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                         const void *args)
{
    const struct row_args *g = args;
    ops->scatter_rows(ctx, g->rows, g->n, p[0], p[1], p[2], g->add);
}

static void random_ids(struct lab *lab, const struct row_args *g, struct lab_case *c)
{
    int32_t *ids = lab_raw(lab, c, LAB_I32, g->rows)->host;
    for (int64_t i = 0; i < g->rows; i++)
        ids[i] = lab_between(lab, 0, 9) == 0 ? -1 : lab_between(lab, 0, g->targets - 1);
}

/* every target at most once, in random order, some rows without one */
static void distinct_ids(struct lab *lab, const struct row_args *g, struct lab_case *c)
{
    int32_t *ids = lab_raw(lab, c, LAB_I32, g->rows)->host;
    for (int64_t i = 0; i < g->rows; i++) {
        const int64_t j = lab_between(lab, 0, (int)i);
        ids[i] = ids[j];
        ids[j] = (int32_t)i;
    }
    for (int64_t i = 0; i < g->rows; i += 5)
        ids[i] = -1;
}

static void one_row_case(struct lab *lab, const char *what, lab_call *call, struct row_args g)
{
    struct lab_case c = {.what = what, .call = call, .args = &g};
    struct lab_tensor *t;
    if (call == call_scatter)
        distinct_ids(lab, &g, &c);
    else
        random_ids(lab, &g, &c);
    if (call == call_embed || call == call_gather) {
        lab_real(lab, &c, LAB_ACT, g.targets * g.n, -1, 1);
        lab_output(lab, &c, LAB_ACT, g.rows * g.n, call == call_embed ? act_rel(lab) : 0, 0);
    } else if (call == call_embed_grad) {
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        t = lab_real(lab, &c, LAB_F32, g.targets * g.n, -1, 1);
        t->rel = 1e-5;
        t->scale = 2e-6;
    } else {
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        t = lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        t->rel = g.add ? act_rel(lab) : 0;
    }
    lab_run(lab, &c);
}

static void test_rows(struct lab *lab)
{
    static const struct {
        const char *name;
        lab_call *call;
        int add;
    } op[] = {
        {"embed",        call_embed,      0},
        {"embed_grad",   call_embed_grad, 0},
        {"gather_rows",  call_gather,     0},
        {"scatter_rows", call_scatter,    0},
        {"scatter_add",  call_scatter,    1}
    };

    for (size_t o = 0; o < CS_ARRAY_LEN(op); o++) {
        for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++)
            for (int32_t targets = 1; targets <= 1000; targets *= 31)
                one_row_case(lab, op[o].name, op[o].call,
                             (struct row_args){sizes[i][0], sizes[i][1], targets, op[o].add});
        lab_group(lab, op[o].name);
    }
}

/* ---- patches ---- */

struct patch_args {
    int64_t rows;
    struct cs_patch_shape shape;
    int32_t height, width;
};

static void call_patches(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                         const void *args)
{
    const struct patch_args *g = args;
    ops->patches(ctx, g->rows, &g->shape, p[0], p[1], 1.0f / 255.0f, p[2], p[3], p[4]);
}

/* anywhere in one of two pictures, of one frame or of several */
static void random_places(struct lab *lab, struct lab_case *c, const struct patch_args *g)
{
    const int32_t line = g->width * g->shape.channels, bytes = line * g->height;
    struct cs_patch_place *place =
        lab_raw(lab, c, LAB_U64, g->rows * (int64_t)(sizeof *place / sizeof(uint64_t)))->host;
    for (int64_t i = 0; i < g->rows; i++) {
        const int y = lab_between(lab, 0, g->height - g->shape.patch);
        const int x = lab_between(lab, 0, g->width - g->shape.patch);
        place[i] = (struct cs_patch_place){(int64_t)y * line + x * g->shape.channels, line,
                                           lab_between(lab, 0, 1) ? bytes : 0};
    }
}

static void test_patches(struct lab *lab)
{
    static const struct patch_args size[] = {
        {0,    {3, 1, 14, 0}, 28,  28 },
        {1,    {1, 1, 1, 0},  1,   1  },
        {12,   {3, 1, 14, 0}, 28,  42 },
        {100,  {3, 2, 14, 0}, 33,  50 },
        {1500, {3, 1, 14, 0}, 384, 384},
        {77,   {3, 1, 16, 1}, 70,  130},
        {300,  {4, 2, 7, 1},  100, 75 },
        {9,    {8, 1, 32, 0}, 64,  96 }
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(size); i++) {
        const struct patch_args *g = &size[i];
        const struct cs_patch_shape *s = &g->shape;
        struct lab_case c = {.what = "patches", .call = call_patches, .args = g};
        const int64_t pixels = (int64_t)s->frames * g->height * g->width * s->channels;
        random_places(lab, &c, g);
        uint8_t *x = lab_raw(lab, &c, LAB_U8, pixels)->host;
        for (int64_t j = 0; j < pixels; j++)
            x[j] = (uint8_t)lab_bits(lab);
        lab_real(lab, &c, LAB_F32, s->channels, 0.2f, 0.8f);
        lab_real(lab, &c, LAB_F32, s->channels, 0.2f, 0.8f);
        lab_output(lab, &c, LAB_ACT, g->rows * s->channels * s->frames * s->patch * s->patch,
                   act_rel(lab), 1e-6);
        lab_run(lab, &c);
    }
    lab_group(lab, "patches");
}

void group_rows(struct lab *lab)
{
    test_norm(lab);
    test_rope(lab);
    test_activations(lab);
    test_rows(lab);
    test_patches(lab);
}
