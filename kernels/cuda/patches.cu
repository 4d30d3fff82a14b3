/* Pixels to rows of normalised patches (OVERWRITTEN); see kernels/cpu/patches.c. Patches lie anywhere in
 * their pictures and come in any order, so a block takes one patch: its lines are read into shared
 * memory, then it writes its row. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS   128
#define MAX_BYTES (48 << 10) /* of a patch */
#define CHANNELS  64         /* whose factors are kept in shared memory */

struct patch_args {
    cs_patch_shape shape;
    int32_t span, values; /* bytes of a line of a patch; of a patch */
    float rescale;
};

/* place (rows); mean, std (channels); y (rows, values) */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    patches_kernel(patch_args g, const cs_patch_place *place, const uint8_t *pixels,
                   const float *mean, const float *std, T *y)
{
    extern __shared__ uint8_t patch_bytes[];
    __shared__ float2 factor[CHANNELS]; /* value = pixel x + y */
    const cs_patch_shape s = g.shape;
    const cs_patch_place at = place[blockIdx.x];
    const int32_t plane = s.patch * s.patch, frame = plane * s.channels;
    T *const out = y + (int64_t)blockIdx.x * g.values;
    for (int32_t c = (int32_t)threadIdx.x; c < s.channels; c += THREADS)
        factor[c] = {g.rescale / std[c], -mean[c] / std[c]};
    for (int32_t i = (int32_t)threadIdx.x; i < g.values; i += THREADS) {
        const int32_t line = i / g.span, f = line / s.patch, r = line - f * s.patch;
        patch_bytes[i] =
            pixels[at.at + (int64_t)f * at.frame + (int64_t)r * at.line + (i - line * g.span)];
    }
    __syncthreads();
    for (int32_t i = (int32_t)threadIdx.x; i < g.values; i += THREADS) {
        int32_t from = i, c = i % s.channels; /* bytes are in the order with channels last */
        if (!s.is_channels_last) {
            const int32_t planes = i / plane;
            c = planes / s.frames;
            from = (planes - c * s.frames) * frame + (i - planes * plane) * s.channels + c;
        }
        out[i] = cs_from_float<T>((float)patch_bytes[from] * factor[c].x + factor[c].y);
    }
}

template <typename T>
void cs_cuda_patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                     const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                     const float *mean, const float *std, void *y)
{
    const int64_t values = (int64_t)shape->channels * shape->frames * shape->patch * shape->patch;
    if (rows <= 0 || values <= 0)
        return;
    if (values > MAX_BYTES || shape->channels > CHANNELS || rows > INT32_MAX) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "%lld patches of %d x %d pixels, %d channels, %d frames",
                       (long long)rows, (int)shape->patch, (int)shape->patch, (int)shape->channels,
                       (int)shape->frames);
        return;
    }
    const patch_args g = {*shape, shape->patch * shape->channels, (int32_t)values, rescale};
    patches_kernel<T><<<(unsigned)rows, THREADS, (size_t)values, cs_cuda_stream_of(ctx)>>>(
        g, place, pixels, mean, std, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "patches");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_patches<T>(struct cs_ctx *, int64_t, const struct cs_patch_shape *,      \
                                     const struct cs_patch_place *, const uint8_t *, float,        \
                                     const float *, const float *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
