/* What the backward kernels have in common around their arithmetic: the roles of the warps, and
 * the launch. L is the layout of shared memory of a kernel. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_ROLES_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_ROLES_CUH

#include "kernels/cuda/attention/hopper/bwd_sm90_math.cuh"

enum {
    CS_BWD_THREADS = 3 * CS_WARPGROUP,
    CS_BWD_FEED_REGISTERS = 40,  /* of a thread that loads or adds dQ, */
    CS_BWD_MATH_REGISTERS = 232, /* of one that computes */
};

/* The whole kernel; consume(shared, warpgroup): what a warpgroup computes. */
template <typename L, typename Consume>
__device__ __forceinline__ void cs_bwd_play(const struct cs_bwd_args &a,
                                            const struct cs_bwd_maps &maps, Consume consume)
{
    extern __shared__ uint8_t dynamic[];
    uint8_t *shared = dynamic + (1024 - cs_smem(dynamic) % 1024) % 1024;
    /* from one lane: the compiler sees that they are the same for a warp */
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), wg = warp / 4;
    if (threadIdx.x == 0)
        init_barriers<L>(cs_smem(shared));
    __syncthreads();
    if (wg == 2) {
        cs_registers_give<CS_BWD_FEED_REGISTERS>();
        if (warp == CONSUMER_WARPS)
            produce<L>(a, maps, shared);
        else if (warp <= CONSUMER_WARPS + 2 && threadIdx.x % 32 == 0)
            add_dq<L>(a, shared, warp - CONSUMER_WARPS - 1);
    } else {
        cs_registers_take<CS_BWD_MATH_REGISTERS>();
        consume(shared, wg);
    }
}

typedef void (*cs_bwd_kernel_fn)(const struct cs_bwd_maps, const struct cs_bwd_args);

template <typename L>
static void cs_bwd_launch(struct cs_ctx *ctx, const struct cs_bwd_maps &maps,
                          const struct cs_bwd_args &a, cs_bwd_kernel_fn kernel)
{
    CS_CUDA_NOTE(ctx,
                 cudaFuncSetAttribute((const void *)kernel,
                                      cudaFuncAttributeMaxDynamicSharedMemorySize, L::BYTES),
                 "attention_grad");
    const int items = a.n_k * L::TILE_PARTS * a.kv_heads * a.parts;
    const unsigned blocks = (unsigned)min(items, cs_cuda_handle_of(ctx)->processors);
    kernel<<<blocks, CS_BWD_THREADS, L::BYTES, cs_cuda_stream_of(ctx)>>>(maps, a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

#endif
