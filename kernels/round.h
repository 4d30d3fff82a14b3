/* Rounding fp32 to bf16: to nearest even, and stochastically; one header for the operators of both
 * back ends (C11, also compiled by nvcc), so that they give the same bits.
 *
 * Stochastic rounding gives one of the two neighbours of x, the upper one with the probability
 * (x - lower) / (upper - lower): the mean over many roundings is x, and what is representable stays
 * as it is. Without it a parameter in bf16 would not move by less than half of its last bit, which
 * is how most updates are (Gupta et al., "Deep learning with limited numerical precision", 2015).
 *
 * Its random bits are a pure function of a key and the index of an element: Philox2x32 with 7
 * rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; 7 is the least
 * that passes all of their tests). So results depend neither on which rank or thread rounds, nor on
 * how often a job was interrupted. Two neighbours share one value of it. */
#ifndef CS_KERNELS_ROUND_H
#define CS_KERNELS_ROUND_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define CS_ROUND_INLINE static inline __host__ __device__
#else
#define CS_ROUND_INLINE static inline
#endif

#define CS_ROUND_NAN ((uint16_t)0x7fff) /* the one NaN that roundings give */

CS_ROUND_INLINE uint32_t cs_round_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

CS_ROUND_INLINE float cs_round_widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float wide;
    memcpy(&wide, &bits, sizeof wide);
    return wide;
}

CS_ROUND_INLINE uint16_t cs_round_nearest(float x)
{
    const uint32_t bits = cs_round_bits_of(x);
    if ((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000))
        return CS_ROUND_NAN;
    return (uint16_t)((bits + UINT32_C(0x7fff) + (bits >> 16 & 1)) >> 16);
}

/* random: 16 bits. The result is the upper half. Infinities stay (their lower half is 0, nothing is
 * carried), finite values beyond the largest bf16 may become infinite. */
CS_ROUND_INLINE uint32_t cs_round_stochastic_bits(float x, uint32_t random)
{
    return x != x ? (uint32_t)CS_ROUND_NAN << 16
                  : cs_round_bits_of(x) + (random & UINT32_C(0xffff));
}

CS_ROUND_INLINE uint16_t cs_round_stochastic(float x, uint32_t random)
{
    return (uint16_t)(cs_round_stochastic_bits(x, random) >> 16);
}

/* product of two words; nvcc makes four multiplications of the plain form */
CS_ROUND_INLINE void cs_round_multiply(uint32_t a, uint32_t b, uint32_t *high, uint32_t *low)
{
#ifdef __CUDA_ARCH__
    asm("{\n\t.reg .u64 product;\n\tmul.wide.u32 product, %2, %3;\n\tmov.b64 {%1, %0}, "
        "product;\n\t}"
        : "=r"(*high), "=r"(*low)
        : "r"(a), "r"(b));
#else
    const uint64_t product = (uint64_t)a * b;
    *high = (uint32_t)(product >> 32);
    *low = (uint32_t)product;
#endif
}

/* 64 random bits of an element */
CS_ROUND_INLINE uint64_t cs_round_random(uint64_t key, uint64_t index)
{
    uint32_t c0 = (uint32_t)index, k = (uint32_t)key;
    uint32_t c1 = (uint32_t)(index >> 32) ^ (uint32_t)(key >> 32);
    for (int round = 0; round < 7; round++) {
        uint32_t high, low;
        cs_round_multiply(c0, UINT32_C(0xD256D193), &high, &low);
        c0 = high ^ k ^ c1;
        c1 = low;
        k += UINT32_C(0x9E3779B9);
    }
    return (uint64_t)c1 << 32 | c0;
}

/* The 32 random bits of an element, and from which bit on 16 of them round each of its three
 * values. Whether a value is rounded up is nearly always decided by the upper eight of its 16,
 * which no other value has for upper bits: the second moment shares its upper bits with the lower
 * ones of the first moment, and its lower ones with the upper ones of the weight. */
enum { CS_ROUND_WEIGHT = 0, CS_ROUND_AVG = 16, CS_ROUND_AVG_SQ = 8 };

CS_ROUND_INLINE uint32_t cs_round_element(uint64_t key, uint64_t index)
{
    return (uint32_t)(cs_round_random(key, index >> 1) >> (index % 2 * 32));
}

#endif
