/* What losses over logits have in common: a block looks at a row, its threads at packs in turn. */
#ifndef CS_CUDA_LOSS_CUH
#define CS_CUDA_LOSS_CUH

#include <float.h>

#include "kernels/cuda/cuda_ops.cuh"

#define CS_LOSS_THREADS 1024

/* Maximum with its first place, and the sum of exp(z - max). */
struct cs_loss_state {
    float max, sum;
    int64_t at;
};

__device__ inline struct cs_loss_state cs_loss_merge(struct cs_loss_state a, struct cs_loss_state b)
{
    const bool is_b = b.max > a.max || (b.max == a.max && b.at < a.at);
    const float max = is_b ? b.max : a.max;
    return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max), is_b ? b.at : a.at};
}

/* bf16 logits leave nothing to gain from the last bits of an exponential */
template <typename T> __device__ inline float cs_loss_exp(float x)
{
    return sizeof(T) == 2 ? __expf(x) : expf(x);
}

template <typename T, bool IS_CAPPED>
__device__ inline struct cs_loss_state cs_loss_take(struct cs_loss_state s, const float v[CS_PACK],
                                                    int64_t c, int64_t vocab, float softcap)
{
    struct cs_loss_state t = {s.max, 0.0f, s.at};
    float z[CS_PACK];
#pragma unroll
    for (int i = 0; i < CS_PACK; i++) {
        z[i] = IS_CAPPED ? softcap * tanhf(v[i] / softcap) : v[i];
        if (c + i < vocab && z[i] > t.max) {
            t.max = z[i];
            t.at = c + i;
        }
    }
#pragma unroll
    for (int i = 0; i < CS_PACK; i++)
        t.sum += c + i < vocab ? cs_loss_exp<T>(z[i] - t.max) : 0.0f;
    t.sum += s.sum * cs_loss_exp<T>(s.max - t.max);
    return t;
}

/* State of one row, the same in all threads. NaN do not win the maximum; they come back in sum. The
 * first packs of the row are left in stash, each thread's own for itself. */
template <typename T, bool IS_CAPPED>
__device__ struct cs_loss_state cs_loss_scan(int64_t vocab, const T *z, float softcap,
                                             cs_pack_words<T> *stash, int64_t stashed)
{
    __shared__ struct cs_loss_state part[CS_LOSS_THREADS / 32];
    struct cs_loss_state s = {-FLT_MAX, 0.0f, vocab};
#pragma unroll 4
    for (int64_t p = threadIdx.x; p * CS_PACK < vocab; p += CS_LOSS_THREADS) {
        const cs_pack_words<T> w = cs_load_words(z + p * CS_PACK, vocab - p * CS_PACK);
        float v[CS_PACK];
        if (p < stashed)
            stash[p] = w;
        cs_unpack(w, v);
        s = cs_loss_take<T, IS_CAPPED>(s, v, p * CS_PACK, vocab, softcap);
    }
    for (int width = 16; width > 0; width /= 2) {
        const struct cs_loss_state other = {__shfl_xor_sync(0xffffffffu, s.max, width),
                                            __shfl_xor_sync(0xffffffffu, s.sum, width),
                                            __shfl_xor_sync(0xffffffffu, s.at, width)};
        s = (threadIdx.x & (unsigned)width) == 0 ? cs_loss_merge(s, other)
                                                 : cs_loss_merge(other, s);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    s = part[0];
    for (int w = 1; w < CS_LOSS_THREADS / 32; w++)
        s = cs_loss_merge(s, part[w]);
    return s;
}

#endif
