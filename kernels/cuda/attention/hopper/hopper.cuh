/* Hopper (sm_90a) in small inline functions: shared-memory barriers, copies by the tensor memory
 * accelerator (TMA), named barriers, register budgets, matrix stores and, in hopper_wgmma.cuh, the
 * warpgroup matrix instructions. One instruction each, nothing is hidden. Only sources named
 * *_sm90*.cu, which are built for sm_90a alone (plugin.cmake), may use them.
 * Facts: PTX ISA 9.0, sections on mbarrier, cp.async.bulk and wgmma. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_HOPPER_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_HOPPER_CUH

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define CS_WARPGROUP 128 /* threads that issue one wgmma together */

__device__ __forceinline__ uint32_t cs_smem(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* x of the warp's first lane: tells the compiler that x is the same in all lanes, so that it
 * computes with it in uniform registers (operands of wgmma). */
__device__ __forceinline__ uint32_t cs_uniform(uint32_t x)
{
    return __shfl_sync(0xffffffffu, x, 0);
}

__device__ __forceinline__ uint32_t cs_shared_word(uint32_t address)
{
    uint32_t word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

/* --- barriers in shared memory: 8 bytes each, addressed by cs_smem() ------------------------ */

__device__ __forceinline__ void cs_mbar_init(uint32_t bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(arrivals) : "memory");
}

/* After the initialisations, before __syncthreads: other units see them. */
__device__ __forceinline__ void cs_mbar_init_done(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void cs_mbar_arrive(uint32_t bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

/* Arrive, and let the phase wait for so many bytes of copies as well. */
__device__ __forceinline__ void cs_mbar_expect(uint32_t bar, uint32_t bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes)
                 : "memory");
}

/* Until the phase with this parity is over; parity 1 on a fresh barrier returns at once. */
__device__ __forceinline__ void cs_mbar_wait(uint32_t bar, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again_%=:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over_%=;\n"
                 "bra again_%=;\n"
                 "over_%=:\n"
                 "}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}

/* Place in a ring of barriers: which stage, and the parity of its phase. */
template <int STAGES> struct cs_ring {
    int32_t stage;
    uint32_t parity;

    __device__ __forceinline__ void step(void)
    {
        if (++stage == STAGES) {
            stage = 0;
            parity ^= 1;
        }
    }
};

/* --- named barriers: 0 belongs to __syncthreads ---------------------------------------------- */

__device__ __forceinline__ void cs_bar_sync(int id, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

__device__ __forceinline__ void cs_bar_arrive(int id, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* --- register budget of a warpgroup, a multiple of 8 ----------------------------------------- */

template <int REGISTERS> __device__ __forceinline__ void cs_registers_give(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS> __device__ __forceinline__ void cs_registers_take(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

/* --- copies ---------------------------------------------------------------------------------- */

/* Between ordinary stores to shared memory and a wgmma or TMA that reads them. */
__device__ __forceinline__ void cs_fence_async(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

__device__ __forceinline__ void cs_tma_prefetch(const CUtensorMap *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* One box of a tensor to shared memory, coordinates innermost first; counts on bar. */
__device__ __forceinline__ void cs_tma_load(uint32_t to, const CUtensorMap *map, uint32_t bar,
                                            int32_t x, int32_t y)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y)
                 : "memory");
}

__device__ __forceinline__ void cs_tma_load(uint32_t to, const CUtensorMap *map, uint32_t bar,
                                            int32_t x, int32_t y, int32_t z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(bar), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* One box of a tensor to the L2 alone */
__device__ __forceinline__ void cs_tma_prefetch_box(const CUtensorMap *map, int32_t x, int32_t y,
                                                    int32_t z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global [%0, {%1, %2, %3}];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* The other way; ends with cs_bulk_commit and cs_bulk_wait. */
__device__ __forceinline__ void cs_tma_store(const CUtensorMap *map, uint32_t from, int32_t x,
                                             int32_t y, int32_t z)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(
            map),
        "r"(from), "r"(x), "r"(y), "r"(z)
        : "memory");
}

/* to (fp32, global, 16-byte aligned) += from (shared), bytes a multiple of 16 */
__device__ __forceinline__ void cs_bulk_add_f32(float *to, uint32_t from, uint32_t bytes)
{
    asm volatile(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
        "r"(from), "r"(bytes)
        : "memory");
}

/* The same through a tensor map, which clips at the borders of the tensor. */
__device__ __forceinline__ void cs_tma_add(const CUtensorMap *map, uint32_t from, int32_t x,
                                           int32_t y, int32_t z)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(from), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

__device__ __forceinline__ void cs_bulk_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Until at most PENDING groups still read shared memory ... */
template <int PENDING> __device__ __forceinline__ void cs_bulk_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* ... or are not yet written. */
template <int PENDING> __device__ __forceinline__ void cs_bulk_wait(void)
{
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* Four 8 x 8 matrices of bf16 pairs; lane l gives the address of row l % 8 of matrix l / 8. */
__device__ __forceinline__ void cs_ldmatrix(uint32_t from, uint32_t (&word)[4])
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void cs_stmatrix(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                            uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

__device__ __forceinline__ void cs_stmatrix_trans(uint32_t to, uint32_t a, uint32_t b, uint32_t c,
                                                  uint32_t d)
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

/* --- tensor maps, made on the host, passed as __grid_constant__ parameters -------------------- */

struct cs_tensor {
    CUtensorMapDataType type;
    void *base; /* 16-byte aligned */
    uint32_t rank;
    uint64_t size[3];   /* elements, innermost first */
    uint64_t stride[2]; /* bytes of dimensions 1 and 2, multiples of 16 */
    uint32_t box[3];    /* what one copy takes; what lies outside the tensor reads as 0 */
    CUtensorMapSwizzle swizzle;
};

/* false: the driver refused it, or has no such function */
static inline bool cs_tensor_map(const struct cs_tensor *t, CUtensorMap *map)
{
    typedef CUresult (*encode_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                  const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                  const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                  CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &found) != cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        return false;
    const cuuint64_t size[3] = {t->size[0], t->size[1], t->size[2]};
    const cuuint64_t stride[2] = {t->stride[0], t->stride[1]};
    const cuuint32_t box[3] = {t->box[0], t->box[1], t->box[2]}, every[3] = {1, 1, 1};
    return ((encode_fn)entry)(map, t->type, t->rank, t->base, size, stride, box, every,
                              CU_TENSOR_MAP_INTERLEAVE_NONE, t->swizzle,
                              CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                              CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

#include "kernels/cuda/attention/hopper/hopper_wgmma.cuh"

#endif
