/* Pixels to rows of normalised patches (OVERWRITTEN); see kernels/cpu/patches.c. The patches of a
 * tile lie side by side in one line of patches: their pixels are a rectangle that a block reads
 * into shared memory. A thread owns Q neighbours in a patch's row of y: where they come from is
 * found once, then it writes them for one patch of the tile after the other. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS     160 /* wanted; as many as a whole number of patches' rows needs */
#define MAX_THREADS 1024
#define TILE_BYTES  (24 << 10) /* shared memory for pixels, unless one patch is larger */
#define MAX_BYTES   (200 << 10)
#define CHANNELS    64 /* whose factors are kept in shared memory */

struct patch_args {
    int32_t height, width, channels, patch, ph, pw;
    int32_t tile, pitch;    /* patches side by side; bytes between lines of the tile */
    int32_t owners, groups; /* threads for one row of y; rows that a block writes at a time */
    float rescale;
};

/* The lines of a tile, span bytes each, at from, which is offset bytes after the begin of a line of
 * stride bytes, to lines of pitch bytes. */
__device__ inline void load_tile(const struct patch_args &g, const uint8_t *from, int64_t offset,
                                 int64_t stride, int32_t span, uint8_t *to)
{
    const bool is_aligned = (((uintptr_t)from | (uintptr_t)stride) & 15) == 0;
    int32_t words = is_aligned ? (span + 15) / 16 : 0; /* the last one may read more of the line */
    if (offset + words * 16 > stride)
        words--;
    const int32_t rest = span - words * 16, threads = (int32_t)blockDim.x;
    for (int32_t i = (int32_t)threadIdx.x; i < g.patch * words; i += threads) {
        const int32_t r = i / words, at = (i - r * words) * 16;
        *(uint4 *)(to + r * g.pitch + at) = *(const uint4 *)(from + r * stride + at);
    }
    for (int32_t i = (int32_t)threadIdx.x; i < g.patch * rest; i += threads) {
        const int32_t r = i / rest, at = words * 16 + i - r * rest;
        to[r * g.pitch + at] = from[r * stride + at];
    }
}

template <typename T, int Q> struct alignas(Q * sizeof(T)) cs_run {
    T x[Q];
};

/* pixels (items, height, width, channels); y (items ph pw, channels, patch, patch); mean, std
 * (channels). Block: (tile of a line, line of patches, item). */
template <typename T, int Q>
__global__ void __launch_bounds__(MAX_THREADS)
    patches_kernel(struct patch_args g, const uint8_t *pixels, const float *mean, const float *std,
                   T *y)
{
    extern __shared__ uint4 tile_words[];
    __shared__ float2 factor[CHANNELS]; /* value = pixel x + y */
    uint8_t *tile = (uint8_t *)tile_words;
    const int32_t row_size = g.channels * g.patch * g.patch, jump = g.patch * g.channels;
    const int32_t first = (int32_t)blockIdx.x * g.tile;
    const int32_t count = first + g.tile < g.pw ? g.tile : g.pw - first;
    const int64_t item = blockIdx.z, py = blockIdx.y, stride = (int64_t)g.width * g.channels;
    for (int32_t c = (int32_t)threadIdx.x; c < g.channels; c += (int32_t)blockDim.x)
        factor[c] = {g.rescale / std[c], -mean[c] / std[c]};
    load_tile(g, pixels + (item * g.height + py * g.patch) * stride + (int64_t)first * jump,
              (int64_t)first * jump, stride, count * jump, tile);
    __syncthreads();
    const int32_t group = (int32_t)threadIdx.x / g.owners;
    if (group >= g.groups)
        return;
    T *out = y + ((item * g.ph + py) * g.pw + first) * row_size;
    for (int32_t i = ((int32_t)threadIdx.x - group * g.owners) * Q; i < row_size;
         i += g.owners * Q) {
        int32_t from[Q], x = i % g.patch, r = i / g.patch % g.patch, c = i / (g.patch * g.patch);
        float2 f[Q];
#pragma unroll
        for (int j = 0; j < Q; j++) { /* Q divides row_size */
            from[j] = r * g.pitch + (group * g.patch + x) * g.channels + c;
            f[j] = factor[c];
            if (++x < g.patch)
                continue;
            x = 0;
            if (++r < g.patch)
                continue;
            r = 0;
            c += c + 1 < g.channels;
        }
#pragma unroll 4
        for (int32_t p = group; p < count; p += g.groups) {
            cs_run<T, Q> v;
#pragma unroll
            for (int j = 0; j < Q; j++) {
                v.x[j] = cs_from_float<T>((float)tile[from[j]] * f[j].x + f[j].y);
                from[j] += g.groups * jump;
            }
            *(cs_run<T, Q> *)(out + p * row_size + i) = v;
        }
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
    const bool is_whole = bytes % 4 == 0 && (uintptr_t)y % (4 * sizeof(T)) == 0;
    auto *kernel = is_whole ? patches_kernel<T, 4> : patches_kernel<T, 1>;
    const int32_t runs = (int32_t)(is_whole ? bytes / 4 : bytes);
    g.owners = runs < MAX_THREADS ? runs : MAX_THREADS;
    g.groups = g.owners < THREADS ? THREADS / g.owners : 1;
    g.groups = g.groups < g.tile ? g.groups : g.tile;
    const int32_t threads = (g.owners * g.groups + 31) / 32 * 32;
    if (shared > (40 << 10))
        CS_CUDA_NOTE(
            ctx,
            cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, MAX_BYTES),
            "patches");
    const dim3 grid((unsigned)((g.pw + g.tile - 1) / g.tile), (unsigned)g.ph, (unsigned)items);
    kernel<<<grid, (unsigned)threads, (size_t)shared, cs_cuda_stream_of(ctx)>>>(g, pixels, mean,
                                                                                std, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "patches");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_patches<T>(struct cs_ctx *, int32_t, int32_t, int32_t, int32_t, int32_t, \
                                     const uint8_t *, float, const float *, const float *,         \
                                     void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
