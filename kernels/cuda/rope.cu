/* Rotary position embedding, rotate-half form, in place (OVERWRITTEN); see kernels/cpu/rope.c. */
#include "kernels/cuda/cuda_ops.cuh"

struct rope_args {
    int64_t rows, ldx;
    int32_t heads, head_dim, half, packs; /* packs: of one half */
    float sign;
};

/* x (rows, heads, head_dim), row stride ldx; cos, sin (rows, half). A thread turns a pack of pairs.
 */
template <typename T>
__global__ void rope_kernel(struct rope_args g, T *x, const float *cos, const float *sin)
{
    const int64_t per_row = (int64_t)g.heads * g.packs, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < g.rows * per_row;
         i += step) {
        const int64_t row = cs_row_of(i, per_row);
        const int32_t in_row = (int32_t)(i - row * per_row), head = in_row / g.packs;
        const int32_t pair = (in_row - head * g.packs) * CS_PACK, count = g.half - pair;
        T *at = x + row * g.ldx + (int64_t)head * g.head_dim + pair;
        float a[CS_PACK], b[CS_PACK], c[CS_PACK], s[CS_PACK];
        cs_load_pack(at, count, a);
        cs_load_pack(at + g.half, count, b);
        cs_load_pack(cos + row * g.half + pair, count, c);
        cs_load_pack(sin + row * g.half + pair, count, s);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            const float turn = g.sign * s[j], first = a[j];
            a[j] = first * c[j] - b[j] * turn;
            b[j] = b[j] * c[j] + first * turn;
        }
        cs_store_pack(at, count, a);
        cs_store_pack(at + g.half, count, b);
    }
}

template <typename T>
void cs_cuda_rope(struct cs_ctx *ctx, int64_t rows, int32_t heads, int32_t head_dim,
                  int32_t rot_dim, int64_t ldx, void *x, const float *cos, const float *sin,
                  int inverse)
{
    const int32_t half = rot_dim / 2;
    if (rows <= 0 || heads <= 0 || half <= 0)
        return;
    const struct rope_args g = {
        rows, ldx, heads, head_dim, half, (half + CS_PACK - 1) / CS_PACK, inverse ? -1.0f : 1.0f};
    rope_kernel<T><<<cs_blocks(rows * heads * g.packs, 256), 256, 0, cs_cuda_stream_of(ctx)>>>(
        g, (T *)x, cos, sin);
    CS_CUDA_LAUNCHED(ctx, "rope");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_rope<T>(struct cs_ctx *, int64_t, int32_t, int32_t, int32_t, int64_t,    \
                                  void *, const float *, const float *, int);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
