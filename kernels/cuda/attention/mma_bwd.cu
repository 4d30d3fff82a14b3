/* The entry of the backward pass with mma.sync, and the statistics of its rows. */
#include "kernels/cuda/attention/mma_bwd.cuh"

#define BLOCK 256
#define LANES CS_ATTENTION_LANES

struct rows {
    int32_t tokens, head_dim, stride;
    const __nv_bfloat16 *o, *d_o;
    const float *lse;
    float *log, *sum;
};

/* log = -lse / ln 2, -inf (which makes p = 0) for rows that see nothing; sum = rowsum(dO o); grid:
 * rows, heads */
static __global__ void __launch_bounds__(BLOCK) statistics_kernel(struct rows a)
{
    const int32_t row = (int32_t)(blockIdx.x * (BLOCK / LANES) + threadIdx.x / LANES);
    const int32_t head = (int32_t)blockIdx.y;
    const int64_t at = (int64_t)row * a.stride + head * a.head_dim;
    const float sum = cs_attention_row_dot(a.o + at, a.d_o + at, row < a.tokens ? a.head_dim : 0);
    if (row < a.tokens && threadIdx.x % LANES == 0) {
        const int64_t i = (int64_t)head * a.tokens + row;
        a.log[i] = cs_attention_log_of(a.lse[i]);
        a.sum[i] = sum;
    }
}

/* of one of two arrays */
static size_t stat_bytes(const struct cs_attention_shape *s)
{
    return cs_attention_align((size_t)s->heads * (size_t)s->tokens * sizeof(float));
}

size_t cs_cuda_attention_bwd_mma_workspace(const struct cs_attention_shape *shape,
                                           const struct cs_mask_plan *mask)
{
    if (cs_mma_bwd_queries(shape->head_dim) == nullptr || shape->tokens <= 0 ||
        !cs_attention_has_lists(shape, mask, 0))
        return 0;
    return 256 + 2 * stat_bytes(shape);
}

bool cs_cuda_attention_bwd_mma(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                               const struct cs_mask_plan *mask, const void *q, const void *k,
                               const void *v, const void *o, const float *lse, const void *d_o,
                               void *dq, void *dk, void *dv)
{
    const struct cs_attention_shape *s = shape;
    const uintptr_t any = (uintptr_t)q | (uintptr_t)k | (uintptr_t)v | (uintptr_t)o |
                          (uintptr_t)d_o | (uintptr_t)dq | (uintptr_t)dk | (uintptr_t)dv;
    const cs_mma_bwd_pass queries = cs_mma_bwd_queries(s->head_dim);
    if (queries == nullptr || !cs_mma_is_own(ctx, s, mask, any))
        return false;
    if (ctx->workspace_bytes < cs_cuda_attention_bwd_mma_workspace(s, mask)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_grad: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return true;
    }
    float *log = (float *)cs_attention_align((size_t)ctx->workspace);
    float *sum = (float *)((uint8_t *)log + stat_bytes(s));
    const struct rows rows = {
        s->tokens, s->head_dim, s->o_stride, (const __nv_bfloat16 *)o, (const __nv_bfloat16 *)d_o,
        lse,       log,         sum};
    const int per_block = BLOCK / LANES;
    const dim3 grid((unsigned)((s->tokens + per_block - 1) / per_block), (unsigned)s->heads);
    statistics_kernel<<<grid, BLOCK, 0, cs_cuda_stream_of(ctx)>>>(rows);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
    cs_attention_sink_grad(ctx, s, {log, sum, 1.0f, s->tokens, s->tokens, 64});

    const int32_t group = s->heads / s->kv_heads;
    const int64_t keys = cs_attention_keys(s);
    const struct cs_attention_scales scales = cs_attention_scales_of(s);
    const struct cs_mma_matrix mq = {(const __nv_bfloat16 *)q, s->q_stride};
    const struct cs_mma_matrix mk = {(const __nv_bfloat16 *)k, s->kv_stride};
    const struct cs_mma_matrix mv = {(const __nv_bfloat16 *)v, s->kv_stride};
    const struct cs_mma_matrix md = {(const __nv_bfloat16 *)d_o, s->o_stride};
    const struct cs_mask_cells *cells = mask->cells;
    const int32_t of_queries =
        group * cs_mma_section(ctx, s, keys, 2 * (int64_t)cells->n_q * group);
    const int32_t of_keys = cs_mma_section(ctx, s, s->tokens, 2 * (int64_t)cells->n_k);
    queries(ctx, {cs_mma_side_of(cells, false, s->heads, of_queries), mq, md, mk, mv,
                  (__nv_bfloat16 *)dq, nullptr, log, sum, s->tokens, group, s->scale, s->softcap,
                  scales});
    cs_mma_bwd_keys(s->head_dim)(ctx, {cs_mma_side_of(cells, true, s->kv_heads, of_keys), mk, mv,
                                       mq, md, (__nv_bfloat16 *)dk, (__nv_bfloat16 *)dv, log, sum,
                                       s->tokens, group, s->scale, s->softcap, scales});
    return true;
}
