/* Arithmetic of the backward kernels on accumulators of one warpgroup: rows are 64 keys, columns
 * queries (core/mask/cells.h says which thread holds what). */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_MATH_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_MATH_CUH

#include "kernels/cuda/attention/hopper/bwd_sm90_feed.cuh"

/* The compiler takes an accumulator for finished where its wgmma is issued; after the wait this
 * keeps it from moving uses to before the wait. */
template <int N> __device__ __forceinline__ void hold(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(x[i])::"memory");
}

/* Registers whose old values do not matter: the first wgmma overwrites them, which the compiler
 * cannot see (its accumulators are read and written). */
template <int N> __device__ __forceinline__ void forget(float (&x)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "=f"(x[i]));
}

/* The operand bytes further on in shared memory: addresses have no carry out of their field. */
__device__ __forceinline__ uint64_t further(uint64_t operand, uint32_t bytes)
{
    return (operand & 0xffffffff00000000) | ((uint32_t)operand + (bytes >> 4));
}

/* d (64 keys, N queries) = keys queries^T, columns of both along K */
template <typename L, int N>
__device__ __forceinline__ void products(float (&d)[N / 2], uint32_t keys, uint32_t queries)
{
    const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(keys);
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(queries);
    forget(d);
#pragma unroll
    for (int k = 0; k < L::K_STEPS; k++)
        cs_wgmma<N>::template ss<CS_ROW_K, CS_ROW_K>(
            d, further(a, k / 4 * L::KEY_PANEL + k % 4 * 32),
            further(b, k / 4 * L::QUERY_PANEL + k % 4 * 32), k > 0);
}

/* d (64 queries, N) = ds^T keys; ds (KEYS, 64 queries), keys (KEYS, N) */
template <typename L, int N>
__device__ __forceinline__ void query_gradient(float (&d)[N / 2], uint32_t ds, uint32_t keys)
{
    const uint64_t a = cs_wgmma_operand<CS_SWIZZLE_128>(ds);
    const uint64_t b = cs_wgmma_operand<CS_SWIZZLE_128>(keys, L::KEY_PANEL);
    forget(d);
#pragma unroll
    for (int k = 0; k < L::KEYS / 16; k++)
        cs_wgmma<N>::template ss<CS_ROW_MN, CS_ROW_MN>(d, further(a, k * 16 * 128),
                                                       further(b, k * 16 * 128), k > 0);
}

/* This thread's columns of a statistic of N queries; from: of its first column. Apart from their
 * use, so that nobody waits for shared memory there. */
template <int N> __device__ __forceinline__ void read_stat(float2 *x, const float *from)
{
#pragma unroll
    for (int j = 0; j < N / 8; j++)
        x[j] = *(const float2 *)(from + 8 * j);
}

/* Scores to probabilities: packed in p for dV, and times the slope of the cap in s for dS. lse:
 * times -1 / ln 2. */
template <int N, bool CAP>
__device__ __forceinline__ void probabilities(float (&s)[N / 2], uint32_t (&p)[N / 4],
                                              const float2 (&lse)[N / 8],
                                              const struct cs_bwd_args &a)
{
    const float unit = CAP ? 1.0f : a.to_log2;
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *x = s + 4 * j + 2 * h, slope[2];
            if (CAP) {
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const float t = cs_tanh_log2(x[i] * a.to_tanh);
                    slope[i] = 1.0f - t * t;
                    x[i] = x[i] == -INFINITY ? x[i] : t * a.to_log2;
                }
            }
            x[0] = cs_exp2(x[0] * unit + lse[j].x);
            x[1] = cs_exp2(x[1] * unit + lse[j].y);
            p[2 * j + h] = cs_pack_bf16(x[0], x[1]);
            if (CAP) {
                x[0] *= slope[0];
                x[1] *= slope[1];
            }
        }
    }
}

/* ds = p (dp - rowsum), packed */
template <int N>
__device__ __forceinline__ void score_gradient(const float (&p)[N / 2], const float (&dp)[N / 2],
                                               uint32_t (&ds)[N / 4], const float2 (&sum)[N / 8])
{
#pragma unroll
    for (int j = 0; j < N / 8; j++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int i = 4 * j + 2 * h;
            ds[2 * j + h] =
                cs_pack_bf16(p[i] * (dp[i] - sum[j].x), p[i + 1] * (dp[i + 1] - sum[j].y));
        }
    }
}

/* (64 keys, N queries from column 8 * octet) to rows of 64 queries, swizzled as TMA does */
template <int N>
__device__ __forceinline__ void store_packed(const uint32_t (&x)[N / 4], uint32_t to, int octet)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP, lane = t % 32;
    const int row = t / 32 * 16 + lane / 8 % 2 * 8 + lane % 8;
#pragma unroll
    for (int j = 0; j < N / 8; j += 2) {
        const int at = (octet + j + lane / 16) ^ (lane % 8);
        cs_stmatrix(to + row * 128 + at * 16, x[2 * j], x[2 * j + 1], x[2 * j + 2], x[2 * j + 3]);
    }
}

/* dK or dV of 64 keys and COLUMNS from first_column on: rows of bf16, or a part to be added. half:
 * 64 keys of the tile. */
template <typename L, int COLUMNS>
__device__ __forceinline__ void
store_keys(const struct cs_bwd_args &a, const float (&x)[COLUMNS / 2], float factor, int32_t tile,
           int32_t column, int half, int first_column, void *rows, float *part)
{
    const int t = (int)threadIdx.x % CS_WARPGROUP;
    const int32_t kv_head = column / a.parts;
    if (a.parts > 1) {
        const int64_t which =
            (((int64_t)(column % a.parts) * a.kv_heads + kv_head) * a.n_k + tile) * 2 + half;
        float *to = part + which * CS_BWD_ROWS * L::DIM + first_column * CS_BWD_ROWS + 4 * t;
#pragma unroll
        for (int i = 0; i < COLUMNS / 8; i++)
            *(float4 *)(to + i * 512) =
                make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]);
        return;
    }
    const int32_t row = a.k_row[tile] + half * CS_BWD_ROWS + t / 32 * 16 + t % 32 / 4;
    const int32_t end = a.k_row[tile + 1];
    __nv_bfloat16 *to = (__nv_bfloat16 *)rows + (int64_t)row * a.kv_stride +
                        (int64_t)kv_head * L::DIM + first_column + 2 * (t % 4);
#pragma unroll
    for (int i = 0; i < COLUMNS / 8; i++) {
        if (row < end)
            *(uint32_t *)(to + 8 * i) = cs_pack_bf16(x[4 * i] * factor, x[4 * i + 1] * factor);
        if (row + 8 < end)
            *(uint32_t *)(to + 8 * i + (int64_t)8 * a.kv_stride) =
                cs_pack_bf16(x[4 * i + 2] * factor, x[4 * i + 3] * factor);
    }
}

#endif
