/* Attention backward, portable path, in the recomputing form of FlashAttention-2 (formulas:
 * kernels/cpu/attention.c). Deterministic without atomics: one pass over queries gives dq, another
 * over keys gives dk and dv; each row's sums run over tiles, and over the query heads of a kv head,
 * in ascending order. dq, dk and dv are OVERWRITTEN. */
#include "kernels/cuda/attention/portable.cuh"

#define DOT_WARPS 8 /* of a block of row_dots_kernel */

/* dot (heads, tokens) = rowsum(dO o); one warp a row */
template <typename T>
__global__ void row_dots_kernel(struct cs_attention_shape s, const T *o, const T *d_o, float *dot)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t row = (int64_t)blockIdx.x * DOT_WARPS + threadIdx.x / 32;
    if (row >= s.tokens)
        return;
    const int64_t at = row * s.o_stride + (int64_t)blockIdx.y * s.head_dim;
    float sum = 0.0f;
    for (int d = lane; d < s.head_dim; d += 32)
        sum += cs_to_float(o[at + d]) * cs_to_float(d_o[at + d]);
    sum = cs_warp_sum(sum);
    if (lane == 0)
        dot[(int64_t)blockIdx.y * s.tokens + row] = sum;
}

template <typename T> struct grad_args {
    const T *q, *k, *v, *d_o; /* strides q_stride, kv_stride, kv_stride, o_stride */
    const float *lse, *dot;   /* (heads, tokens) */
    T *dq, *dk, *dv;
};

/* A matrix of one side: first element of the head, elements between rows. */
template <typename T> struct side {
    const T *x0, *x1; /* (q, dO) or (k, v) */
    int64_t ld0, ld1;
};

template <typename T>
__device__ inline struct side<T> query_side(const struct cs_attention_shape &s,
                                            const struct grad_args<T> &g, int32_t head) {
    const int64_t at = (int64_t)head * s.head_dim;
    return {g.q + at, g.d_o + at, s.q_stride, s.o_stride};

}

template <typename T>
__device__ inline struct side<T> key_side(const struct cs_attention_shape &s,
                                          const struct grad_args<T> &g, int32_t kv_head) {

    const int64_t at = (int64_t)kv_head * s.head_dim;
    return {g.k + at, g.v + at, s.kv_stride, s.kv_stride};

}

/* sum[r] += weight of (tile row, own row r) times the tile's row; weights (KEYS, PER_WARP) */
template <int CHUNKS>
__device__ inline void add_weighted(const float weight[CS_ATT_KEYS][CS_ATT_PER_WARP],
                                    const float *tile, float sum[CS_ATT_PER_WARP][CHUNKS])

{
    const int lane = (int)threadIdx.x % 32;
    for (int j = 0; j < CS_ATT_KEYS; j++) {
        const float4 w = *(const float4 *)weight[j];
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            const float x = tile[j * (CHUNKS * 32 + 1) + c * 32 + lane];
            sum[0][c] += w.x * x;
            sum[1][c] += w.y * x;
            sum[2][c] += w.z * x;
            sum[3][c] += w.w * x;
        }
    }
}

template <typename T, int CHUNKS>
__device__ inline void store_rows(T *x, int64_t ld, int32_t rows, int32_t head_dim, float factor,
                                  const float sum[CS_ATT_PER_WARP][CHUNKS])
{
    const int lane = (int)threadIdx.x % 32;
    for (int r = 0; r < CS_ATT_PER_WARP; r++) {
        const int i = (int)threadIdx.x / 32 * CS_ATT_PER_WARP + r;
        for (int c = 0; c < CHUNKS; c++)
            if (i < rows && c * 32 + lane < head_dim)
                x[i * ld + c * 32 + lane] = cs_from_float<T>(sum[r][c] * factor);
    }
}

/* OWNS_KEYS false: the block owns queries of query head blockIdx.y and gives dq; true: it owns keys
 * of kv head blockIdx.y and gives dk and dv. */
template <typename T, int CHUNKS, bool OWNS_KEYS>
__global__ void __launch_bounds__(32 * cs_att_warps<CHUNKS>)
    backward_kernel(struct cs_attention_shape s, struct cs_att_mask mask, struct grad_args<T> g)
{
    constexpr int DIM = CHUNKS * 32, WARPS = cs_att_warps<CHUNKS>, ROWS = cs_att_rows<CHUNKS>;
    extern __shared__ float4 dynamic[];
    float *own0 = (float *)dynamic, *own1 = own0 + ROWS * DIM;
    float *tile0 = own1 + ROWS * DIM, *tile1 = tile0 + CS_ATT_KEYS * (DIM + 1);
    __shared__ float ps[WARPS][CS_ATT_KEYS][CS_ATT_PER_WARP];
    __shared__ float ds[WARPS][CS_ATT_KEYS][CS_ATT_PER_WARP];
    __shared__ struct cs_att_row own[ROWS];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int32_t first = (int32_t)blockIdx.x * ROWS, group = s.heads / s.kv_heads;
    const int32_t all = OWNS_KEYS ? mask.k.n_tokens : s.tokens;
    const int32_t rows = min(ROWS, all - first), own_head = (int32_t)blockIdx.y;
    const struct side<T> mine = OWNS_KEYS ? key_side(s, g, own_head) : query_side(s, g, own_head);

    cs_att_load<T, ROWS, DIM, DIM>(mine.x0 + first * mine.ld0, mine.ld0, rows, s.head_dim, own0);
    cs_att_load<T, ROWS, DIM, DIM>(mine.x1 + first * mine.ld1, mine.ld1, rows, s.head_dim, own1);
    const bool is_in_order = cs_att_is_in_order(mask);
    if ((int)threadIdx.x < rows)
        own[threadIdx.x] =
            cs_att_row_at(mask, OWNS_KEYS, is_in_order, first + (int32_t)threadIdx.x);
    __syncthreads();

    float acc0[CS_ATT_PER_WARP][CHUNKS] = {}, acc1[CS_ATT_PER_WARP][CHUNKS] = {};
    const int32_t end = own[rows - 1].end;
    for (int32_t h = 0; h < (OWNS_KEYS ? group : 1); h++) {
        const int32_t q_head = OWNS_KEYS ? own_head * group + h : own_head;
        const struct side<T> other =
            OWNS_KEYS ? query_side(s, g, q_head) : key_side(s, g, own_head / group);
        const float *lse = g.lse + (int64_t)q_head * s.tokens;
        const float *dot = g.dot + (int64_t)q_head * s.tokens;
        for (int32_t t0 = own[0].begin; t0 < end; t0 += CS_ATT_KEYS) {
            const int32_t row = t0 + lane;
            bool allow[CS_ATT_PER_WARP] = {}, any = false;
            if (row < end) {
                const struct cs_mask_token token =
                    cs_mask_token_of(OWNS_KEYS ? mask.q : mask.k, row);
                for (int r = 0; r < CS_ATT_PER_WARP; r++) {
                    const int i = warp * CS_ATT_PER_WARP + r;
                    allow[r] = i < rows && row >= own[i].begin && row < own[i].end &&
                               (OWNS_KEYS ? cs_mask_allows(mask.q.rule, token, own[i].token)
                                          : cs_mask_allows(mask.q.rule, own[i].token, token));
                    any = any || allow[r];
                }
            }
            if (!__syncthreads_or(any)) /* also: everybody is done with the last tile */
                continue;
            const int32_t count = min(CS_ATT_KEYS, end - t0);
            cs_att_load<T, CS_ATT_KEYS, DIM, DIM + 1>(other.x0 + t0 * other.ld0, other.ld0, count,
                                                      s.head_dim, tile0);
            cs_att_load<T, CS_ATT_KEYS, DIM, DIM + 1>(other.x1 + t0 * other.ld1, other.ld1, count,
                                                      s.head_dim, tile1);
            __syncthreads();
            if (!__any_sync(0xffffffffu, any))
                continue;
            float z[CS_ATT_PER_WARP], dp[CS_ATT_PER_WARP];
            cs_att_dots<DIM>(own0, tile0, z);
            cs_att_dots<DIM>(own1, tile1, dp);
            for (int r = 0; r < CS_ATT_PER_WARP; r++) {
                float p = 0.0f, d = 0.0f;
                if (allow[r]) {
                    const int32_t query = OWNS_KEYS ? row : first + warp * CS_ATT_PER_WARP + r;
                    float slope;
                    p = expf(cs_att_score(s, z[r], &slope) - lse[query]);
                    d = p * (dp[r] - dot[query]) * slope;
                }
                ps[warp][lane][r] = p;
                ds[warp][lane][r] = d;
            }
            __syncwarp();
            add_weighted<CHUNKS>(ds[warp], tile0, acc0);
            if (OWNS_KEYS)
                add_weighted<CHUNKS>(ps[warp], tile1, acc1);
            __syncwarp();
        }
    }
    const int64_t at = (int64_t)own_head * s.head_dim;
    if (OWNS_KEYS) {
        const int64_t to = (int64_t)first * s.kv_stride + at;
        store_rows<T, CHUNKS>(g.dk + to, s.kv_stride, rows, s.head_dim, s.scale, acc0);
        store_rows<T, CHUNKS>(g.dv + to, s.kv_stride, rows, s.head_dim, 1.0f, acc1);
    } else {
        store_rows<T, CHUNKS>(g.dq + (int64_t)first * s.q_stride + at, s.q_stride, rows, s.head_dim,
                              s.scale, acc0);
    }
}

template <typename T, int CHUNKS>
static void launch(struct cs_ctx *ctx, const struct cs_attention_shape *s,
                   const struct cs_mask_plan *mask, const struct grad_args<T> *g)
{
    constexpr int ROWS = cs_att_rows<CHUNKS>, THREADS = 32 * cs_att_warps<CHUNKS>;
    const size_t bytes = (size_t)(2 * (ROWS + CS_ATT_KEYS) * CHUNKS * 32 + 64) * sizeof(float);
    const auto blocks_of = [](int32_t rows) { return (unsigned)((rows + ROWS - 1) / ROWS); };
    auto *queries = backward_kernel<T, CHUNKS, false>, *keys = backward_kernel<T, CHUNKS, true>;
    CS_ATT_LAUNCH(ctx, queries, dim3(blocks_of(s->tokens), (unsigned)s->heads), THREADS, bytes, *s,
                  cs_att_mask_of(mask), *g);
    CS_ATT_LAUNCH(ctx, keys, dim3(blocks_of(cs_attention_keys(s)), (unsigned)s->kv_heads), THREADS,
                  bytes, *s, cs_att_mask_of(mask), *g);
}

size_t cs_att_backward_workspace(const struct cs_attention_shape *shape)
{
    return 256 + cs_attention_align((size_t)shape->heads * (size_t)shape->tokens * sizeof(float));
}

template <typename T>
void cs_att_backward(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                     const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                     const void *o, const float *lse, const void *d_o, void *dq, void *dk, void *dv)
{
    if (ctx->workspace_bytes < cs_att_backward_workspace(shape)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention_grad: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return;
    }
    float *dot = (float *)cs_attention_align((size_t)ctx->workspace);
    const dim3 grid((unsigned)((shape->tokens + DOT_WARPS - 1) / DOT_WARPS),
                    (unsigned)shape->heads);
    row_dots_kernel<T><<<grid, 32 * DOT_WARPS, 0, cs_cuda_stream_of(ctx)>>>(*shape, (const T *)o,
                                                                            (const T *)d_o, dot);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
    cs_attention_sink_grad(ctx, shape, {lse, dot, -CS_LOG2E, shape->tokens, shape->tokens, 64});

    const struct grad_args<T> g = {
        (const T *)q, (const T *)k, (const T *)v, (const T *)d_o, lse, dot, (T *)dq, (T *)dk,
            (T *)dv
    };

    auto *run = shape->head_dim <= 32    ? launch<T, 1>
                : shape->head_dim <= 64  ? launch<T, 2>
                : shape->head_dim <= 96  ? launch<T, 3>
                : shape->head_dim <= 128 ? launch<T, 4>
                : shape->head_dim <= 256 ? launch<T, 8>
                                         : launch<T, 16>;
    run(ctx, shape, mask, &g);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_att_backward<T>(struct cs_ctx *, const struct cs_attention_shape *,           \
                                     const struct cs_mask_plan *, const void *, const void *,      \
                                     const void *, const void *, const float *, const void *,      \
                                     void *, void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
