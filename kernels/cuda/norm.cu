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

template <typename T, bool ADDS, int P, int R> struct norm_rows {
    cs_pack_words<T> a[R][P], b[ADDS ? R : 1][P];
};

/* Rows first ... of a group, for its thread t; zeros where there is no row or column */
template <typename T, bool ADDS, bool WHOLE, int P, int L, int R>
__device__ inline void load_rows(const struct norm_args &g, int64_t first, int t,
                                 struct norm_rows<T, ADDS, P, R> *to)
{
    const int n = (int)g.n;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * L + t) * CS_PACK, count = first + r < g.rows ? n - col : 0;
            const int64_t at = (first + r) * n + col;
            to->a[r][p] = cs_load_words<WHOLE>((const T *)g.a + at, count);
            if constexpr (ADDS)
                to->b[r][p] = cs_load_words<WHOLE>((const T *)g.b + at, count);
        }
}

/* a of a row += b, rounded, also to g.sum */
template <typename T, bool WHOLE, int P, int L, int R>
__device__ inline void add_rows(const struct norm_args &g, int64_t first, int t,
                                struct norm_rows<T, true, P, R> *x)
{
    const int n = (int)g.n;
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * L + t) * CS_PACK, count = first + r < g.rows ? n - col : 0;
            float v[CS_PACK], u[CS_PACK];
            cs_unpack(x->a[r][p], v);
            cs_unpack(x->b[r][p], u);
#pragma unroll
            for (int i = 0; i < CS_PACK; i++)
                v[i] += u[i];
            x->a[r][p] = cs_pack_up<T>(v);
            cs_store_words<WHOLE>((T *)g.sum + (first + r) * n + col, count, v);
        }
}

template <typename T, bool IS_LAYER, bool ADDS, bool WHOLE, int P, int L, int R, int BLOCK,
          int LEAST>
__global__ void __launch_bounds__(BLOCK, sizeof(T) == 2 && WHOLE ? LEAST : 1)
    norm_kernel(struct norm_args g)
{
    __shared__ struct cs_norm_slots<R, BLOCK> slots;
    constexpr int GROUPS = BLOCK / L;
    const int t = cs_in_group<L, GROUPS>(), n = (int)g.n;
    const bool has_bias = g.bias != nullptr;
    const float inv_n = 1.0f / (float)n;
    int turn = 0;
    for (int64_t begin = (int64_t)blockIdx.x * GROUPS * R; begin < g.rows;
         begin += (int64_t)gridDim.x * GROUPS * R) {
        const int64_t first = begin + cs_group<L, GROUPS>() * R;
        struct norm_rows<T, ADDS, P, R> x;
        float v[CS_PACK], sum[R] = {}, mean[R] = {};
        load_rows<T, ADDS, WHOLE, P, L, R>(g, first, t, &x);
        if constexpr (ADDS)
            add_rows<T, WHOLE, P, L, R>(g, first, t, &x);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int p = 0; p < P; p++) {
                cs_unpack(x.a[r][p], v);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++)
                    sum[r] += IS_LAYER ? v[i] : v[i] * v[i];
            }
        cs_group_sums<R, L, BLOCK>(&slots, turn++, sum);
        if constexpr (IS_LAYER) {
#pragma unroll
            for (int r = 0; r < R; r++) {
                mean[r] = sum[r] * inv_n;
                sum[r] = 0.0f;
#pragma unroll
                for (int p = 0; p < P; p++) {
                    const int count = n - (p * L + t) * CS_PACK;
                    cs_unpack(x.a[r][p], v);
#pragma unroll
                    for (int i = 0; i < CS_PACK; i++)
                        if (WHOLE ? count > 0 : i < count)
                            sum[r] += (v[i] - mean[r]) * (v[i] - mean[r]);
                }
            }
            cs_group_sums<R, L, BLOCK>(&slots, turn++, sum);
        }
        float rstd[R];
#pragma unroll
        for (int r = 0; r < R; r++)
            rstd[r] = rsqrtf(sum[r] * inv_n + g.eps);
#pragma unroll
        for (int p = 0; p < P; p++) {
            const int col = (p * L + t) * CS_PACK;
            float w[CS_PACK], bias[CS_PACK] = {};
            cs_unpack(cs_load_words<WHOLE>((const T *)g.w + col, n - col), w);
            if constexpr (IS_LAYER)
                cs_unpack(cs_load_words<WHOLE>((const T *)g.bias + col, has_bias ? n - col : 0),
                          bias);
            else
#pragma unroll
                for (int i = 0; i < CS_PACK; i++)
                    w[i] += g.offset;
#pragma unroll
            for (int r = 0; r < R; r++) {
                cs_unpack(x.a[r][p], v);
#pragma unroll
                for (int i = 0; i < CS_PACK; i++)
                    v[i] = (v[i] - mean[r]) * rstd[r] * w[i] + bias[i];
                cs_store_words<WHOLE>((T *)g.y + (first + r) * n + col,
                                      first + r < g.rows ? n - col : 0, v);
            }
        }
#pragma unroll
        for (int r = 0; r < R; r++)
            if (t == 0 && first + r < g.rows)
                *(float2 *)(g.stat + 2 * (first + r)) = {mean[r], rstd[r]};
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
    int threads, rows; /* of a block; rows that it works on at a time */
};

/* P packs a thread, groups of L threads, R rows of each, THREADS in a block, at least LEAST blocks
 * on a processor */
#define HELD(P, L, R, THREADS, LEAST)                                                              \
    {                                                                                              \
        norm_kernel<T, IS_LAYER, ADDS, WHOLE, P, L, R, THREADS, LEAST>, THREADS, THREADS / L *R    \
    }

template <typename T, bool IS_LAYER, bool ADDS, bool WHOLE> static struct choice pick(int64_t n)
{
    constexpr int FEWER = IS_LAYER ? 1 : 0; /* LayerNorm takes more registers */
    if (n <= 128)
        return HELD(1, 16, 2, 256, 4);
    if (n <= 256)
        return HELD(1, 32, 2, 256, 4);
    if (n <= 512)
        return HELD(2, 32, 1, 256, 4);
    if (n <= 1024)
        return HELD(4, 32, 1, 256, 4 - FEWER);
    if constexpr (!ADDS)
        if (n <= 1280)
            return HELD(5, 32, 1, 128, 7 - FEWER);
    if (n <= 1536)
        return HELD(3, 64, 1, 256, 4);
    if (n <= 2048)
        return HELD(2, 128, 2, 256, 4 - FEWER);
    if (n <= 4096)
        return HELD(2, 256, 2, 256, 4 - FEWER);
    return HELD(4, 256, 1, 256, 3 - FEWER);
}

template <typename T, bool IS_LAYER, bool ADDS>
static void launch(struct cs_ctx *ctx, const struct norm_args *g)
{
    const int64_t n = g->n;
    const bool is_whole = cs_is_whole(n, g->a) && cs_is_whole(n, g->b) && cs_is_whole(n, g->w) &&
                          cs_is_whole(n, g->bias) && cs_is_whole(n, g->sum) && cs_is_whole(n, g->y);
    struct choice c = {wide_norm_kernel<T, IS_LAYER>, CS_NORM_THREADS, 1};
    if (n <= CS_NORM_WIDEST && (IS_LAYER || g->bias == nullptr))
        c = is_whole ? pick<T, IS_LAYER, ADDS, true>(n) : pick<T, IS_LAYER, ADDS, false>(n);
    c.kernel<<<cs_blocks(g->rows, c.rows), (unsigned)c.threads, 0, cs_cuda_stream_of(ctx)>>>(*g);
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
