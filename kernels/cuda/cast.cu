/* Casts between fp32 and the act type, sums of scaled fp32 tensors. Outputs are OVERWRITTEN. */
#include "kernels/cuda/cuda_ops.cuh"

template <typename From, typename To> __global__ void cast_kernel(int64_t n, const From *x, To *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n; i += step) {
        float v[CS_PACK];
        cs_load_pack(x + i, n - i, v);
        cs_store_pack(y + i, n - i, v);
    }
}

/* No product is contracted with the sum: the bits of the CPU twin. */
template <bool HAS_BETA>
__global__ void scale_add_kernel(int64_t n, float alpha, const float *x, float beta, float *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n; i += step) {
        float v[CS_PACK], old[CS_PACK];
        cs_load_pack(x + i, n - i, v);
        if (HAS_BETA)
            cs_load_pack(y + i, n - i, old);
        for (int j = 0; j < CS_PACK; j++) {
            v[j] = __fmul_rn(alpha, v[j]);
            if (HAS_BETA)
                v[j] = __fadd_rn(v[j], __fmul_rn(beta, old[j]));
        }
        cs_store_pack(y + i, n - i, v);
    }
}

template <typename T>
void cs_cuda_cast_to_act(struct cs_ctx *ctx, int64_t n, const float *x, void *y)
{
    if (n <= 0)
        return;
    cast_kernel<float, T>
        <<<cs_blocks(n, 256 * CS_PACK), 256, 0, cs_cuda_stream_of(ctx)>>>(n, x, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "cast_to_act");
}

template <typename T>
void cs_cuda_cast_to_f32(struct cs_ctx *ctx, int64_t n, const void *x, float *y)
{
    if (n <= 0)
        return;
    cast_kernel<T, float>
        <<<cs_blocks(n, 256 * CS_PACK), 256, 0, cs_cuda_stream_of(ctx)>>>(n, (const T *)x, y);
    CS_CUDA_LAUNCHED(ctx, "cast_to_f32");
}

void cs_cuda_scale_add(struct cs_ctx *ctx, int64_t n, float alpha, const float *x, float beta,
                       float *y)
{
    if (n <= 0)
        return;
    auto *kernel = beta != 0.0f ? scale_add_kernel<true> : scale_add_kernel<false>;
    kernel<<<cs_blocks(n, 256 * CS_PACK), 256, 0, cs_cuda_stream_of(ctx)>>>(n, alpha, x, beta, y);
    CS_CUDA_LAUNCHED(ctx, "scale_add");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_cast_to_act<T>(struct cs_ctx *, int64_t, const float *, void *);         \
    template void cs_cuda_cast_to_f32<T>(struct cs_ctx *, int64_t, const void *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
