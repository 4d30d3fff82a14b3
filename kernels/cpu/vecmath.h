/* exp, tanh, erf for loops: branch-free fp32 that the compiler vectorises, within 2.5 ulp of the
 * true value (tests/unit/test_kernels_vecmath.c). The polynomials are own minimax fits (weighted
 * least squares, re-weighted until the error is level). NaN gives NaN; results are the same at
 * every vector width because nothing here is contracted or reassociated. */
#ifndef CS_KERNELS_CPU_VECMATH_H
#define CS_KERNELS_CPU_VECMATH_H

#include <stdint.h>
#include <string.h>

static inline float cs_float_from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t cs_bits_from_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* x with its sign replaced by that of sign */
static inline float cs_with_sign(float x, float sign)
{
    return cs_float_from_bits((cs_bits_from_float(x) & 0x7fffffffu) |
                              (cs_bits_from_float(sign) & 0x80000000u));
}

static inline float cs_abs(float x)
{
    return cs_float_from_bits(cs_bits_from_float(x) & 0x7fffffffu);
}

/* x = n ln 2 + r, e^x = 2^n (1 + r + r^2 P(r)). n is rounded by adding 1.5 * 2^23; 2^n is applied
 * as two factors so that the last binade before infinity comes out right. Results below 2^-125.5
 * are 0: subnormal numbers slow some processors down a hundredfold, and masked scores are -inf. The
 * choice is made on the integer n: one on x would be merged with the clamps into branches. */
static inline float cs_exp(float x)
{
    const float rounder = 12582912.0f;
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const float shifted = x * 1.44269504f + rounder;
    const float n = shifted - rounder;
    float r = x - n * 0.693359375f; /* high part of ln 2: 9 bits, exact product */
    r = r - n * -2.12194440e-4f;
    float p = 0.00139505905f;
    p = p * r + 0.00836895499f;
    p = p * r + 0.041666206f;
    p = p * r + 0.166665182f;
    p = p * r + 0.5f;
    p = p * (r * r) + r + 1.0f;
    const uint32_t biased = cs_bits_from_float(shifted) - 0x4b400000u + 256u; /* n + 256 */
    const uint32_t half = biased / 2u;                                        /* n / 2 + 128 */
    const float first = cs_float_from_bits((half - 1u) << 23);
    const uint32_t rest = (biased - half - 1u) << 23;
    return p * first * cs_float_from_bits(biased > 256u - 126u ? rest : 0u);
}

/* x + x^3 P(x^2) up to 0.64, 1 - 2 / (e^2x + 1) beyond */
static inline float cs_tanh(float x)
{
    const float a = cs_abs(x), z = x * x;
    float p = -0.00560386339f;
    p = p * z + 0.0205516666f;
    p = p * z + -0.0537140891f;
    p = p * z + 0.133311525f;
    p = p * z + -0.333332717f;
    const float near = x + x * (z * p);
    const float far = 1.0f - 2.0f / (cs_exp(2.0f * (a > 10.0f ? 10.0f : a)) + 1.0f);
    return cs_with_sign(a < 0.64f ? near : far, x);
}

/* x P(x^2) up to 1, 1 - e^-Q(x) beyond; from 4 on the fp32 value is 1 */
static inline float cs_erf(float x)
{
    const float whole = cs_abs(x), z = x * x;
    const float a = whole > 4.0f ? 4.0f : whole;
    float p = 7.85384109e-05f;
    p = p * z + -0.00080101873f;
    p = p * z + 0.00518832682f;
    p = p * z + -0.026853811f;
    p = p * z + 0.112835854f;
    p = p * z + -0.37612626f;
    p = p * z + 0.12837911f; /* the leading coefficient less 1: one rounding less */
    const float near = x + x * p;
    float q = 2.1697937e-05f;
    q = q * a + -0.000441476528f;
    q = q * a + 0.0042053042f;
    q = q * a + -0.0252103936f;
    q = q * a + 0.10842219f;
    q = q * a + 0.633216321f;
    q = q * a + 1.12958038f;
    q = q * a + -0.000188477046f;
    const float far = 1.0f - cs_exp(-q);
    return whole < 1.0f ? near : cs_with_sign(far, x);
}

static inline float cs_sigmoid(float x)
{
    return 1.0f / (1.0f + cs_exp(-x));
}

#endif
