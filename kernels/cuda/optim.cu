/* The optimizer: AdamW in the order of operations of kernels/cpu/adamw.c, and the sum of squares
 * for the global norm (fp64, two passes in a fixed order). master, moments and w are OVERWRITTEN.
 */
#include <math.h>

#include "kernels/cuda/cuda_ops.cuh"

struct step {
    float grad_scale, keep;         /* keep: 1 - lr weight_decay */
    float take1, beta2, take2, eps; /* take: 1 - beta */
    float root_bc2, size;           /* sqrt(1 - beta2^t), lr / (1 - beta1^t) */
};

template <typename T>
__global__ void adamw_kernel(int64_t n, struct step s, const float *grad, float *master,
                             float *exp_avg, float *exp_avg_sq, T *w)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n;
         i += stride) {
        float g[CS_PACK], p[CS_PACK], m[CS_PACK], v[CS_PACK];
        cs_load_pack(grad + i, n - i, g);
        cs_load_pack(master + i, n - i, p);
        cs_load_pack(exp_avg + i, n - i, m);
        cs_load_pack(exp_avg_sq + i, n - i, v);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            const float d = g[j] * s.grad_scale;
            m[j] = m[j] + s.take1 * (d - m[j]);
            v[j] = v[j] * s.beta2 + s.take2 * d * d;
            p[j] = p[j] * s.keep - s.size * m[j] / (sqrtf(v[j]) / s.root_bc2 + s.eps);
        }
        cs_store_pack(master + i, n - i, p);
        cs_store_pack(exp_avg + i, n - i, m);
        cs_store_pack(exp_avg_sq + i, n - i, v);
        if (w != nullptr)
            cs_store_pack(w + i, n - i, p);
    }
}

template <typename T>
void cs_cuda_adamw(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                   float *master, float *exp_avg, float *exp_avg_sq, void *w)
{
    if (n <= 0)
        return;
    const double lr = hyper->lr, beta1 = hyper->beta1, beta2 = hyper->beta2;
    const double bc1 = 1.0 - pow(beta1, (double)hyper->step);
    const double bc2 = 1.0 - pow(beta2, (double)hyper->step);
    const struct step s = {
        .grad_scale = hyper->grad_scale,
        .keep = (float)(1.0 - lr * (double)hyper->weight_decay),
        .take1 = (float)(1.0 - beta1),
        .beta2 = hyper->beta2,
        .take2 = (float)(1.0 - beta2),
        .eps = hyper->eps,
        .root_bc2 = (float)sqrt(bc2),
        .size = (float)(lr / bc1),
    };
    T *copy = w != (void *)master ? (T *)w : nullptr;
    adamw_kernel<T><<<cs_blocks(n, 256 * CS_PACK), 256, 0, cs_cuda_stream_of(ctx)>>>(
        n, s, grad, master, exp_avg, exp_avg_sq, copy);
    CS_CUDA_LAUNCHED(ctx, "adamw");
}

#define SQUARE_BLOCKS 1056 /* whatever the card: the order of the sum is the same everywhere */

/* part (SQUARE_BLOCKS) */
static __global__ void squares_kernel(int64_t n, const float *x, double *part)
{
    const int64_t stride = (int64_t)gridDim.x * blockDim.x * CS_PACK;
    double sum = 0.0;
    for (int64_t i = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_PACK; i < n;
         i += stride) {
        float v[CS_PACK];
        cs_load_pack(x + i, n - i, v);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum += (double)v[j] * (double)v[j];
    }
    sum = cs_block_sum(sum);
    if (threadIdx.x == 0)
        part[blockIdx.x] = sum;
}

static __global__ void squares_total(const double *part, int parts, double *sum)
{
    double mine = 0.0;
    for (int i = (int)threadIdx.x; i < parts; i += (int)blockDim.x)
        mine += part[i];
    mine = cs_block_sum(mine);
    if (threadIdx.x == 0)
        *sum = mine;
}

void cs_cuda_sumsq(struct cs_ctx *ctx, int64_t n, const float *x, double *sum)
{
    double *part = (double *)cs_cuda_handle_of(ctx)->scratch;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    squares_kernel<<<SQUARE_BLOCKS, 256, 0, stream>>>(n, x, part);
    CS_CUDA_LAUNCHED(ctx, "sumsq");
    squares_total<<<1, 256, 0, stream>>>(part, SQUARE_BLOCKS, sum);
    CS_CUDA_LAUNCHED(ctx, "sumsq");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_adamw<T>(struct cs_ctx *, int64_t, const struct cs_adamw *,              \
                                   const float *, float *, float *, float *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
