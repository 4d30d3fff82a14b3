/* Norms of heads, and scales of columns, against their CPU twins: heads between other columns, of any
 * width, in buffers whose rows lie unequally far apart. */
#include "gpu/groups.h"

struct heads_args {
    int64_t rows;
    int32_t heads;
    int64_t n, ld_x, ld_y, ld_dx;
    float offset;
    int adds;
};

static double act_rel(const struct lab *lab)
{
    return lab->gpu->act_bytes == 2 ? 8e-3 : 2e-5;
}

static void call_norm(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct heads_args *g = args;
    ops->norm_heads(ctx, g->rows, g->heads, g->n, 1e-5f, g->offset, p[0], g->ld_x, p[1], NULL, p[2],
                    g->ld_y, p[3]);
}

static void call_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct heads_args *g = args;
    ops->norm_heads_grad(ctx, g->rows, g->heads, g->n, g->offset, p[0], g->ld_x, p[1], p[2], NULL,
                         p[3], g->ld_y, p[4], g->ld_dx, g->adds, p[5]);
}

/* some columns of norms that are three times as wide */
static void call_part(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct heads_args *g = args;
    const struct cs_norm_all all = {3 * g->n, p[4]};
    ops->norm_heads(ctx, g->rows, g->heads, g->n, 1e-5f, g->offset, p[0], g->ld_x, p[1], &all, p[2],
                    g->ld_y, p[3]);
}

static void call_part_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct heads_args *g = args;
    const struct cs_norm_all all = {3 * g->n, p[6]};
    ops->norm_heads_grad(ctx, g->rows, g->heads, g->n, g->offset, p[0], g->ld_x, p[1], p[2], &all,
                         p[3], g->ld_y, p[4], g->ld_dx, g->adds, p[5]);
}

static void call_sums(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct heads_args *g = args;
    ops->norm_heads_sums(ctx, g->rows, g->heads, g->n, g->offset, p[0], g->ld_x, NULL, NULL, NULL,
                         0, p[4]);
    ops->norm_heads_sums(ctx, g->rows, g->heads, g->n, g->offset, p[0], g->ld_x, p[1], p[2], p[3],
                         g->ld_y, p[5]);
}

static void weight(struct lab *lab, struct lab_case *c, bool is_there, int64_t n)
{
    if (is_there)
        lab_real(lab, c, LAB_ACT, n, -1, 1);
    else
        lab_null(c);
}

static void one_size(struct lab *lab, const struct heads_args *g, bool has_weight)
{
    struct lab_case c = {.what = "norm_heads", .call = call_norm, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_x, -1, 3);
    weight(lab, &c, has_weight, g->n);
    struct lab_tensor *t = lab_real(lab, &c, LAB_ACT, g->rows * g->ld_y, -1, 1);
    t->rel = act_rel(lab);
    t->scale = 1e-5;
    lab_output(lab, &c, LAB_F32, g->rows * g->heads, 1e-5, 1e-6);
    lab_run(lab, &c);
    c = (struct lab_case){.what = "norm_heads_grad", .call = call_grad, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_x, -1, 3);
    weight(lab, &c, has_weight, g->n);
    lab_real(lab, &c, LAB_F32, g->rows * g->heads, 0.5f, 1.5f);
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_y, -1, 1);
    t = lab_real(lab, &c, LAB_ACT, g->rows * g->ld_dx, -1, 1);
    t->rel = act_rel(lab);
    t->scale = 1e-4;
    if (has_weight) {
        t = lab_real(lab, &c, LAB_F32, g->n, -1, 1);
        t->rel = t->scale = 2e-5;
    } else {
        lab_null(&c);
    }
    lab_run(lab, &c);
}

static void one_part(struct lab *lab, const struct heads_args *g)
{
    struct lab_case c = {.what = "norm_heads of some columns", .call = call_part, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_x, -1, 3);
    weight(lab, &c, true, g->n);
    struct lab_tensor *t = lab_real(lab, &c, LAB_ACT, g->rows * g->ld_y, -1, 1);
    t->rel = act_rel(lab);
    t->scale = 1e-5;
    lab_output(lab, &c, LAB_F32, g->rows * g->heads, 1e-5, 1e-6);
    lab_real(lab, &c, LAB_F32, g->rows * g->heads, 1.0f, 9.0f * (float)g->n);
    lab_run(lab, &c);
    c = (struct lab_case){
        .what = "norm_heads_grad of some columns", .call = call_part_grad, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_x, -1, 3);
    weight(lab, &c, true, g->n);
    lab_real(lab, &c, LAB_F32, g->rows * g->heads, 0.5f, 1.5f);
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_y, -1, 1);
    t = lab_real(lab, &c, LAB_ACT, g->rows * g->ld_dx, -1, 1);
    t->rel = act_rel(lab);
    t->scale = 1e-4;
    t = lab_real(lab, &c, LAB_F32, g->n, -1, 1);
    t->rel = t->scale = 2e-5;
    lab_real(lab, &c, LAB_F32, g->rows * g->heads, -2.0f * (float)g->n, 2.0f * (float)g->n);
    lab_run(lab, &c);
    c = (struct lab_case){.what = "norm_heads_sums", .call = call_sums, .args = g};
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_x, -1, 3);
    weight(lab, &c, true, g->n);
    lab_real(lab, &c, LAB_F32, g->rows * g->heads, 0.5f, 1.5f);
    lab_real(lab, &c, LAB_ACT, g->rows * g->ld_y, -1, 1);
    lab_output(lab, &c, LAB_F32, g->rows * g->heads, 2e-5, 2e-5 * (double)g->n);
    lab_output(lab, &c, LAB_F32, g->rows * g->heads, 2e-5, 2e-5 * (double)g->n);
    lab_run(lab, &c);
}

static void test_heads(struct lab *lab)
{
    static const struct heads_args sizes[] = {
        {0,    2,  16,   64,   64,   64,   0, 0},
        {1,    1,  1,    3,    5,    7,    1, 0},
        {9,    3,  20,   97,   83,   90,   1, 0},
        {200,  16, 128,  3072, 3072, 3072, 0, 0},
        {100,  8,  256,  2560, 3072, 2560, 1, 1},
        {33,   4,  512,  2560, 4096, 2560, 0, 1},
        {40,   1,  2048, 4096, 4096, 4096, 0, 0},
        {3000, 2,  64,   256,  256,  192,  0, 0},
    };
    for (size_t i = 0; i < CS_ARRAY_LEN(sizes); i++) {
        one_size(lab, &sizes[i], true);
        one_size(lab, &sizes[i], false);
        one_part(lab, &sizes[i]);
    }
    lab_group(lab, "norms of heads");
}

struct scale_args {
    int64_t rows, n;
    int32_t step;
};

static void call_scale(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct scale_args *g = args;
    ops->scale_columns(ctx, g->rows, g->n, p[0], p[1], g->step, p[2], p[3]);
}

static void call_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct scale_args *g = args;
    ops->scale_columns_wgrad(ctx, g->rows, g->n, p[0], p[1], p[2]);
}

static void test_scale(struct lab *lab)
{
    static const int64_t sizes[][2] = {
        {0,    8   },
        {1,    1   },
        {7,    19  },
        {300,  1152},
        {2000, 64  }
    };
    for (size_t i = 0; i < 4 * CS_ARRAY_LEN(sizes); i++) {
        const struct scale_args g = {sizes[i / 4][0], sizes[i / 4][1], (int32_t)(i % 2)};
        struct lab_case c = {.what = "scale_columns", .call = call_scale, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        lab_real(lab, &c, LAB_ACT, g.n, -1, 1);
        if (i / 2 % 2 == 1)
            lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        else
            lab_null(&c);
        lab_output(lab, &c, LAB_ACT, g.rows * g.n, act_rel(lab), 1e-5);
        lab_run(lab, &c);
        c = (struct lab_case){.what = "scale_columns_wgrad", .call = call_wgrad, .args = &g};
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        lab_real(lab, &c, LAB_ACT, g.rows * g.n, -1, 1);
        struct lab_tensor *t = lab_real(lab, &c, LAB_F32, g.n, -1, 1);
        t->rel = t->scale = 2e-5;
        lab_run(lab, &c);
    }
    lab_group(lab, "scales of columns");
}

void group_heads(struct lab *lab)
{
    test_heads(lab);
    test_scale(lab);
}
