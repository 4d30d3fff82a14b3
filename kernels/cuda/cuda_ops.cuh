/* Declarations of all operators (signatures and contracts: kernels/ops.h) for the act types fp32
 * and bf16; every .cu file instantiates its own for both. */
#ifndef CS_CUDA_OPS_CUH
#define CS_CUDA_OPS_CUH

#include "kernels/cuda/check.cuh"
#include "kernels/cuda/pack.cuh"

/* c = alpha op(a) op(b) + beta c with operands of type T and c of type T or fp32 */
template <typename T, typename C>
void cs_cuda_matmul(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                    float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                    void *c, int64_t ldc);
struct cs_cuda_gemm_cache *cs_cuda_gemm_cache_new(void); /* NULL: no memory */
void cs_cuda_gemm_cache_free(struct cs_cuda_gemm_cache *cache);

template <typename T>
void cs_cuda_gemm(struct cs_ctx *ctx, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k,
                  float alpha, const void *a, int64_t lda, const void *b, int64_t ldb, float beta,
                  void *c, int64_t ldc);
template <typename T>
void cs_cuda_gemm_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t out, int64_t in, const void *dy,
                        int64_t ld_dy, const void *x, int64_t ldx, void *dw);
template <typename T>
void cs_cuda_bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                      const void *bias);
template <typename T>
void cs_cuda_bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                       void *db);
template <typename T>
void cs_cuda_linear(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *x,
                    int64_t ldx, const void *w, const void *bias, const void *residual,
                    enum cs_act act, void *pre, void *y);
template <typename T>
void cs_cuda_linear_dgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                          const void *w, enum cs_act act, const void *pre, void *dx);
template <typename T>
void cs_cuda_linear_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t out, const void *dy,
                          const void *x, void *dw, void *db);
template <typename T>
void cs_cuda_add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                      float offset, const void *a, const void *b, const void *w, const void *bias,
                      void *sum, void *y, float *stat);
template <typename T>
void cs_cuda_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                  float offset, const void *x, const void *w, const void *b, void *y, float *stat);
template <typename T>
void cs_cuda_norm_grad(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float offset,
                       const void *x, const void *w, const float *stat, const void *dy,
                       const void *dx_in, void *dx, void *dw, void *db);
template <typename T>
void cs_cuda_norm_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n, float eps,
                        float offset, const void *x, int64_t ld_x, const void *w,
                        const struct cs_norm_all *all, void *y, int64_t ld_y, float *stat);
template <typename T>
void cs_cuda_norm_heads_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                             float offset, const void *x, int64_t ld_x, const void *w,
                             const float *stat, const struct cs_norm_all *all, const void *dy,
                             int64_t ld_dy, void *dx, int64_t ld_dx, int adds, void *dw);
template <typename T>
void cs_cuda_norm_heads_sums(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t n,
                             float offset, const void *x, int64_t ld_x, const void *w,
                             const float *stat, const void *dy, int64_t ld_dy, float *sum);
template <typename T>
void cs_cuda_scale_columns(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                           const void *w, int32_t w_step, const void *residual, void *y);
template <typename T>
void cs_cuda_scale_columns_wgrad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                                 const void *dy, void *dw);
template <typename T>
void cs_cuda_rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim,
                  int32_t rot_dim, int64_t ldx, void *x, const float *cos, const float *sin,
                  int inverse);
template <typename T>
void cs_cuda_act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y);
template <typename T>
void cs_cuda_act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x,
                      const void *dy, void *dx);
template <typename T>
void cs_cuda_gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                   const void *up, int64_t ld, void *y);
template <typename T>
void cs_cuda_gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                        const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                        void *dup, int64_t ld_d);
template <typename T>
void cs_cuda_add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y);
template <typename T>
void cs_cuda_embed(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                   const void *table, float scale, void *y);
template <typename T>
void cs_cuda_embed_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *ids,
                        const void *dy, float scale, void *dtable);
template <typename T>
void cs_cuda_gather_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                         const void *x, void *y);
template <typename T>
void cs_cuda_scatter_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *index,
                          const void *x, void *y, int add);
template <typename T>
void cs_cuda_mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                      const int32_t *index, const float *weight, const void *x, int add, void *y);
template <typename T>
void cs_cuda_mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                           const int32_t *index, const float *weight, const void *dy, void *dx);
template <typename T>
void cs_cuda_unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                    const void *x, void *y);
template <typename T>
void cs_cuda_fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                  const int32_t *entry, const void *dy, void *dx);
template <typename T>
void cs_cuda_patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                     const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                     const float *mean, const float *std, void *y);
void cs_cuda_mask_build(struct cs_ctx *ctx, const struct cs_mask_plan *mask,
                        struct cs_mask_cells *cells);
size_t cs_cuda_mask_workspace(int32_t n_q_tiles, int32_t n_k_tiles, int32_t bitmap_room);
template <typename T>
void cs_cuda_attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                       const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                       void *o, float *lse);
template <typename T>
void cs_cuda_attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            const struct cs_mask_plan *mask, const void *q, const void *k,
                            const void *v, const void *o, const float *lse, const void *d_o,
                            void *dq, void *dk, void *dv);
size_t cs_cuda_attention_workspace(const struct cs_attention_shape *shape,
                                   const struct cs_mask_plan *mask);
template <typename T>
void cs_cuda_attention_merge(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                             int32_t n_parts, int64_t part_stride, const void *part_o,
                             const float *part_lse, void *o, float *lse);
template <typename T>
void cs_cuda_delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                   const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o);
template <typename T>
void cs_cuda_delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const void *d_o, const struct cs_delta_out *out);
template <typename T>
void cs_cuda_delta_part(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const float *state, void *o);
template <typename T>
void cs_cuda_delta_part_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                             const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                             const float *state, const float *d_state, const void *d_o,
                             const struct cs_delta_out *out);
template <typename T>
void cs_cuda_delta_pass(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const void *d_o, const struct cs_delta_pass *out);
void cs_cuda_delta_join(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                        bool is_transposed, const float *add, float *state);
template <typename T>
size_t cs_cuda_delta_workspace(const struct cs_delta_shape *shape, const struct cs_mask_plan *mask);
template <typename T>
void cs_cuda_delta_gate(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                        const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                        float *beta);
template <typename T>
void cs_cuda_delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                             const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                             const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                             void *da_log, void *ddt_bias);
template <typename T>
void cs_cuda_short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                        int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                        int64_t ldy);
template <typename T>
void cs_cuda_short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                             int32_t taps, const void *x, int64_t ldx, const void *w,
                             const void *dy, int64_t ldy, void *dx, void *dw);
template <typename T>
void cs_cuda_copy_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                        int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
template <typename T>
void cs_cuda_add_heads(struct cs_ctx *ctx, int64_t rows, int32_t heads, int64_t dim, const void *x,
                       int64_t x_row, int64_t x_head, void *y, int64_t y_row, int64_t y_head);
template <typename T>
void cs_cuda_scale_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                        const float *weight, void *y);
template <typename T>
void cs_cuda_scale_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *x,
                             const float *weight, const void *dy, void *dx, float *dweight);
template <typename T>
void cs_cuda_sum_rows(struct cs_ctx *ctx, int64_t rows, int32_t terms, int64_t n,
                      const int32_t *index, const void *x, const void *residual, void *y);
template <typename T>
void cs_cuda_moe_route(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                       const void *logits, const struct cs_moe_routes *routes);
template <typename T>
void cs_cuda_moe_load(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes, int64_t *load);
template <typename T>
void cs_cuda_moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                            const void *logits, const struct cs_moe_routes *routes,
                            const float *dweight, float balance, const int64_t *pairs,
                            void *dlogits);
void cs_cuda_add_counts(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y);
template <typename T>
void cs_cuda_moe_linear(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                        int64_t out, const void *x, const void *w, void *y);
template <typename T>
void cs_cuda_moe_linear_dgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                              int64_t out, const void *dy, const void *w, void *dx);
template <typename T>
void cs_cuda_moe_linear_wgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                              int64_t out, const void *dy, const void *x, void *dw);
template <typename T>
void cs_cuda_linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                         const void *w, const int32_t *labels, float softcap, double *loss,
                         double *row_loss, uint8_t *correct, void *dx, void *dw);
template <typename T> size_t cs_cuda_linear_xent_workspace(int64_t rows, int64_t in, int64_t vocab);
template <typename T>
void cs_cuda_xent_part(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                       float softcap, void *z, float *stat);
void cs_cuda_xent_join(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                       double *loss, double *row_loss, uint8_t *correct, float *whole);
template <typename T>
void cs_cuda_xent_part_grad(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                            float softcap, const float *whole, void *z);
template <typename T>
void cs_cuda_adamw(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                   float *master, float *exp_avg, float *exp_avg_sq, void *w);
void cs_cuda_sumsq(struct cs_ctx *ctx, int64_t n, const void *x, double *sum);
template <typename T>
void cs_cuda_adamw_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                        const struct cs_adamw *hyper);
void cs_cuda_adamw_bf16_many(struct cs_ctx *ctx, int32_t n_tensors,
                             const struct cs_adamw_bf16_tensor *tensor,
                             const struct cs_adamw *hyper);
void cs_cuda_sumsq_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                        double *sum);
template <typename T>
void cs_cuda_cast_to_act(struct cs_ctx *ctx, int64_t n, const float *x, void *y);
template <typename T>
void cs_cuda_cast_to_f32(struct cs_ctx *ctx, int64_t n, const void *x, float *y);
void cs_cuda_scale_add(struct cs_ctx *ctx, int64_t n, float alpha, const float *x, float beta,
                       float *y);
enum cs_status cs_cuda_tune(void *handle, int32_t candidates, const char *path, struct cs_err *err);
enum cs_status cs_cuda_tune_used(void *handle, void *stream, int32_t candidates, int64_t uses,
                                 int32_t most, int32_t *measured, struct cs_err *err);

extern const struct cs_device_ops cs_cuda_device_ops; /* device.cu */
extern const struct cs_ops cs_cuda_table_f32;         /* plugin.cu */

#endif
