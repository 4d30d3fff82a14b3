/* Matrix products and biases against their CPU twins. */
#include "core/base/buf.h"
#include "gpu/groups.h"

struct gemm_args {
    int trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
};

static void call_gemm(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                      const void *args)
{
    const struct gemm_args *g = args;
    ops->gemm(ctx, g->trans_a, g->trans_b, g->m, g->n, g->k, g->alpha, p[0], g->lda, p[1], g->ldb,
              g->beta, p[2], g->ldc);
}

static void one_gemm(struct lab *lab, struct gemm_args g, int pad)
{
    const int64_t rows_a = g.trans_a ? g.k : g.m, rows_b = g.trans_b ? g.n : g.k;
    g.lda = (g.trans_a ? g.m : g.k) + pad;
    g.ldb = (g.trans_b ? g.k : g.n) + pad;
    g.ldc = g.n + pad;
    struct lab_case c = {.what = "gemm", .call = call_gemm, .args = &g};
    lab_real(lab, &c, LAB_ACT, rows_a * g.lda, -1, 1);
    lab_real(lab, &c, LAB_ACT, rows_b * g.ldb, -1, 1);
    struct lab_tensor *t = lab_real(lab, &c, LAB_ACT, g.m * g.ldc, -1, 1);
    t->rel = lab_is_bf16(lab) ? 4e-3 : 1e-5;
    t->scale = lab_is_bf16(lab) ? 2e-5 : 5e-6;
    lab_run(lab, &c);
}

static const int64_t gemm_size[][3] = {
    {0,   8,   8   },
    {8,   0,   8   },
    {8,   8,   0   },
    {1,   1,   1   },
    {1,   128, 64  },
    {7,   5,   3   },
    {127, 129, 128 },
    {128, 128, 128 },
    {129, 127, 65  },
    {64,  256, 72  },
    {256, 96,  512 },
    {33,  200, 1000}
};

struct wgrad_args {
    int64_t rows, out, in, ld_dy, ldx;
};

static void call_wgrad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                       const void *args)
{
    const struct wgrad_args *g = args;
    ops->gemm_wgrad(ctx, g->rows, g->out, g->in, p[0], g->ld_dy, p[1], g->ldx, p[2]);
}

static void one_wgrad(struct lab *lab, struct wgrad_args g)
{
    struct lab_case c = {.what = "gemm_wgrad", .call = call_wgrad, .args = &g};
    lab_real(lab, &c, LAB_ACT, g.rows * g.ld_dy, -1, 1);
    lab_real(lab, &c, LAB_ACT, g.rows * g.ldx, -1, 1);
    struct lab_tensor *t = lab_real(lab, &c, LAB_F32, g.out * g.in, -1, 1);
    t->rel = 1e-5;
    t->scale = 5e-6;
    lab_run(lab, &c);
}

static void test_gemm(struct lab *lab)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(gemm_size); i++)
        for (int trans = 0; trans < 4; trans++)
            for (int pad = 0; pad <= 8; pad += i % 2 == 0 ? 3 : 8) {
                struct gemm_args g = {.trans_a = trans & 1,
                                      .trans_b = trans >> 1,
                                      .m = gemm_size[i][0],
                                      .n = gemm_size[i][1],
                                      .k = gemm_size[i][2],
                                      .alpha = 1.0f};
                if (pad == 3) {
                    g.alpha = 0.5f;
                    g.beta = -1.5f;
                }
                one_gemm(lab, g, pad);
            }
    lab_group(lab, "gemm");
    for (size_t i = 0; i < CS_ARRAY_LEN(gemm_size); i++) {
        const int64_t m = gemm_size[i][0], n = gemm_size[i][1], k = gemm_size[i][2];
        one_wgrad(lab, (struct wgrad_args){k, m, n, m, n});
        one_wgrad(lab, (struct wgrad_args){k, m, n, m + 8, n + 5});
    }
    lab_group(lab, "gemm_wgrad");
}

struct bias_args {
    int64_t rows, n, ld;
};

static void call_bias_add(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                          const void *args)
{
    const struct bias_args *g = args;
    ops->bias_add(ctx, g->rows, g->n, p[0], g->ld, p[1]);
}

static void call_bias_grad(const struct cs_ops *ops, struct cs_ctx *ctx, void *const *p,
                           const void *args)
{
    const struct bias_args *g = args;
    ops->bias_grad(ctx, g->rows, g->n, p[0], g->ld, p[1]);
}

static const struct bias_args bias_size[] = {
    {0,    16,   16  },
    {1,    1,    1   },
    {3,    7,    9   },
    {127,  129,  129 },
    {128,  256,  264 },
    {1000, 1000, 1000},
    {5,    4304, 4304},
    {9000, 64,   64  }
};

static void test_bias(struct lab *lab)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(bias_size); i++) {
        const struct bias_args *g = &bias_size[i];
        struct lab_case c = {.what = "bias_add", .call = call_bias_add, .args = g};
        struct lab_tensor *t = lab_real(lab, &c, LAB_ACT, g->rows * g->ld, -1, 1);
        t->rel = lab_is_bf16(lab) ? 4e-3 : 1e-6;
        lab_real(lab, &c, LAB_ACT, g->n, -1, 1);
        lab_run(lab, &c);
    }
    lab_group(lab, "bias_add");
    for (size_t i = 0; i < CS_ARRAY_LEN(bias_size); i++) {
        const struct bias_args *g = &bias_size[i];
        struct lab_case c = {.what = "bias_grad", .call = call_bias_grad, .args = g};
        lab_real(lab, &c, LAB_ACT, g->rows * g->ld, -1, 1);
        struct lab_tensor *t = lab_real(lab, &c, LAB_F32, g->n, -1, 1);
        t->rel = 1e-5;
        t->scale = 1e-5;
        lab_run(lab, &c);
    }
    lab_group(lab, "bias_grad");
}

void group_matmul(struct lab *lab)
{
    test_gemm(lab);
    test_bias(lab);
}
