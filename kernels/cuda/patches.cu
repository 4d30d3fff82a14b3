/* Pixels to rows of normalised patches (OVERWRITTEN); see kernels/cpu/patches.c. The patches of a
 * tile lie side by side in one line of patches: their pixels are a rectangle that a block reads
 * into shared memory, their rows of y are one run of memory that it writes in packs. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS    256
#define TILE_BYTES (24 << 10) /* shared memory for pixels, unless one patch is larger */
#define MAX_BYTES  (200 << 10)

struct patch_args {
    int32_t height, width, channels, patch, ph, pw;
    int32_t tile; /* patches side by side */
    float rescale;
};

/* pixels (items, height, width, channels); y (items ph pw, channels, patch, patch); mean, std
 * (channels). Block: (tile of a line, line of patches, item). */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    patches_kernel(struct patch_args g, const uint8_t *pixels, const float *mean, const float *std,
                   T *y)
{
    extern __shared__ uint8_t tile[];
    const int32_t area = g.patch * g.patch, row_size = g.channels * area;
    const int32_t first = (int32_t)blockIdx.x * g.tile;
    const int32_t count = first + g.tile < g.pw ? g.tile : g.pw - first;
    const int32_t span = count * g.patch * g.channels; /* bytes of a line of the tile */
    const int64_t item = blockIdx.z, py = blockIdx.y;
    const uint8_t *from =
        pixels +
        ((item * g.height + py * g.patch) * g.width + (int64_t)first * g.patch) * g.channels;
    for (int32_t r = 0; r < g.patch; r++) {
        const uint8_t *line = from + (int64_t)r * g.width * g.channels;
        uint8_t *to = tile + r * span;
        if ((((uintptr_t)line | (uintptr_t)to) & 3) == 0) {
            for (int32_t i = (int32_t)threadIdx.x; i < span / 4; i += THREADS)
                ((uint32_t *)to)[i] = ((const uint32_t *)line)[i];
            for (int32_t i = span / 4 * 4 + (int32_t)threadIdx.x; i < span; i += THREADS)
                to[i] = line[i];
        } else {
            for (int32_t i = (int32_t)threadIdx.x; i < span; i += THREADS)
                to[i] = line[i];
        }
    }
    __syncthreads();
    T *out = y + ((item * g.ph + py) * g.pw + first) * row_size;
    const int32_t total = count * row_size;
    /* packs begin where y is aligned: the first one may stick out before the tile */
    const int32_t head = (int32_t)(((uintptr_t)out & 15) / sizeof(T));
    for (int32_t i = (int32_t)threadIdx.x * CS_PACK - head; i < total; i += THREADS * CS_PACK) {
        const int32_t begin = i < 0 ? 0 : i;
        int32_t p = begin / row_size, rest = begin - p * row_size, c = rest / area;
        rest -= c * area;
        int32_t r = rest / g.patch, x = rest - r * g.patch;
        float v[CS_PACK];
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            v[j] = 0.0f;
            if (i + j < 0 || i + j >= total)
                continue;
            const float pixel =
                (float)tile[r * span + (p * g.patch + x) * g.channels + c] * g.rescale;
            v[j] = __fdividef(pixel - mean[c], std[c]);
            if (++x < g.patch)
                continue;
            x = 0;
            if (++r < g.patch)
                continue;
            r = 0;
            if (++c < g.channels)
                continue;
            c = 0;
            p++;
        }
        if (i >= 0) {
            cs_store_pack(out + i, total - i, v);
            continue;
        }
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            if (i + j >= 0 && i + j < total)
                out[i + j] = cs_from_float<T>(v[j]);
    }
}

template <typename T>
void cs_cuda_patches(struct cs_ctx *ctx, int32_t items, int32_t height, int32_t width,
                     int32_t channels, int32_t patch, const uint8_t *pixels, float rescale,
                     const float *mean, const float *std, void *y)
{
    struct patch_args g = {.height = height,
                           .width = width,
                           .channels = channels,
                           .patch = patch,
                           .ph = height / patch,
                           .pw = width / patch,
                           .rescale = rescale};
    const int64_t bytes = (int64_t)channels * patch * patch; /* of a patch */
    if (items <= 0 || g.ph <= 0 || g.pw <= 0 || bytes <= 0)
        return;
    if (bytes > MAX_BYTES || g.ph > 65535 || items > 65535) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "patches of %d x %d pixels, %d items", (int)patch, (int)patch,
                       (int)items);
        return;
    }
    g.tile = bytes > TILE_BYTES ? 1 : (int32_t)(TILE_BYTES / bytes);
    g.tile = g.tile < g.pw ? g.tile : g.pw;
    if (g.tile * bytes > (48 << 10))
        CS_CUDA_NOTE(ctx,
                     cudaFuncSetAttribute(patches_kernel<T>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, MAX_BYTES),
                     "patches");
    const dim3 grid((unsigned)((g.pw + g.tile - 1) / g.tile), (unsigned)g.ph, (unsigned)items);
    patches_kernel<T><<<grid, THREADS, (size_t)(g.tile * bytes), cs_cuda_stream_of(ctx)>>>(
        g, pixels, mean, std, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "patches");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_patches<T>(struct cs_ctx *, int32_t, int32_t, int32_t, int32_t, int32_t, \
                                     const uint8_t *, float, const float *, const float *,         \
                                     void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
