/* LayerNorm and RMSNorm forward, alone or with the residual sum before it; sums in fp32 in a fixed
 * order. sum, y and stat are OVERWRITTEN. Formulas: kernels/cpu/norm.c. */
#include "kernels/cuda/norm.cuh"

/* a, b, sum, y (rows, n); w, bias (n); stat (rows, 2) */
struct norm_args {
    int64_t rows, n;
    float eps, offset;
    const void *a, *b, *w, *bias;
    void *sum, *y;
    float *stat;
};

template <typename T, bool IS_LAYER, bool ADDS, bool WHOLE, int P, int G>
__global__ void __launch_bounds__(CS_NORM_THREADS) norm_kernel(struct norm_args g)
{
    __shared__ struct cs_norm_slots slots;
    constexpr int GROUP = 32 * G, GROUPS = CS_NORM_THREADS / GROUP;
    const int t = (int)threadIdx.x % GROUP, n = (int)g.n;
    const float inv_n = 1.0f / (float)n;
    int turn = 0;
    for (int64_t row = (int64_t)blockIdx.x * GROUPS + threadIdx.x / GROUP; row < g.rows;
         row += (int64_t)gridDim.x * GROUPS) {
        const int64_t begin = row * n;
        cs_pack_words<T> x[P], w[P];
        float v[CS_PACK], u[CS_PACK];
        float2 sums = {0.0f, 0.0f};
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * GROUP + t) * CS_PACK;
            x[p] = cs_load_words<WHOLE>((const T *)g.a + begin + col, n - col);
            if constexpr (ADDS)
                w[p] = cs_load_words<WHOLE>((const T *)g.b + begin + col, n - col);
        }
        if constexpr (ADDS) {
#pragma unroll
            for (int p = 0; p < P; p++) {
                const int col = (p * GROUP + t) * CS_PACK;
                cs_unpack(x[p], v);
                cs_unpack(w[p], u);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++)
                    v[i] += u[i];
                x[p] = cs_pack_up<T>(v);
                cs_store_words<WHOLE>((T *)g.sum + begin + col, n - col, v);
            }
        }
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * GROUP + t) * CS_PACK;
            w[p] = cs_load_words<WHOLE>((const T *)g.w + col, n - col);
            cs_unpack(x[p], v);
#pragma unroll
            for (int i = 0; i < CS_PACK; i++)
                sums.x += IS_LAYER ? v[i] : v[i] * v[i];
        }
        sums = cs_group_sum<G>(&slots, turn++, sums);
        float mean = 0.0f;
        if constexpr (IS_LAYER) {
            mean = sums.x * inv_n;
            sums.x = 0.0f;
#pragma unroll
            for (int p = 0; p < P; p++) {
                const int count = n - (p * GROUP + t) * CS_PACK;
                cs_unpack(x[p], v);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++)
                    if (WHOLE ? count > 0 : i < count)
                        sums.x += (v[i] - mean) * (v[i] - mean);
            }
            sums = cs_group_sum<G>(&slots, turn++, sums);
        }
        const float rstd = rsqrtf(sums.x * inv_n + g.eps);
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * GROUP + t) * CS_PACK;
            float bias[CS_PACK] = {};
            if (IS_LAYER && g.bias != nullptr)
                cs_unpack(cs_load_words<WHOLE>((const T *)g.bias + col, n - col), bias);
            cs_unpack(x[p], v);
            cs_unpack(w[p], u);
#pragma unroll
            for (int i = 0; i < CS_PACK; i++)
                v[i] = (v[i] - mean) * rstd * (g.offset + u[i]) + bias[i];
            cs_store_words<WHOLE>((T *)g.y + begin + col, n - col, v);
        }
        if (t == 0)
            *(float2 *)(g.stat + 2 * row) = {mean, rstd};
    }
}

/* One block a row that does not fit registers, or an RMSNorm with a bias. */
template <typename T, bool IS_LAYER>
__global__ void __launch_bounds__(CS_NORM_THREADS) wide_norm_kernel(struct norm_args g)
{
    for (int64_t row = blockIdx.x; row < g.rows; row += gridDim.x) {
        const T *in = (const T *)g.a + row * g.n, *w = (const T *)g.w, *b = (const T *)g.bias;
        float v[CS_PACK], mean = 0.0f, sum = 0.0f;
        if (IS_LAYER) {
            for (int64_t c = threadIdx.x * CS_PACK; c < g.n; c += CS_NORM_THREADS * CS_PACK) {
                cs_load_pack(in + c, g.n - c, v);
                for (int i = 0; i < CS_PACK; i++)
                    sum += v[i];
            }
            mean = cs_block_sum(sum) / (float)g.n;
            sum = 0.0f;
        }
        for (int64_t c = threadIdx.x * CS_PACK; c < g.n; c += CS_NORM_THREADS * CS_PACK) {
            cs_load_pack(in + c, g.n - c, v);
            for (int i = 0; i < CS_PACK; i++)
                sum += c + i < g.n ? (v[i] - mean) * (v[i] - mean) : 0.0f;
        }
        const float rstd = 1.0f / sqrtf(cs_block_sum(sum) / (float)g.n + g.eps);
        for (int64_t c = threadIdx.x * CS_PACK; c < g.n; c += CS_NORM_THREADS * CS_PACK) {
            float weight[CS_PACK], bias[CS_PACK] = {};
            cs_load_pack(in + c, g.n - c, v);
            cs_load_pack(w + c, g.n - c, weight);
            if (b != nullptr)
                cs_load_pack(b + c, g.n - c, bias);
            for (int i = 0; i < CS_PACK; i++)
                v[i] = (v[i] - mean) * rstd * (g.offset + weight[i]) + bias[i];
            cs_store_pack((T *)g.y + row * g.n + c, g.n - c, v);
        }
        if (threadIdx.x == 0) {
            g.stat[2 * row] = mean;
            g.stat[2 * row + 1] = rstd;
        }
    }
}

typedef void kernel_fn(struct norm_args g);

struct choice {
    kernel_fn *kernel;
    int64_t groups; /* rows that a block works on at a time */
};

#define HELD(P, G)                                                                                 \
    {                                                                                              \
        norm_kernel<T, IS_LAYER, ADDS, WHOLE, P, G>, CS_NORM_WARPS / G                             \
    }

template <typename T, bool IS_LAYER, bool ADDS, bool WHOLE> static struct choice pick(int64_t n)
{
    if (n <= 256)
        return HELD(1, 1);
    if (n <= 512)
        return HELD(2, 1);
    if (n <= 1280)
        return HELD(5, 1);
    if (n <= 2048)
        return HELD(2, 4);
    if (n <= 4096)
        return HELD(2, 8);
    return HELD(4, 8);
}

template <typename T, bool IS_LAYER, bool ADDS>
static void launch(struct cs_ctx *ctx, const struct norm_args *g)
{
    const int64_t n = g->n;
    const bool is_whole = cs_is_whole(n, g->a) && cs_is_whole(n, g->b) && cs_is_whole(n, g->w) &&
                          cs_is_whole(n, g->bias) && cs_is_whole(n, g->sum) && cs_is_whole(n, g->y);
    struct choice c = {wide_norm_kernel<T, IS_LAYER>, 1};
    if (n <= CS_NORM_WIDEST && (IS_LAYER || g->bias == nullptr))
        c = is_whole ? pick<T, IS_LAYER, ADDS, true>(n) : pick<T, IS_LAYER, ADDS, false>(n);
    c.kernel<<<cs_blocks(g->rows, c.groups), CS_NORM_THREADS, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "norm");
}

template <typename T>
void cs_cuda_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                  float offset, const void *x, const void *w, const void *b, void *y, float *stat)
{
    const bool is_layer = kind == CS_NORM_LAYER;
    const struct norm_args g = {.rows = rows,
                                .n = n,
                                .eps = eps,
                                .offset = is_layer ? 0.0f : offset,
                                .a = x,
                                .w = w,
                                .bias = b,
                                .y = y,
                                .stat = stat};
    if (rows <= 0 || n <= 0)
        return;
    if (is_layer)
        launch<T, true, false>(ctx, &g);
    else
        launch<T, false, false>(ctx, &g);
}

template <typename T>
void cs_cuda_add_norm(struct cs_ctx *ctx, enum cs_norm kind, int64_t rows, int64_t n, float eps,
                      float offset, const void *a, const void *b, const void *w, const void *bias,
                      void *sum, void *y, float *stat)
{
    const bool is_layer = kind == CS_NORM_LAYER;
    const struct norm_args g = {.rows = rows,
                                .n = n,
                                .eps = eps,
                                .offset = is_layer ? 0.0f : offset,
                                .a = a,
                                .b = b,
                                .w = w,
                                .bias = bias,
                                .sum = sum,
                                .y = y,
                                .stat = stat};
    if (rows <= 0 || n <= 0)
        return;
    if (n > CS_NORM_WIDEST || (!is_layer && bias != nullptr)) {
        cs_cuda_add<T>(ctx, rows * n, a, b, sum);
        cs_cuda_norm<T>(ctx, kind, rows, n, eps, offset, sum, w, bias, y, stat);
    } else if (is_layer) {
        launch<T, true, true>(ctx, &g);
    } else {
        launch<T, false, true>(ctx, &g);
    }
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_norm<T>(struct cs_ctx *, enum cs_norm, int64_t, int64_t, float, float,   \
                                  const void *, const void *, const void *, void *, float *);      \
    template void cs_cuda_add_norm<T>(struct cs_ctx *, enum cs_norm, int64_t, int64_t, float,      \
                                      float, const void *, const void *, const void *,             \
                                      const void *, void *, void *, float *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
