/* The gated delta rule on a GPU, forward: lists of chunks, what does not need the state (all chunks
 * side by side), the state through the chunks of a document, outputs (side by side again). */
#include "kernels/cuda/recurrent/delta_mma.cuh"

#define LIST_THREADS 1024

/* ---- chunks ---- */

/* Inclusive scan over the block: maxima of x, or sums. Lanes of a warp, then the warps' last ones. */
template <bool IS_MAX> __device__ static int32_t warp_scan(int32_t x)
{
    for (int d = 1; d < 32; d *= 2) {
        const int32_t before = __shfl_up_sync(0xffffffffu, x, d);
        if ((int)threadIdx.x % 32 >= d)
            x = IS_MAX ? max(x, before) : x + before;
    }
    return x;
}

template <bool IS_MAX> __device__ static int32_t block_scan(int32_t x)
{
    __shared__ int32_t last[LIST_THREADS / 32];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    x = warp_scan<IS_MAX>(x);
    __syncthreads(); /* the scan before is read */
    if (lane == 31)
        last[warp] = x;
    __syncthreads();
    if (warp == 0)
        last[lane] = warp_scan<IS_MAX>(last[lane]);
    __syncthreads();
    if (warp == 0)
        return x;
    return IS_MAX ? max(x, last[warp - 1]) : x + last[warp - 1];
}

/* One block: where chunks begin, and which chunk is the first of each document. */
__global__ void __launch_bounds__(LIST_THREADS)
    delta_list_kernel(int32_t rows, const int32_t *doc, int32_t chunk, int32_t *count,
                      int32_t *begin, int32_t *first)
{
    __shared__ int32_t start, chunks, docs;
    if (threadIdx.x == 0)
        start = chunks = docs = 0;
    __syncthreads();
    for (int32_t base = 0; base < rows; base += LIST_THREADS) {
        const int32_t i = base + (int32_t)threadIdx.x;
        const bool is_start = i < rows && (i == 0 || doc[i] != doc[i - 1]);
        const int32_t own = max(block_scan<true>(is_start ? i : -1), start);
        const bool is_chunk = i < rows && (i - own) % chunk == 0;
        const int32_t nth = block_scan<false>(is_chunk) + chunks;
        const int32_t nth_doc = block_scan<false>(is_start) + docs;
        if (is_chunk)
            begin[nth - 1] = i;
        if (is_start)
            first[nth_doc - 1] = nth - 1;
        __syncthreads();
        if (threadIdx.x == LIST_THREADS - 1) {
            start = own;
            chunks = nth;
            docs = nth_doc;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        begin[chunks] = rows;
        first[docs] = chunks;
        count[0] = chunks;
        count[1] = docs;
    }
}

/* ---- keys ---- */

/* One warp a row and key head: y = factor x / sqrt(|x|^2 + eps), zeros in the padding */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS)
    delta_keys_kernel(cs_delta_args<T> a, const T *x, float factor, T *y)
{
    const int64_t at = ((int64_t)blockIdx.x * CS_DELTA_THREADS + threadIdx.x) / 32;
    const int lane = (int)threadIdx.x % 32;
    if (at >= (int64_t)a.rows * a.key_heads)
        return;
    const T *from = x + at / a.key_heads * a.q_stride + at % a.key_heads * a.dk;
    float sum = 0.0f;
    for (int j = lane; j < a.dk; j += 32)
        sum += cs_to_float(from[j]) * cs_to_float(from[j]);
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float by = factor * rsqrtf(sum + a.eps);
    for (int j = lane; j < a.dk_pad; j += 32)
        y[at * a.dk_pad + j] = cs_from_float<T>(j < a.dk ? by * cs_to_float(from[j]) : 0.0f);
}

/* ---- what does not need the state ---- */

/* inv (I + L) = I by substitution, one thread a column; both (chunk, ld) */
template <int C> __device__ static void invert(const float *lower, float *inv, int ld)
{
    const int j = (int)threadIdx.x;
    if (j < C)
        for (int i = 0; i < C; i++) {
            float sum = 0.0f;
            for (int m = j; m < i; m++)
                sum += lower[i * ld + m] * inv[m * ld + j];
            inv[i * ld + j] = i < j ? 0.0f : i == j ? 1.0f : -sum;
        }
    __syncthreads();
}

template <typename T> static size_t prepare_bytes(const cs_delta_args<T> &a)
{
    const size_t c = cs_delta_rows<T>, k = (size_t)a.dk_pad + 8, v = (size_t)a.dv_pad + 8;
    return c * (k + v + c + 8) * sizeof(T) +
           c * (2 * (c + 4) + (k > v ? k : v) + 2) * sizeof(float) + 8 * 128;
}

/* out (chunk, width) fp32 to rows of (rows, heads, width) */
template <typename T>
__device__ static void store(const float *out, int ld, const cs_delta_place &p, int32_t heads,
                             int32_t head, int32_t width, T *to)
{
    for (int i = (int)threadIdx.x; i < p.n * width; i += CS_DELTA_THREADS) {
        const int r = i / width, c = i - r * width;
        to[((int64_t)(p.begin + r) * heads + head) * width + c] = cs_from_float<T>(out[r * ld + c]);
    }
    __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_prepare_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>, LN = C + 4, LT = C + 8;
    const int lk = a.dk_pad + 8, lv = a.dv_pad + 8, lo = max(lk, lv), head = (int)blockIdx.y;
    cs_delta_room room = {shared};
    T *const k = room.take<T>(C * lk), *const v = room.take<T>(C * lv);
    T *const inv_t = room.take<T>(C * LT);
    float *const lower = room.take<float>(C * LN), *const inv = room.take<float>(C * LN);
    float *const out = room.take<float>(C * lo);
    float *const sum = room.take<float>(C), *const beta = room.take<float>(C);
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        cs_delta_gates(a, p, head, sum, beta);
        cs_delta_load(a.kn, a.key_heads, cs_delta_key_head(a, head), a.dk_pad, p, k, lk);
        cs_delta_load_values(a.v, a.v_stride, head, a.dv, a.dv_pad, p, v, lv);
        __syncthreads();
        cs_delta_product<false, true, false>(C, C, a.dk_pad, 1.0f, k, lk, k, lk, lower, LN);
        for (int i = (int)threadIdx.x; i < C * C; i += CS_DELTA_THREADS) {
            const int r = i / C, j = i % C;
            float *const at = lower + r * LN + j;
            *at = j < r ? beta[r] * expf(sum[r] - sum[j]) * *at : 0.0f;
        }
        __syncthreads();
        invert<C>(lower, inv, LN);
        cs_delta_fill(inv_t, LT, C, C, [&](int r, int j) { return inv[r * LN + j]; });
        cs_delta_fill(v, lv, C, a.dv_pad,
                      [&](int r, int j) { return beta[r] * cs_to_float(v[r * lv + j]); });
        cs_delta_fill(k, lk, C, a.dk_pad, [&](int r, int j) {
            return beta[r] * expf(sum[r]) * cs_to_float(k[r * lk + j]);
        });
        __syncthreads();
        store(inv, LN, p, a.heads, head, C, a.inv);
        cs_delta_product<false, false, false>(C, a.dv_pad, C, 1.0f, inv_t, LT, v, lv, out, lo);
        store(out, lo, p, a.heads, head, a.dv_pad, a.u0);
        cs_delta_product<false, false, false>(C, a.dk_pad, C, 1.0f, inv_t, LT, k, lk, out, lo);
        store(out, lo, p, a.heads, head, a.dk_pad, a.w);
    }
}

/* ---- the state ---- */

template <typename T> static size_t scan_bytes(const cs_delta_args<T> &a)
{
    const size_t c = cs_delta_rows<T>, k = (size_t)a.dk_pad + 8, s = CS_DELTA_STRIP + 8;
    return (2 * c * k + (size_t)a.dk_pad * s + c * s) * sizeof(T) +
           ((size_t)a.dk_pad * s + c * s + 2 * c) * sizeof(float) + 8 * 128;
}

/* A strip of columns through a document: U = U0 - W S, S' = e^G S + Kd^T U. */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_scan_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>, LS = CS_DELTA_STRIP + 8;
    const int lk = a.dk_pad + 8, head = (int)blockIdx.y, col = (int)blockIdx.z * CS_DELTA_STRIP;
    const int wide = min(CS_DELTA_STRIP, a.dv_pad - col);
    cs_delta_room room = {shared};
    T *const k = room.take<T>(C * lk), *const w = room.take<T>(C * lk);
    T *const state_t = room.take<T>(a.dk_pad * LS), *const u_t = room.take<T>(C * LS);
    float *const state = room.take<float>(a.dk_pad * LS), *const u = room.take<float>(C * LS);
    float *const sum = room.take<float>(C), *const beta = room.take<float>(C);
    for (int32_t doc = (int32_t)blockIdx.x; doc < a.count[1]; doc += (int32_t)gridDim.x) {
        if (!cs_delta_takes(a, doc))
            continue;
        const float *const enters = cs_delta_end(a, a.enter, doc == 0, head);
        float *const leaves = cs_delta_end(a, a.left, doc == a.count[1] - 1, head);
        cs_delta_fill(state, LS, a.dk_pad, wide, [&](int r, int j) {
            return enters != nullptr && r < a.dk && col + j < a.dv ? enters[r * a.dv + col + j]
                                                                   : 0.0f;
        });
        for (int32_t c = a.first[doc]; c < a.first[doc + 1]; c++) {
            const cs_delta_place p = cs_delta_at(a, c);
            cs_delta_gates(a, p, head, sum, beta);
            T *const kept = p.has_state && a.state != nullptr
                                ? cs_delta_state(a, a.state, p.begin, head)
                                : nullptr;
            for (int i = (int)threadIdx.x; i < a.dk_pad * wide; i += CS_DELTA_THREADS) {
                const int r = i / wide, j = i % wide;
                state_t[r * LS + j] = cs_from_float<T>(state[r * LS + j]);
                if (kept != nullptr)
                    kept[r * a.dv_pad + col + j] = state_t[r * LS + j];
            }
            cs_delta_load(a.w, a.heads, head, a.dk_pad, p, w, lk);
            cs_delta_load(a.kn, a.key_heads, cs_delta_key_head(a, head), a.dk_pad, p, k, lk);
            __syncthreads();
            cs_delta_product<false, false, false>(C, wide, a.dk_pad, -1.0f, w, lk, state_t, LS, u,
                                                  LS);
            const float all = sum[C - 1];
            for (int i = (int)threadIdx.x; i < C * wide; i += CS_DELTA_THREADS) {
                const int r = i / wide, j = i % wide;
                const int64_t at = ((int64_t)(p.begin + r) * a.heads + head) * a.dv_pad + col + j;
                const float u0 = r < p.n && a.u0 != nullptr ? cs_to_float(a.u0[at]) : 0.0f;
                const T x = cs_from_float<T>(r < p.n ? u0 + u[r * LS + j] : 0.0f);
                u_t[r * LS + j] = x;
                if (r < p.n && a.u != nullptr)
                    a.u[at] = x;
            }
            cs_delta_fill(k, lk, C, a.dk_pad, [&](int r, int j) {
                return expf(all - sum[r]) * cs_to_float(k[r * lk + j]);
            });
            const float decay = expf(all);
            for (int i = (int)threadIdx.x; i < a.dk_pad * wide; i += CS_DELTA_THREADS)
                state[i / wide * LS + i % wide] *= decay;
            __syncthreads();
            cs_delta_product<true, false, true>(a.dk_pad, wide, C, 1.0f, k, lk, u_t, LS, state, LS);
        }
        for (int i = (int)threadIdx.x; leaves != nullptr && i < a.dk * wide; i += CS_DELTA_THREADS)
            if (col + i % wide < a.dv)
                leaves[i / wide * a.dv + col + i % wide] = state[i / wide * LS + i % wide];
        __syncthreads();
    }
}

/* ---- outputs ---- */

/* o = (e^G q) S + A U */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_output_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>;
    const int head = (int)blockIdx.y;
    const cs_delta_scores<T> s = cs_delta_scores_room(a, shared);
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        cs_delta_load(a.u, a.heads, head, a.dv_pad, p, s.x, s.lv);
        cs_delta_scores_make(a, p, head, s);
        cs_delta_fill(s.q, s.lk, C, a.dk_pad, [&](int r, int j) {
            return expf(s.sum[r]) * cs_to_float(s.q[r * s.lk + j]);
        });
        __syncthreads();
        cs_delta_product<false, false, false>(C, a.dv_pad, C, 1.0f, s.a, s.la, s.x, s.lv, s.out,
                                              s.lv);
        if (p.has_state)
            cs_delta_product<false, false, true>(C, a.dv_pad, a.dk_pad, 1.0f, s.q, s.lk,
                                                 cs_delta_state(a, a.state, p.begin, head),
                                                 a.dv_pad, s.out, s.lv);
        for (int i = (int)threadIdx.x; i < p.n * a.dv; i += CS_DELTA_THREADS) {
            const int r = i / a.dv, j = i % a.dv;
            a.o[(int64_t)(p.begin + r) * a.o_stride + (int64_t)head * a.dv + j] =
                cs_from_float<T>(s.out[r * s.lv + j]);
        }
        __syncthreads();
    }
}

/* ---- the whole ---- */

template <typename T>
size_t cs_delta_place_all(const struct cs_delta_shape *shape, int32_t rows, char *base,
                          cs_delta_args<T> *out)
{
    const int32_t dk = (shape->key_dim + 15) / 16 * 16, dv = (shape->value_dim + 15) / 16 * 16;
    const size_t n = (size_t)rows, heads = (size_t)shape->heads, c = cs_delta_rows<T>;
    const size_t keys = n * (size_t)shape->key_heads * (size_t)dk, by_k = n * heads * (size_t)dk;
    const size_t by_v = n * heads * (size_t)dv;
    const size_t states = (n / c + 1) * heads * (size_t)dk * (size_t)dv;
    size_t used = 0;
    const auto take = [&](auto **p, size_t count) {
        *p = base == nullptr ? nullptr : (std::remove_reference_t<decltype(*p)>)(base + used);
        used += (count * sizeof **p + 255) / 256 * 256;
    };
    out->rows = rows;
    out->heads = shape->heads;
    out->key_heads = shape->key_heads;
    out->dk = shape->key_dim;
    out->dv = shape->value_dim;
    out->dk_pad = dk;
    out->dv_pad = dv;
    out->widest = dk > dv ? dk : dv;
    out->q_stride = shape->q_stride;
    out->v_stride = shape->v_stride;
    out->o_stride = shape->o_stride;
    out->eps = shape->eps;
    out->scale = 1.0f / sqrtf((float)shape->key_dim);
    take(&out->count, 2);
    take(&out->begin, n + 1);
    take(&out->first, n + 1);
    take(&out->qn, keys);
    take(&out->kn, keys);
    take(&out->sums, sizeof(T) == 2 ? n * heads : 0);
    take(&out->inv, n * heads * c);
    take(&out->u0, by_v);
    take(&out->u, by_v);
    take(&out->du, by_v);
    take(&out->w, by_k);
    take(&out->dqh, by_k);
    take(&out->dkh, by_k);
    take(&out->state, states);
    take(&out->d_state, states);
    return used + 256;
}

template <typename T>
size_t cs_cuda_delta_workspace(const struct cs_delta_shape *shape, const struct cs_mask_plan *mask)
{
    cs_delta_args<T> a = {};
    return cs_delta_place_all<T>(shape, mask->n_tokens, nullptr, &a);
}

template <typename T>
bool cs_delta_args_of(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                      const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                      const char *what, cs_delta_args<T> *out)
{
    const bool is_legal = shape->key_dim > 0 && shape->key_dim <= CS_DELTA_MAX_DIM &&
                          shape->value_dim > 0 && shape->value_dim <= CS_DELTA_MAX_DIM &&
                          shape->key_heads > 0 && shape->heads % shape->key_heads == 0;
    const size_t need = cs_cuda_delta_workspace<T>(shape, mask);
    if (!is_legal || need > ctx->workspace_bytes) {
        CS_CUDA_REFUSE(ctx, CS_INTERNAL,
                       "%s: %d and %d heads of %d and %d, workspace of %zu bytes where %zu are "
                       "needed",
                       what, shape->heads, shape->key_heads, shape->value_dim, shape->key_dim,
                       ctx->workspace_bytes, need);
        return false;
    }
    *out = {};
    char *const base = (char *)(((uintptr_t)ctx->workspace + 255) / 256 * 256);
    cs_delta_place_all<T>(shape, mask->n_tokens, base, out);
    out->doc = mask->doc;
    out->q = (const T *)in->q;
    out->k = (const T *)in->k;
    out->v = (const T *)in->v;
    out->g = in->g;
    out->beta = in->beta;
    return true;
}

template <typename T> void cs_delta_prepare(struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    delta_list_kernel<<<1, LIST_THREADS, 0, stream>>>(a.rows, a.doc, cs_delta_rows<T>, a.count,
                                                      a.begin, a.first);
    const unsigned warps = CS_DELTA_THREADS / 32;
    const unsigned blocks = ((unsigned)a.rows * (unsigned)a.key_heads + warps - 1) / warps;
    delta_keys_kernel<T><<<blocks, CS_DELTA_THREADS, 0, stream>>>(a, a.q, a.scale, a.qn);
    delta_keys_kernel<T><<<blocks, CS_DELTA_THREADS, 0, stream>>>(a, a.k, 1.0f, a.kn);
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_prepare(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_prepare_kernel<T>, cs_delta_grid(a), prepare_bytes(a), a);
}

template <typename T> void cs_delta_scan(struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_scan(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_scan_kernel<T>, cs_delta_strips(a), scan_bytes(a), a);
}

template <typename T>
void cs_cuda_delta(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                   const struct cs_mask_plan *mask, const struct cs_delta_in *in, void *o)
{
    cs_cuda_delta_part<T>(ctx, shape, mask, in, nullptr, o);
}

template <typename T>
void cs_cuda_delta_part(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const float *state, void *o)
{
    cs_delta_args<T> a;
    if (mask->n_tokens <= 0 || !cs_delta_args_of(ctx, shape, mask, in, "delta", &a))
        return;
    a.o = (T *)o;
    a.enter = state;
    cs_delta_prepare(ctx, a);
    cs_delta_scan(ctx, a);
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_output(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_output_kernel<T>, cs_delta_grid(a), cs_delta_scores_bytes(a), a);
}

#define INSTANTIATE(T)                                                                             \
    template size_t cs_cuda_delta_workspace<T>(const struct cs_delta_shape *,                      \
                                               const struct cs_mask_plan *);                       \
    template void cs_cuda_delta<T>(struct cs_ctx *, const struct cs_delta_shape *,                 \
                                   const struct cs_mask_plan *, const struct cs_delta_in *,        \
                                   void *);                                                        \
    template void cs_cuda_delta_part<T>(struct cs_ctx *, const struct cs_delta_shape *,            \
                                        const struct cs_mask_plan *, const struct cs_delta_in *,   \
                                        const float *, void *);                                    \
    template bool cs_delta_args_of<T>(struct cs_ctx *, const struct cs_delta_shape *,              \
                                      const struct cs_mask_plan *, const struct cs_delta_in *,     \
                                      const char *, cs_delta_args<T> *);                           \
    template void cs_delta_prepare<T>(struct cs_ctx *, const cs_delta_args<T> &);                  \
    template void cs_delta_scan<T>(struct cs_ctx *, const cs_delta_args<T> &);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
