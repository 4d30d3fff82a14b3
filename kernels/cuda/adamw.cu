/* The optimizer: AdamW in the order of operations of kernels/cpu/adamw.c, with fp32 masters and
 * moments or all in bf16, and sums of squares for the global norm (fp64, in a fixed order), each
 * for one tensor or a list. A list travels as a kernel parameter, up to LIST tensors a launch;
 * blocks take chunks of CHUNK elements and find their tensor by bisection. master, moments and w
 * are OVERWRITTEN. */
#include <math.h>

#include "kernels/cuda/cuda_ops.cuh"
#include "kernels/round.h"

#define THREADS      256
#define ADAM_CHUNK   (THREADS * CS_PACK)      /* stores in a loop would hold up the next loads */
#define SQUARE_CHUNK (THREADS * CS_PACK * 16) /* sets the order of the sum */
#define LIST         40                       /* a kernel's parameters may take 4 KiB */

static int64_t chunks_of(int64_t n, int64_t chunk)
{
    return n <= 0 ? 0 : (n + chunk - 1) / chunk;
}

/* The tensor that block at works for: first (n + 1) counts the blocks before each. */
__device__ inline int tensor_of(int n, const uint32_t *first, uint32_t at)
{
    int low = 0, high = n - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (first[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

struct step {
    float grad_scale;               /* of every gradient */
    float take1, beta2, take2, eps; /* take: 1 - beta */
    float root_bc2, size;           /* sqrt(1 - beta2^t), lr / (1 - beta1^t) */
};

struct adamw_one {
    int64_t n;
    const float *grad;
    float *master, *exp_avg, *exp_avg_sq;
    void *w;    /* NULL: none */
    float keep; /* 1 - lr weight_decay */
};

struct adamw_list {
    struct step s;
    int n;
    uint32_t first[LIST + 1];
    struct adamw_one of[LIST];
};

static_assert(sizeof(struct adamw_list) <= 4096, "fits a kernel's parameters");

template <typename T>
__global__ void __launch_bounds__(THREADS) adamw_kernel(const __grid_constant__ adamw_list list)
{
    const int at = tensor_of(list.n, list.first, blockIdx.x);
    const struct adamw_one &t = list.of[at];
    const struct step s = list.s;
    const float keep = t.keep;
    const int64_t i = (int64_t)(blockIdx.x - list.first[at]) * ADAM_CHUNK + threadIdx.x * CS_PACK;
    const int64_t count = t.n - i;
    if (count <= 0)
        return;
    float g[CS_PACK], p[CS_PACK], m[CS_PACK], v[CS_PACK];
    cs_load_pack(t.grad + i, count, g);
    cs_load_pack(t.master + i, count, p);
    cs_load_pack(t.exp_avg + i, count, m);
    cs_load_pack(t.exp_avg_sq + i, count, v);
#pragma unroll
    for (int j = 0; j < CS_PACK; j++) {
        const float d = g[j] * s.grad_scale;
        m[j] = m[j] + s.take1 * (d - m[j]);
        v[j] = v[j] * s.beta2 + s.take2 * d * d;
        p[j] = p[j] * keep - s.size * m[j] / (sqrtf(v[j]) / s.root_bc2 + s.eps);
    }
    cs_store_pack(t.master + i, count, p);
    cs_store_pack(t.exp_avg + i, count, m);
    cs_store_pack(t.exp_avg_sq + i, count, v);
    if (t.w != nullptr)
        cs_store_pack((T *)t.w + i, count, p);
}

static struct step step_of(const struct cs_adamw *hyper)
{
    const double lr = hyper->lr, beta1 = hyper->beta1, beta2 = hyper->beta2;
    const double bc1 = 1.0 - pow(beta1, (double)hyper->step);
    const double bc2 = 1.0 - pow(beta2, (double)hyper->step);
    return {
        .grad_scale = hyper->grad_scale,
        .take1 = (float)(1.0 - beta1),
        .beta2 = hyper->beta2,
        .take2 = (float)(1.0 - beta2),
        .eps = hyper->eps,
        .root_bc2 = (float)sqrt(bc2),
        .size = (float)(lr / bc1),
    };
}

template <typename T> static void launch_adamw(struct cs_ctx *ctx, struct adamw_list *list)
{
    const uint32_t blocks = list->first[list->n];
    if (blocks > 0) {
        adamw_kernel<T><<<blocks, THREADS, 0, cs_cuda_stream_of(ctx)>>>(*list);
        CS_CUDA_LAUNCHED(ctx, "adamw");
    }
    list->n = 0;
}

template <typename T>
void cs_cuda_adamw_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                        const struct cs_adamw *hyper)
{
    struct adamw_list list = {.s = step_of(hyper)};
    for (int32_t i = 0; i < n_tensors; i++) {
        const struct cs_adamw_tensor *t = &tensor[i];
        if (t->n <= 0)
            continue;
        list.of[list.n] = {.n = t->n,
                           .grad = t->grad,
                           .master = t->master,
                           .exp_avg = t->exp_avg,
                           .exp_avg_sq = t->exp_avg_sq,
                           .w = t->w != (void *)t->master ? t->w : nullptr,
                           .keep = (float)(1.0 - (double)hyper->lr * (double)t->weight_decay)};
        list.first[list.n + 1] = list.first[list.n] + (uint32_t)chunks_of(t->n, ADAM_CHUNK);
        list.n++;
        if (list.n == LIST)
            launch_adamw<T>(ctx, &list);
    }
    launch_adamw<T>(ctx, &list);
}

template <typename T>
void cs_cuda_adamw(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                   float *master, float *exp_avg, float *exp_avg_sq, void *w)
{
    const struct cs_adamw_tensor one = {.n = n,
                                        .weight_decay = hyper->weight_decay,
                                        .grad = grad,
                                        .master = master,
                                        .exp_avg = exp_avg,
                                        .exp_avg_sq = exp_avg_sq,
                                        .w = w};
    cs_cuda_adamw_many<T>(ctx, 1, &one, hyper);
}

/* ---- AdamW in bf16: the CPU twin's bits but for root and quotient, hence no product is contracted
 * with a sum ---- */

struct adamw_bf16_one {
    int64_t n, first;
    uint64_t key;
    const __nv_bfloat16 *grad;
    uint16_t *w, *exp_avg, *exp_avg_sq;
    float keep;    /* 1 - lr weight_decay */
    bool is_plain; /* aligned to 16 bytes, first is even */
};

struct adamw_bf16_list {
    struct step s;
    float inv_root_bc2;
    int n;
    uint32_t first[LIST + 1];
    struct adamw_bf16_one of[LIST];
};

static_assert(sizeof(struct adamw_bf16_list) <= 4096, "fits a kernel's parameters");

/* the upper halves of in[0, count) */
template <bool IS_PLAIN>
__device__ inline void store_halves(uint16_t *p, int64_t count, const uint32_t in[CS_PACK])
{
    if constexpr (!IS_PLAIN)
        if (count < CS_PACK || ((uintptr_t)p & 15) != 0) {
#pragma unroll
            for (int i = 0; i < CS_PACK; i++)
                if (i < count)
                    p[i] = (uint16_t)(in[i] >> 16);
            return;
        }
    const auto pair = [&](int i) { return __byte_perm(in[i], in[i + 1], 0x7632); };
    *(uint4 *)p = make_uint4(pair(0), pair(2), pair(4), pair(6));
}

/* The random bits of elements from index on. Neighbours share a value of Philox; an index that may
 * be odd lets every element make its own. */
template <bool IS_EVEN>
__device__ inline void random_pack(uint64_t key, uint64_t index, uint32_t out[CS_PACK])
{
#pragma unroll
    for (int j = 0; j < CS_PACK; j += 2) {
        if constexpr (IS_EVEN) {
            const uint64_t both = cs_round_random(key, (index + (uint64_t)j) / 2);
            out[j] = (uint32_t)both;
            out[j + 1] = (uint32_t)(both >> 32);
        } else {
            out[j] = cs_round_element(key, index + (uint64_t)j);
            out[j + 1] = cs_round_element(key, index + (uint64_t)j + 1);
        }
    }
}

/* Within two units in the last place, and without the branches of IEEE 754: these are what most of
 * the time goes to on a card that big products have made hot and slow. */
__device__ inline float root_of(float x)
{
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ inline float inverse_of(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* cs_round_stochastic_bits of a result of arithmetic, whose NaN are 0x7fffffff: that is the only
 * pattern above the upper half of CS_ROUND_NAN. */
__device__ inline uint32_t round_bits(float x, uint32_t random)
{
    const int bits = __float_as_int(x), nan = (int)((uint32_t)CS_ROUND_NAN << 16);
    return (uint32_t)(bits < nan ? bits : nan) + (random & 0xffffu);
}

/* Up to CS_PACK elements from the i-th of t on. IS_PLAIN: all of them, aligned, the first index
 * even: nothing then stands between the loads, which would wait for each other. */
template <bool IS_PLAIN>
__device__ inline void adamw_bf16_pack(const struct adamw_bf16_one &t, const struct step &s,
                                       float inv_root_bc2, int64_t i)
{
    const int64_t count = t.n - i < CS_PACK ? t.n - i : CS_PACK;
    const auto words = [&](const void *p) {
        return cs_load_words<IS_PLAIN>((const __nv_bfloat16 *)p + i, (int32_t)count);
    };
    const cs_pack_words<__nv_bfloat16> g_words = words(t.grad), p_words = words(t.w);
    const cs_pack_words<__nv_bfloat16> m_words = words(t.exp_avg), v_words = words(t.exp_avg_sq);
    uint32_t random[CS_PACK], to_w[CS_PACK], to_m[CS_PACK], to_v[CS_PACK];
    float g[CS_PACK], p[CS_PACK], m[CS_PACK], v[CS_PACK];
    random_pack<IS_PLAIN>(t.key, (uint64_t)(t.first + i), random);
    cs_unpack(g_words, g);
    cs_unpack(p_words, p);
    cs_unpack(m_words, m);
    cs_unpack(v_words, v);
#pragma unroll
    for (int j = 0; j < CS_PACK; j++) {
        const float d = __fmul_rn(g[j], s.grad_scale);
        m[j] = __fadd_rn(m[j], __fmul_rn(s.take1, __fsub_rn(d, m[j])));
        v[j] = __fadd_rn(__fmul_rn(v[j], s.beta2), __fmul_rn(__fmul_rn(s.take2, d), d));
        const float denom = __fadd_rn(__fmul_rn(root_of(v[j]), inv_root_bc2), s.eps);
        p[j] = __fsub_rn(__fmul_rn(p[j], t.keep),
                         __fmul_rn(__fmul_rn(s.size, m[j]), inverse_of(denom)));
        to_w[j] = round_bits(p[j], random[j] >> CS_ROUND_WEIGHT);
        to_m[j] = round_bits(m[j], random[j] >> CS_ROUND_AVG);
        to_v[j] = round_bits(v[j], random[j] >> CS_ROUND_AVG_SQ);
    }
    store_halves<IS_PLAIN>(t.w + i, count, to_w);
    store_halves<IS_PLAIN>(t.exp_avg + i, count, to_m);
    store_halves<IS_PLAIN>(t.exp_avg_sq + i, count, to_v);
}

static __global__ void __launch_bounds__(THREADS, 5)
    adamw_bf16_kernel(const __grid_constant__ adamw_bf16_list list)
{
    const int at = tensor_of(list.n, list.first, blockIdx.x);
    const struct adamw_bf16_one &t = list.of[at];
    const int64_t i = (int64_t)(blockIdx.x - list.first[at]) * ADAM_CHUNK + threadIdx.x * CS_PACK;
    if (i >= t.n)
        return;
    if (t.is_plain && t.n - i >= CS_PACK)
        adamw_bf16_pack<true>(t, list.s, list.inv_root_bc2, i);
    else
        adamw_bf16_pack<false>(t, list.s, list.inv_root_bc2, i);
}

static void launch_adamw_bf16(struct cs_ctx *ctx, struct adamw_bf16_list *list)
{
    const uint32_t blocks = list->first[list->n];
    if (blocks > 0) {
        adamw_bf16_kernel<<<blocks, THREADS, 0, cs_cuda_stream_of(ctx)>>>(*list);
        CS_CUDA_LAUNCHED(ctx, "adamw_bf16");
    }
    list->n = 0;
}

void cs_cuda_adamw_bf16_many(struct cs_ctx *ctx, int32_t n_tensors,
                             const struct cs_adamw_bf16_tensor *tensor,
                             const struct cs_adamw *hyper)
{
    struct adamw_bf16_list list = {.s = step_of(hyper)};
    list.inv_root_bc2 = 1.0f / list.s.root_bc2;
    for (int32_t i = 0; i < n_tensors; i++) {
        const struct cs_adamw_bf16_tensor *t = &tensor[i];
        const uintptr_t bits =
            (uintptr_t)t->grad | (uintptr_t)t->w | (uintptr_t)t->exp_avg | (uintptr_t)t->exp_avg_sq;
        if (t->n <= 0)
            continue;
        list.of[list.n] = {.n = t->n,
                           .first = t->first,
                           .key = t->key,
                           .grad = (const __nv_bfloat16 *)t->grad,
                           .w = (uint16_t *)t->w,
                           .exp_avg = (uint16_t *)t->exp_avg,
                           .exp_avg_sq = (uint16_t *)t->exp_avg_sq,
                           .keep = (float)(1.0 - (double)hyper->lr * (double)t->weight_decay),
                           .is_plain = (bits & 15) == 0 && t->first % 2 == 0};
        list.first[list.n + 1] = list.first[list.n] + (uint32_t)chunks_of(t->n, ADAM_CHUNK);
        list.n++;
        if (list.n == LIST)
            launch_adamw_bf16(ctx, &list);
    }
    launch_adamw_bf16(ctx, &list);
}

/* ---- sums of squares ---- */

struct squares_list {
    int n;
    uint32_t first[LIST + 1];
    struct cs_sumsq_tensor of[LIST];
    double *part; /* one for each block */
    double *sum;  /* (n) */
};

template <typename G>
__global__ void __launch_bounds__(THREADS) squares_kernel(const __grid_constant__ squares_list list)
{
    const int at = tensor_of(list.n, list.first, blockIdx.x);
    const G *x = (const G *)list.of[at].x;
    const int64_t n = list.of[at].n, begin = (int64_t)(blockIdx.x - list.first[at]) * SQUARE_CHUNK;
    const int64_t end = begin + SQUARE_CHUNK < n ? begin + SQUARE_CHUNK : n;
    double sum = 0.0;
#pragma unroll 4
    for (int64_t i = begin + threadIdx.x * CS_PACK; i < end; i += THREADS * CS_PACK) {
        float v[CS_PACK];
        cs_load_pack(x + i, n - i, v);
#pragma unroll
        for (int j = 0; j < CS_PACK; j++)
            sum += (double)v[j] * (double)v[j];
    }
    sum = cs_block_sum(sum);
    if (threadIdx.x == 0)
        list.part[blockIdx.x] = sum;
}

/* Block: one tensor. An empty one has the sum 0. */
static __global__ void squares_total(const __grid_constant__ squares_list list)
{
    const uint32_t begin = list.first[blockIdx.x], end = list.first[blockIdx.x + 1];
    double mine = 0.0;
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        mine += list.part[i];
    mine = cs_block_sum(mine);
    if (threadIdx.x == 0)
        list.sum[blockIdx.x] = mine;
}

static void launch_squares(struct cs_ctx *ctx, struct squares_list *list)
{
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    const uint32_t blocks = list->first[list->n];
    if (list->n > 0) {
        if (blocks > 0 && ctx->grad == CS_GRAD_BF16)
            squares_kernel<__nv_bfloat16><<<blocks, THREADS, 0, stream>>>(*list);
        else if (blocks > 0)
            squares_kernel<float><<<blocks, THREADS, 0, stream>>>(*list);
        squares_total<<<(unsigned)list->n, THREADS, 0, stream>>>(*list);
        CS_CUDA_LAUNCHED(ctx, "sumsq");
    }
    list->sum += list->n;
    list->n = 0;
}

void cs_cuda_sumsq_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_sumsq_tensor *tensor,
                        double *sum)
{
    const int64_t most = (int64_t)(CS_CUDA_SCRATCH_BYTES / sizeof(double));
    struct squares_list list = {.part = (double *)cs_cuda_handle_of(ctx)->scratch, .sum = sum};
    for (int32_t i = 0; i < n_tensors; i++) {
        const int64_t chunks = chunks_of(tensor[i].n, SQUARE_CHUNK);
        if (chunks > most) {
            CS_CUDA_REFUSE(ctx, CS_LIMIT, "sum of squares of %lld elements",
                           (long long)tensor[i].n);
            return;
        }
        if (list.n == LIST || list.first[list.n] + chunks > most)
            launch_squares(ctx, &list);
        list.of[list.n] = tensor[i];
        list.first[list.n + 1] = list.first[list.n] + (uint32_t)chunks;
        list.n++;
    }
    launch_squares(ctx, &list);
}

void cs_cuda_sumsq(struct cs_ctx *ctx, int64_t n, const void *x, double *sum)
{
    const struct cs_sumsq_tensor one = {n, x};
    cs_cuda_sumsq_many(ctx, 1, &one, sum);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_adamw<T>(struct cs_ctx *, int64_t, const struct cs_adamw *,              \
                                   const float *, float *, float *, float *, void *);              \
    template void cs_cuda_adamw_many<T>(struct cs_ctx *, int32_t, const struct cs_adamw_tensor *,  \
                                        const struct cs_adamw *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
