/* Eight neighbours of a row at a time, as fp32, whatever the type and the alignment: 16-byte
 * accesses where the address allows, element by element where not and at the end of a row. The
 * assignment of elements to threads is the same in both cases, so sums do not depend on the
 * address. Also: sums over a warp and a block in a fixed order. */
#ifndef CS_CUDA_PACK_CUH
#define CS_CUDA_PACK_CUH

#include <cuda_bf16.h>
#include <stdint.h>

#define CS_PACK 8

__device__ inline float cs_to_float(float x)
{
    return x;
}

__device__ inline float cs_to_float(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

template <typename T> __device__ inline T cs_from_float(float x);

template <> __device__ inline float cs_from_float<float>(float x)
{
    return x;
}

template <> __device__ inline __nv_bfloat16 cs_from_float<__nv_bfloat16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <typename T> struct cs_pack_words {
    uint4 word[CS_PACK * sizeof(T) / sizeof(uint4)];
};

/* The words of p[0, count), zeros after it; count <= 0: nothing is read */
template <typename T> __device__ inline cs_pack_words<T> cs_load_words(const T *p, int64_t count)
{
    if (count >= CS_PACK && ((uintptr_t)p & 15) == 0)
        return *(const cs_pack_words<T> *)p;
    T x[CS_PACK];
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        x[i] = i < count ? p[i] : cs_from_float<T>(0.0f);
    cs_pack_words<T> w;
    memcpy(&w, x, sizeof w);
    return w;
}

/* The same where a pack is whole and aligned or not there at all: no other way to read is compiled,
 * which leaves more registers. */
template <bool IS_WHOLE, typename T>
__device__ inline cs_pack_words<T> cs_load_words(const T *p, int32_t count)
{
    if constexpr (!IS_WHOLE)
        return cs_load_words(p, (int64_t)count);
    cs_pack_words<T> w = {};
    if (count > 0)
        w = *(const cs_pack_words<T> *)p;
    return w;
}

template <typename T>
__device__ inline void cs_unpack(const cs_pack_words<T> &w, float out[CS_PACK])
{
    T x[CS_PACK];
    memcpy(x, &w, sizeof x);
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        out[i] = cs_to_float(x[i]);
}

template <typename T> __device__ inline cs_pack_words<T> cs_pack_up(const float in[CS_PACK])
{
    T x[CS_PACK];
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        x[i] = cs_from_float<T>(in[i]);
    cs_pack_words<T> w;
    memcpy(&w, x, sizeof w);
    return w;
}

/* out = p[0, count), zeros after it; count >= 1 */
template <typename T>
__device__ inline void cs_load_pack(const T *p, int64_t count, float out[CS_PACK])
{
    if (count >= CS_PACK && ((uintptr_t)p & 15) == 0) {
        const cs_pack_words<T> w = *(const cs_pack_words<T> *)p;
        T x[CS_PACK];
        memcpy(x, &w, sizeof x);
#pragma unroll
        for (int i = 0; i < CS_PACK; i++)
            out[i] = cs_to_float(x[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        out[i] = i < count ? cs_to_float(p[i]) : 0.0f;
}

template <typename T>
__device__ inline void cs_store_pack(T *p, int64_t count, const float in[CS_PACK])
{
    T x[CS_PACK];
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        x[i] = cs_from_float<T>(in[i]);
    if (count >= CS_PACK && ((uintptr_t)p & 15) == 0) {
        cs_pack_words<T> w;
        memcpy(&w, x, sizeof w);
        *(cs_pack_words<T> *)p = w;
        return;
    }
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        if (i < count)
            p[i] = x[i];
}

/* count <= 0: nothing is written */
template <bool IS_WHOLE, typename T>
__device__ inline void cs_store_words(T *p, int32_t count, const float in[CS_PACK])
{
    if (count <= 0)
        return;
    if constexpr (IS_WHOLE)
        *(cs_pack_words<T> *)p = cs_pack_up<T>(in);
    else
        cs_store_pack(p, count, in);
}

/* Rows of n elements at p consist of whole, aligned packs; NULL does. */
static inline bool cs_is_whole(int64_t n, const void *p)
{
    return n % CS_PACK == 0 && ((uintptr_t)p & 15) == 0;
}

/* i / per_row; the 64-bit division is several times slower. */
__device__ inline int64_t cs_row_of(int64_t i, int64_t per_row)
{
    return ((i | per_row) >> 32) == 0 ? (int64_t)((uint32_t)i / (uint32_t)per_row) : i / per_row;
}

/* Every lane gets the sum. */
template <typename S> __device__ inline S cs_warp_sum(S x)
{
    for (int width = 16; width > 0; width /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, width);
    return x;
}

__device__ inline float cs_warp_max(float x)
{
    for (int width = 16; width > 0; width /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, width));
    return x;
}

/* Every thread gets the sum; blocks of whole warps, called by all threads. */
template <typename S> __device__ inline S cs_block_sum(S x)
{
    __shared__ S part[32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    x = cs_warp_sum(x);
    __syncthreads(); /* the previous use of part is over */
    if (lane == 0)
        part[warp] = x;
    __syncthreads();
    S sum = 0;
    for (int w = 0; w < warps; w++)
        sum += part[w];
    return sum;
}

/* Blocks for work items of which a block takes per_block in one round; kernels stride over the
 * rest. */
static inline unsigned cs_blocks(int64_t items, int64_t per_block)
{
    const int64_t n = (items + per_block - 1) / per_block, most = 1 << 20;
    return (unsigned)(n < 1 ? 1 : n < most ? n : most);
}

#endif
