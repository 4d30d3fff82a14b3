/* Activations, alone and gated, and the sum of two tensors. Everything is OVERWRITTEN; an output
 * may be one of the inputs. A thread reads all that it needs before it writes. */
#include "kernels/cuda/activation.cuh"

#define THREADS 256

/* Packs of a thread on their way together, by the number of its inputs. */
__host__ __device__ constexpr int at_once(int inputs)
{
    return inputs == 1 ? 4 : 2;
}

/* Every operator here is a matrix (rows, n) of packs; NULL inputs are not read. */
struct rows_args {
    int64_t rows, n;
    const void *a, *b, *c;
    int64_t ld_ab, ld_c;
    void *y, *z;
    int64_t ld_y;
};

/* Place of a pack; count 0: there is none. */
struct place {
    int64_t row, col;
    int32_t count;
};

__device__ inline struct place find_place(const struct rows_args &g, int64_t i)
{
    const int64_t packs = (g.n + CS_PACK - 1) / CS_PACK, row = cs_row_of(i, packs);
    const int64_t col = (i - row * packs) * CS_PACK, rest = g.n - col;
    return {row, col, row >= g.rows ? 0 : rest < CS_PACK ? (int32_t)rest : CS_PACK};
}

/* y = act(a) (b NULL) or act(a) b. WHOLE: all packs are whole and aligned. */
template <typename T, enum cs_act KIND, bool IS_GATED, bool WHOLE>
__global__ void __launch_bounds__(THREADS) value_kernel(struct rows_args g)
{
    constexpr int N = at_once(IS_GATED ? 2 : 1);
    cs_pack_words<T> a[N], b[N];
    struct place at[N];
    const int64_t first = (int64_t)blockIdx.x * THREADS * N + threadIdx.x;
#pragma unroll
    for (int u = 0; u < N; u++) {
        at[u] = find_place(g, first + u * THREADS);
        const int64_t from = at[u].row * g.ld_ab + at[u].col;
        a[u] = cs_load_words<WHOLE>((const T *)g.a + from, at[u].count);
        if constexpr (IS_GATED)
            b[u] = cs_load_words<WHOLE>((const T *)g.b + from, at[u].count);
    }
#pragma unroll
    for (int u = 0; u < N; u++) {
        float x[CS_PACK], up[CS_PACK];
        cs_unpack(a[u], x);
        if constexpr (IS_GATED)
            cs_unpack(b[u], up);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            x[j] = cs_act_value<T, KIND>(x[j]) * (IS_GATED ? up[j] : 1.0f);
        cs_store_words<WHOLE>((T *)g.y + at[u].row * g.ld_y + at[u].col, at[u].count, x);
    }
}

/* c = dy. b NULL: y = dy act'(a); else y = dy b act'(a), z = dy act(a) */
template <typename T, enum cs_act KIND, bool IS_GATED, bool WHOLE>
__global__ void __launch_bounds__(THREADS) slope_kernel(struct rows_args g)
{
    constexpr int N = at_once(IS_GATED ? 3 : 2);
    cs_pack_words<T> a[N], b[N], c[N];
    struct place at[N];
    const int64_t first = (int64_t)blockIdx.x * THREADS * N + threadIdx.x;
#pragma unroll
    for (int u = 0; u < N; u++) {
        at[u] = find_place(g, first + u * THREADS);
        const int64_t from = at[u].row * g.ld_ab + at[u].col;
        a[u] = cs_load_words<WHOLE>((const T *)g.a + from, at[u].count);
        if constexpr (IS_GATED)
            b[u] = cs_load_words<WHOLE>((const T *)g.b + from, at[u].count);
        c[u] = cs_load_words<WHOLE>((const T *)g.c + at[u].row * g.ld_c + at[u].col, at[u].count);
    }
#pragma unroll
    for (int u = 0; u < N; u++) {
        const int64_t to = at[u].row * g.ld_y + at[u].col;
        float x[CS_PACK], up[CS_PACK], d[CS_PACK];
        cs_unpack(a[u], x);
        cs_unpack(c[u], d);
        if constexpr (IS_GATED)
            cs_unpack(b[u], up);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            const float slope = cs_act_slope<T, KIND>(x[j]);
            if constexpr (IS_GATED) {
                up[j] = d[j] * up[j] * slope;
                d[j] *= cs_act_value<T, KIND>(x[j]);
            } else {
                d[j] *= slope;
            }
        }
        if constexpr (IS_GATED) {
            cs_store_words<WHOLE>((T *)g.y + to, at[u].count, up);
            cs_store_words<WHOLE>((T *)g.z + to, at[u].count, d);
        } else {
            cs_store_words<WHOLE>((T *)g.y + to, at[u].count, d);
        }
    }
}

template <typename T> __global__ void add_kernel(int64_t n, const T *a, const T *b, T *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n; i += step) {
        const cs_pack_words<T> wa = cs_load_words(a + i, n - i), wb = cs_load_words(b + i, n - i);
        float x[CS_PACK], z[CS_PACK];
        cs_unpack(wa, x);
        cs_unpack(wb, z);
        for (int j = 0; j < CS_PACK; j++)
            x[j] += z[j];
        cs_store_pack(y + i, n - i, x);
    }
}

typedef void kernel_fn(struct rows_args g);

struct kernels {
    kernel_fn *value, *slope, *gated_value, *gated_slope;
};

#define KIND_ROW(K)                                                                                \
    {                                                                                              \
        value_kernel<T, K, false, WHOLE>, slope_kernel<T, K, false, WHOLE>,                        \
            value_kernel<T, K, true, WHOLE>, slope_kernel<T, K, true, WHOLE>                       \
    }

template <typename T, bool WHOLE> static const struct kernels *kernels_of(enum cs_act kind)
{
    static const struct kernels of_kind[] = {
        KIND_ROW(CS_ACT_NONE),       KIND_ROW(CS_ACT_GELU), KIND_ROW(CS_ACT_GELU_TANH),
        KIND_ROW(CS_ACT_QUICK_GELU), KIND_ROW(CS_ACT_SILU), KIND_ROW(CS_ACT_RELU),
        KIND_ROW(CS_ACT_SIGMOID),
    };

    static_assert(sizeof of_kind / sizeof of_kind[0] == CS_ACT_KINDS, "one row per activation");
    return &of_kind[kind];
}

template <typename T>
static void launch(struct cs_ctx *ctx, enum cs_act kind, bool wants_slope,
                   const struct rows_args *g)
{
    if (g->rows <= 0 || g->n <= 0)
        return;
    const bool is_whole = g->n % CS_PACK == 0 && cs_is_whole(g->ld_ab, g->a) &&
                          cs_is_whole(g->ld_ab, g->b) && cs_is_whole(g->ld_c, g->c) &&
                          cs_is_whole(g->ld_y, g->y) && cs_is_whole(g->ld_y, g->z);
    const bool is_gated = g->b != nullptr;
    const struct kernels *k = is_whole ? kernels_of<T, true>(kind) : kernels_of<T, false>(kind);
    kernel_fn *const kernel = is_gated ? (wants_slope ? k->gated_slope : k->gated_value)
                                       : (wants_slope ? k->slope : k->value);
    const int64_t packs = (g->n + CS_PACK - 1) / CS_PACK;
    const int64_t per_block = THREADS * at_once(1 + is_gated + wants_slope);
    const int64_t blocks = (g->rows * packs + per_block - 1) / per_block;
    kernel<<<(unsigned)blocks, THREADS, 0, cs_cuda_stream_of(ctx)>>>(*g);
    CS_CUDA_LAUNCHED(ctx, "activation");
}

template <typename T>
void cs_cuda_act(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x, void *y)
{
    const struct rows_args g = {.rows = 1, .n = n, .a = x, .ld_ab = n, .y = y, .ld_y = n};
    launch<T>(ctx, kind, false, &g);
}

template <typename T>
void cs_cuda_act_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t n, const void *x,
                      const void *dy, void *dx)
{
    const struct rows_args g = {
        .rows = 1, .n = n, .a = x, .c = dy, .ld_ab = n, .ld_c = n, .y = dx, .ld_y = n};
    launch<T>(ctx, kind, true, &g);
}

template <typename T>
void cs_cuda_gated(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n, const void *gate,
                   const void *up, int64_t ld, void *y)
{
    const struct rows_args g = {
        .rows = rows, .n = n, .a = gate, .b = up, .ld_ab = ld, .y = y, .ld_y = n};
    launch<T>(ctx, kind, false, &g);
}

template <typename T>
void cs_cuda_gated_grad(struct cs_ctx *ctx, enum cs_act kind, int64_t rows, int64_t n,
                        const void *gate, const void *up, int64_t ld, const void *dy, void *dgate,
                        void *dup, int64_t ld_d)
{
    const struct rows_args g = {.rows = rows,
                                .n = n,
                                .a = gate,
                                .b = up,
                                .c = dy,
                                .ld_ab = ld,
                                .ld_c = n,
                                .y = dgate,
                                .z = dup,
                                .ld_y = ld_d};
    launch<T>(ctx, kind, true, &g);
}

template <typename T>
void cs_cuda_add(struct cs_ctx *ctx, int64_t n, const void *a, const void *b, void *y)
{
    if (n <= 0)
        return;
    add_kernel<T><<<cs_blocks(n, 256 * CS_PACK), 256, 0, cs_cuda_stream_of(ctx)>>>(
        n, (const T *)a, (const T *)b, (T *)y);
    CS_CUDA_LAUNCHED(ctx, "add");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_act<T>(struct cs_ctx *, enum cs_act, int64_t, const void *, void *);     \
    template void cs_cuda_act_grad<T>(struct cs_ctx *, enum cs_act, int64_t, const void *,         \
                                      const void *, void *);                                       \
    template void cs_cuda_gated<T>(struct cs_ctx *, enum cs_act, int64_t, int64_t, const void *,   \
                                   const void *, int64_t, void *);                                 \
    template void cs_cuda_gated_grad<T>(struct cs_ctx *, enum cs_act, int64_t, int64_t,            \
                                        const void *, const void *, int64_t, const void *, void *, \
                                        void *, int64_t);                                          \
    template void cs_cuda_add<T>(struct cs_ctx *, int64_t, const void *, const void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
