/* What the portable attention kernels share: the mask on the device, tiles in shared memory, the
 * score. They take any head_dim up to 512, any stride and every mask rule; rows are fp32 inside.
 * They ask the rule, not the lists of core/mask/cells.h: the path for fp32, for cards and shapes
 * that have no kernel of their own, and for masks without lists.
 *
 * A row looks at the rows of its document, where the rows of every document are neighbours and the
 * keys are the queries; in any other order it looks at all.
 *
 * A block owns rows (queries, or keys in the pass for dk and dv) of one head and walks over tiles of
 * KEYS rows of the other side. A warp owns PER_WARP of the rows, a lane one row of the tile; where
 * sums over the tile are taken, a lane owns columns lane, lane + 32, ... instead. Eight warps a block;
 * four where heads are wider than 256, for their tiles take what shared memory Hopper has. */
#ifndef CS_KERNELS_CUDA_ATTENTION_PORTABLE_CUH
#define CS_KERNELS_CUDA_ATTENTION_PORTABLE_CUH

#include "kernels/cuda/attention/common.cuh"
#include "kernels/cuda/mask/mask_token.cuh"

#define CS_ATT_PER_WARP 4
#define CS_ATT_KEYS     32
#define CS_ATT_MAX_DIM  512

/* of a block; CHUNKS: of 32 columns */
template <int CHUNKS> constexpr int cs_att_warps = CHUNKS > 8 ? 4 : 8;
template <int CHUNKS> constexpr int cs_att_rows = cs_att_warps<CHUNKS> *CS_ATT_PER_WARP;

/* The two sides of a mask by value; the arrays are device memory. */
struct cs_att_mask {
    struct cs_mask_plan q, k;
    bool has_keys; /* k is not q */
};

struct cs_att_row {
    struct cs_mask_token token;
    int32_t begin, end; /* rows of the other side that it may see or be seen by */
};

/* The same in all threads of the block: do the documents ascend, so that each is one segment? */
__device__ inline bool cs_att_is_in_order(const struct cs_att_mask &mask)
{
    bool ascends = !mask.has_keys;
    for (int32_t s = 1 + (int32_t)threadIdx.x; ascends && s < mask.q.n_segments;
         s += (int32_t)blockDim.x)
        ascends = mask.q.doc[mask.q.segment[s]] > mask.q.doc[mask.q.segment[s - 1]];
    return __syncthreads_and(ascends) != 0;
}

/* Row of the queries or keys; in order: its segment is the last one that begins at or before it. */
__device__ inline struct cs_att_row cs_att_row_at(const struct cs_att_mask &mask, bool is_key,
                                                  bool is_in_order, int32_t row)
{
    const struct cs_mask_token token = cs_mask_token_of(is_key ? mask.k : mask.q, row);
    if (!is_in_order)
        return {token, 0, is_key ? mask.q.n_tokens : mask.k.n_tokens};
    int32_t lo = 0, hi = mask.q.n_segments - 1;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo + 1) / 2;
        if (mask.q.segment[mid] <= row)
            lo = mid;
        else
            hi = mid - 1;
    }
    return {token, mask.q.segment[lo], mask.q.segment[lo + 1]};
}

/* rows (0..count) of a matrix to (ROWS, STRIDE) fp32; zeros after the last row and column */
template <typename T, int ROWS, int DIM, int STRIDE>
__device__ inline void cs_att_load(const T *x, int64_t ld, int32_t count, int32_t head_dim,
                                   float *to)
{
    for (int i = (int)threadIdx.x; i < ROWS * DIM; i += (int)blockDim.x) {
        const int row = i / DIM, col = i % DIM;
        to[row * STRIDE + col] =
            row < count && col < head_dim ? cs_to_float(x[row * ld + col]) : 0.0f;
    }
}

/* dot[r] = own row r of this warp . row lane of the tile; own (ROWS, DIM), tile (KEYS, DIM + 1) */
template <int DIM>
__device__ inline void cs_att_dots(const float *own, const float *tile, float dot[CS_ATT_PER_WARP])
{
    const int lane = (int)threadIdx.x % 32, first = (int)threadIdx.x / 32 * CS_ATT_PER_WARP;
    const float *t = tile + lane * (DIM + 1);
    for (int r = 0; r < CS_ATT_PER_WARP; r++)
        dot[r] = 0.0f;
#pragma unroll 4
    for (int d = 0; d < DIM; d += 4)
#pragma unroll
        for (int r = 0; r < CS_ATT_PER_WARP; r++) {
            const float4 a = *(const float4 *)(own + (first + r) * DIM + d);
            dot[r] += a.x * t[d] + a.y * t[d + 1] + a.z * t[d + 2] + a.w * t[d + 3];
        }
}

/* z = cap(scale dot); *slope: dz / d(scale dot) */
__device__ inline float cs_att_score(const struct cs_attention_shape &s, float dot, float *slope)
{
    const float z = s.scale * dot;
    if (s.softcap == 0.0f) {
        *slope = 1.0f;
        return z;
    }
    const float t = tanhf(z / s.softcap);
    *slope = 1.0f - t * t;
    return s.softcap * t;
}

static inline struct cs_att_mask cs_att_mask_of(const struct cs_mask_plan *mask)
{
    return {*mask, mask->keys != nullptr ? *mask->keys : *mask, mask->keys != nullptr};
}

/* false, with an error in the handle, when the operator cannot take shape and plan */
static inline bool cs_att_check(struct cs_ctx *ctx, const struct cs_attention_shape *s,
                                const struct cs_mask_plan *mask)
{
    const int32_t keys = mask->keys != nullptr ? mask->keys->n_tokens : mask->n_tokens;
    const bool is_good = mask->n_tokens == s->tokens && keys == cs_attention_keys(s) &&
                         (mask->n_segments > 0 || mask->keys != nullptr) && s->kv_heads > 0 &&
                         s->heads % s->kv_heads == 0 && s->heads <= 65535 && s->head_dim > 0 &&
                         s->head_dim <= CS_ATT_MAX_DIM;
    const bool has_sink = s->dsink == nullptr || s->sink != nullptr;
    if (!has_sink)
        CS_CUDA_REFUSE(ctx, CS_INVALID, "attention: dsink, the gradient of sinks, without %s",
                       "sink: give both or neither");
    if (!is_good)
        CS_CUDA_REFUSE(ctx, CS_INVALID,
                       "attention: %d tokens, %d keys (mask plan: %d, %d, %d segments), %d heads, "
                       "%d kv heads, head size %d: sizes must agree and the head size be 1..%d",
                       s->tokens, cs_attention_keys(s), mask->n_tokens, keys, mask->n_segments,
                       s->heads, s->kv_heads, s->head_dim, CS_ATT_MAX_DIM);
    return is_good && has_sink;
}

/* Launch a kernel that uses bytes of dynamic shared memory, perhaps more than 48 KiB. */
#define CS_ATT_LAUNCH(ctx, kernel, grid, threads, bytes, ...)                                      \
    do {                                                                                           \
        CS_CUDA_NOTE(ctx,                                                                          \
                     cudaFuncSetAttribute((const void *)(kernel),                                  \
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,             \
                                          (int)(bytes)),                                           \
                     "attention");                                                                 \
        (kernel)<<<grid, threads, bytes, cs_cuda_stream_of(ctx)>>>(__VA_ARGS__);                   \
        CS_CUDA_LAUNCHED(ctx, "attention");                                                        \
    } while (0)

/* attention/portable.cu, attention/portable_grad.cu: the operators of kernels/ops.h, shape and plan
 * checked */
template <typename T>
void cs_att_forward(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                    const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                    void *o, float *lse);
template <typename T>
void cs_att_backward(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                     const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                     const void *o, const float *lse, const void *d_o, void *dq, void *dk,
                     void *dv);
size_t cs_att_backward_workspace(const struct cs_attention_shape *shape);

#endif
