/* What the files of the CPU back end share: the declarations of all operators (signatures and
 * contracts: kernels/ops.h), the workspace carver, and the macros for loops that must vectorise. */
#ifndef CS_KERNELS_CPU_CPU_H
#define CS_KERNELS_CPU_CPU_H

#include "core/base/clones.h"
#include "kernels/ops.h"
#include "kernels/round.h"

/* Element i of the result depends on element i of the inputs only: equal pointers are fine. */
#if defined(__clang__)
#define CS_ELEMENTWISE _Pragma("clang loop vectorize(assume_safety)")
#else
#define CS_ELEMENTWISE _Pragma("GCC ivdep")
#endif

/* Lanes of a sum: element i goes to lane i % CS_LANES, then lanes are added pairwise. */
#define CS_LANES 16

/* Hands out 64-byte aligned parts of the workspace; asserts that they fit. */
struct cs_carve {
    char *at, *end;
};

static inline struct cs_carve cs_carve_begin(const struct cs_ctx *ctx)
{
    struct cs_carve c = {ctx->workspace, (char *)ctx->workspace + ctx->workspace_bytes};
    return c;
}

static inline void *cs_carve_take(struct cs_carve *carve, size_t bytes)
{
    const size_t pad = (64 - ((uintptr_t)carve->at & 63)) & 63;
    CS_ASSERT(carve->at != NULL && (size_t)(carve->end - carve->at) >= pad + bytes);
    void *p = carve->at + pad;
    carve->at += pad + bytes;
    return p;
}

/* Upper bound of what one cs_carve_take of bytes uses up. */
static inline size_t cs_carve_bound(size_t bytes)
{
    return bytes + 64;
}

/* What is overwritten is what is added to 0. */
static inline void cs_grad_begin(const struct cs_ctx *ctx, int64_t n, void *grad)
{
    const size_t size = ctx->grad == CS_GRAD_BF16 ? sizeof(uint16_t) : sizeof(float);
    if (ctx->is_grad_new && grad != NULL && n > 0)
        memset(grad, 0, (size_t)n * size);
}

/* Columns whose gradients are summed at a time before they are rounded to bf16. */
#define CS_GRAD_COLUMNS 512

/* bf16 gradients and their fp32 sums: sum = grad, grad = sum to nearest even, grad += sum */
static inline void cs_grad_load(int64_t n, const uint16_t *grad, float *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = cs_round_widen(grad[i]);
}

static inline void cs_grad_store(int64_t n, const float *sum, uint16_t *grad)
{
    for (int64_t i = 0; i < n; i++)
        grad[i] = cs_round_nearest(sum[i]);
}

static inline void cs_grad_add(int64_t n, const float *sum, uint16_t *grad)
{
    for (int64_t i = 0; i < n; i++)
        grad[i] = cs_round_nearest(cs_round_widen(grad[i]) + sum[i]);
}

/* c = alpha op(a) op(b) + beta c in fp32; sizes up to INT32_MAX, zero sizes legal; beta 0: c is not
 * read */
void cs_cpu_sgemm(int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, float alpha,
                  const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                  int64_t ldc);

void cs_cpu_gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                 float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                 void *c, int64_t ldc);
void cs_cpu_gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                       int64_t ld_dy, const void *x, int64_t ldx, void *dw);
void cs_cpu_bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                     const void *bias);
void cs_cpu_bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                      void *db);
void cs_cpu_linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                   int64_t ldx, const void *w, const void *bias, const void *residual,
                   enum cs_act act, void *pre, void *y);
void cs_cpu_linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *w, enum cs_act act, const void *pre, void *dx);
void cs_cpu_linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, void *dw, void *db);
void cs_cpu_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                 float offset, const void *x, const void *w, const void *b, void *y, float *stat);
void cs_cpu_add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                     float offset, const void *a, const void *b, const void *w, const void *bias,
                     void *sum, void *y, float *stat);
void cs_cpu_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                      const void *x, const void *w, const float *stat, const void *dy,
                      const void *dx_in, void *dx, void *dw, void *db);
void cs_cpu_norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                       float offset, const void *x, int64_t ld_x, const void *w,
                       const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat);
void cs_cpu_norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const struct cs_norm_all *all, const void *dy,
                            int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw);
void cs_cpu_norm_heads_sums(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                            float offset, const void *x, int64_t ld_x, const void *w,
                            const float *stat, const void *dy, int64_t ld_dy, float *sum);
void cs_cpu_scale_columns(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x, const void *w,
                          int32_t w_step, const void *residual, void *y);
void cs_cpu_scale_columns_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                const void *dy, void *dw);
void cs_cpu_rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim, int32_t rot_dim,
                 int64_t ldx, void *x, const float *cos, const float *sin, int inverse);
void cs_cpu_act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y);
void cs_cpu_act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, const void *dy,
                     void *dx);
void cs_cpu_gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                  const void *up, int64_t ld, void *y);
void cs_cpu_gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                       const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                       void *dup, int64_t ld_d);
void cs_cpu_add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y);
void cs_cpu_embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                  const void *table, float scale, void *y);
void cs_cpu_embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                       const void *dy, float scale, void *dtable);
void cs_cpu_gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                        const void *x, void *y);
void cs_cpu_scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y, int add);
void cs_cpu_mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *x, int add, void *y);
void cs_cpu_mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                          const int32_t *index, const float *weight, const void *dy, void *dx);
void cs_cpu_unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                   const void *x, void *y);
void cs_cpu_fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                 const int32_t *entry, const void *dy, void *dx);
void cs_cpu_patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                    const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y);
void cs_cpu_attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                      const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                      void *o, float *lse);
void cs_cpu_attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                           const struct cs_mask_plan *mask, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv);
size_t cs_cpu_attention_workspace(const struct cs_attention_shape *shape,
                                  const struct cs_mask_plan *mask);
void cs_cpu_attention_merge(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            int32_t n_parts, int64_t part_stride, const void *part_o,
                            const float *part_lse, void *o, float *lse);
void cs_cpu_delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                  const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o);
void cs_cpu_delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_out *out);
size_t cs_cpu_delta_workspace(const struct cs_delta_shape *shape, const struct cs_mask_plan *mask);
void cs_cpu_delta_part(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const float *state, void *o);
void cs_cpu_delta_part_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                            const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                            const float *state, const float *d_state, const void *d_o,
                            const struct cs_delta_out *out);
void cs_cpu_delta_pass(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                       const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                       const void *d_o, const struct cs_delta_pass *out);
void cs_cpu_delta_join(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                       bool is_transposed, const float *add, float *state);
void cs_cpu_delta_gate(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                       const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                       float *beta);
void cs_cpu_delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                            const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                            const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                            void *da_log, void *ddt_bias);
void cs_cpu_short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                       int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                       int64_t ldy);
void cs_cpu_short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                            int32_t taps, const void *x, int64_t ldx, const void *w, const void *dy,
                            int64_t ldy, void *dx, void *dw);
void cs_cpu_copy_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
void cs_cpu_add_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                      int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
void cs_cpu_scale_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                       const float *weight, void *y);
void cs_cpu_scale_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                            const float *weight, const void *dy, void *dx, float *dweight);
void cs_cpu_sum_rows(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                     const int32_t *index, const void *x, const void *residual, void *y);
void cs_cpu_moe_route(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes);
void cs_cpu_moe_load(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                     const void *logits, const struct cs_moe_routes *routes, int64_t *load);
void cs_cpu_moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                           const void *logits, const struct cs_moe_routes *routes,
                           const float *dweight, float balance, const int64_t *pairs,
                           void *dlogits);
void cs_cpu_add_counts(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y);
void cs_cpu_moe_linear(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                       int64_t out, const void *x, const void *w, void *y);
void cs_cpu_moe_linear_dgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *w, void *dx);
void cs_cpu_moe_linear_wgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *x, void *dw);
void cs_cpu_linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                        const void *w, const int32_t *labels, float softcap, double *loss,
                        double *row_loss, uint8_t *correct, void *dx, void *dw);
size_t cs_cpu_linear_xent_workspace(int64_t rows, int64_t in, int64_t vocab);
void cs_cpu_xent_part(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                      float softcap, void *z, float *stat);
void cs_cpu_xent_join(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                      double *loss, double *row_loss, uint8_t *correct, float *whole);
void cs_cpu_xent_part_grad(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                           float softcap, const float *whole, void *z);
void cs_cpu_adamw(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                  float *master, float *exp_avg, float *exp_avg_sq, void *w);
void cs_cpu_sumsq(struct cs_ctx *ctx, int64_t n, const void *x, double *sum);
void cs_cpu_adamw_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                       const struct cs_adamw *hyper);
void cs_cpu_adamw_bf16_many(struct cs_ctx *ctx, int32_t n_tensors,
                            const struct cs_adamw_bf16_tensor *tensor,
                            const struct cs_adamw *hyper);
void cs_cpu_sumsq_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                       double *sum);
void cs_cpu_cast_to_act(struct cs_ctx *ctx, int64_t n, const float *x, void *y);
void cs_cpu_cast_to_f32(struct cs_ctx *ctx, int64_t n, const void *x, float *y);
void cs_cpu_scale_add(struct cs_ctx *ctx, int64_t n, float alpha, const float *x, float beta,
                      float *y);

#endif
