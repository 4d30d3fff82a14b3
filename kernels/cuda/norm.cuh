/* What the kernels of the norms share: a group of G warps holds one row in registers, P packs a
 * thread (WHOLE: all packs are whole and aligned; the sums are the same). Pack (p 32 G + t) of the
 * row belongs to thread t of the group: the order of sums depends on n only. Rows of more than
 * CS_NORM_WIDEST elements take the kernels that read a row several times. */
#ifndef CS_CUDA_NORM_CUH
#define CS_CUDA_NORM_CUH

#include "kernels/cuda/cuda_ops.cuh"

#define CS_NORM_THREADS 256
#define CS_NORM_WARPS   (CS_NORM_THREADS / 32)
#define CS_NORM_WIDEST  (4 * 8 * 32 * CS_PACK)

/* Where warps of a group leave their sums; two, used in turns, so that one barrier a sum is enough:
 * who writes a slot again has passed a barrier that all its readers have reached. */
struct cs_norm_slots {
    float2 warp[2][CS_NORM_WARPS];
};

/* Every thread of the group gets the sums of x and y; all threads of the group call it. */
template <int G>
__device__ inline float2 cs_group_sum(struct cs_norm_slots *slots, int turn, float2 v)
{
    v.x = cs_warp_sum(v.x);
    v.y = cs_warp_sum(v.y);
    if constexpr (G > 1) {
        const int warp = (int)threadIdx.x / 32, first = warp / G * G;
        if (threadIdx.x % 32 == 0)
            slots->warp[turn & 1][warp] = v;
        if constexpr (G == CS_NORM_WARPS)
            __syncthreads();
        else
            asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / G), "r"(32 * G) : "memory");
        v = slots->warp[turn & 1][first];
#pragma unroll
        for (int w = 1; w < G; w++) {
            const float2 other = slots->warp[turn & 1][first + w];
            v.x += other.x;
            v.y += other.y;
        }
    }
    return v;
}

#endif
