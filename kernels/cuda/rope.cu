/* Rotary position embedding, rotate-half form, in place (OVERWRITTEN); see kernels/cpu/rope.c. */
#include "kernels/cuda/cuda_ops.cuh"

/* x (rows, heads, head_dim), row stride ldx; cos, sin (rows, half). A thread turns one pair. */
template <typename T>
__global__ void rope_kernel(int64_t rows, int32_t heads, int32_t head_dim, int32_t half,
                            int64_t ldx, T *x, const float *cos, const float *sin, float sign)
{
    const int64_t per_row = (int64_t)heads * half, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * per_row;
         i += step) {
        const int64_t row = i / per_row;
        const int32_t in_row = (int32_t)(i - row * per_row), head = in_row / half;
        const int32_t pair = in_row - head * half;
        T *a = x + row * ldx + (int64_t)head * head_dim + pair, *b = a + half;
        const float c = cos[row * half + pair], s = sign * sin[row * half + pair];
        const float first = cs_to_float(*a), second = cs_to_float(*b);
        *a = cs_from_float<T>(first * c - second * s);
        *b = cs_from_float<T>(second * c + first * s);
    }
}

template <typename T>
void cs_cuda_rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim,
                  int32_t rot_dim, int64_t ldx, void *x, const float *cos, const float *sin,
                  int inverse)
{
    const int32_t half = rot_dim / 2;
    if (rows <= 0 || heads <= 0 || half <= 0)
        return;
    rope_kernel<T><<<cs_blocks(rows * heads * half, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(
        rows, heads, head_dim, half, ldx, (T *)x, cos, sin, inverse ? -1.0f : 1.0f);
    CS_CUDA_LAUNCHED(ctx, "rope");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_rope<T>(struct cs_ctx *, int64_t, int32_t, int32_t, int32_t, int64_t,    \
                                  void *, const float *, const float *, int);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
