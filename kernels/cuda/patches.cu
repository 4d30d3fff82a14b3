/* Pixels to rows of normalised patches (OVERWRITTEN); see kernels/cpu/patches.c. The patches of a
 * tile lie side by side in one line of patches: their pixels are a rectangle that a block reads
 * into shared memory, their rows of y are one run of memory that it writes in packs. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS    256
#define TILE_BYTES (24 << 10) /* shared memory for pixels, unless one patch is larger */
#define MAX_BYTES  (200 << 10)
#define CHANNELS   64 /* whose factors are kept in shared memory */

struct patch_args {
    int32_t height, width, channels, patch, ph, pw;
    int32_t tile, pitch; /* patches side by side; bytes between lines of the tile */
    float rescale;
};

/* lines of span bytes, stride bytes apart, to lines of pitch bytes */
__device__ inline void load_tile(const uint8_t *from, int64_t stride, int32_t lines, int32_t span,
                                 int32_t pitch, uint8_t *to)
{
    const bool is_aligned = (((uintptr_t)from | (uintptr_t)stride) & 15) == 0;
    const int32_t words = is_aligned ? span / 16 : 0, rest = span - words * 16;
    for (int32_t i = (int32_t)threadIdx.x; i < lines * words; i += THREADS) {
        const int32_t r = i / words, at = (i - r * words) * 16;
        *(uint4 *)(to + r * pitch + at) = *(const uint4 *)(from + r * stride + at);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < lines * rest; i += THREADS) {
        const int32_t r = i / rest, at = words * 16 + i - r * rest;
        to[r * pitch + at] = from[r * stride + at];
    }
}

/* Where an element of a tile's rows comes from: patch, channel, row and column in the patch. */
struct source {
    int32_t p, c, r, x;
};

__device__ inline struct source find_source(const struct patch_args &g, int32_t i)
{
    const int32_t area = g.patch * g.patch, row_size = g.channels * area;
    const int32_t p = i / row_size, in_row = i - p * row_size, c = in_row / area;
    const int32_t in_area = in_row - c * area, r = in_area / g.patch;
    return {p, c, r, in_area - r * g.patch};
}

/* pixels (items, height, width, channels); y (items ph pw, channels, patch, patch); mean, std
 * (channels). Block: (tile of a line, line of patches, item). */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    patches_kernel(struct patch_args g, const uint8_t *pixels, const float *mean, const float *std,
                   T *y)
{
    extern __shared__ uint4 tile_words[];
    __shared__ float2 factor[CHANNELS]; /* value = pixel x + y */
    uint8_t *tile = (uint8_t *)tile_words;
    const int32_t row_size = g.channels * g.patch * g.patch;
    const int32_t first = (int32_t)blockIdx.x * g.tile;
    const int32_t count = first + g.tile < g.pw ? g.tile : g.pw - first;
    const int64_t item = blockIdx.z, py = blockIdx.y, stride = (int64_t)g.width * g.channels;
    for (int32_t c = (int32_t)threadIdx.x; c < g.channels; c += THREADS)
        factor[c] = {g.rescale / std[c], -mean[c] / std[c]};
    load_tile(pixels + (item * g.height + py * g.patch) * stride +
                  (int64_t)first * g.patch * g.channels,
              stride, g.patch, count * g.patch * g.channels, g.pitch, tile);
    __syncthreads();
    T *out = y + ((item * g.ph + py) * g.pw + first) * row_size;
    const int32_t total = count * row_size;
    /* packs begin where y is aligned: the first one may stick out before the tile */
    const int32_t head = (int32_t)(((uintptr_t)out & 15) / sizeof(T));
    for (int32_t i = (int32_t)threadIdx.x * CS_PACK - head; i < total; i += THREADS * CS_PACK) {
        struct source s = find_source(g, i < 0 ? 0 : i);
        float2 f = factor[s.c];
        const uint8_t *from = tile + s.r * g.pitch + (s.p * g.patch + s.x) * g.channels + s.c;
        float v[CS_PACK];
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            v[j] = 0.0f;
            if (i + j < 0 || i + j >= total)
                continue;
            v[j] = (float)*from * f.x + f.y;
            from += g.channels;
            if (++s.x < g.patch)
                continue;
            s.x = 0;
            from += g.pitch - g.patch * g.channels;
            if (++s.r < g.patch || i + j + 1 >= total)
                continue;
            s = find_source(g, i + j + 1); /* another channel or patch */
            f = factor[s.c];
            from = tile + s.p * g.patch * g.channels + s.c;
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
    if (bytes > MAX_BYTES / 2 || g.ph > 65535 || items > 65535 || channels > CHANNELS) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "patches of %d x %d pixels, %d channels, %d items",
                       (int)patch, (int)patch, (int)channels, (int)items);
        return;
    }
    g.tile = bytes > TILE_BYTES ? 1 : (int32_t)(TILE_BYTES / bytes);
    g.tile = g.tile < g.pw ? g.tile : g.pw;
    g.pitch = (g.tile * patch * channels + 15) / 16 * 16;
    const int32_t shared = g.pitch * patch;
    if (shared > MAX_BYTES) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "patches of %d x %d pixels", (int)patch, (int)patch);
        return;
    }
    if (shared > (40 << 10))
        CS_CUDA_NOTE(ctx,
                     cudaFuncSetAttribute(patches_kernel<T>,
                                          cudaFuncAttributeMaxDynamicSharedMemorySize, MAX_BYTES),
                     "patches");
    const dim3 grid((unsigned)((g.pw + g.tile - 1) / g.tile), (unsigned)g.ph, (unsigned)items);
    patches_kernel<T>
        <<<grid, THREADS, (size_t)shared, cs_cuda_stream_of(ctx)>>>(g, pixels, mean, std, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "patches");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_patches<T>(struct cs_ctx *, int32_t, int32_t, int32_t, int32_t, int32_t, \
                                     const uint8_t *, float, const float *, const float *,         \
                                     void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
