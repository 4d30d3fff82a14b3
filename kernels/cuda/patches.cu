/* Pixels to rows of normalised patches (OVERWRITTEN); see kernels/cpu/patches.c. */
#include "kernels/cuda/cuda_ops.cuh"

struct patch_args {
    int32_t height, width, channels, patch, ph, pw;
    float rescale;
};

/* pixels (items, height, width, channels); y (items ph pw, channels, patch, patch); mean, std
 * (channels). A thread writes one element. */
template <typename T>
__global__ void patches_kernel(int64_t total, struct patch_args g, const uint8_t *pixels,
                               const float *mean, const float *std, T *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int32_t area = g.patch * g.patch, row_size = g.channels * area;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
        const int64_t row = i / row_size;
        const int32_t in_row = (int32_t)(i - row * row_size), c = in_row / area;
        const int32_t r = (in_row - c * area) / g.patch, x = in_row - c * area - r * g.patch;
        const int64_t line = row / g.pw;
        const int32_t px = (int32_t)(row - line * g.pw), py = (int32_t)(line % g.ph);
        const int64_t pixel =
            (line / g.ph * g.height + (int64_t)py * g.patch + r) * g.width + px * g.patch + x;
        y[i] = cs_from_float<T>(((float)pixels[pixel * g.channels + c] * g.rescale - mean[c]) /
                                std[c]);
    }
}

template <typename T>
void cs_cuda_patches(struct cs_ctx *ctx, int32_t items, int32_t height, int32_t width,
                     int32_t channels, int32_t patch, const uint8_t *pixels, float rescale,
                     const float *mean, const float *std, void *y)
{
    const struct patch_args g = {height,         width,         channels, patch,
                                 height / patch, width / patch, rescale};
    const int64_t total = (int64_t)items * g.ph * g.pw * channels * patch * patch;
    if (total <= 0)
        return;
    patches_kernel<T><<<cs_blocks(total, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(total, g, pixels,
                                                                                 mean, std, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "patches");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_patches<T>(struct cs_ctx *, int32_t, int32_t, int32_t, int32_t, int32_t, \
                                     const uint8_t *, float, const float *, const float *,         \
                                     void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
