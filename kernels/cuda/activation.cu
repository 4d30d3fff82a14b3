/* Activations, alone and gated, and the sum of two tensors. Everything is OVERWRITTEN; an output
 * may be one of the inputs. A thread reads all that it needs before it writes. */
#include "kernels/cuda/activation.cuh"

#define THREADS 256
#define AT_ONCE 2 /* packs of a thread on their way together */

/* Every operator here is a matrix (rows, n) of packs; NULL inputs are not read. */
struct rows_args {
    int64_t rows, n;
    const void *a, *b, *c;
    int64_t ld_ab, ld_c;
    void *y, *z;
    int64_t ld_y;
};

/* Place of pack i; false: there is none. */
struct place {
    int64_t row, col, count;
};

__device__ inline bool find_place(const struct rows_args &g, int64_t i, struct place *at)
{
    const int64_t packs = (g.n + CS_PACK - 1) / CS_PACK;
    at->row = cs_row_of(i, packs);
    at->col = (i - at->row * packs) * CS_PACK;
    at->count = g.n - at->col;
    return at->row < g.rows;
}

/* y = act(a) (b NULL) or act(a) b */
template <typename T, enum cs_act KIND, bool IS_GATED>
__global__ void __launch_bounds__(THREADS) value_kernel(struct rows_args g)
{
    float x[AT_ONCE][CS_PACK], up[AT_ONCE][CS_PACK];
    struct place at[AT_ONCE];
    bool is_there[AT_ONCE];
    const int64_t first = (int64_t)blockIdx.x * THREADS * AT_ONCE + threadIdx.x;
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        is_there[u] = find_place(g, first + u * THREADS, &at[u]);
        if (!is_there[u])
            continue;
        const int64_t from = at[u].row * g.ld_ab + at[u].col;
        cs_load_pack((const T *)g.a + from, at[u].count, x[u]);
        if (IS_GATED)
            cs_load_pack((const T *)g.b + from, at[u].count, up[u]);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        if (!is_there[u])
            continue;
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            x[u][j] = cs_act_value<T, KIND>(x[u][j]) * (IS_GATED ? up[u][j] : 1.0f);
        cs_store_pack((T *)g.y + at[u].row * g.ld_y + at[u].col, at[u].count, x[u]);
    }
}

/* c = dy. b NULL: y = dy act'(a); else y = dy b act'(a), z = dy act(a) */
template <typename T, enum cs_act KIND, bool IS_GATED>
__global__ void __launch_bounds__(THREADS) slope_kernel(struct rows_args g)
{
    float x[AT_ONCE][CS_PACK], up[AT_ONCE][CS_PACK], d[AT_ONCE][CS_PACK];
    struct place at[AT_ONCE];
    bool is_there[AT_ONCE];
    const int64_t first = (int64_t)blockIdx.x * THREADS * AT_ONCE + threadIdx.x;
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        is_there[u] = find_place(g, first + u * THREADS, &at[u]);
        if (!is_there[u])
            continue;
        const int64_t from = at[u].row * g.ld_ab + at[u].col;
        cs_load_pack((const T *)g.a + from, at[u].count, x[u]);
        if (IS_GATED)
            cs_load_pack((const T *)g.b + from, at[u].count, up[u]);
        cs_load_pack((const T *)g.c + at[u].row * g.ld_c + at[u].col, at[u].count, d[u]);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; u++) {
        if (!is_there[u])
            continue;
        const int64_t to = at[u].row * g.ld_y + at[u].col;
        float out[CS_PACK];
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            out[j] = d[u][j] * (IS_GATED ? up[u][j] : 1.0f) * cs_act_slope<T, KIND>(x[u][j]);
        cs_store_pack((T *)g.y + to, at[u].count, out);
        if constexpr (IS_GATED) {
#pragma unroll
            for (int j = 0; j < CS_PACK; j++)
                out[j] = d[u][j] * cs_act_value<T, KIND>(x[u][j]);
            cs_store_pack((T *)g.z + to, at[u].count, out);
        }
    }
}

template <typename T> __global__ void add_kernel(int64_t n, const T *a, const T *b, T *y)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n; i += step) {
        float x[CS_PACK], z[CS_PACK];
        cs_load_pack(a + i, n - i, x);
        cs_load_pack(b + i, n - i, z);
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
        value_kernel<T, K, false>, slope_kernel<T, K, false>, value_kernel<T, K, true>,            \
            slope_kernel<T, K, true>                                                               \
    }

template <typename T>
static void launch(struct cs_ctx *ctx, enum cs_act kind, bool wants_slope,
                   const struct rows_args *g)
{
    static const struct kernels of_kind[] = {
        KIND_ROW(CS_ACT_NONE),       KIND_ROW(CS_ACT_GELU), KIND_ROW(CS_ACT_GELU_TANH),
        KIND_ROW(CS_ACT_QUICK_GELU), KIND_ROW(CS_ACT_SILU), KIND_ROW(CS_ACT_RELU),
    };

    static_assert(sizeof of_kind / sizeof of_kind[0] == CS_ACT_KINDS, "one row per activation");
    if (g->rows <= 0 || g->n <= 0)
        return;
    const struct kernels *k = &of_kind[kind];
    kernel_fn *const kernel = g->b != nullptr ? (wants_slope ? k->gated_slope : k->gated_value)
                                              : (wants_slope ? k->slope : k->value);
    const int64_t packs = (g->n + CS_PACK - 1) / CS_PACK, per_block = THREADS * AT_ONCE;
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
