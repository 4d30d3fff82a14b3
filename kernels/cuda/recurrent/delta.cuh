/* The gated delta rule on a GPU: what its kernels share. Formulas: kernels/cpu/delta_chunk.h.
 *
 * A block works on one chunk of one head (or, for the state, on a strip of its columns through all
 * chunks of a document). Operands of products lie in shared memory in the act type, padded to 16
 * with zeros, sums are fp32: bf16 on tensor cores, fp32 by plain loops, which is for comparing.
 * Between the passes, arrays lie in the workspace by row, states by row / chunk: a chunk that is not
 * its document's first begins at least a whole chunk behind the one before, so no two share a slot. */
#ifndef CS_KERNELS_CUDA_RECURRENT_DELTA_CUH
#define CS_KERNELS_CUDA_RECURRENT_DELTA_CUH

#include <mma.h>
#include <type_traits>

#include "kernels/cuda/cuda_ops.cuh"

#define CS_DELTA_THREADS 256
#define CS_DELTA_STRIP   32 /* columns of the state that a block carries */

/* Rows of a chunk: fp32 tiles take twice the room. */
template <typename T> constexpr int cs_delta_rows = sizeof(T) == 2 ? CS_DELTA_CHUNK : 16;

/* Everything of one call; `pad`: rounded up to 16. (rows, heads, ...) unless said otherwise. */
template <typename T> struct cs_delta_args {
    int32_t rows, heads, key_heads, dk, dv, dk_pad, dv_pad;
    int32_t widest; /* of both pads, as the call has them: which kernels take it */
    int64_t q_stride, v_stride, o_stride;
    float eps, scale;
    const int32_t *doc;
    const T *q, *k, *v, *d_o;
    const float *g, *beta;
    int32_t *count;         /* [0] chunks, [1] documents */
    int32_t *begin, *first; /* row where a chunk begins; first chunk of a document; one more each */
    T *qn, *kn;             /* (rows, key_heads, dk_pad) normalised, q scaled */
    float *sums;            /* (heads, rows) running sums of g in a chunk, of the kernels in bf16 */
    T *inv;                 /* (.., chunk) row of (I + L)^-1 */
    T *u0, *u, *du;         /* (.., dv_pad) */
    T *w, *dqh, *dkh;       /* (.., dk_pad); gradients of qn and kn by head */
    T *state, *d_state;     /* (slots, heads, dk_pad, dv_pad) entering a chunk, and its gradient */
    T *o, *dq, *dk_out, *dv_out; /* results */
    float *dg, *dbeta;
    /* Rows that go on elsewhere, (heads, dk, dv): the state that enters the first document, the gradient
     * of the one that leaves the last; NULL: 0. The other way round, NULL: not wanted. */
    const float *enter, *leave;
    float *left, *asked;

    enum { ALL, FIRST, LAST } documents; /* of a pass through them */
};

/* Where a chunk lies. */
struct cs_delta_place {
    int32_t begin, n;
    bool
        has_state; /* a state enters it: it is not the first of its document, or that came from elsewhere */
};

template <typename T>
__device__ inline cs_delta_place cs_delta_at(const cs_delta_args<T> &a, int32_t chunk)
{
    const int32_t begin = a.begin[chunk];
    const bool has_state = begin == 0 ? a.enter != nullptr : a.doc[begin] == a.doc[begin - 1];
    return {begin, a.begin[chunk + 1] - begin, has_state};
}

template <typename T>
__device__ inline T *cs_delta_state(const cs_delta_args<T> &a, T *states, int32_t begin,
                                    int32_t head)
{
    return states + ((int64_t)(begin / cs_delta_rows<T>)*a.heads + head) * a.dk_pad * a.dv_pad;
}

/* Gradient of the state that leaves a chunk, NULL: 0. That of the last rows stands in the first place: no
 * chunk before the first one leaves a state. */
template <typename T>
__device__ inline T *cs_delta_leaving(const cs_delta_args<T> &a, const cs_delta_place &p,
                                      int32_t head)
{
    const int32_t end = p.begin + p.n;
    if (end == a.rows)
        return a.leave != nullptr ? cs_delta_state(a, a.d_state, 0, head) : nullptr;
    return a.doc[end] == a.doc[end - 1]
               ? cs_delta_state(a, a.d_state, p.begin + cs_delta_rows<T>, head)
               : nullptr;
}

/* a pass through documents takes this one */
template <typename T> __device__ inline bool cs_delta_takes(const cs_delta_args<T> &a, int32_t doc)
{
    return a.documents == a.ALL || doc == (a.documents == a.FIRST ? 0 : a.count[1] - 1);
}

/* What enters the first document (FIRST), or leaves the last, of a head; NULL: 0, or not wanted. */
template <typename T, typename U>
__device__ inline U *cs_delta_end(const cs_delta_args<T> &a, U *states, bool is_there, int32_t head)
{
    return states != nullptr && is_there ? states + (int64_t)head * a.dk * a.dv : nullptr;
}

/* Shared memory, handed out in order. */
struct cs_delta_room {
    char *at;

    template <typename U> __device__ U *take(int count)
    {
        U *p = (U *)at;
        at += ((size_t)count * sizeof(U) + 127) / 128 * 128;
        return p;
    }
};

/* to (rows, ld) = x(row, column) in `width` columns, row by row */
template <typename U, typename F>
__device__ inline void cs_delta_fill(U *to, int ld, int rows, int width, F x)
{
    for (int i = (int)threadIdx.x; i < rows * width; i += CS_DELTA_THREADS) {
        const int r = i / width, c = i - r * width;
        to[r * ld + c] = cs_from_float<U>(x(r, c));
    }
}

/* c (m, n) = alpha op(a) op(b), or += ; m, n, k multiples of 16; c in shared memory. Ends with a
 * barrier, needs one before. */
template <bool A_T, bool B_T, bool ADDS, typename T>
__device__ inline void cs_delta_product(int m, int n, int k, float alpha, const T *a, int lda,
                                        const T *b, int ldb, float *c, int ldc)
{
    if constexpr (sizeof(T) == 2) {
        using namespace nvcuda::wmma;
        using a_order = std::conditional_t<A_T, col_major, row_major>;
        using b_order = std::conditional_t<B_T, col_major, row_major>;
        const int warp = (int)threadIdx.x / 32, across = n / 16;
        for (int t = warp; t < m / 16 * across; t += CS_DELTA_THREADS / 32) {
            const int row = t / across * 16, col = t % across * 16;
            fragment<accumulator, 16, 16, 16, float> sum;
            fill_fragment(sum, 0.0f);
            for (int i = 0; i < k; i += 16) {
                fragment<matrix_a, 16, 16, 16, __nv_bfloat16, a_order> x;
                fragment<matrix_b, 16, 16, 16, __nv_bfloat16, b_order> y;
                load_matrix_sync(x, A_T ? a + i * lda + row : a + row * lda + i, lda);
                load_matrix_sync(y, B_T ? b + col * ldb + i : b + i * ldb + col, ldb);
                mma_sync(sum, x, y, sum);
            }
            fragment<accumulator, 16, 16, 16, float> old;
            if (ADDS)
                load_matrix_sync(old, c + row * ldc + col, ldc, mem_row_major);
            for (int i = 0; i < sum.num_elements; i++)
                sum.x[i] = ADDS ? old.x[i] + alpha * sum.x[i] : alpha * sum.x[i];
            store_matrix_sync(c + row * ldc + col, sum, ldc, mem_row_major);
        }
    } else {
        for (int i = (int)threadIdx.x; i < m * n; i += CS_DELTA_THREADS) {
            const int row = i / n, col = i % n;
            float sum = 0.0f;
            for (int j = 0; j < k; j++)
                sum += (A_T ? a[j * lda + row] : a[row * lda + j]) *
                       (B_T ? b[col * ldb + j] : b[j * ldb + col]);
            c[row * ldc + col] = ADDS ? c[row * ldc + col] + alpha * sum : alpha * sum;
        }
    }
    __syncthreads();
}

/* sum[i] (chunk) running sums of g, beta (chunk); rows from n on: the last sum, 0 */
template <typename T>
__device__ inline void cs_delta_gates(const cs_delta_args<T> &a, const cs_delta_place &p,
                                      int32_t head, float *sum, float *beta)
{
    const int i = (int)threadIdx.x;
    if (i < cs_delta_rows<T>) {
        const int64_t at = (int64_t)(p.begin + i) * a.heads + head;
        sum[i] = i < p.n ? a.g[at] : 0.0f;
        beta[i] = i < p.n ? a.beta[at] : 0.0f;
    }
    __syncthreads();
    if (i == 0)
        for (int j = 1; j < cs_delta_rows<T>; j++)
            sum[j] += sum[j - 1];
    __syncthreads();
}

/* A tile of rows of an array (rows, heads, width): what its row p.begin + r holds, 0 from n on */
template <typename T>
__device__ inline void cs_delta_load(const T *x, int32_t heads, int32_t head, int32_t width,
                                     const cs_delta_place &p, T *to, int ld)
{
    cs_delta_fill(to, ld, cs_delta_rows<T>, width, [&](int r, int c) {
        return r < p.n ? cs_to_float(x[((int64_t)(p.begin + r) * heads + head) * width + c]) : 0.0f;
    });
}

/* The same from an operand with a row stride and no padding */
template <typename T>
__device__ inline void cs_delta_load_values(const T *x, int64_t stride, int32_t head, int32_t dv,
                                            int32_t dv_pad, const cs_delta_place &p, T *to, int ld)
{
    cs_delta_fill(to, ld, cs_delta_rows<T>, dv_pad, [&](int r, int c) {
        return r < p.n && c < dv
                   ? cs_to_float(x[(int64_t)(p.begin + r) * stride + (int64_t)head * dv + c])
                   : 0.0f;
    });
}

template <typename T> __device__ inline int cs_delta_key_head(const cs_delta_args<T> &a, int head)
{
    return head / (a.heads / a.key_heads);
}

/* The matrix A of a chunk with what it is made of, for those that multiply with it. */
template <typename T> struct cs_delta_scores {
    T *q, *k, *x, *a;               /* (chunk, dk), (chunk, dk), (chunk, dv): the caller's; A */
    float *dots, *out, *sum, *beta; /* q k^T; (chunk, dv): the caller's; of cs_delta_gates */
    int lk, lv, ln, la;             /* of q and k, of x and out, of dots, of a */
};

template <typename T> inline size_t cs_delta_scores_bytes(const cs_delta_args<T> &a)
{
    const size_t c = cs_delta_rows<T>, k = (size_t)a.dk_pad + 8, v = (size_t)a.dv_pad + 8;
    return (2 * c * k + c * v + c * (c + 8)) * sizeof(T) +
           (c * (c + 4) + c * v + 2 * c) * sizeof(float) + 8 * 128;
}

template <typename T>
__device__ inline cs_delta_scores<T> cs_delta_scores_room(const cs_delta_args<T> &a, char *shared)
{
    constexpr int C = cs_delta_rows<T>;
    const int lk = a.dk_pad + 8, lv = a.dv_pad + 8, ln = C + 4, la = C + 8;
    cs_delta_room room = {shared};
    T *const q = room.take<T>(C * lk), *const k = room.take<T>(C * lk);
    T *const x = room.take<T>(C * lv), *const scores = room.take<T>(C * la);
    float *const dots = room.take<float>(C * ln), *const out = room.take<float>(C * lv);
    float *const sum = room.take<float>(C), *const beta = room.take<float>(C);
    return {q, k, x, scores, dots, out, sum, beta, lk, lv, ln, la};
}

/* A, q, k, sums; x is there too when it was filled before. Ends with a barrier. */
template <typename T>
__device__ inline void cs_delta_scores_make(const cs_delta_args<T> &a, const cs_delta_place &p,
                                            int32_t head, const cs_delta_scores<T> &s)
{
    constexpr int C = cs_delta_rows<T>;
    const int key = cs_delta_key_head(a, head);
    cs_delta_gates(a, p, head, s.sum, s.beta);
    cs_delta_load(a.qn, a.key_heads, key, a.dk_pad, p, s.q, s.lk);
    cs_delta_load(a.kn, a.key_heads, key, a.dk_pad, p, s.k, s.lk);
    __syncthreads();
    cs_delta_product<false, true, false>(C, C, a.dk_pad, 1.0f, s.q, s.lk, s.k, s.lk, s.dots, s.ln);
    cs_delta_fill(s.a, s.la, C, C, [&](int r, int j) {
        return j <= r ? expf(s.sum[r] - s.sum[j]) * s.dots[r * s.ln + j] : 0.0f;
    });
    __syncthreads();
}

/* Arguments with arrays in the workspace; false: refused, and why is kept. */
template <typename T>
bool cs_delta_args_of(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                      const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                      const char *what, cs_delta_args<T> *out);
/* Lists of chunks, normalised keys, (I + L)^-1, U0, W: what all begin with. */
template <typename T> void cs_delta_prepare(struct cs_ctx *ctx, const cs_delta_args<T> &a);
/* Then U and the states, where there is memory for them, and what leaves. U0 NULL: 0. */
template <typename T> void cs_delta_scan(struct cs_ctx *ctx, const cs_delta_args<T> &a);
/* What outputs ask of U; then gradients of U and of the states, and what is asked of the one that
 * enters. */
template <typename T> void cs_delta_pull(struct cs_ctx *ctx, const cs_delta_args<T> &a);
template <typename T> void cs_delta_back(struct cs_ctx *ctx, const cs_delta_args<T> &a);

/* Blocks for a pass over chunks and heads: as many as whole chunks take, and some for the ends of
 * documents; where there are more of those, blocks take turns. (Blocks without work are not free.) */
template <typename T> inline dim3 cs_delta_grid(const cs_delta_args<T> &a)
{
    const int32_t usual = a.rows / cs_delta_rows<T> + 32;
    return dim3((unsigned)(a.rows < usual ? a.rows : usual), (unsigned)a.heads);
}

/* For a pass through documents: some at a time, heads, strips of columns. */
template <typename T> inline dim3 cs_delta_strips(const cs_delta_args<T> &a)
{
    return dim3((unsigned)(a.rows < 64 ? a.rows : 64), (unsigned)a.heads,
                (unsigned)((a.dv_pad + CS_DELTA_STRIP - 1) / CS_DELTA_STRIP));
}

#define CS_DELTA_LAUNCH(ctx, kernel, grid, bytes, ...)                                             \
    CS_DELTA_LAUNCH_OF(ctx, kernel, grid, CS_DELTA_THREADS, bytes, __VA_ARGS__)

#define CS_DELTA_LAUNCH_OF(ctx, kernel, grid, threads, bytes, ...)                                 \
    do {                                                                                           \
        CS_CUDA_NOTE(ctx,                                                                          \
                     cudaFuncSetAttribute((const void *)(kernel),                                  \
                                          cudaFuncAttributeMaxDynamicSharedMemorySize,             \
                                          (int)(bytes)),                                           \
                     "shared memory of the delta rule");                                           \
        (kernel)<<<grid, threads, bytes, cs_cuda_stream_of(ctx)>>>(__VA_ARGS__);                   \
        CS_CUDA_LAUNCHED(ctx, #kernel);                                                            \
    } while (0)

#endif
