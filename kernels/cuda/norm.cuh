/* What the kernels of the norms share: a group of L threads holds R rows at a time in registers, P
 * packs of each a thread (WHOLE: all packs are whole and aligned; the sums are the same). Pack
 * (p L + t) of a row belongs to thread t of the group: the order of sums depends on n only. Rows of
 * more than CS_NORM_WIDEST elements take the kernels that read a row several times. */
#ifndef CS_CUDA_NORM_CUH
#define CS_CUDA_NORM_CUH

#include "kernels/cuda/cuda_ops.cuh"

#define CS_NORM_THREADS 256 /* of the kernels for wide rows */
#define CS_NORM_WIDEST  (4 * 256 * CS_PACK)

/* Which group of the block, and which thread of it */
template <int L, int GROUPS> __device__ inline int cs_group()
{
    return GROUPS == 1 ? 0 : (int)threadIdx.x / L;
}

template <int L, int GROUPS> __device__ inline int cs_in_group()
{
    return GROUPS == 1 ? (int)threadIdx.x : (int)threadIdx.x % L;
}

/* Where warps of a group leave their sums; two, used in turns, so that one barrier a sum is enough:
 * who writes a slot again has passed a barrier that all its readers have reached. */
template <int N, int BLOCK> struct alignas(16) cs_norm_slots {
    float warp[2][BLOCK / 32][N];
};

/* Sums of N values (a power of two) over a warp with about N exchanges: in every round a lane gives
 * away half of its values and adds what it gets to the other half. v[0] becomes the sum of value
 * (result), in 32 / N neighbouring lanes. */
template <int N> __device__ inline int cs_warp_sums(float *v)
{
    const int lane = (int)threadIdx.x % 32;
    int at = 0, width = 16;
#pragma unroll
    for (int n = N; n > 1; n /= 2, width /= 2) {
        const bool is_upper = (lane & width) != 0;
#pragma unroll
        for (int i = 0; i < n / 2; i++) {
            const float given = is_upper ? v[i] : v[i + n / 2];
            const float kept = is_upper ? v[i + n / 2] : v[i];
            v[i] = kept + __shfl_xor_sync(0xffffffffu, given, width);
        }
        at = 2 * at + (is_upper ? 1 : 0);
    }
#pragma unroll
    for (; width > 0; width /= 2)
        v[0] += __shfl_xor_sync(0xffffffffu, v[0], width);
    return at;
}

/* Every thread of a group of L threads (16, or whole warps) gets the N sums; all threads of the
 * group call it, of 16 lanes all threads of the warp. */
template <int N, int L, int BLOCK>
__device__ inline void cs_group_sums(struct cs_norm_slots<N, BLOCK> *slots, int turn, float *v)
{
    if constexpr (L <= 32) {
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int width = L / 2; width > 0; width /= 2)
                v[i] += __shfl_xor_sync(0xffffffffu, v[i], width);
    } else {
        constexpr int WARPS = L / 32;
        const int warp = (int)threadIdx.x / 32, first = warp / WARPS * WARPS;
        float(*slot)[N] = slots->warp[turn & 1];
        const int at = cs_warp_sums<N>(v);
        if (threadIdx.x % (32 / N) == 0)
            slot[warp][at] = v[0];
        if constexpr (L == BLOCK)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / WARPS), "r"(L) : "memory");
#pragma unroll
        for (int i = 0; i < N; i++)
            v[i] = slot[first][i];
#pragma unroll
        for (int w = 1; w < WARPS; w++)
#pragma unroll
            for (int i = 0; i < N; i++)
                v[i] += slot[first + w][i];
    }
}

/* Blocks that work through `groups` groups of rows, at most `most` at a time, all of them as many
 * as the busiest one, or one fewer. */
static inline unsigned cs_even_blocks(int64_t groups, int64_t most)
{
    const int64_t rounds = (groups + most - 1) / most;
    return (unsigned)((groups + rounds - 1) / rounds);
}

#endif
