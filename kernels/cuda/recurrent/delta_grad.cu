/* The gated delta rule on a GPU, backward: everything of the forward up to the states again, what
 * outputs ask of U (all chunks side by side), the gradient of the state from the last chunk of a
 * document to its first, then gradients (side by side). */
#include "kernels/cuda/recurrent/delta_mma.cuh"

/* ---- what outputs ask of U ---- */

/* du = A^T dO */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_pull_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>;
    const int head = (int)blockIdx.y;
    const cs_delta_scores<T> s = cs_delta_scores_room(a, shared);
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        cs_delta_load_values(a.d_o, a.o_stride, head, a.dv, a.dv_pad, p, s.x, s.lv);
        cs_delta_scores_make(a, p, head, s);
        cs_delta_product<true, false, false>(C, a.dv_pad, C, 1.0f, s.a, s.la, s.x, s.lv, s.out,
                                             s.lv);
        for (int i = (int)threadIdx.x; i < p.n * a.dv_pad; i += CS_DELTA_THREADS) {
            const int r = i / a.dv_pad, j = i % a.dv_pad;
            a.du[((int64_t)(p.begin + r) * a.heads + head) * a.dv_pad + j] =
                cs_from_float<T>(s.out[r * s.lv + j]);
        }
        __syncthreads();
    }
}

/* ---- the gradient of the state ---- */

template <typename T> static size_t back_bytes(const cs_delta_args<T> &a)
{
    const size_t c = cs_delta_rows<T>, k = (size_t)a.dk_pad + 8, s = CS_DELTA_STRIP + 8;
    return (3 * c * k + (size_t)a.dk_pad * s + 2 * c * s) * sizeof(T) +
           ((size_t)a.dk_pad * s + c * s + 2 * c) * sizeof(float) + 10 * 128;
}

/* A strip of columns through a document backwards: dU = du + Kd dS', dS = e^G dS' + (e^G q)^T dO -
 * W^T dU. */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_back_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>, LS = CS_DELTA_STRIP + 8;
    const int lk = a.dk_pad + 8, head = (int)blockIdx.y, col = (int)blockIdx.z * CS_DELTA_STRIP;
    const int wide = min(CS_DELTA_STRIP, a.dv_pad - col), key = cs_delta_key_head(a, head);
    cs_delta_room room = {shared};
    T *const q = room.take<T>(C * lk), *const k = room.take<T>(C * lk);
    T *const w = room.take<T>(C * lk), *const d_t = room.take<T>(a.dk_pad * LS);
    T *const du_t = room.take<T>(C * LS), *const d_o = room.take<T>(C * LS);
    float *const d = room.take<float>(a.dk_pad * LS), *const du = room.take<float>(C * LS);
    float *const sum = room.take<float>(C), *const beta = room.take<float>(C);
    for (int32_t doc = (int32_t)blockIdx.x; doc < a.count[1]; doc += (int32_t)gridDim.x) {
        if (!cs_delta_takes(a, doc))
            continue;
        const float *const leaves = cs_delta_end(a, a.leave, doc == a.count[1] - 1, head);
        float *const enters = cs_delta_end(a, a.asked, doc == 0, head);
        cs_delta_fill(d, LS, a.dk_pad, wide, [&](int r, int j) {
            return leaves != nullptr && r < a.dk && col + j < a.dv ? leaves[r * a.dv + col + j]
                                                                   : 0.0f;
        });
        for (int32_t c = a.first[doc + 1] - 1; c >= a.first[doc]; c--) {
            const cs_delta_place p = cs_delta_at(a, c);
            cs_delta_gates(a, p, head, sum, beta);
            const float all = sum[C - 1];
            T *const kept = a.d_state != nullptr ? cs_delta_leaving(a, p, head) : nullptr;
            for (int i = (int)threadIdx.x; i < a.dk_pad * wide; i += CS_DELTA_THREADS) {
                const int r = i / wide, j = i % wide;
                d_t[r * LS + j] = cs_from_float<T>(d[r * LS + j]);
                if (kept != nullptr)
                    kept[r * a.dv_pad + col + j] = d_t[r * LS + j];
            }
            cs_delta_load(a.qn, a.key_heads, key, a.dk_pad, p, q, lk);
            cs_delta_load(a.kn, a.key_heads, key, a.dk_pad, p, k, lk);
            cs_delta_load(a.w, a.heads, head, a.dk_pad, p, w, lk);
            __syncthreads();
            cs_delta_fill(q, lk, C, a.dk_pad,
                          [&](int r, int j) { return expf(sum[r]) * cs_to_float(q[r * lk + j]); });
            cs_delta_fill(k, lk, C, a.dk_pad, [&](int r, int j) {
                return expf(all - sum[r]) * cs_to_float(k[r * lk + j]);
            });
            cs_delta_fill(d_o, LS, C, wide, [&](int r, int j) {
                return r < p.n && col + j < a.dv
                           ? cs_to_float(a.d_o[(int64_t)(p.begin + r) * a.o_stride +
                                               (int64_t)head * a.dv + col + j])
                           : 0.0f;
            });
            __syncthreads();
            cs_delta_product<false, false, false>(C, wide, a.dk_pad, 1.0f, k, lk, d_t, LS, du, LS);
            for (int i = (int)threadIdx.x; i < C * wide; i += CS_DELTA_THREADS) {
                const int r = i / wide, j = i % wide;
                const int64_t at = ((int64_t)(p.begin + r) * a.heads + head) * a.dv_pad + col + j;
                const T x =
                    cs_from_float<T>(r < p.n ? cs_to_float(a.du[at]) + du[r * LS + j] : 0.0f);
                du_t[r * LS + j] = x;
                if (r < p.n)
                    a.du[at] = x;
            }
            const float decay = expf(all);
            for (int i = (int)threadIdx.x; i < a.dk_pad * wide; i += CS_DELTA_THREADS)
                d[i / wide * LS + i % wide] *= decay;
            __syncthreads();
            cs_delta_product<true, false, true>(a.dk_pad, wide, C, 1.0f, q, lk, d_o, LS, d, LS);
            cs_delta_product<true, false, true>(a.dk_pad, wide, C, -1.0f, w, lk, du_t, LS, d, LS);
        }
        for (int i = (int)threadIdx.x; enters != nullptr && i < a.dk * wide; i += CS_DELTA_THREADS)
            if (col + i % wide < a.dv)
                enters[i / wide * a.dv + col + i % wide] = d[i / wide * LS + i % wide];
        __syncthreads();
    }
}

/* ---- gradients ---- */

template <typename T> static size_t grad_bytes(const cs_delta_args<T> &a)
{
    const size_t c = cs_delta_rows<T>, k = (size_t)a.dk_pad + 8, v = (size_t)a.dv_pad + 8;
    const size_t most = k > v ? k : v;
    return (c * k + 3 * c * most + 2 * c * (c + 8)) * sizeof(T) +
           (3 * c * (c + 4) + c * most + c * k + 5 * c) * sizeof(float) + 16 * 128;
}

/* y[r] += sum over columns of x(r, column): a warp a row, in a fixed order */
template <typename F> __device__ static void add_rows(int rows, int width, float *y, F x)
{
    const int lane = (int)threadIdx.x % 32;
    for (int r = (int)threadIdx.x / 32; r < rows; r += CS_DELTA_THREADS / 32) {
        float sum = 0.0f;
        for (int j = lane; j < width; j += 32)
            sum += x(r, j);
        for (int d = 16; d > 0; d /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (lane == 0)
            y[r] += sum;
    }
    __syncthreads();
}

/* <S, dS'> of a head, in a fixed order; all threads get it */
template <typename T> __device__ static float dot_all(const T *x, const T *y, int n)
{
    __shared__ float all[CS_DELTA_THREADS];
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < n; i += CS_DELTA_THREADS)
        sum += cs_to_float(x[i]) * cs_to_float(y[i]);
    all[threadIdx.x] = sum;
    __syncthreads();
    for (int d = CS_DELTA_THREADS / 2; d > 0; d /= 2) {
        if ((int)threadIdx.x < d)
            all[threadIdx.x] += all[threadIdx.x + d];
        __syncthreads();
    }
    sum = all[0];
    __syncthreads();
    return sum;
}

template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS) delta_grad_kernel(cs_delta_args<T> a)
{
    extern __shared__ __align__(128) char shared[];
    constexpr int C = cs_delta_rows<T>, LN = C + 4, LT = C + 8;
    const int dk = a.dk_pad, dv = a.dv_pad, lk = dk + 8, lv = dv + 8, most = max(lk, lv);
    const int head = (int)blockIdx.y, key = cs_delta_key_head(a, head);
    cs_delta_room room = {shared};
    T *const k = room.take<T>(C * lk), *const x = room.take<T>(C * most);
    T *const y = room.take<T>(C * most), *const z = room.take<T>(C * most);
    T *const inv = room.take<T>(C * LT), *const n_t = room.take<T>(C * LT);
    float *const kk = room.take<float>(C * LN), *const qk = room.take<float>(C * LN);
    float *const da = room.take<float>(C * LN), *const out = room.take<float>(C * most);
    float *const dkeys = room.take<float>(C * lk), *const sum = room.take<float>(C);
    float *const beta = room.take<float>(C), *const dg = room.take<float>(C);
    float *const dbeta = room.take<float>(C), *const kept = room.take<float>(C);
    const auto decay = [&](int r, int j) { return j <= r ? expf(sum[r] - sum[j]) : 0.0f; };
    const auto left = [&](int r) { return expf(sum[C - 1] - sum[r]); };
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        const T *const state = cs_delta_state(a, a.state, p.begin, head);
        const T *const d_state = cs_delta_leaving(a, p, head);
        const bool has_both = p.has_state && d_state != nullptr;
        cs_delta_gates(a, p, head, sum, beta);
        for (int i = (int)threadIdx.x; i < C; i += CS_DELTA_THREADS)
            dg[i] = dbeta[i] = kept[i] = 0.0f;
        cs_delta_load(a.kn, a.key_heads, key, dk, p, k, lk);
        cs_delta_load(a.qn, a.key_heads, key, dk, p, x, lk);
        cs_delta_load(a.u, a.heads, head, dv, p, y, lv);
        cs_delta_load_values(a.d_o, a.o_stride, head, a.dv, dv, p, z, lv);
        cs_delta_load(a.inv, a.heads, head, C, p, inv, LT);
        __syncthreads();
        cs_delta_product<false, true, false>(C, C, dk, 1.0f, k, lk, k, lk, kk, LN);
        cs_delta_product<false, true, false>(C, C, dk, 1.0f, x, lk, k, lk, qk, LN);
        /* A: dA D, its part of the decays, of the keys and of the queries */
        cs_delta_product<false, true, false>(C, C, dv, 1.0f, z, lv, y, lv, da, LN);
        for (int i = (int)threadIdx.x; i < C * C; i += CS_DELTA_THREADS) {
            const int r = i / C, j = i % C;
            da[r * LN + j] *= decay(r, j);
            n_t[r * LT + j] = cs_from_float<T>(da[r * LN + j]);
        }
        __syncthreads();
        add_rows(C, C, dg, [&](int r, int j) {
            return da[r * LN + j] * qk[r * LN + j] - da[j * LN + r] * qk[j * LN + r];
        });
        cs_delta_product<true, false, false>(C, dk, C, 1.0f, n_t, LT, x, lk, dkeys, lk);
        cs_delta_fill(out, most, C, dk, [](int, int) { return 0.0f; });
        __syncthreads();
        if (p.has_state) {
            cs_delta_product<false, true, false>(C, dk, dv, 1.0f, z, lv, state, dv, out, most);
            for (int i = (int)threadIdx.x; i < C * dk; i += CS_DELTA_THREADS)
                out[i / dk * most + i % dk] *= expf(sum[i / dk]);
            __syncthreads();
            add_rows(C, dk, dg,
                     [&](int r, int j) { return out[r * most + j] * cs_to_float(x[r * lk + j]); });
        }
        cs_delta_product<false, false, true>(C, dk, C, 1.0f, n_t, LT, k, lk, out, most);
        for (int i = (int)threadIdx.x; i < p.n * dk; i += CS_DELTA_THREADS)
            a.dqh[((int64_t)(p.begin + i / dk) * a.heads + head) * dk + i % dk] =
                cs_from_float<T>(out[i / dk * most + i % dk]);
        __syncthreads();
        /* Kd: what the state that leaves asks of the keys */
        if (d_state != nullptr) {
            cs_delta_product<false, true, false>(C, dk, dv, 1.0f, y, lv, d_state, dv, out, most);
            for (int i = (int)threadIdx.x; i < C * dk; i += CS_DELTA_THREADS) {
                const int r = i / dk, j = i % dk;
                out[r * most + j] *= left(r);
                dkeys[r * lk + j] += out[r * most + j];
            }
            __syncthreads();
            add_rows(C, dk, kept,
                     [&](int r, int j) { return out[r * most + j] * cs_to_float(k[r * lk + j]); });
        }
        /* (I + L)^-1 (beta v) */
        cs_delta_load(a.du, a.heads, head, dv, p, x, lv);
        __syncthreads();
        cs_delta_product<true, false, false>(C, dv, C, 1.0f, inv, LT, x, lv, out, most);
        cs_delta_fill(y, lv, C, dv, [&](int r, int j) { return out[r * most + j]; });
        for (int i = (int)threadIdx.x; i < p.n * a.dv; i += CS_DELTA_THREADS) {
            const int r = i / a.dv, j = i % a.dv;
            a.dv_out[(int64_t)(p.begin + r) * a.v_stride + (int64_t)head * a.dv + j] =
                cs_from_float<T>(beta[r] * out[r * most + j]);
        }
        __syncthreads();
        add_rows(p.n, a.dv, dbeta, [&](int r, int j) {
            return out[r * most + j] *
                   cs_to_float(a.v[(int64_t)(p.begin + r) * a.v_stride + (int64_t)head * a.dv + j]);
        });
        cs_delta_load(a.u0, a.heads, head, dv, p, z, lv);
        __syncthreads();
        cs_delta_product<false, true, false>(C, C, dv, -1.0f, y, lv, z, lv, da, LN);
        /* (I + L)^-1 (beta e^G k) */
        if (p.has_state) {
            cs_delta_product<false, true, false>(C, dk, dv, -1.0f, x, lv, state, dv, out, most);
            cs_delta_fill(y, lk, C, dk, [&](int r, int j) { return out[r * most + j]; });
            __syncthreads();
            cs_delta_product<true, false, false>(C, dk, C, 1.0f, inv, LT, y, lk, out, most);
            cs_delta_fill(z, lk, C, dk, [&](int r, int j) { return out[r * most + j]; });
            for (int i = (int)threadIdx.x; i < C * dk; i += CS_DELTA_THREADS) {
                const int r = i / dk, j = i % dk;
                out[r * most + j] *= expf(sum[r]);
                dkeys[r * lk + j] += beta[r] * out[r * most + j];
            }
            cs_delta_load(a.w, a.heads, head, dk, p, x, lk);
            __syncthreads();
            add_rows(C, dk, dbeta,
                     [&](int r, int j) { return out[r * most + j] * cs_to_float(k[r * lk + j]); });
            add_rows(C, dk, dg, [&](int r, int j) {
                return beta[r] * out[r * most + j] * cs_to_float(k[r * lk + j]);
            });
            cs_delta_product<false, true, true>(C, C, dk, -1.0f, z, lk, x, lk, da, LN);
        }
        /* L: da is dL now */
        for (int i = (int)threadIdx.x; i < C * C; i += CS_DELTA_THREADS) {
            const int r = i / C, j = i % C;
            const float one = j < r ? da[r * LN + j] * decay(r, j) : 0.0f;
            da[r * LN + j] = one;
            n_t[r * LT + j] = cs_from_float<T>(one * beta[r]);
        }
        __syncthreads();
        add_rows(C, C, dbeta, [&](int r, int j) { return da[r * LN + j] * kk[r * LN + j]; });
        add_rows(C, C, dg, [&](int r, int j) {
            return beta[r] * da[r * LN + j] * kk[r * LN + j] -
                   beta[j] * da[j * LN + r] * kk[j * LN + r];
        });
        cs_delta_product<false, false, true>(C, dk, C, 1.0f, n_t, LT, k, lk, dkeys, lk);
        cs_delta_product<true, false, true>(C, dk, C, 1.0f, n_t, LT, k, lk, dkeys, lk);
        for (int i = (int)threadIdx.x; i < p.n * dk; i += CS_DELTA_THREADS)
            a.dkh[((int64_t)(p.begin + i / dk) * a.heads + head) * dk + i % dk] =
                cs_from_float<T>(dkeys[i / dk * lk + i % dk]);
        const float of_state = has_both ? dot_all(state, d_state, dk * dv) : 0.0f;
        if (threadIdx.x == 0) {
            float later = expf(sum[C - 1]) * of_state;
            for (int r = 0; r < p.n; r++)
                later += kept[r];
            for (int r = p.n - 1; r >= 0; r--) {
                later += dg[r] - kept[r];
                a.dg[(int64_t)(p.begin + r) * a.heads + head] = later;
                a.dbeta[(int64_t)(p.begin + r) * a.heads + head] = dbeta[r];
            }
        }
        __syncthreads();
    }
}

/* ---- keys ---- */

/* One warp a row and key head: gradients of the heads that it serves, through the normalisation */
template <typename T>
__global__ void __launch_bounds__(CS_DELTA_THREADS)
    delta_keys_grad_kernel(cs_delta_args<T> a, const T *x, const T *by_head, float factor, T *dx)
{
    const int64_t at = ((int64_t)blockIdx.x * CS_DELTA_THREADS + threadIdx.x) / 32;
    const int lane = (int)threadIdx.x % 32, group = a.heads / a.key_heads;
    if (at >= (int64_t)a.rows * a.key_heads)
        return;
    const int64_t row = at / a.key_heads, key = at % a.key_heads;
    const T *const from = x + row * a.q_stride + key * a.dk;
    T *const to = dx + row * a.q_stride + key * a.dk;
    const T *const given = by_head + (row * a.heads + key * group) * a.dk_pad;
    const auto grad = [&](int j) {
        float sum = 0.0f;
        for (int h = 0; h < group; h++)
            sum += cs_to_float(given[(int64_t)h * a.dk_pad + j]);
        return sum;
    };
    float size = 0.0f, along = 0.0f;
    for (int j = lane; j < a.dk; j += 32) {
        size += cs_to_float(from[j]) * cs_to_float(from[j]);
        along += cs_to_float(from[j]) * grad(j);
    }
    for (int d = 16; d > 0; d /= 2) {
        size += __shfl_xor_sync(0xffffffffu, size, d);
        along += __shfl_xor_sync(0xffffffffu, along, d);
    }
    const float by = rsqrtf(size + a.eps);
    for (int j = lane; j < a.dk; j += 32)
        to[j] = cs_from_float<T>(factor * by * (grad(j) - by * by * along * cs_to_float(from[j])));
}

template <typename T> void cs_delta_pull(struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_pull(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_pull_kernel<T>, cs_delta_grid(a), cs_delta_scores_bytes(a), a);
}

template <typename T> void cs_delta_back(struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_back(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_back_kernel<T>, cs_delta_strips(a), back_bytes(a), a);
}

/* what is known of chunks becomes gradients of q and k by head, of v, g and beta */
template <typename T> static void chunk_grads(struct cs_ctx *ctx, const cs_delta_args<T> &a)
{
    if constexpr (sizeof(T) == 2)
        if (cs_delta_is_mma(ctx, a)) {
            cs_delta_mma_grad(ctx, a);
            return;
        }
    CS_DELTA_LAUNCH(ctx, delta_grad_kernel<T>, cs_delta_grid(a), grad_bytes(a), a);
}

template <typename T>
void cs_cuda_delta_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const void *d_o, const struct cs_delta_out *out)
{
    cs_cuda_delta_part_grad<T>(ctx, shape, mask, in, nullptr, nullptr, d_o, out);
}

template <typename T>
void cs_cuda_delta_part_grad(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                             const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                             const float *state, const float *d_state, const void *d_o,
                             const struct cs_delta_out *out)
{
    cs_delta_args<T> a;
    if (mask->n_tokens <= 0 || !cs_delta_args_of(ctx, shape, mask, in, "delta_grad", &a))
        return;
    a.d_o = (const T *)d_o;
    a.dq = (T *)out->dq;
    a.dk_out = (T *)out->dk;
    a.dv_out = (T *)out->dv;
    a.dg = out->dg;
    a.dbeta = out->dbeta;
    a.enter = state;
    a.leave = d_state;
    cs_delta_prepare(ctx, a);
    cs_delta_scan(ctx, a);
    cs_delta_pull(ctx, a);
    cs_delta_back(ctx, a);
    chunk_grads(ctx, a);
    const unsigned warps = CS_DELTA_THREADS / 32;
    const unsigned blocks = ((unsigned)a.rows * (unsigned)a.key_heads + warps - 1) / warps;
    delta_keys_grad_kernel<T>
        <<<blocks, CS_DELTA_THREADS, 0, cs_cuda_stream_of(ctx)>>>(a, a.q, a.dqh, a.scale, a.dq);
    delta_keys_grad_kernel<T>
        <<<blocks, CS_DELTA_THREADS, 0, cs_cuda_stream_of(ctx)>>>(a, a.k, a.dkh, 1.0f, a.dk_out);
    CS_CUDA_LAUNCHED(ctx, "delta_keys_grad");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_delta_grad<T>(struct cs_ctx *, const struct cs_delta_shape *,            \
                                        const struct cs_mask_plan *, const struct cs_delta_in *,   \
                                        const void *, const struct cs_delta_out *);                \
    template void cs_cuda_delta_part_grad<T>(                                                      \
        struct cs_ctx *, const struct cs_delta_shape *, const struct cs_mask_plan *,               \
        const struct cs_delta_in *, const float *, const float *, const void *,                    \
        const struct cs_delta_out *);                                                              \
    template void cs_delta_pull<T>(struct cs_ctx *, const cs_delta_args<T> &);                     \
    template void cs_delta_back<T>(struct cs_ctx *, const cs_delta_args<T> &);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
