/* Linear layer and cross-entropy in chunks of rows: logits of one chunk (act type, fp32 sums), one
 * kernel takes the loss and writes the gradient over them, dx (OVERWRITTEN) and dw (ACCUMULATED)
 * follow at once: six products' worth of work, nothing recomputed. Losses of rows are kept in fp64
 * and added in a fixed order at the end. */
#include <float.h>

#include "kernels/cuda/cuda_ops.cuh"

#define THREADS      512
#define CHUNK_ROWS   4096
#define CHUNK_LOGITS ((int64_t)1 << 27) /* 256 MiB in bf16, unless one row is larger */
#define ALIGN(bytes) (((size_t)(bytes) + 255) & ~(size_t)255)

static int64_t chunk_rows(int64_t vocab)
{
    const int64_t fit = CHUNK_LOGITS / (vocab > 0 ? vocab : 1);
    const int64_t most = fit < CHUNK_ROWS ? fit : CHUNK_ROWS;
    return most < 1 ? 1 : most < 128 ? most : most / 128 * 128;
}

/* Elements between rows of logits: a multiple of CS_PACK, so that GEMM and loads are aligned. */
static int64_t logits_stride(int64_t vocab)
{
    return (vocab + CS_PACK - 1) / CS_PACK * CS_PACK;
}

template <typename T> size_t cs_cuda_linear_xent_workspace(int64_t rows, int64_t in, int64_t vocab)
{
    (void)in;
    if (rows <= 0)
        return 0;
    const int64_t chunk = chunk_rows(vocab), m = rows < chunk ? rows : chunk;
    return 256 + ALIGN((size_t)rows * sizeof(double)) +
           ALIGN((size_t)m * (size_t)logits_stride(vocab) * sizeof(T));
}

/* Maximum with its first place, and the sum of exp(z - max). */
struct row_state {
    float max, sum;
    int64_t at;
};

__device__ inline struct row_state merge(struct row_state a, struct row_state b)
{
    const bool is_b = b.max > a.max || (b.max == a.max && b.at < a.at);
    const float max = is_b ? b.max : a.max;
    return {max, a.sum * expf(a.max - max) + b.sum * expf(b.max - max), is_b ? b.at : a.at};
}

/* State of one row, the same in all threads. NaN do not win the maximum; they come back in sum. */
template <typename T> __device__ struct row_state scan_row(int64_t vocab, const T *z, float softcap)
{
    __shared__ struct row_state part[THREADS / 32];
    struct row_state s = {-FLT_MAX, 0.0f, vocab};
    for (int64_t c = threadIdx.x * CS_PACK; c < vocab; c += THREADS * CS_PACK) {
        float v[CS_PACK];
        cs_load_pack(z + c, vocab - c, v);
        struct row_state t = {s.max, 0.0f, s.at};
        for (int i = 0; i < CS_PACK; i++) {
            if (softcap != 0.0f)
                v[i] = softcap * tanhf(v[i] / softcap);
            if (c + i < vocab && v[i] > t.max) {
                t.max = v[i];
                t.at = c + i;
            }
        }
        for (int i = 0; i < CS_PACK; i++)
            t.sum += c + i < vocab ? expf(v[i] - t.max) : 0.0f;
        t.sum += s.sum * expf(s.max - t.max);
        s = t;
    }
    for (int width = 16; width > 0; width /= 2) {
        const struct row_state other = {__shfl_xor_sync(0xffffffffu, s.max, width),
                                        __shfl_xor_sync(0xffffffffu, s.sum, width),
                                        __shfl_xor_sync(0xffffffffu, s.at, width)};
        s = (threadIdx.x & (unsigned)width) == 0 ? merge(s, other) : merge(other, s);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = s;
    __syncthreads();
    s = part[0];
    for (int w = 1; w < THREADS / 32; w++)
        s = merge(s, part[w]);
    return s;
}

/* z (rows, stride): logits, with WANTS_GRAD replaced by the gradient of the row's loss. A label
 * outside of the vocabulary gives the loss NaN. */
template <typename T, bool WANTS_GRAD>
__global__ void xent_kernel(int64_t vocab, int64_t stride, T *z, const int32_t *labels,
                            float softcap, double *loss, uint8_t *correct)
{
    const int64_t row = blockIdx.x;
    T *zr = z + row * stride;
    const int64_t label = labels[row];
    const bool is_valid = label >= 0 && label < vocab;
    const struct row_state s = scan_row(vocab, zr, softcap);
    float target = is_valid ? cs_to_float(zr[label]) : NAN;
    if (softcap != 0.0f)
        target = softcap * tanhf(target / softcap);
    if (threadIdx.x == 0) {
        loss[row] = log((double)s.sum) + ((double)s.max - (double)target);
        if (correct != nullptr)
            correct[row] = s.at == label && s.sum == s.sum;
    }
    if (!WANTS_GRAD)
        return;
    __syncthreads(); /* everybody has read the label's logit */
    const float inv_sum = 1.0f / s.sum;
    for (int64_t c = threadIdx.x * CS_PACK; c < vocab; c += THREADS * CS_PACK) {
        float v[CS_PACK];
        cs_load_pack(zr + c, vocab - c, v);
        for (int i = 0; i < CS_PACK; i++) {
            const float t = softcap != 0.0f ? tanhf(v[i] / softcap) : 0.0f;
            const float capped = softcap != 0.0f ? softcap * t : v[i];
            const float p = expf(capped - s.max) * inv_sum - (c + i == label ? 1.0f : 0.0f);
            v[i] = p * (1.0f - t * t);
        }
        cs_store_pack(zr + c, vocab - c, v);
    }
}

/* *total += sum of loss (rows), one block */
static __global__ void add_losses(int64_t rows, const double *loss, double *total)
{
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        sum += loss[i];
    sum = cs_block_sum(sum);
    if (threadIdx.x == 0)
        *total += sum;
}

struct xent_buffers {
    double *row_loss; /* (rows) */
    void *logits;     /* (chunk, stride) */
};

template <typename T>
static bool take_buffers(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab,
                         struct xent_buffers *out)
{
    if (ctx->workspace_bytes < cs_cuda_linear_xent_workspace<T>(rows, in, vocab)) {
        CS_CUDA_REFUSE(ctx, CS_INVALID, "linear_xent: workspace of %zu bytes is too small",
                       ctx->workspace_bytes);
        return false;
    }
    const uintptr_t at = ALIGN((uintptr_t)ctx->workspace);
    out->row_loss = (double *)at;
    out->logits = (void *)(at + ALIGN((size_t)rows * sizeof(double)));
    return true;
}

template <typename T>
void cs_cuda_linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                         const void *w, const int32_t *labels, float softcap, double *loss,
                         uint8_t *correct, void *dx, float *dw)
{
    struct xent_buffers b;
    if (rows <= 0 || !take_buffers<T>(ctx, rows, in, vocab, &b))
        return;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    const int64_t chunk = chunk_rows(vocab), ld = logits_stride(vocab);
    const bool wants_grad = dx != nullptr || dw != nullptr;
    auto *kernel = wants_grad ? xent_kernel<T, true> : xent_kernel<T, false>;
    for (int64_t first = 0; first < rows; first += chunk) {
        const int64_t m = rows - first < chunk ? rows - first : chunk;
        const T *xc = (const T *)x + first * in;
        cs_cuda_gemm<T>(ctx, 0, 1, m, vocab, in, 1.0f, xc, in, w, in, 0.0f, b.logits, ld);
        kernel<<<(unsigned)m, THREADS, 0, stream>>>(vocab, ld, (T *)b.logits, labels + first,
                                                    softcap, b.row_loss + first,
                                                    correct != nullptr ? correct + first : nullptr);
        CS_CUDA_LAUNCHED(ctx, "linear_xent");
        if (dx != nullptr)
            cs_cuda_gemm<T>(ctx, 0, 0, m, in, vocab, 1.0f, b.logits, ld, w, in, 0.0f,
                            (T *)dx + first * in, in);
        if (dw != nullptr)
            cs_cuda_gemm_wgrad<T>(ctx, m, vocab, in, b.logits, ld, xc, in, dw);
    }
    add_losses<<<1, 512, 0, stream>>>(rows, b.row_loss, loss);
    CS_CUDA_LAUNCHED(ctx, "linear_xent");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_linear_xent<T>(struct cs_ctx *, int64_t, int64_t, int64_t, const void *, \
                                         const void *, const int32_t *, float, double *,           \
                                         uint8_t *, void *, float *);                              \
    template size_t cs_cuda_linear_xent_workspace<T>(int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
