/* Activations, alone and gated, and the sum of two tensors. Everything is OVERWRITTEN; an output
 * may be one of the inputs. The kind is a template argument: no branch per element. */
#include "kernels/cuda/cuda_ops.cuh"

#define SQRT_HALF       0.707106781f
#define INV_SQRT_2PI    0.398942280f
#define SQRT_2_OVER_PI  0.797884561f
#define GELU_CUBE       0.044715f
#define QUICK_STEEPNESS 1.702f

__device__ inline float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

template <enum cs_act KIND> __device__ inline float value_of(float x)
{
    if (KIND == CS_ACT_GELU)
        return 0.5f * x * (1.0f + erff(x * SQRT_HALF));
    if (KIND == CS_ACT_GELU_TANH)
        return 0.5f * x * (1.0f + tanhf(SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x)));
    if (KIND == CS_ACT_QUICK_GELU)
        return x * sigmoid(QUICK_STEEPNESS * x);
    if (KIND == CS_ACT_SILU)
        return x * sigmoid(x);
    if (KIND == CS_ACT_RELU)
        return x < 0.0f ? 0.0f : x; /* NaN stays */
    return x;
}

template <enum cs_act KIND> __device__ inline float slope_of(float x)
{
    if (KIND == CS_ACT_GELU)
        return 0.5f * (1.0f + erff(x * SQRT_HALF)) + x * INV_SQRT_2PI * expf(-0.5f * x * x);
    if (KIND == CS_ACT_GELU_TANH) {
        const float t = tanhf(SQRT_2_OVER_PI * (x + GELU_CUBE * x * x * x));
        const float inner = SQRT_2_OVER_PI * (1.0f + 3.0f * GELU_CUBE * x * x);
        return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
    }
    if (KIND == CS_ACT_QUICK_GELU) {
        const float s = sigmoid(QUICK_STEEPNESS * x);
        return s + QUICK_STEEPNESS * x * s * (1.0f - s);
    }
    if (KIND == CS_ACT_SILU) {
        const float s = sigmoid(x);
        return s * (1.0f + x * (1.0f - s));
    }
    if (KIND == CS_ACT_RELU)
        return x <= 0.0f ? 0.0f : 1.0f;
    return 1.0f;
}

/* Every operator here is a matrix (rows, n) of packs; NULL inputs are not read. */
struct rows_args {
    int64_t rows, n;
    const void *a, *b, *c;
    int64_t ld_ab, ld_c;
    void *y, *z;
    int64_t ld_y;
};

/* y = act(a) (b NULL) or act(a) b */
template <typename T, enum cs_act KIND> __global__ void value_kernel(struct rows_args g)
{
    const int64_t packs = (g.n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < g.rows * packs;
         i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK, count = g.n - col;
        float x[CS_PACK], up[CS_PACK];
        cs_load_pack((const T *)g.a + row * g.ld_ab + col, count, x);
        if (g.b != nullptr)
            cs_load_pack((const T *)g.b + row * g.ld_ab + col, count, up);
        for (int j = 0; j < CS_PACK; j++)
            x[j] = value_of<KIND>(x[j]) * (g.b != nullptr ? up[j] : 1.0f);
        cs_store_pack((T *)g.y + row * g.ld_y + col, count, x);
    }
}

/* c = dy. b NULL: y = dy act'(a); else y = dy b act'(a), z = dy act(a) */
template <typename T, enum cs_act KIND> __global__ void slope_kernel(struct rows_args g)
{
    const int64_t packs = (g.n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < g.rows * packs;
         i += step) {
        const int64_t row = i / packs, col = (i - row * packs) * CS_PACK, count = g.n - col;
        float x[CS_PACK], up[CS_PACK], d[CS_PACK], out[CS_PACK];
        cs_load_pack((const T *)g.a + row * g.ld_ab + col, count, x);
        cs_load_pack((const T *)g.c + row * g.ld_c + col, count, d);
        if (g.b != nullptr)
            cs_load_pack((const T *)g.b + row * g.ld_ab + col, count, up);
        for (int j = 0; j < CS_PACK; j++)
            out[j] = d[j] * (g.b != nullptr ? up[j] : 1.0f) * slope_of<KIND>(x[j]);
        cs_store_pack((T *)g.y + row * g.ld_y + col, count, out);
        if (g.z == nullptr)
            continue;
        for (int j = 0; j < CS_PACK; j++)
            out[j] = d[j] * value_of<KIND>(x[j]);
        cs_store_pack((T *)g.z + row * g.ld_y + col, count, out);
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

template <typename T> struct kernels {
    kernel_fn *value, *slope;
};

#define KIND_ROW(K)                                                                                \
    {                                                                                              \
        value_kernel<T, K>, slope_kernel<T, K>                                                     \
    }

template <typename T>
static void launch(struct cs_ctx *ctx, enum cs_act kind, bool wants_slope,
                   const struct rows_args *g)
{
    static const struct kernels<T> of_kind[] = {
        KIND_ROW(CS_ACT_NONE), KIND_ROW(CS_ACT_GELU), KIND_ROW(CS_ACT_GELU_TANH),
            KIND_ROW(CS_ACT_QUICK_GELU), KIND_ROW(CS_ACT_SILU), KIND_ROW(CS_ACT_RELU),
    };

    static_assert(sizeof of_kind / sizeof of_kind[0] == CS_ACT_KINDS, "one row per activation");
    if (g->rows <= 0 || g->n <= 0)
        return;
    kernel_fn *kernel = wants_slope ? of_kind[kind].slope : of_kind[kind].value;
    const int64_t packs = (g->n + CS_PACK - 1) / CS_PACK;
    kernel<<<cs_blocks(g->rows * packs, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(*g);
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
