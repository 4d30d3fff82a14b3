/* Attention as plainly as can be, in fp64 and as an eager bf16 program computes it. */
#include "gpu/attention_oracle.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/mask/mask_token.cuh"
#define _Noreturn [[noreturn]] /* C11 spelling in core/base/status.h */
#include "kernels/ops.h"
#undef _Noreturn

#define THREADS 256
#define TILE    32 /* of a product: 16 x 16 threads, 2 x 2 elements each */

struct att_oracle {
    cudaStream_t stream;
    char *pool;
    size_t bytes, used;
    struct att_difference *difference; /* device */
    unsigned long long *number;        /* device */
};

#define MUST(call) must((call), #call)

static void must(cudaError_t code, const char *what)
{
    if (code == cudaSuccess)
        return;
    printf("%s: %s\n", what, cudaGetErrorString(code));
    exit(1);
}

static unsigned blocks(int64_t n)
{
    return (unsigned)((n + THREADS - 1) / THREADS);
}

/* ---- numbers ---- */

__device__ static double read(const void *x, bool is_bf16, int64_t i)
{
    return is_bf16 ? (double)__bfloat162float(((const __nv_bfloat16 *)x)[i])
                   : (double)((const float *)x)[i];
}

__device__ static double rounded(double x, bool is_eager)
{
    return is_eager ? (double)__bfloat162float(__float2bfloat16_rn((float)x)) : x;
}

__device__ static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

__global__ void random_kernel(void *x, bool is_bf16, int64_t n, uint64_t seed)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    const uint64_t bits = mix(seed * UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)i);
    const float u = ((float)(bits >> 40) + 0.5f) / 16777216.0f;
    const float v = (float)(bits & 0xffffff) / 16777216.0f;
    const float z = sqrtf(-2.0f * logf(u)) * cospif(2.0f * v);
    if (is_bf16)
        ((__nv_bfloat16 *)x)[i] = __float2bfloat16_rn(z);
    else
        ((float *)x)[i] = z;
}

/* (rows, width) with a stride to dense fp64 */
__global__ void widen_kernel(const void *x, bool is_bf16, int64_t rows, int64_t width,
                             int64_t stride, double *to)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < rows * width)
        to[i] = read(x, is_bf16, i / width * stride + i % width);
}

/* ---- products ---- */

struct matrix { /* element (row, col) of head h: p[h / group * head + row * down + col * right] */
    double *p;
    int64_t group, head, down, right;
};

__device__ static double element(const struct matrix &m, int64_t h, int64_t row, int64_t col)
{
    return m.p[h / m.group * m.head + row * m.down + col * m.right];
}

enum product_kind {
    PRODUCT,
    PRODUCT_ROUNDED,
    PRODUCT_OF_SQUARES, /* root of the sum of squares: how independent errors add up */
};

/* c (m, n) = alpha a (m, k) b (k, n) for every head blockIdx.z */
__global__ void __launch_bounds__(THREADS)
    product_kernel(int64_t m, int64_t n, int64_t k, double alpha, struct matrix a, struct matrix b,
                   struct matrix c, enum product_kind kind)
{
    __shared__ double as[TILE][TILE + 1], bs[TILE][TILE + 1];
    const int x = (int)threadIdx.x % 16, y = (int)threadIdx.x / 16;
    const int64_t row = (int64_t)blockIdx.y * TILE, col = (int64_t)blockIdx.x * TILE;
    const int64_t h = blockIdx.z;
    double sum[2][2] = {};
    for (int64_t k0 = 0; k0 < k; k0 += TILE) {
        for (int i = (int)threadIdx.x; i < TILE * TILE; i += THREADS) {
            const int r = i / TILE, j = i % TILE;
            as[r][j] = row + r < m && k0 + j < k ? element(a, h, row + r, k0 + j) : 0.0;
            bs[r][j] = k0 + r < k && col + j < n ? element(b, h, k0 + r, col + j) : 0.0;
        }
        __syncthreads();
        for (int j = 0; j < TILE; j++)
            for (int r = 0; r < 2; r++)
                for (int q = 0; q < 2; q++) {
                    const double one = as[y + 16 * r][j] * bs[j][x + 16 * q];
                    sum[r][q] += kind == PRODUCT_OF_SQUARES ? one * one : one;
                }
        __syncthreads();
    }
    for (int r = 0; r < 2; r++)
        for (int q = 0; q < 2; q++) {
            const int64_t i = row + y + 16 * r, j = col + x + 16 * q;
            if (i < m && j < n)
                c.p[h / c.group * c.head + i * c.down + j * c.right] =
                    rounded(alpha * (kind == PRODUCT_OF_SQUARES ? sqrt(sum[r][q]) : sum[r][q]),
                            kind == PRODUCT_ROUNDED);
        }
}

static void product(struct att_oracle *o, int64_t heads, int64_t m, int64_t n, int64_t k,
                    double alpha, struct matrix a, struct matrix b, struct matrix c,
                    enum product_kind kind)
{
    const dim3 grid((unsigned)((n + TILE - 1) / TILE), (unsigned)((m + TILE - 1) / TILE),
                    (unsigned)heads);
    product_kernel<<<grid, THREADS, 0, o->stream>>>(m, n, k, alpha, a, b, c, kind);
    MUST(cudaGetLastError());
}

static struct matrix transposed(struct matrix m)
{
    const int64_t down = m.down;
    m.down = m.right;
    m.right = down;
    return m;
}

/* ---- softmax and its gradient ---- */

__device__ static double block_fold(double x, bool is_max)
{
    __shared__ double all[THREADS];
    __syncthreads();
    all[threadIdx.x] = x;
    __syncthreads();
    for (int n = THREADS / 2; n > 0; n /= 2) {
        if ((int)threadIdx.x < n) {
            const double other = all[threadIdx.x + n];
            all[threadIdx.x] = is_max ? fmax(all[threadIdx.x], other) : all[threadIdx.x] + other;
        }
        __syncthreads();
    }
    return all[0];
}

/* z (heads, rows, keys): scale q.k on entry, capped on return; p = softmax over the allowed keys
 * and, where there are sinks (heads), one score more. One block per row and head. */
__global__ void __launch_bounds__(THREADS)
    softmax_kernel(struct cs_mask_plan q, struct cs_mask_plan k, double cap, const float *sink,
                   double *z, double *p, double *lse, bool is_eager)
{
    const int32_t row = (int32_t)blockIdx.x, keys = k.n_tokens;
    const int64_t at = ((int64_t)blockIdx.y * q.n_tokens + row) * keys;
    const struct cs_mask_token own = cs_mask_token_of(q, row);
    double max = -INFINITY, sum = 0.0;
    for (int32_t j = (int32_t)threadIdx.x; j < keys; j += THREADS) {
        if (cap != 0.0)
            z[at + j] = rounded(cap * tanh(z[at + j] / cap), is_eager);
        const bool allowed = cs_mask_allows(q.rule, own, cs_mask_token_of(k, j));
        p[at + j] = allowed ? z[at + j] : -INFINITY;
        max = fmax(max, p[at + j]);
    }
    const double own_sink = sink == nullptr ? -INFINITY : (double)sink[blockIdx.y];
    max = fmax(block_fold(max, true), own_sink);
    for (int32_t j = (int32_t)threadIdx.x; max != -INFINITY && j < keys; j += THREADS)
        sum += exp(p[at + j] - max);
    sum = block_fold(sum, false) + (max == -INFINITY ? 0.0 : exp(own_sink - max));
    const double all = max == -INFINITY ? -INFINITY : max + log(sum);
    for (int32_t j = (int32_t)threadIdx.x; j < keys; j += THREADS)
        p[at + j] = max == -INFINITY ? 0.0 : rounded(exp(p[at + j] - all), is_eager);
    if (threadIdx.x == 0)
        lse[(int64_t)blockIdx.y * q.n_tokens + row] = all;
}

/* What a row of this block's head gives its sink. */
__device__ static double sink_share(const float *sink, const double *lse)
{
    const double own = sink == nullptr ? -INFINITY : (double)sink[blockIdx.y];
    return own == -INFINITY ? 0.0 : exp(own - lse[(int64_t)blockIdx.y * gridDim.x + blockIdx.x]);
}

/* sum[h] = factor times the fold of x (heads, rows); one block per head */
__global__ void __launch_bounds__(THREADS)
    sink_kernel(const double *x, int64_t rows, double *sum, double *size, double *root)
{
    const double *own = x + (int64_t)blockIdx.x * rows;
    double all = 0.0, sizes = 0.0, squares = 0.0;
    for (int64_t i = threadIdx.x; i < rows; i += THREADS) {
        all += own[i];
        sizes += fabs(own[i]);
        squares += own[i] * own[i];
    }
    all = block_fold(all, false);
    sizes = block_fold(sizes, false);
    squares = block_fold(squares, false);
    if (threadIdx.x != 0)
        return;
    if (sum != nullptr)
        sum[blockIdx.x] = -all;
    if (size != nullptr)
        size[blockIdx.x] = sizes;
    if (root != nullptr)
        root[blockIdx.x] = sqrt(squares);
}

/* ds (on entry dp) = p (dp - sum p dp) cap'(z); pull (heads, rows): share of the sink times
 * sum p dp; turn (heads, rows): root of the sum of (p dp)^2 */
__global__ void __launch_bounds__(THREADS)
    slope_kernel(int64_t keys, double cap, const double *z, const double *p, const float *sink,
                 const double *lse, double *ds, double *pull, double *turn, bool is_eager)
{
    const int64_t at = ((int64_t)blockIdx.y * gridDim.x + blockIdx.x) * keys;
    const int64_t own = (int64_t)blockIdx.y * gridDim.x + blockIdx.x;
    double dot = 0.0, squares = 0.0;
    for (int64_t j = threadIdx.x; j < keys; j += THREADS) {
        const double one = p[at + j] * ds[at + j];
        dot += one;
        squares += one * one;
    }
    dot = block_fold(dot, false);
    squares = block_fold(squares, false);
    if (threadIdx.x == 0) {
        pull[own] = sink_share(sink, lse) * dot;
        turn[own] = sqrt(squares);
    }
    for (int64_t j = threadIdx.x; j < keys; j += THREADS) {
        const double t = cap != 0.0 ? z[at + j] / cap : 0.0;
        ds[at + j] = rounded(p[at + j] * (ds[at + j] - dot) * (1.0 - t * t), is_eager);
    }
}

/* p (heads, rows, keys) becomes p cap'(z) times the standard deviation of rowsum(dO o), for an o
 * that is rounded to bf16 and a sum of p v with p rounded to bf16 before. Rounding moves a number by
 * 2^-8 of it at most (half a unit in the last place), by less than 2^-9 in the mean over numbers of
 * all sizes. Where one key has nearly all of a row, the rounding of its p counts most: it moves all
 * elements of o the same way. */
__global__ void __launch_bounds__(THREADS)
    noise_kernel(int64_t keys, int64_t heads, int64_t dim, double cap, const double *o,
                 const double *d_o, const double *z, const float *sink, const double *lse,
                 const double *turn, double *p, double *pull)
{
    const int64_t row = blockIdx.x, head = blockIdx.y;
    const int64_t at = (head * gridDim.x + row) * keys, at_o = (row * heads + head) * dim;
    double sum = 0.0;
    for (int64_t d = threadIdx.x; d < dim; d += THREADS)
        sum += o[at_o + d] * o[at_o + d] * d_o[at_o + d] * d_o[at_o + d];
    const double of_p = turn[head * gridDim.x + row];
    const double noise = sqrt(block_fold(sum, false) + of_p * of_p) / 512.0;
    if (threadIdx.x == 0)
        pull[head * gridDim.x + row] = sink_share(sink, lse) * noise;
    for (int64_t j = threadIdx.x; j < keys; j += THREADS) {
        const double t = cap != 0.0 ? z[at + j] / cap : 0.0;
        p[at + j] *= noise * (1.0 - t * t);
    }
}

/* y (rows, kv_heads, dim) = sum over the heads of a group of x (rows, heads, dim) */
__global__ void group_kernel(const double *x, int64_t rows, int64_t heads, int64_t group,
                             int64_t dim, double *y, enum product_kind kind)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, kv = heads / group;
    if (i >= rows * kv * dim)
        return;
    const int64_t row = i / (kv * dim), head = i / dim % kv, d = i % dim;
    double sum = 0.0;
    for (int64_t g = 0; g < group; g++) {
        const double one = x[(row * heads + head * group + g) * dim + d];
        sum += kind == PRODUCT_OF_SQUARES ? one * one : one;
    }
    y[i] = rounded(kind == PRODUCT_OF_SQUARES ? sqrt(sum) : sum, kind == PRODUCT_ROUNDED);
}

/* ---- the whole ---- */

static double *take(struct att_oracle *o, int64_t n)
{
    const size_t bytes = ((size_t)n * sizeof(double) + 255) / 256 * 256;
    if (o->used + bytes > o->bytes) {
        printf("the oracle needs more than %zu bytes\n", o->bytes);
        exit(1);
    }
    double *p = (double *)(o->pool + o->used);
    o->used += bytes;
    return p;
}

static double *widen(struct att_oracle *o, const void *x, bool is_bf16, int64_t rows, int64_t width,
                     int64_t stride)
{
    double *to = take(o, rows * width);
    widen_kernel<<<blocks(rows * width), THREADS, 0, o->stream>>>(x, is_bf16, rows, width, stride,
                                                                  to);
    MUST(cudaGetLastError());
    return to;
}

struct widened {
    double *q, *k, *v, *d_o;      /* dense */
    double *z, *p, *ds, *by_head; /* (heads, rows, keys) and (keys, heads, dim) */
};

static void run(struct att_oracle *o, const struct cs_attention_shape *s,
                const struct cs_mask_plan *plan, const struct widened *w, bool is_eager,
                struct att_reference *out)
{
    const struct cs_mask_plan *keys = plan->keys != nullptr ? plan->keys : plan;
    const int64_t m = s->tokens, n = keys->n_tokens, d = s->head_dim, heads = s->heads;
    const int64_t kv = s->kv_heads, group = heads / kv;
    *out = {take(o, m * heads * d),
            take(o, heads * m),
            take(o, m * heads * d),
            take(o, n * kv * d),
            take(o, n * kv * d),
            nullptr,
            nullptr,
            take(o, heads),
            nullptr,
            take(o, heads)};
    double *pull = take(o, heads * m), *turn = take(o, heads * m);
    const struct matrix q = {w->q, 1, d, heads * d, 1}, d_o = {w->d_o, 1, d, heads * d, 1};
    const struct matrix k = {w->k, group, d, kv * d, 1}, v = {w->v, group, d, kv * d, 1};
    const struct matrix z = {w->z, 1, m * n, n, 1}, p = {w->p, 1, m * n, n, 1};
    const struct matrix ds = {w->ds, 1, m * n, n, 1}, by_head = {w->by_head, 1, d, heads * d, 1};
    const struct matrix result = {out->o, 1, d, heads * d, 1}, dq = {out->dq, 1, d, heads * d, 1};
    const dim3 rows((unsigned)m, (unsigned)heads);
    const double scale = s->scale, cap = s->softcap;
    const enum product_kind kind = is_eager ? PRODUCT_ROUNDED : PRODUCT;
    product(o, heads, m, n, d, scale, q, transposed(k), z, kind);
    softmax_kernel<<<rows, THREADS, 0, o->stream>>>(*plan, *keys, cap, s->sink, w->z, w->p,
                                                    out->lse, is_eager);
    product(o, heads, m, d, n, 1.0, p, v, result, kind);
    product(o, heads, m, n, d, 1.0, d_o, transposed(v), ds, kind);
    slope_kernel<<<rows, THREADS, 0, o->stream>>>(n, cap, w->z, w->p, s->sink, out->lse, w->ds,
                                                  pull, turn, is_eager);
    sink_kernel<<<(unsigned)heads, THREADS, 0, o->stream>>>(pull, m, out->dsink, out->dsink_size,
                                                            nullptr);
    product(o, heads, m, d, n, scale, ds, k, dq, kind);
    product(o, heads, n, d, m, scale, transposed(ds), q, by_head, kind);
    group_kernel<<<blocks(n * kv * d), THREADS, 0, o->stream>>>(w->by_head, n, heads, group, d,
                                                                out->dk, kind);
    product(o, heads, n, d, m, 1.0, transposed(p), d_o, by_head, kind);
    group_kernel<<<blocks(n * kv * d), THREADS, 0, o->stream>>>(w->by_head, n, heads, group, d,
                                                                out->dv, kind);
    MUST(cudaGetLastError());
    if (is_eager)
        return;
    out->dq_noise = take(o, m * heads * d);
    out->dk_noise = take(o, n * kv * d);
    out->dsink_noise = take(o, heads);
    const struct matrix dq_noise = {out->dq_noise, 1, d, heads * d, 1};
    noise_kernel<<<rows, THREADS, 0, o->stream>>>(n, heads, d, cap, out->o, w->d_o, w->z, s->sink,
                                                  out->lse, turn, w->p, pull);
    sink_kernel<<<(unsigned)heads, THREADS, 0, o->stream>>>(pull, m, nullptr, nullptr,
                                                            out->dsink_noise);
    product(o, heads, m, d, n, scale, p, k, dq_noise, PRODUCT); /* one error for the whole row */
    product(o, heads, n, d, m, scale, transposed(p), q, by_head, PRODUCT_OF_SQUARES);
    group_kernel<<<blocks(n * kv * d), THREADS, 0, o->stream>>>(w->by_head, n, heads, group, d,
                                                                out->dk_noise, PRODUCT_OF_SQUARES);
    MUST(cudaGetLastError());
}

void att_oracle_run(struct att_oracle *o, const struct cs_attention_shape *s,
                    const struct cs_mask_plan *plan, const struct att_operands *x,
                    struct att_reference *exact, struct att_reference *eager)
{
    const int64_t m = s->tokens, n = plan->keys != nullptr ? plan->keys->n_tokens : m;
    const int64_t d = s->head_dim, heads = s->heads, kv = s->kv_heads;
    o->used = 0;
    struct widened w = {};
    w.q = widen(o, x->q, x->is_bf16, m, heads * d, s->q_stride);
    w.k = widen(o, x->k, x->is_bf16, n, kv * d, s->kv_stride);
    w.v = widen(o, x->v, x->is_bf16, n, kv * d, s->kv_stride);
    w.d_o = widen(o, x->d_o, x->is_bf16, m, heads * d, s->o_stride);
    w.z = take(o, heads * m * n);
    w.p = take(o, heads * m * n);
    w.ds = take(o, heads * m * n);
    w.by_head = take(o, heads * n * d);
    run(o, s, plan, &w, false, exact);
    run(o, s, plan, &w, true, eager);
}

struct att_oracle *att_oracle_new(void *stream)
{
    struct att_oracle *o = (struct att_oracle *)calloc(1, sizeof *o);
    size_t all = 0;
    if (o == nullptr)
        abort();
    o->stream = (cudaStream_t)stream;
    MUST(cudaMemGetInfo(&o->bytes, &all));
    o->bytes = o->bytes / 4 * 3;
    MUST(cudaMalloc((void **)&o->pool, o->bytes));
    MUST(cudaMalloc((void **)&o->difference, sizeof *o->difference));
    MUST(cudaMalloc((void **)&o->number, sizeof *o->number));
    return o;
}

void att_oracle_free(struct att_oracle *o)
{
    MUST(cudaFree(o->pool));
    MUST(cudaFree(o->difference));
    MUST(cudaFree(o->number));
    free(o);
}

void att_random(void *stream, void *x, bool is_bf16, int64_t n, uint64_t seed)
{
    random_kernel<<<blocks(n), THREADS, 0, (cudaStream_t)stream>>>(x, is_bf16, n, seed);
    MUST(cudaGetLastError());
}

/* ---- comparing ---- */

/* Numbers that are not negative order like their bits, NaN above all. */
__device__ static void keep_largest(unsigned long long *bits, double x)
{
    *bits = max(*bits, (unsigned long long)__double_as_longlong(fabs(x)));
}

__device__ static void store_largest(double *to, unsigned long long bits)
{
    for (int i = 16; i > 0; i /= 2)
        bits = max(bits, __shfl_xor_sync(0xffffffffu, bits, i));
    if (threadIdx.x % 32 == 0)
        atomicMax((unsigned long long *)to, bits);
}

/* One warp per row and head. A row is bad when its error, in the mean over its elements, is beyond
 * three times that of the eager program, 0.4 % of the row (bf16), four standard deviations of the
 * noise, and the noise of sums of 0. */
__global__ void __launch_bounds__(THREADS)
    compare_kernel(const void *x, bool is_bf16, int64_t stride, int64_t rows, int32_t heads,
                   int32_t dim, const double *exact, const double *eager, const double *noise,
                   struct att_difference *out)
{
    const int64_t at = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32;
    const int lane = (int)threadIdx.x % 32;
    if (at >= rows * heads)
        return;
    double error = 0.0, excuse = 0.0, size = 0.0, spread = 0.0;
    unsigned long long worst = 0, worst_eager = 0, largest = 0;
    for (int32_t d = lane; d < dim; d += 32) {
        const double want = exact[at * dim + d];
        const double off = read(x, is_bf16, at / heads * stride + at % heads * dim + d) - want;
        const double eager_off = eager != nullptr ? eager[at * dim + d] - want : 0.0;
        const double wide =
            noise != nullptr ? fabs(noise[at * dim + d]) : 0.0; /* of dq it has a sign */
        const double beyond = fabs(off) - 2.0 * wide;
        keep_largest(&worst, beyond < 0.0 ? 0.0 : beyond);
        keep_largest(&worst_eager, eager_off);
        keep_largest(&largest, want);
        error += off * off;
        excuse += eager_off * eager_off;
        size += want * want;
        spread += wide * wide;
    }
    for (int i = 16; i > 0; i /= 2) {
        error += __shfl_xor_sync(0xffffffffu, error, i);
        excuse += __shfl_xor_sync(0xffffffffu, excuse, i);
        size += __shfl_xor_sync(0xffffffffu, size, i);
        spread += __shfl_xor_sync(0xffffffffu, spread, i);
    }
    store_largest(&out->worst, worst);
    store_largest(&out->worst_eager, worst_eager);
    store_largest(&out->largest, largest);
    const double share = is_bf16 ? 4e-3 : 2e-5, floor = is_bf16 ? 3e-5 : 1e-5;
    const bool is_good = sqrt(error) <= 3.0 * sqrt(excuse) + share * sqrt(size) +
                                            4.0 * sqrt(spread) + floor * sqrt((double)dim);
    if (lane == 0 && !is_good) {
        atomicAdd((unsigned long long *)&out->bad_rows, 1ull);
        out->bad_row = at;
    }
}

struct att_difference att_compare(struct att_oracle *o, const void *x, bool is_bf16, int64_t stride,
                                  int32_t rows, int32_t heads, int32_t dim, const double *exact,
                                  const double *eager, const double *noise)
{
    struct att_difference host;
    MUST(cudaMemsetAsync(o->difference, 0, sizeof host, o->stream));
    compare_kernel<<<blocks((int64_t)rows * heads * 32), THREADS, 0, o->stream>>>(
        x, is_bf16, stride, rows, heads, dim, exact, eager, noise, o->difference);
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(&host, o->difference, sizeof host, cudaMemcpyDeviceToHost, o->stream));
    MUST(cudaStreamSynchronize(o->stream));
    return host;
}

static uint64_t fetch_number(struct att_oracle *o)
{
    unsigned long long n;
    MUST(cudaGetLastError());
    MUST(cudaMemcpyAsync(&n, o->number, sizeof n, cudaMemcpyDeviceToHost, o->stream));
    MUST(cudaStreamSynchronize(o->stream));
    return n;
}

__global__ void lse_kernel(const float *lse, const double *exact, int64_t n, double tol,
                           unsigned long long *bad)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= n)
        return;
    const double got = (double)lse[i], want = exact[i];
    if (!(fabs(got - want) <= tol * (1.0 + fabs(want))) && !(isinf(want) && got == want))
        atomicAdd(bad, 1ull);
}

int64_t att_compare_lse(struct att_oracle *o, const float *lse, const double *exact, int64_t n,
                        double tol)
{
    MUST(cudaMemsetAsync(o->number, 0, sizeof *o->number, o->stream));
    lse_kernel<<<blocks(n), THREADS, 0, o->stream>>>(lse, exact, n, tol, o->number);
    return (int64_t)fetch_number(o);
}

__global__ void gap_kernel(const uint16_t *x, int64_t rows, int64_t stride, int64_t used,
                           unsigned long long *changed)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < rows * stride && i % stride >= used && x[i] != 0xffff)
        atomicAdd(changed, 1ull);
}

int64_t att_changed_gap(struct att_oracle *o, const void *x, int32_t rows, int64_t stride,
                        int64_t used)
{
    MUST(cudaMemsetAsync(o->number, 0, sizeof *o->number, o->stream));
    gap_kernel<<<blocks(rows * stride), THREADS, 0, o->stream>>>((const uint16_t *)x, rows, stride,
                                                                 used, o->number);
    return (int64_t)fetch_number(o);
}

__global__ void hash_kernel(const uint32_t *x, int64_t n, unsigned long long *sum)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        atomicAdd(sum, (unsigned long long)mix((uint64_t)i << 32 | x[i]));
}

uint64_t att_hash(struct att_oracle *o, const void *x, size_t bytes)
{
    MUST(cudaMemsetAsync(o->number, 0, sizeof *o->number, o->stream));
    hash_kernel<<<blocks((int64_t)(bytes / 4)), THREADS, 0, o->stream>>>(
        (const uint32_t *)x, (int64_t)(bytes / 4), o->number);
    return fetch_number(o);
}

void att_download(struct att_oracle *o, double *host, const double *x, int64_t n)
{
    MUST(cudaMemcpyAsync(host, x, (size_t)n * sizeof *x, cudaMemcpyDeviceToHost, o->stream));
    MUST(cudaStreamSynchronize(o->stream));
}

void att_download_rows(struct att_oracle *o, float *host, const void *x, bool is_bf16, int32_t rows,
                       int64_t stride, int32_t width)
{
    const int64_t n = (int64_t)rows * width;
    double *dense = widen(o, x, is_bf16, rows, width, stride);
    double *wide = (double *)malloc((size_t)n * sizeof *wide);
    if (wide == nullptr)
        abort();
    att_download(o, wide, dense, n);
    for (int64_t i = 0; i < n; i++)
        host[i] = (float)wide[i];
    free(wide);
}
