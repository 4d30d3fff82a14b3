/* Attention forward, portable path: online softmax (Milakov and Gimelshein 2018, as in
 * FlashAttention) over tiles of keys; tiles in which no pair is allowed are skipped before anything
 * of them is loaded. o and lse are OVERWRITTEN. */
#include "kernels/cuda/attention/portable.cuh"

/* One row's running softmax; the same in all lanes. */
struct softmax {
    float max, sum;
    bool has_seen;
};

/* q, o (tokens, heads, head_dim); k, v (tokens, kv_heads, head_dim); lse (heads, tokens). Block:
 * ROWS queries of head blockIdx.y. */
template <typename T, int CHUNKS>
__global__ void __launch_bounds__(32 * cs_att_warps<CHUNKS>)
    forward_kernel(struct cs_attention_shape s, struct cs_att_mask mask, const T *q, const T *k,
                   const T *v, T *o, float *lse)
{
    constexpr int DIM = CHUNKS * 32, WARPS = cs_att_warps<CHUNKS>, ROWS = cs_att_rows<CHUNKS>;
    extern __shared__ float4 dynamic[];
    float *qs = (float *)dynamic, *ks = qs + ROWS * DIM, *vs = ks + CS_ATT_KEYS * (DIM + 1);
    __shared__ float ps[WARPS][CS_ATT_KEYS][CS_ATT_PER_WARP];
    __shared__ struct cs_att_row own[ROWS];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int32_t q0 = (int32_t)blockIdx.x * ROWS, head = (int32_t)blockIdx.y;
    const int32_t rows = min(ROWS, s.tokens - q0);
    const int64_t kv = (int64_t)(head / (s.heads / s.kv_heads)) * s.head_dim;
    const int64_t qo = (int64_t)head * s.head_dim;

    cs_att_load<T, ROWS, DIM, DIM>(q + (int64_t)q0 * s.q_stride + qo, s.q_stride, rows, s.head_dim,
                                   qs);
    const bool is_in_order = cs_att_is_in_order(mask);
    if ((int)threadIdx.x < rows)
        own[threadIdx.x] = cs_att_row_at(mask, false, is_in_order, q0 + (int32_t)threadIdx.x);
    __syncthreads();

    struct softmax state[CS_ATT_PER_WARP];
    float acc[CS_ATT_PER_WARP][CHUNKS] = {};
    for (int r = 0; r < CS_ATT_PER_WARP; r++)
        state[r] = {-INFINITY, 0.0f, false};
    const int32_t end = own[rows - 1].end;
    for (int32_t k0 = own[0].begin; k0 < end; k0 += CS_ATT_KEYS) {
        const int32_t key = k0 + lane;
        bool allow[CS_ATT_PER_WARP] = {}, any = false;
        if (key < end) {
            const struct cs_mask_token token = cs_mask_token_of(mask.k, key);
            for (int r = 0; r < CS_ATT_PER_WARP; r++) {
                const int i = warp * CS_ATT_PER_WARP + r;
                allow[r] = i < rows && key >= own[i].begin && key < own[i].end &&
                           cs_mask_allows(mask.q.rule, own[i].token, token);
                any = any || allow[r];
            }
        }
        if (!__syncthreads_or(any)) /* also: everybody is done with the last tile */
            continue;
        const int32_t keys = min(CS_ATT_KEYS, end - k0);
        cs_att_load<T, CS_ATT_KEYS, DIM, DIM + 1>(k + (int64_t)k0 * s.kv_stride + kv, s.kv_stride,
                                                  keys, s.head_dim, ks);
        cs_att_load<T, CS_ATT_KEYS, DIM, DIM>(v + (int64_t)k0 * s.kv_stride + kv, s.kv_stride, keys,
                                              s.head_dim, vs);
        __syncthreads();
        if (!__any_sync(0xffffffffu, any))
            continue;
        float dot[CS_ATT_PER_WARP];
        cs_att_dots<DIM>(qs, ks, dot);
        for (int r = 0; r < CS_ATT_PER_WARP; r++) {
            float slope, p = 0.0f;
            const float z = allow[r] ? cs_att_score(s, dot[r], &slope) : -INFINITY;
            if (__any_sync(0xffffffffu, allow[r])) {
                const float max = fmaxf(state[r].max, cs_warp_max(z));
                const float shrink = state[r].has_seen ? expf(state[r].max - max) : 0.0f;
                p = allow[r] ? expf(z - max) : 0.0f;
                state[r] = {max, state[r].sum * shrink + cs_warp_sum(p), true};
                for (int c = 0; c < CHUNKS; c++)
                    acc[r][c] *= shrink;
            }
            ps[warp][lane][r] = p;
        }
        __syncwarp();
        for (int j = 0; j < CS_ATT_KEYS; j++) {
            const float4 p = *(const float4 *)ps[warp][j];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                const float value = vs[j * DIM + c * 32 + lane];
                acc[0][c] += p.x * value;
                acc[1][c] += p.y * value;
                acc[2][c] += p.z * value;
                acc[3][c] += p.w * value;
            }
        }
        __syncwarp();
    }
    for (int r = 0; r < CS_ATT_PER_WARP; r++) {
        const int32_t row = q0 + warp * CS_ATT_PER_WARP + r;
        if (row >= s.tokens)
            break;
        const cs_attention_end row_end =
            cs_attention_end_of(state[r].max, state[r].sum, cs_attention_sink_of(s.sink, head));
        for (int c = 0; c < CHUNKS; c++)
            if (c * 32 + lane < s.head_dim)
                o[(int64_t)row * s.o_stride + qo + c * 32 + lane] =
                    cs_from_float<T>(acc[r][c] * row_end.factor);
        if (lane == 0)
            lse[(int64_t)head * s.tokens + row] = row_end.lse;
    }
}

template <typename T, int CHUNKS>
static void launch(struct cs_ctx *ctx, const struct cs_attention_shape *s,
                   const struct cs_mask_plan *mask, const T *q, const T *k, const T *v, T *o,
                   float *lse)
{
    constexpr int ROWS = cs_att_rows<CHUNKS>;
    const dim3 grid((unsigned)((s->tokens + ROWS - 1) / ROWS), (unsigned)s->heads);
    const size_t bytes = (size_t)((ROWS + 2 * CS_ATT_KEYS) * CHUNKS * 32 + 32) * sizeof(float);
    auto *kernel = forward_kernel<T, CHUNKS>;
    CS_ATT_LAUNCH(ctx, kernel, grid, 32 * cs_att_warps<CHUNKS>, bytes, *s, cs_att_mask_of(mask), q,
                  k, v, o, lse);
}

template <typename T>
void cs_att_forward(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                    const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                    void *o, float *lse)
{
    auto *run = shape->head_dim <= 32    ? launch<T, 1>
                : shape->head_dim <= 64  ? launch<T, 2>
                : shape->head_dim <= 96  ? launch<T, 3>
                : shape->head_dim <= 128 ? launch<T, 4>
                : shape->head_dim <= 256 ? launch<T, 8>
                                         : launch<T, 16>;
    run(ctx, shape, mask, (const T *)q, (const T *)k, (const T *)v, (T *)o, lse);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_att_forward<T>(struct cs_ctx *, const struct cs_attention_shape *,            \
                                    const struct cs_mask_plan *, const void *, const void *,       \
                                    const void *, void *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
