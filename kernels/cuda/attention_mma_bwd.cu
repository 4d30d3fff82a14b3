/* The entry of the backward pass with mma.sync, and the statistics of its rows. */
#include "kernels/cuda/attention_mma_bwd.cuh"

#include "kernels/cuda/attention_common.cuh"

#define BLOCK 256
#define LANES 8 /* that share a row */

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
    float sum = 0.0f;
    for (int c = (int)threadIdx.x % LANES * CS_PACK; row < a.tokens && c < a.head_dim;
         c += LANES * CS_PACK) {
        float x[CS_PACK], y[CS_PACK];
        cs_unpack(cs_load_words<true>(a.o + at + c, CS_PACK), x);
        cs_unpack(cs_load_words<true>(a.d_o + at + c, CS_PACK), y);
#pragma unroll
        for (int i = 0; i < CS_PACK; i++)
            sum += x[i] * y[i];
    }
    for (int step = LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (row < a.tokens && threadIdx.x % LANES == 0) {
        const int64_t i = (int64_t)head * a.tokens + row;
        const float lse = a.lse[i]; /* -inf: the row sees nothing */
        a.log[i] = lse == -INFINITY ? -INFINITY : -lse * CS_MMA_LOG2E;
        a.sum[i] = sum;
    }
}

static size_t align_up(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

/* of one of two arrays */
static size_t stat_bytes(const struct cs_attention_shape *s)
{
    return align_up((size_t)s->heads * (size_t)s->tokens * sizeof(float));
}

size_t cs_cuda_attention_bwd_mma_workspace(const struct cs_attention_shape *shape,
                                           const struct cs_mask_plan *mask)
{
    if (mask->cells == nullptr || shape->tokens <= 0 || shape->heads <= 0 ||
        cs_mma_bwd_queries(shape->head_dim) == nullptr)
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
    if (queries == nullptr || s->heads > 65535 || !cs_mma_is_own(ctx, s, mask, any))
        return false;
    if (ctx->workspace_bytes < cs_cuda_attention_bwd_mma_workspace(s, mask)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_grad: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return true;
    }
    float *log = (float *)align_up((size_t)ctx->workspace);
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
    const int64_t keys = s->k_tokens > 0 ? s->k_tokens : s->tokens;
    const struct cs_mma_matrix mq = {(const __nv_bfloat16 *)q, s->q_stride};
    const struct cs_mma_matrix mk = {(const __nv_bfloat16 *)k, s->kv_stride};
    const struct cs_mma_matrix mv = {(const __nv_bfloat16 *)v, s->kv_stride};
    const struct cs_mma_matrix md = {(const __nv_bfloat16 *)d_o, s->o_stride};
    const struct cs_mask_cells *cells = mask->cells;
    const int32_t of_queries =
        group * cs_mma_section(ctx, s, keys, 2 * (int64_t)cells->n_q * group);
    const int32_t of_keys = cs_mma_section(ctx, s, s->tokens, 2 * (int64_t)cells->n_k);
    queries(ctx, {cs_mma_side_of(cells, false, s->heads, of_queries), mq, md, mk, mv,
                  (__nv_bfloat16 *)dq, nullptr, log, sum, s->tokens, group, s->scale, s->softcap});
    cs_mma_bwd_keys(s->head_dim)(ctx, {cs_mma_side_of(cells, true, s->kv_heads, of_keys), mk, mv,
                                       mq, md, (__nv_bfloat16 *)dk, (__nv_bfloat16 *)dv, log, sum,
                                       s->tokens, group, s->scale, s->softcap});
    return true;
}
