/* Cross-entropy over logits of which several ranks have some columns each (kernels/ops.h). Logits stay as
 * they are until their gradient is written over them: a cap is applied where they are read, so that no
 * rounding comes between. */
#include "kernels/cuda/loss.cuh"

#define THREADS CS_LOSS_THREADS

struct part_args {
    int64_t words;
    void *z; /* (rows, words) */
    const int32_t *labels;
    float softcap;
};

template <typename T, bool IS_CAPPED>
__global__ void __launch_bounds__(THREADS) part_kernel(struct part_args g, float *stat)
{
    const int64_t row = blockIdx.x, label = g.labels[row];
    const T *z = (const T *)g.z + row * g.words;
    const struct cs_loss_state s =
        cs_loss_scan<T, IS_CAPPED>(g.words, z, g.softcap, (cs_pack_words<T> *)nullptr, 0);
    if (threadIdx.x > 0)
        return;
    float *out = stat + row * CS_XENT_STATS;
    float own = label >= 0 && label < g.words ? cs_to_float(z[label]) : 0.0f;
    if (IS_CAPPED)
        own = g.softcap * tanhf(own / g.softcap);
    out[CS_XENT_MAX] = s.max;
    out[CS_XENT_SUM] = s.sum;
    out[CS_XENT_LABEL] = own;
    out[CS_XENT_IS_BEST] = label < 0 ? -1.0f : s.at == label ? 1.0f : 0.0f;
}

template <typename T>
void cs_cuda_xent_part(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                       float softcap, void *z, float *stat)
{
    const struct part_args g = {words, z, labels, softcap};
    if (rows <= 0)
        return;
    auto *kernel = softcap != 0.0f ? part_kernel<T, true> : part_kernel<T, false>;
    kernel<<<(unsigned)rows, THREADS, 0, cs_cuda_stream_of(ctx)>>>(g, stat);
    CS_CUDA_LAUNCHED(ctx, "xent_part");
}

struct join_args {
    int64_t rows;
    int32_t parts;
    const float *stat; /* (parts, rows, CS_XENT_STATS) */
    double *loss, *row_loss;
    uint8_t *correct;
    float *whole;
};

/* The loss of a row. Words of other parts come before those of the label's, or after them: the first of the
 * largest wins. A label of no part gives NaN. */
__device__ static double join_row(const struct join_args g, int64_t row)
{
    float max = -FLT_MAX, sum = 0.0f, label = NAN;
    int own = -1;
    bool is_best = true;
    for (int i = 0; i < g.parts; i++) {
        const float *s = g.stat + (i * g.rows + row) * CS_XENT_STATS;
        max = s[CS_XENT_MAX] > max ? s[CS_XENT_MAX] : max;
        if (own < 0 && s[CS_XENT_IS_BEST] >= 0.0f) {
            own = i;
            label = s[CS_XENT_LABEL];
            is_best = s[CS_XENT_IS_BEST] > 0.0f;
        }
    }
    for (int i = 0; i < g.parts; i++) {
        const float *s = g.stat + (i * g.rows + row) * CS_XENT_STATS;
        sum += s[CS_XENT_SUM] * expf(s[CS_XENT_MAX] - max);
        if (i != own)
            is_best = is_best && (i < own ? s[CS_XENT_MAX] < label : s[CS_XENT_MAX] <= label);
    }
    if (g.correct != nullptr)
        g.correct[row] = own >= 0 && is_best && sum == sum;
    g.whole[2 * row] = max;
    g.whole[2 * row + 1] = 1.0f / sum;
    return log((double)sum) + ((double)max - (double)label);
}

/* one block: losses are added in one order */
static __global__ void join_kernel(struct join_args g)
{
    double total = 0.0;
    for (int64_t row = threadIdx.x; row < g.rows; row += blockDim.x) {
        const double own = join_row(g, row);
        if (g.row_loss != nullptr)
            g.row_loss[row] = own;
        total += own;
    }
    total = cs_block_sum(total);
    if (threadIdx.x == 0)
        *g.loss += total;
}

void cs_cuda_xent_join(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                       double *loss, double *row_loss, uint8_t *correct, float *whole)
{
    const struct join_args g = {rows, parts, stat, loss, row_loss, correct, whole};
    if (rows <= 0)
        return;
    join_kernel<<<1, 512, 0, cs_cuda_stream_of(ctx)>>>(g);
    CS_CUDA_LAUNCHED(ctx, "xent_join");
}

template <typename T, bool IS_CAPPED>
__global__ void __launch_bounds__(THREADS) part_grad_kernel(struct part_args g, const float *whole)
{
    const int64_t row = blockIdx.x, label = g.labels[row], words = g.words;
    const float max = whole[2 * row], inv_sum = whole[2 * row + 1], softcap = g.softcap;
    T *z = (T *)g.z + row * words;
    for (int64_t c = (int64_t)threadIdx.x * CS_PACK; c < words; c += THREADS * CS_PACK) {
        float v[CS_PACK];
        cs_unpack(cs_load_words(z + c, words - c), v);
#pragma unroll
        for (int i = 0; i < CS_PACK; i++) {
            const float t = IS_CAPPED ? tanhf(v[i] / softcap) : 0.0f;
            const float capped = IS_CAPPED ? softcap * t : v[i];
            v[i] = cs_loss_exp<T>(capped - max) * inv_sum - (c + i == label ? 1.0f : 0.0f);
            if (IS_CAPPED)
                v[i] *= 1.0f - t * t;
        }
        cs_store_pack(z + c, words - c, v);
    }
}

template <typename T>
void cs_cuda_xent_part_grad(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                            float softcap, const float *whole, void *z)
{
    const struct part_args g = {words, z, labels, softcap};
    if (rows <= 0)
        return;
    auto *kernel = softcap != 0.0f ? part_grad_kernel<T, true> : part_grad_kernel<T, false>;
    kernel<<<(unsigned)rows, THREADS, 0, cs_cuda_stream_of(ctx)>>>(g, whole);
    CS_CUDA_LAUNCHED(ctx, "xent_part_grad");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_xent_part<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *, float,  \
                                       void *, float *);                                           \
    template void cs_cuda_xent_part_grad<T>(struct cs_ctx *, int64_t, int64_t, const int32_t *,    \
                                            float, const float *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
