/* What the attention kernels have in common, whatever they compute with: single instructions, the
 * rows of an online softmax, what a mask's cells leave of scores, statistics of rows for the
 * backward pass; on the host which shapes they take. */
#ifndef CS_KERNELS_CUDA_ATTENTION_COMMON_CUH
#define CS_KERNELS_CUDA_ATTENTION_COMMON_CUH

#include "kernels/cuda/cuda_ops.cuh"

#include "core/mask/cells.h" /* after the C11 spellings of check.cuh */

#define CS_LOG2E 1.4426950408889634f
#define CS_LN2   0.6931471805599453f

/* --- single instructions ---------------------------------------------------------------------- */

__device__ __forceinline__ float cs_exp2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ __forceinline__ float cs_reciprocal(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* two bf16, lo in the low half */
__device__ __forceinline__ uint32_t cs_pack_bf16(float lo, float hi)
{
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(hi), "f"(lo));
    return packed;
}

/* tanh of x ln 2 / 2 by exp2: the approximate instruction is too coarse under an exponential */
__device__ __forceinline__ float cs_tanh_log2(float x)
{
    return 1.0f - 2.0f * cs_reciprocal(1.0f + cs_exp2(x));
}

__device__ __forceinline__ float cs_quad_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float cs_quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* --- scores ------------------------------------------------------------------------------------
 * Accumulators of a thread: four for every eight columns, two of one row, two of the row eight
 * further down, as all matrix instructions give them. */

/* Bit i of a bitmap's word: whether score i of a cell stays. */
template <int N> __device__ __forceinline__ void cs_keep(float *s, uint32_t bits)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = (bits >> i & 1) != 0 ? s[i] : -INFINITY;
}

/* What thread (of 128, in the order of a bitmap) keeps of a cell, a bit for each score. READ_ONLY:
 * by the loads for data that nobody writes, which the compiler may move across barriers. */
template <bool READ_ONLY>
__device__ __forceinline__ uint32_t cs_cell_bits(const uint32_t *bits, int32_t cell,
                                                 uint32_t thread)
{
    if (cell < 0)
        return cell == CS_CELL_ALL ? ~0u : 0u;
    const uint32_t *from = bits + (int64_t)cell * CS_MASK_TILE + thread;
    return READ_ONLY ? __ldg(from) : *from;
}

/* s = cs_tanh_log2(scale s); the factor after it belongs to the exponent */
template <int N> __device__ __forceinline__ void cs_cap(float *s, float scale)
{
#pragma unroll
    for (int i = 0; i < N; i++)
        s[i] = cs_tanh_log2(s[i] * scale);
}

/* Where the online softmax of a thread's two rows stands: p = exp2((s - max) * scale). */
struct cs_softmax_rows {
    float max[2], sum[2]; /* sum: of this thread's columns */
};

__device__ __forceinline__ cs_softmax_rows cs_softmax_rows_new(void)
{
    return {
        {-INFINITY, -INFINITY},
        {0.0f,      0.0f     }
    };
}

/* A larger maximum is taken up only when it matters: until then p grows up to 2^8, which neither
 * bf16 nor the fp32 sums mind, and the accumulated output need not be rescaled. */
#define CS_SOFTMAX_GROWTH 8.0f

/* By what both rows of a thread must shrink what they have so far. */
struct cs_softmax_shrink {
    bool is_any; /* row of the warp; else both factors are 1 */
    float by[2];
};

/* Does a score exceed the maximum of its row so far by too much? false for -inf - -inf, which is no
 * number. */
__device__ __forceinline__ bool cs_softmax_exceeds(float top, float max, float scale)
{
    return (top - max) * scale > CS_SOFTMAX_GROWTH;
}

/* top: of this thread's scores. Most steps need no new maximum, which every thread can tell of its
 * own scores. ASKS: the others of a row are asked only where one of the warp cannot; without, which
 * takes fewer registers, always. */
template <bool ASKS>
__device__ __forceinline__ cs_softmax_shrink cs_softmax_grow(const float (&top)[2], float scale,
                                                             cs_softmax_rows *rows)
{
    cs_softmax_shrink shrink = {
        false, {1.0f, 1.0f}
    };
    shrink.is_any =
        !ASKS || __any_sync(0xffffffffu, cs_softmax_exceeds(top[0], rows->max[0], scale) ||
                                             cs_softmax_exceeds(top[1], rows->max[1], scale));
    if (!shrink.is_any)
        return shrink;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float all = cs_quad_max(fmaxf(top[h], rows->max[h]));
        const bool is_larger = cs_softmax_exceeds(all, rows->max[h], scale);
        shrink.by[h] = is_larger ? cs_exp2((rows->max[h] - all) * scale) : 1.0f;
        rows->max[h] = is_larger ? all : rows->max[h];
        rows->sum[h] *= shrink.by[h];
    }
    if (!ASKS)
        shrink.is_any = __any_sync(0xffffffffu, shrink.by[0] != 1.0f || shrink.by[1] != 1.0f);
    return shrink;
}

/* The largest of a row's scores, s[0], s[1], s[4], s[5], ...: in chains that do not wait for each
 * other. */
template <int N, int CHAINS> __device__ __forceinline__ float cs_softmax_top(const float *s)
{
    float top[CHAINS];
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        const float x = s[i / 2 * 4 + i % 2];
        top[i % CHAINS] = i < CHAINS ? x : fmaxf(top[i % CHAINS], x);
    }
#pragma unroll
    for (int i = 1; i < CHAINS; i++)
        top[0] = fmaxf(top[0], top[i]);
    return top[0];
}

/* Scores become weights; returns by what to shrink what both rows have so far. top: the largest scores
 * that this thread knows of its rows. The rows go side by side, without a branch but that of the vote,
 * so that each hides the latency of the other; SUMS: chains of additions for each, 1 where registers
 * are short, or 2. */
template <int N, int SUMS>
__device__ __forceinline__ cs_softmax_shrink cs_softmax_below(float *s, const float (&top)[2],
                                                              float scale, cs_softmax_rows *rows)
{
    float base[2], more[2] = {0.0f, 0.0f};
    const cs_softmax_shrink shrink = cs_softmax_grow<SUMS == 2>(top, scale, rows);
#pragma unroll
    for (int h = 0; h < 2; h++)
        base[h] = rows->max[h] == -INFINITY ? 0.0f : rows->max[h] * scale;
#pragma unroll
    for (int i = 0; i < N; i += 4)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            s[i + 2 * h] = cs_exp2(s[i + 2 * h] * scale - base[h]);
            s[i + 2 * h + 1] = cs_exp2(s[i + 2 * h + 1] * scale - base[h]);
            rows->sum[h] += s[i + 2 * h];
            (SUMS == 2 ? more : rows->sum)[h] += s[i + 2 * h + 1];
        }
    if (SUMS == 2) {
        rows->sum[0] += more[0];
        rows->sum[1] += more[1];
    }
    return shrink;
}

/* The same where the thread has all that its warp knows. */
template <int N, int SUMS>
__device__ __forceinline__ cs_softmax_shrink cs_softmax(float *s, float scale,
                                                        cs_softmax_rows *rows)
{
    constexpr int CHAINS = SUMS == 2 ? 4 : 1;
    const float top[2] = {cs_softmax_top<N, CHAINS>(s), cs_softmax_top<N, CHAINS>(s + 2)};
    return cs_softmax_below<N, SUMS>(s, top, scale, rows);
}

/* The output so far, N accumulators, times these factors. */
template <int N> __device__ __forceinline__ void cs_shrink(float *out, const cs_softmax_shrink &by)
{
    if (!by.is_any)
        return;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        out[i] *= by.by[0];
        out[i + 1] *= by.by[0];
        out[i + 2] *= by.by[1];
        out[i + 3] *= by.by[1];
    }
}

/* The end of a row of an online softmax. */
struct cs_attention_end {
    float factor; /* of the sum of its weighted values */
    float lse;
};

/* max: what is subtracted from all scores, -inf before the first one; sum: of exp(score - max);
 * sink: of the head, NULL: none. A row that sees nothing has sum 0. */
__device__ __forceinline__ cs_attention_end cs_attention_end_of(float max, float sum,
                                                                const float *sink)
{
    float factor = 1.0f;
    if (sink != nullptr) {
        const float own = __ldg(sink), top = fmaxf(max, own);
        const float base = top == -INFINITY ? 0.0f : top;
        factor = expf(max - base);
        sum = sum * factor + expf(own - base);
        max = base;
    }
    if (sum == 0.0f)
        return {0.0f, -INFINITY};
    return {factor / sum, max + logf(sum)};
}

__device__ __forceinline__ const float *cs_attention_sink_of(const float *sink, int32_t head)
{
    return sink == nullptr ? nullptr : sink + head;
}

/* --- statistics of rows for the backward pass ------------------------------------------------- */

enum { CS_ATTENTION_LANES = 8 }; /* that share a row */

/* rowsum(dO o) of a row of dim columns (a multiple of 8, aligned to 16 bytes), by LANES neighbours
 * of a warp; all of them get it */
__device__ __forceinline__ float cs_attention_row_dot(const __nv_bfloat16 *o,
                                                      const __nv_bfloat16 *d_o, int32_t dim)
{
    float sum = 0.0f;
    for (int c = (int)threadIdx.x % CS_ATTENTION_LANES; c < dim / 8; c += CS_ATTENTION_LANES) {
        const uint4 a = ((const uint4 *)o)[c], b = ((const uint4 *)d_o)[c];
        const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
        float part = 0.0f;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            part += __uint_as_float(x[i] << 16) * __uint_as_float(y[i] << 16);
            part += __uint_as_float(x[i] & 0xffff0000u) * __uint_as_float(y[i] & 0xffff0000u);
        }
        sum += part;
    }
    for (int step = CS_ATTENTION_LANES / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

/* -lse / ln 2: what is added to a score in units of log 2; -inf, which makes p = 0, for rows that
 * see nothing */
__device__ __forceinline__ float cs_attention_log_of(float lse)
{
    return lse == -INFINITY ? -INFINITY : -lse * CS_LOG2E;
}

/* What the backward pass knows of the rows, before it has started: two arrays of the same layout,
 * row i of head h at h * per_head + i / 64 * per_64 + i % 64. */
struct cs_attention_rows {
    const float *lse, *sum; /* sum: rowsum(dO o) */
    float to_log2;          /* from what lse holds to -lse / ln 2 */
    int64_t rows, per_head;
    int32_t per_64;
};

/* shape->dsink, where it is wanted (attention/sink.cu). */
void cs_attention_sink_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            const struct cs_attention_rows &rows);

/* --- host ------------------------------------------------------------------------------------- */

/* Arrays in a workspace, and the workspace itself, begin at multiples of 256 bytes. */
static inline size_t cs_attention_align(size_t bytes)
{
    return (bytes + 255) & ~(size_t)255;
}

static inline int32_t cs_attention_keys(const struct cs_attention_shape *s)
{
    return s->k_tokens > 0 ? s->k_tokens : s->tokens;
}

/* From q . k to the exponent of 2: times exp2, or under a cap cs_tanh_log2(tanh q . k) times
 * exp2. */
struct cs_attention_scales {
    float tanh; /* 0 without a cap */
    float exp2;
};

static inline struct cs_attention_scales cs_attention_scales_of(const struct cs_attention_shape *s)
{
    const bool is_capped = s->softcap > 0.0f;
    return {is_capped ? 2.0f * CS_LOG2E * s->scale / s->softcap : 0.0f,
            (is_capped ? s->softcap : s->scale) * CS_LOG2E};
}

/* Can kernels over lists work with this shape and plan? any: all addresses of operands or-ed. They
 * read rows in packs of 16 bytes. */
static inline bool cs_attention_has_lists(const struct cs_attention_shape *s,
                                          const struct cs_mask_plan *mask, uintptr_t any)
{
    return mask->cells != nullptr && mask->cells->n_q > 0 && mask->cells->n_k > 0 &&
           s->kv_heads > 0 && s->heads > 0 && s->heads % s->kv_heads == 0 && s->heads <= 65535 &&
           s->scale > 0.0f && s->softcap >= 0.0f &&
           (s->q_stride | s->kv_stride | s->o_stride) % 8 == 0 && any % 16 == 0;
}

/* Bytes of shared memory that a block can have; 0: unknown */
static inline int cs_cuda_shared_most(const struct cs_ctx *ctx)
{
    int bytes = 0;
    const cudaError_t code = cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                                    cs_cuda_handle_of(ctx)->device);
    return code == cudaSuccess ? bytes : 0;
}

/* Compute capability times 10; 0: unknown */
static inline int cs_attention_capability(const struct cs_ctx *ctx)
{
    int major = 0, minor = 0;
    const int device = cs_cuda_handle_of(ctx)->device;
    const bool is_known =
        cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
        cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
    return is_known ? 10 * major + minor : 0;
}

#endif
