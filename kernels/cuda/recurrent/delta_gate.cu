/* Gates of the gated delta rule; contract in kernels/ops.h. Sums over rows run in a fixed order. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS 256

__device__ static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}

__device__ static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}

/* grad[i] += x, or = */
__device__ static void put_grad(void *grad, bool is_bf16, bool is_new, int64_t i, float x)
{
    if (grad == nullptr)
        return;
    if (is_bf16) {
        __nv_bfloat16 *const at = (__nv_bfloat16 *)grad + i;
        *at = __float2bfloat16_rn(is_new ? x : __bfloat162float(*at) + x);
    } else {
        float *const at = (float *)grad + i;
        *at = is_new ? x : *at + x;
    }
}

static unsigned blocks_of(int64_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

/* ---- gates ---- */

template <typename T>
__global__ void __launch_bounds__(THREADS)
    gate_kernel(int64_t rows, int32_t heads, const T *a, const T *b, int64_t ld, const T *a_log,
                const T *dt_bias, float *g, float *beta)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= rows * heads)
        return;
    const int64_t row = i / heads, h = i % heads;
    const float x = cs_to_float(a[row * ld + h]) + cs_to_float(dt_bias[h]);
    g[i] = -expf(cs_to_float(a_log[h])) * softplus(x);
    beta[i] = sigmoid(cs_to_float(b[row * ld + h]));
}

/* Sum over the block in a fixed order; thread 0 has it. */
__device__ static float block_sum(float x)
{
    __shared__ float all[THREADS];
    __syncthreads();
    all[threadIdx.x] = x;
    __syncthreads();
    for (int d = THREADS / 2; d > 0; d /= 2) {
        if ((int)threadIdx.x < d)
            all[threadIdx.x] += all[threadIdx.x + d];
        __syncthreads();
    }
    return all[0];
}

struct gate_grad_args {
    int64_t rows, ld, ld_d;
    int32_t heads;
    bool is_bf16, is_new; /* of gradients of weights */
};

/* One block a head. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    gate_grad_kernel(gate_grad_args s, const T *a, const T *b, const T *a_log, const T *dt_bias,
                     const float *dg, const float *dbeta, T *da, T *db, void *da_log,
                     void *ddt_bias)
{
    const int64_t h = blockIdx.x;
    const float rate = -expf(cs_to_float(a_log[h])), bias = cs_to_float(dt_bias[h]);
    float of_speed = 0.0f, of_bias = 0.0f;
    for (int64_t i = threadIdx.x; i < s.rows; i += THREADS) {
        const float x = cs_to_float(a[i * s.ld + h]) + bias, pull = dg[i * s.heads + h];
        const float strength = sigmoid(cs_to_float(b[i * s.ld + h]));
        const float one = pull * rate * sigmoid(x);
        da[i * s.ld_d + h] = cs_from_float<T>(one);
        db[i * s.ld_d + h] =
            cs_from_float<T>(dbeta[i * s.heads + h] * strength * (1.0f - strength));
        of_speed += pull * rate * softplus(x);
        of_bias += one;
    }
    of_speed = block_sum(of_speed);
    of_bias = block_sum(of_bias);
    if (threadIdx.x == 0) {
        put_grad(da_log, s.is_bf16, s.is_new, h, of_speed);
        put_grad(ddt_bias, s.is_bf16, s.is_new, h, of_bias);
    }
}

template <typename T>
void cs_cuda_delta_gate(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                        const void *b, int64_t ld, const void *a_log, const void *dt_bias, float *g,
                        float *beta)
{
    if (rows <= 0 || heads <= 0)
        return;
    gate_kernel<T><<<blocks_of(rows * heads), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        rows, heads, (const T *)a, (const T *)b, ld, (const T *)a_log, (const T *)dt_bias, g, beta);
    CS_CUDA_LAUNCHED(ctx, "delta_gate");
}

template <typename T>
void cs_cuda_delta_gate_grad(struct cs_ctx *ctx, int64_t rows, int32_t heads, const void *a,
                             const void *b, int64_t ld, const void *a_log, const void *dt_bias,
                             const float *dg, const float *dbeta, void *da, void *db, int64_t ld_d,
                             void *da_log, void *ddt_bias)
{
    if (rows <= 0 || heads <= 0)
        return;
    const gate_grad_args s = {
        rows, ld, ld_d, heads, ctx->grad == CS_GRAD_BF16, ctx->is_grad_new != 0};
    gate_grad_kernel<T><<<(unsigned)heads, THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        s, (const T *)a, (const T *)b, (const T *)a_log, (const T *)dt_bias, dg, dbeta, (T *)da,
        (T *)db, da_log, ddt_bias);
    CS_CUDA_LAUNCHED(ctx, "delta_gate_grad");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_delta_gate<T>(struct cs_ctx *, int64_t, int32_t, const void *,           \
                                        const void *, int64_t, const void *, const void *,         \
                                        float *, float *);                                         \
    template void cs_cuda_delta_gate_grad<T>(                                                      \
        struct cs_ctx *, int64_t, int32_t, const void *, const void *, int64_t, const void *,      \
        const void *, const float *, const float *, void *, void *, int64_t, void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
