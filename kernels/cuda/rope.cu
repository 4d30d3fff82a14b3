/* Rotary position embedding, rotate-half form, in place (OVERWRITTEN); see kernels/cpu/rope.c. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS 256
#define HEADS   4 /* that a thread turns by the same angles */

struct rope_args {
    int64_t rows, ldx;
    int32_t heads, head_dim, half, packs; /* packs: of one half */
    float sign;
};

/* x (rows, heads, head_dim), row stride ldx; cos, sin (rows, half). A thread turns a pack of pairs
 * of HEADS heads. WHOLE: all packs are whole and aligned. */
template <typename T, bool WHOLE>
__global__ void __launch_bounds__(THREADS)
    rope_kernel(struct rope_args g, T *x, const float *cos, const float *sin)
{
    const int32_t apart =
        (g.heads + HEADS - 1) / HEADS; /* neighbours in a warp are neighbours in x */
    const int64_t per_row = (int64_t)apart * g.packs;
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = cs_row_of(i, per_row);
    if (row >= g.rows)
        return;
    const int32_t in_row = (int32_t)(i - row * per_row), first = in_row / g.packs;
    const int32_t pair = in_row % g.packs * CS_PACK, count = g.half - pair;
    T *at = x + row * g.ldx + (int64_t)first * g.head_dim + pair;
    cs_pack_words<T> low[HEADS], high[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const int32_t there = first + h * apart < g.heads ? count : 0;
        low[h] = cs_load_words<WHOLE>(at + h * apart * g.head_dim, there);
        high[h] = cs_load_words<WHOLE>(at + h * apart * g.head_dim + g.half, there);
    }
    float c[CS_PACK], s[CS_PACK];
    cs_unpack(cs_load_words<WHOLE>(cos + row * g.half + pair, count), c);
    cs_unpack(cs_load_words<WHOLE>(sin + row * g.half + pair, count), s);
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        const int32_t there = first + h * apart < g.heads ? count : 0;
        float a[CS_PACK], b[CS_PACK];
        cs_unpack(low[h], a);
        cs_unpack(high[h], b);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++) {
            const float turn = g.sign * s[j], real = a[j];
            a[j] = real * c[j] - b[j] * turn;
            b[j] = b[j] * c[j] + real * turn;
        }
        cs_store_words<WHOLE>(at + h * apart * g.head_dim, there, a);
        cs_store_words<WHOLE>(at + h * apart * g.head_dim + g.half, there, b);
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
    const bool is_whole = cs_is_whole(half, cos) && cs_is_whole(half, sin) && cs_is_whole(ldx, x) &&
                          head_dim % CS_PACK == 0;
    auto *kernel = is_whole ? rope_kernel<T, true> : rope_kernel<T, false>;
    const int64_t items = rows * ((heads + HEADS - 1) / HEADS) * g.packs;
    kernel<<<(unsigned)((items + THREADS - 1) / THREADS), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        g, (T *)x, cos, sin);
    CS_CUDA_LAUNCHED(ctx, "rope");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_rope<T>(struct cs_ctx *, int64_t, int32_t, int32_t, int32_t, int64_t,    \
                                  void *, const float *, const float *, int);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
