/* Activations and their slopes as device functions. fp32: the formulas of kernels/cpu/activation.c.
 * bf16: the same functions through the fast exponential and division, whose error (some 1e-6) is
 * far below a bf16 step. The kind is a template argument: no branch per element. */
#ifndef CS_CUDA_ACTIVATION_CUH
#define CS_CUDA_ACTIVATION_CUH

#include "kernels/cuda/cuda_ops.cuh"

#define CS_SQRT_HALF       0.707106781f
#define CS_INV_SQRT_2PI    0.398942280f
#define CS_SQRT_2_OVER_PI  0.797884561f
#define CS_GELU_CUBE       0.044715f
#define CS_QUICK_STEEPNESS 1.702f

template <typename T> __device__ inline float cs_sigmoid(float x)
{
    if (sizeof(T) == 2)
        return __fdividef(1.0f, 1.0f + __expf(-x)); /* exp overflows to infinity: 0 */
    return 1.0f / (1.0f + expf(-x));
}

/* (1 + tanh(u)) / 2 is sigmoid(2 u) */
__device__ inline float cs_gelu_inner(float x)
{
    return CS_SQRT_2_OVER_PI * (x + CS_GELU_CUBE * x * x * x);
}

template <typename T, enum cs_act KIND> __device__ inline float cs_act_value(float x)
{
    if (KIND == CS_ACT_GELU)
        return 0.5f * x * (1.0f + erff(x * CS_SQRT_HALF));
    if (KIND == CS_ACT_GELU_TANH) {
        if (sizeof(T) == 2)
            return x * cs_sigmoid<T>(2.0f * cs_gelu_inner(x));
        return 0.5f * x * (1.0f + tanhf(cs_gelu_inner(x)));
    }
    if (KIND == CS_ACT_QUICK_GELU)
        return x * cs_sigmoid<T>(CS_QUICK_STEEPNESS * x);
    if (KIND == CS_ACT_SILU)
        return x * cs_sigmoid<T>(x);
    if (KIND == CS_ACT_RELU)
        return x < 0.0f ? 0.0f : x; /* NaN stays */
    if (KIND == CS_ACT_SIGMOID)
        return cs_sigmoid<T>(x);
    return x;
}

template <typename T, enum cs_act KIND> __device__ inline float cs_act_slope(float x)
{
    if (KIND == CS_ACT_GELU) {
        const float density = sizeof(T) == 2 ? __expf(-0.5f * x * x) : expf(-0.5f * x * x);
        return 0.5f * (1.0f + erff(x * CS_SQRT_HALF)) + x * CS_INV_SQRT_2PI * density;
    }
    if (KIND == CS_ACT_GELU_TANH) {
        const float inner = CS_SQRT_2_OVER_PI * (1.0f + 3.0f * CS_GELU_CUBE * x * x);
        if (sizeof(T) == 2) {
            const float s = cs_sigmoid<T>(2.0f * cs_gelu_inner(x));
            return s + 2.0f * x * s * (1.0f - s) * inner;
        }
        const float t = tanhf(cs_gelu_inner(x));
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
    }
    if (KIND == CS_ACT_QUICK_GELU) {
        const float s = cs_sigmoid<T>(CS_QUICK_STEEPNESS * x);
        return s + CS_QUICK_STEEPNESS * x * s * (1.0f - s);
    }
    if (KIND == CS_ACT_SILU) {
        const float s = cs_sigmoid<T>(x);
        return s * (1.0f + x * (1.0f - s));
    }
    if (KIND == CS_ACT_RELU)
        return x <= 0.0f ? 0.0f : 1.0f;
    if (KIND == CS_ACT_SIGMOID) {
        const float s = cs_sigmoid<T>(x);
        return s * (1.0f - s);
    }
    return 1.0f;
}

#endif
