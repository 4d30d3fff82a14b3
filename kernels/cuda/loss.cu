/* Linear layer and cross-entropy in chunks of rows: logits of one chunk (act type, fp32 sums), one
 * kernel takes the loss and writes the gradient over them, dx (OVERWRITTEN) and dw (ACCUMULATED)
 * follow at once: six products' worth of work, nothing recomputed. Losses of rows are kept in fp64
 * and added in a fixed order at the end. */
#include "kernels/cuda/loss.cuh"

#define THREADS      CS_LOSS_THREADS
#define CHUNK_ROWS   8192
#define CHUNK_LOGITS ((int64_t)1 << 29) /* 1 GiB in bf16, unless one row is larger */
#define LEAST_ROWS   128
#define STASH_BYTES  ((int64_t)208 << 10) /* of a row, in shared memory between its two passes */
#define ALIGN(bytes) (((size_t)(bytes) + 255) & ~(size_t)255)

/* Elements between rows of logits: a multiple of CS_PACK, so that GEMM and loads are aligned. */
static int64_t logits_stride(int64_t vocab)
{
    return (vocab + CS_PACK - 1) / CS_PACK * CS_PACK;
}

template <typename T> static size_t bytes_for(int64_t rows, int64_t chunk, int64_t vocab)
{
    return 256 + ALIGN((size_t)rows * sizeof(double)) +
           ALIGN((size_t)chunk * (size_t)logits_stride(vocab) * sizeof(T));
}

/* Rows of a chunk when at most `most` rows fit: chunks of nearly equal size, whole tiles of a
 * GEMM. */
static int64_t even_chunk(int64_t rows, int64_t most)
{
    if (rows <= most)
        return rows;
    const int64_t n = (rows + most - 1) / most, even = (rows + n - 1) / n;
    const int64_t tiles = (even + LEAST_ROWS - 1) / LEAST_ROWS * LEAST_ROWS;
    return tiles <= most ? tiles : most;
}

static int64_t best_chunk(int64_t rows, int64_t vocab)
{
    const int64_t fit = CHUNK_LOGITS / (vocab > 0 ? vocab : 1);
    return even_chunk(rows, fit < LEAST_ROWS ? LEAST_ROWS : fit < CHUNK_ROWS ? fit : CHUNK_ROWS);
}

template <typename T> size_t cs_cuda_linear_xent_workspace(int64_t rows, int64_t in, int64_t vocab)
{
    (void)in;
    return rows <= 0 ? 0 : bytes_for<T>(rows, best_chunk(rows, vocab), vocab);
}

struct xent_args {
    int64_t vocab, stride, stashed; /* stashed: packs of a row */
    void *z;                        /* (rows, stride) */
    const int32_t *labels;
    float softcap;
    double *loss;     /* (rows) */
    uint8_t *correct; /* (rows), NULL: not wanted */
};

/* z: logits, with WANTS_GRAD replaced by the gradient of the row's loss. A label outside of the
 * vocabulary gives the loss NaN. */
template <typename T, bool WANTS_GRAD, bool IS_CAPPED>
__global__ void __launch_bounds__(THREADS) xent_kernel(struct xent_args g)
{
    extern __shared__ uint4 dynamic[];
    cs_pack_words<T> *stash = (cs_pack_words<T> *)dynamic;
    const int64_t row = blockIdx.x, vocab = g.vocab, label = g.labels[row];
    const float softcap = g.softcap;
    T *zr = (T *)g.z + row * g.stride;
    const bool is_valid = label >= 0 && label < vocab;
    const struct cs_loss_state s =
        cs_loss_scan<T, IS_CAPPED>(vocab, zr, softcap, stash, WANTS_GRAD ? g.stashed : 0);
    if (threadIdx.x == 0) {
        float target = is_valid ? cs_to_float(zr[label]) : NAN;
        if (IS_CAPPED)
            target = softcap * tanhf(target / softcap);
        g.loss[row] = log((double)s.sum) + ((double)s.max - (double)target);
        if (g.correct != nullptr)
            g.correct[row] = s.at == label && s.sum == s.sum;
    }
    if (!WANTS_GRAD)
        return;
    __syncthreads(); /* the label's logit has been read */
    const float inv_sum = 1.0f / s.sum;
#pragma unroll 2
    for (int64_t p = threadIdx.x; p * CS_PACK < vocab; p += THREADS) {
        const int64_t c = p * CS_PACK;
        float v[CS_PACK];
        cs_unpack(p < g.stashed ? stash[p] : cs_load_words(zr + c, vocab - c), v);
#pragma unroll
        for (int i = 0; i < CS_PACK; i++) {
            const float t = IS_CAPPED ? tanhf(v[i] / softcap) : 0.0f;
            const float capped = IS_CAPPED ? softcap * t : v[i];
            v[i] = cs_loss_exp<T>(capped - s.max) * inv_sum;
            if (c + i == label)
                v[i] -= 1.0f;
            if (IS_CAPPED)
                v[i] *= 1.0f - t * t;
        }
        cs_store_pack(zr + c, vocab - c, v);
    }
}

template <typename T>
static void launch_rows(struct cs_ctx *ctx, int64_t rows, bool wants_grad, struct xent_args *g)
{
    const bool is_capped = g->softcap != 0.0f;
    auto *kernel = wants_grad
                       ? (is_capped ? xent_kernel<T, true, true> : xent_kernel<T, true, false>)
                       : (is_capped ? xent_kernel<T, false, true> : xent_kernel<T, false, false>);
    const int64_t row_bytes = g->stride * (int64_t)sizeof(T);
    const int64_t bytes = !wants_grad ? 0 : row_bytes < STASH_BYTES ? row_bytes : STASH_BYTES;
    g->stashed = bytes / (int64_t)sizeof(cs_pack_words<T>);
    CS_CUDA_NOTE(
        ctx,
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)STASH_BYTES),
        "linear_xent");
    kernel<<<(unsigned)rows, THREADS, (size_t)bytes, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "linear_xent");
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
    int64_t chunk;    /* as many rows as the workspace holds, at most the best number */
};

template <typename T>
static bool take_buffers(struct cs_ctx *ctx, int64_t rows, int64_t vocab, struct xent_buffers *out)
{
    const uintptr_t base = (uintptr_t)ctx->workspace, at = ALIGN(base);
    const size_t lost = at - base + ALIGN((size_t)rows * sizeof(double));
    const int64_t least = rows < LEAST_ROWS ? rows : LEAST_ROWS, best = best_chunk(rows, vocab);
    const int64_t row_bytes = logits_stride(vocab) * (int64_t)sizeof(T);
    const int64_t fit = ctx->workspace_bytes > lost && row_bytes > 0
                            ? (int64_t)(ctx->workspace_bytes - lost) / row_bytes
                            : 0;
    if (fit < least) {
        CS_CUDA_REFUSE(ctx, CS_INVALID,
                       "linear_xent: workspace of %zu bytes is too small, %lld rows need %zu",
                       ctx->workspace_bytes, (long long)least, bytes_for<T>(rows, least, vocab));
        return false;
    }
    out->row_loss = (double *)at;
    out->logits = (void *)(at + ALIGN((size_t)rows * sizeof(double)));
    out->chunk = best <= fit ? best : even_chunk(rows, fit / LEAST_ROWS * LEAST_ROWS);
    return true;
}

template <typename T>
void cs_cuda_linear_xent(struct cs_ctx *ctx, int64_t rows, int64_t in, int64_t vocab, const void *x,
                         const void *w, const int32_t *labels, float softcap, double *loss,
                         double *row_loss, uint8_t *correct, void *dx, void *dw)
{
    struct xent_buffers b;
    if (rows <= 0 || !take_buffers<T>(ctx, rows, vocab, &b))
        return;
    if (row_loss != nullptr)
        b.row_loss = row_loss;
    const int64_t ld = logits_stride(vocab);
    const bool wants_grad = dx != nullptr || dw != nullptr;
    for (int64_t first = 0; first < rows; first += b.chunk) {
        const int64_t m = rows - first < b.chunk ? rows - first : b.chunk;
        const T *xc = (const T *)x + first * in;
        struct xent_args g = {.vocab = vocab,
                              .stride = ld,
                              .z = b.logits,
                              .labels = labels + first,
                              .softcap = softcap,
                              .loss = b.row_loss + first,
                              .correct = correct != nullptr ? correct + first : nullptr};
        cs_cuda_gemm<T>(ctx, 0, 1, m, vocab, in, 1.0f, xc, in, w, in, 0.0f, b.logits, ld);
        launch_rows<T>(ctx, m, wants_grad, &g);
        if (dx != nullptr)
            cs_cuda_gemm<T>(ctx, 0, 0, m, in, vocab, 1.0f, b.logits, ld, w, in, 0.0f,
                            (T *)dx + first * in, in);
        struct cs_ctx own = *ctx;
        own.is_grad_new = ctx->is_grad_new && first == 0;
        if (dw != nullptr)
            cs_cuda_gemm_wgrad<T>(&own, m, vocab, in, b.logits, ld, xc, in, dw);
    }
    add_losses<<<1, 512, 0, cs_cuda_stream_of(ctx)>>>(rows, b.row_loss, loss);
    CS_CUDA_LAUNCHED(ctx, "linear_xent");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_linear_xent<T>(struct cs_ctx *, int64_t, int64_t, int64_t, const void *, \
                                         const void *, const int32_t *, float, double *, double *, \
                                         uint8_t *, void *, void *);                               \
    template size_t cs_cuda_linear_xent_workspace<T>(int64_t, int64_t, int64_t);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
