/* The bias of a linear layer: added in place (activation OVERWRITTEN), its gradient ACCUMULATED. */
#include "kernels/cuda/colsum.cuh"

/* y (rows, n), row stride ldy; bias (n) */
template <typename T>
__global__ void bias_add_kernel(int64_t rows, int64_t n, T *y, int64_t ldy, const T *bias)
{
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * packs; i += step) {
        const int64_t col = i % packs * CS_PACK;
        T *at = y + i / packs * ldy + col;
        float v[CS_PACK], b[CS_PACK];
        cs_load_pack(at, n - col, v);
        cs_load_pack(bias + col, n - col, b);
        for (int j = 0; j < CS_PACK; j++)
            v[j] += b[j];
        cs_store_pack(at, n - col, v);
    }
}

template <typename T>
void cs_cuda_bias_add(struct cs_ctx *ctx, int64_t rows, int64_t n, void *y, int64_t ldy,
                      const void *bias)
{
    if (rows <= 0 || n <= 0)
        return;
    const int64_t packs = (n + CS_PACK - 1) / CS_PACK;
    bias_add_kernel<T><<<cs_blocks(rows * packs, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(
        rows, n, (T *)y, ldy, (const T *)bias);
    CS_CUDA_LAUNCHED(ctx, "bias_add");
}

template <typename T, bool WHOLE> struct plain_term {
    const T *dy;
    int64_t ld;

    __device__ void operator()(int64_t row, int64_t col, int64_t count, float out[1][CS_PACK]) const
    {
        cs_unpack(cs_load_words<WHOLE>(dy + row * ld + col, (int32_t)count), out[0]);
    }
};

template <typename T>
void cs_cuda_bias_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const void *dy, int64_t ld_dy,
                       void *db)
{
    if (n % CS_PACK == 0 && cs_is_whole(ld_dy, dy))
        cs_colsum<1>(ctx, rows, n, plain_term<T, true>{(const T *)dy, ld_dy}, db, nullptr);
    else
        cs_colsum<1>(ctx, rows, n, plain_term<T, false>{(const T *)dy, ld_dy}, db, nullptr);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_bias_add<T>(struct cs_ctx *, int64_t, int64_t, void *, int64_t,          \
                                      const void *);                                               \
    template void cs_cuda_bias_grad<T>(struct cs_ctx *, int64_t, int64_t, const void *, int64_t,   \
                                       void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
