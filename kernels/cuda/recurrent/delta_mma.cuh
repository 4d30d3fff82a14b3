/* The gated delta rule in bf16 on the warp-wide matrix instructions (mma.sync m16n8k16, ldmatrix,
 * cp.async), for keys and values of at most 128. Gradients of a chunk take 208 KiB of shared memory, so
 * training needs a card whose blocks can have them (Hopper's); all else runs on every card since
 * compute capability 8.0. Formulas and names: kernels/cpu/delta_chunk.h, delta.cuh.
 *
 * Tiles in shared memory are bf16, row after row, 128 (or 64) columns with zeros behind what is there,
 * and 8 more that nobody uses: so eight rows of a matrix lie in different banks. Sums stay in
 * registers, in the accumulators of the instruction: a thread has rows r and r + 8 of its warp's 16,
 * r = lane / 4, and of every 8 columns two, 2 (lane % 4) and the next. A block of eight warps has
 * 64 rows: warp g + 4 h has 16 rows from 16 g on and half h of the columns, in all products of a
 * kernel, so what belongs to a row (decays, sums over columns) stays in the same registers. */
#ifndef CS_KERNELS_CUDA_RECURRENT_DELTA_MMA_CUH
#define CS_KERNELS_CUDA_RECURRENT_DELTA_MMA_CUH

#include "kernels/cuda/attention/mma_tile.cuh"
#include "kernels/cuda/recurrent/delta.cuh"

namespace cs_delta_mma
{

typedef __nv_bfloat16 half_t;
typedef cs_delta_args<half_t> args;

constexpr int C = CS_DELTA_CHUNK, WIDTH = 128, PITCH = WIDTH + 8, SQUARE = C + 8; /* elements */

/* --- products ----------------------------------------------------------------------------------
 * d (16, 8 NT) += a b for k from first to end. Element (m, k) of a is at a[m lda + k], A_T: at
 * a[k lda + m]; element (k, n) of b at b[k ldb + n], B_T: at b[n ldb + k]. Operands of GROUP steps of 16
 * are read before the first product of them waits, as many as registers allow: end - first is a multiple
 * of 16 GROUP. */
template <bool A_T, bool B_T, int NT>
__device__ __forceinline__ void add(float (&d)[NT][4], const half_t *a, int lda, const half_t *b,
                                    int ldb, int first, int end)
{
    static_assert(NT % 2 == 0);
    const int lane = (int)threadIdx.x % 32, row = lane % 8, low = lane / 8 % 2, high = lane / 16;
    uint32_t at_a = cs_mma_address(A_T ? a + (high * 8 + row) * lda + low * 8
                                       : a + (low * 8 + row) * lda + high * 8);
    uint32_t at_b = cs_mma_address(B_T ? b + (high * 8 + row) * ldb + low * 8
                                       : b + (low * 8 + row) * ldb + high * 8);
    const uint32_t step_a = (uint32_t)(A_T ? 32 * lda : 32),
                   step_b = (uint32_t)(B_T ? 32 : 32 * ldb);
    const uint32_t next_b = (uint32_t)(B_T ? 32 * ldb : 32); /* to the next 16 columns */
    at_a += (uint32_t)(first / 16) * step_a;
    at_b += (uint32_t)(first / 16) * step_b;
    constexpr int GROUP = NT <= 2 ? 4 : NT <= 4 ? 2 : 1;
#pragma unroll 2
    for (int k = first; k < end; k += 16 * GROUP) {
        uint32_t left[GROUP][4], right[GROUP][NT / 2][4];
#pragma unroll
        for (int g = 0; g < GROUP; g++, at_a += step_a, at_b += step_b) {
            if (A_T)
                cs_mma_matrices_t(left[g], at_a);
            else
                cs_mma_matrices(left[g], at_a);
#pragma unroll
            for (int n = 0; n < NT / 2; n++) {
                if (B_T)
                    cs_mma_matrices(right[g][n], at_b + (uint32_t)n * next_b);
                else
                    cs_mma_matrices_t(right[g][n], at_b + (uint32_t)n * next_b);
            }
        }
#pragma unroll
        for (int g = 0; g < GROUP; g++)
#pragma unroll
            for (int n = 0; n < NT; n++)
                cs_mma(d[n], left[g], right[g][n / 2][n % 2 * 2], right[g][n / 2][n % 2 * 2 + 1]);
    }
}

/* Row of accumulator i, column of accumulator i of tile n, in the warp's part. */
__device__ __forceinline__ int row_of(int i)
{
    return (int)threadIdx.x % 32 / 4 + i / 2 * 8;
}

__device__ __forceinline__ int col_of(int n, int i)
{
    return 8 * n + (int)threadIdx.x % 4 * 2 + i % 2;
}

__device__ __forceinline__ float2 pair_at(const half_t *x)
{
    return __bfloat1622float2(*(const __nv_bfloat162 *)x);
}

__device__ __forceinline__ void put_pair(half_t *x, float first, float second)
{
    *(uint32_t *)x = cs_pack_bf16(first, second);
}

/* --- rows between memory and tiles ------------------------------------------------------------- */

/* ROWS rows of an array of the workspace, `width` (a multiple of 8) columns at x, stride elements
 * apart, to a tile: zeros in columns and rows that are not there. Asynchronous. */
template <int ROWS, int THREADS>
__device__ __forceinline__ void load(half_t *to, const half_t *x, int64_t stride, int width,
                                     int rows)
{
    for (int i = (int)threadIdx.x; i < ROWS * (WIDTH / 8); i += THREADS) {
        const int r = i / (WIDTH / 8), c = i % (WIDTH / 8) * 8;
        const bool is_there = r < rows && c < width;
        cs_mma_copy16(cs_mma_address(to + r * PITCH + c), is_there ? x + r * stride + c : x,
                      is_there);
    }
}

/* Rows of a chunk in an array (rows, heads, width) */
template <int THREADS>
__device__ __forceinline__ void load_chunk(half_t *to, const half_t *x, int32_t heads, int32_t head,
                                           int32_t width, const cs_delta_place &p)
{
    load<C, THREADS>(to, x + ((int64_t)p.begin * heads + head) * width, (int64_t)heads * width,
                     width, p.n);
}

/* The same from an operand of any alignment, 8 columns at a time; not asynchronous. */
__device__ __forceinline__ void load_values(half_t *to, const half_t *x, int64_t stride, int width,
                                            int rows)
{
    for (int i = (int)threadIdx.x; i < C * (WIDTH / 8); i += CS_DELTA_THREADS) {
        const int r = i / (WIDTH / 8), c = i % (WIDTH / 8) * 8;
        const int64_t count = r < rows ? width - c : 0;
        *(cs_pack_words<half_t> *)(to + r * PITCH + c) = cs_load_words(x + r * stride + c, count);
    }
}

/* (I + L)^-1 of a chunk, 64 columns */
__device__ __forceinline__ void load_square(half_t *to, const args &a, int32_t head,
                                            const cs_delta_place &p)
{
    const half_t *x = a.inv + ((int64_t)p.begin * a.heads + head) * C;
    for (int i = (int)threadIdx.x; i < C * (C / 8); i += CS_DELTA_THREADS) {
        const int r = i / (C / 8), c = i % (C / 8) * 8;
        cs_mma_copy16(cs_mma_address(to + r * SQUARE + c),
                      r < p.n ? x + (int64_t)r * a.heads * C + c : x, r < p.n);
    }
}

/* Accumulators (16, 8 NT) to rows of a tile */
template <int NT> __device__ __forceinline__ void store(half_t *to, int ld, const float (&d)[NT][4])
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i += 2)
            put_pair(to + row_of(i) * ld + col_of(n, i), d[n][i], d[n][i + 1]);
}

/* and to an array (rows, heads, width) with rows from p.begin + row on, columns from col on */
template <int NT>
__device__ __forceinline__ void store_chunk(half_t *to, int32_t heads, int32_t head, int32_t width,
                                            const cs_delta_place &p, int row, int col,
                                            const float (&d)[NT][4])
{
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const int r = row + row_of(i);
        half_t *const at = to + ((int64_t)(p.begin + r) * heads + head) * width;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const int c = col + col_of(n, i);
            if (r < p.n && c < width)
                put_pair(at + c, d[n][i], d[n][i + 1]);
        }
    }
}

/* and to a result with rows of any alignment, of which column 0 is of this head */
template <int NT>
__device__ __forceinline__ void store_values(half_t *to, int64_t stride, int width,
                                             const cs_delta_place &p, int row, int col,
                                             const float (&d)[NT][4])
{
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const int r = row + row_of(i);
        half_t *const at = to + (p.begin + r) * stride;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const int c = col + col_of(n, i);
            if (r < p.n && c + 1 < width && ((uintptr_t)(at + c) & 3) == 0) {
                put_pair(at + c, d[n][i], d[n][i + 1]);
                continue;
            }
            if (r < p.n && c < width)
                at[c] = __float2bfloat16_rn(d[n][i]);
            if (r < p.n && c + 1 < width)
                at[c + 1] = __float2bfloat16_rn(d[n][i + 1]);
        }
    }
}

/* --- gates --------------------------------------------------------------------------------------*/

/* Running sums of g in a chunk (of the workspace, (heads, rows)); rows from n on: the last one. */
__device__ __forceinline__ float sum_at(const args &a, int32_t head, const cs_delta_place &p, int r)
{
    return a.sums[(int64_t)head * a.rows + p.begin + min(r, p.n - 1)];
}

/* sum[C] and, unless NULL, beta[C] to shared memory; ends without a barrier. */
__device__ __forceinline__ void load_gates(const args &a, int32_t head, const cs_delta_place &p,
                                           float *sum, float *beta)
{
    const int r = (int)threadIdx.x;
    if (r >= C)
        return;
    sum[r] = sum_at(a, head, p, r);
    if (beta != nullptr)
        beta[r] = r < p.n ? a.beta[(int64_t)(p.begin + r) * a.heads + head] : 0.0f;
}

__device__ __forceinline__ void clear(float (*d)[4], int n)
{
#pragma unroll
    for (int t = 0; t < n; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            d[t][i] = 0.0f;
}

} // namespace cs_delta_mma

/* Whether these kernels take the call; else those of delta.cu do. */
template <typename T>
inline bool cs_delta_is_mma(const struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    return sizeof(T) == 2 && a.widest <= cs_delta_mma::WIDTH && cs_attention_capability(ctx) >= 80;
}

/* What delta_prepare_kernel, delta_scan_kernel, delta_output_kernel, delta_pull_kernel,
 * delta_back_kernel and delta_grad_kernel do; gates of the chunks come with the first. */
void cs_delta_mma_prepare(struct cs_ctx *ctx, const cs_delta_mma::args &a);
void cs_delta_mma_scan(struct cs_ctx *ctx, const cs_delta_mma::args &a);
void cs_delta_mma_output(struct cs_ctx *ctx, const cs_delta_mma::args &a);
void cs_delta_mma_pull(struct cs_ctx *ctx, const cs_delta_mma::args &a);
void cs_delta_mma_back(struct cs_ctx *ctx, const cs_delta_mma::args &a);
void cs_delta_mma_grad(struct cs_ctx *ctx, const cs_delta_mma::args &a);

#endif
