/* The delta rule in bf16: gradients of a chunk once the gradient of the state is known. A block of eight
 * warps for a chunk and head; all of its operands lie in shared memory at once (210 KiB: one block a
 * multiprocessor), come while the first products run, and make room for what is computed of them.
 * Gradients of keys, of queries and of what belongs to a row stay in registers from the first product
 * that adds to them to the last. Sums are in a fixed order. */
#include "kernels/cuda/recurrent/delta_mma.cuh"

using namespace cs_delta_mma;

#define THREADS CS_DELTA_THREADS

constexpr int TILE = C * PITCH, STATE = WIDTH * PITCH, SQUARE_TILE = C * SQUARE;

/* Rows of the chunk: what a warp's half of the columns adds, and of columns of (64, 64) products what
 * its 16 rows add. */
constexpr int OF_G = 0, OF_BETA = 2, OF_KEPT = 4, OF_COLUMNS = 6, PARTS = 10;

constexpr int GRAD_BYTES =
    (7 * TILE + 2 * STATE + 2 * SQUARE_TILE) * 2 + (2 * C + PARTS * C + THREADS / 32) * 4;

static_assert(GRAD_BYTES <= 227 * 1024, "shared memory of a block on Hopper");

struct tiles {
    half_t *k, *q, *u, *d_o, *du, *u0, *w, *s, *d, *inv, *n;
    float *sum, *beta, *part, *of_state;
};

__device__ static tiles tiles_of(char *shared)
{
    tiles t;
    t.k = (half_t *)shared;
    t.q = t.k + TILE, t.u = t.q + TILE, t.d_o = t.u + TILE, t.du = t.d_o + TILE;
    t.u0 = t.du + TILE, t.w = t.u0 + TILE, t.s = t.w + TILE, t.d = t.s + STATE;
    t.inv = t.d + STATE, t.n = t.inv + SQUARE_TILE;
    t.sum = (float *)(t.n + SQUARE_TILE), t.beta = t.sum + C, t.part = t.beta + C;
    t.of_state = t.part + PARTS * C;
    return t;
}

/* What a thread keeps of its chunk. */
struct kept {
    int head, row, side; /* side: half of the columns */
    cs_delta_place p;
    float keys[8][4]; /* gradient of the keys */
    float kk[4][4];   /* k k^T */
    float of_g[2], of_beta[2], of_kept[2], columns[4][2];
};

/* sum over a row's columns, of the thread's two rows: x (n, i) of accumulator i in tile n */
template <int NT, typename F> __device__ __forceinline__ void add_rows(float (&to)[2], F x)
{
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            to[i / 2] += x(n, i);
}

/* value of a tile at accumulator i of tile n of a warp's half of the columns */
__device__ __forceinline__ float value_at(const half_t *tile, const kept &t, int n, int i)
{
    return cs_to_float(tile[(t.row + row_of(i)) * PITCH + t.side * 64 + col_of(n, i)]);
}

__device__ __forceinline__ float decay_of(const tiles &s, int r, int j)
{
    return expf(s.sum[r] - s.sum[j]);
}

/* Everything of the chunk, in two groups of copies: what A asks for, the rest. */
__device__ static void load_all(const args &a, const tiles &s, int head, const cs_delta_place &p,
                                const half_t *state, const half_t *d_state)
{
    const int key = cs_delta_key_head(a, head);
    load_chunk<THREADS>(s.k, a.kn, a.key_heads, key, a.dk_pad, p);
    load_chunk<THREADS>(s.q, a.qn, a.key_heads, key, a.dk_pad, p);
    load_chunk<THREADS>(s.u, a.u, a.heads, head, a.dv_pad, p);
    cs_mma_commit();
    if (state != nullptr)
        load<WIDTH, THREADS>(s.s, state, a.dv_pad, a.dv_pad, a.dk_pad);
    if (d_state != nullptr)
        load<WIDTH, THREADS>(s.d, d_state, a.dv_pad, a.dv_pad, a.dk_pad);
    load_chunk<THREADS>(s.du, a.du, a.heads, head, a.dv_pad, p);
    load_chunk<THREADS>(s.u0, a.u0, a.heads, head, a.dv_pad, p);
    load_chunk<THREADS>(s.w, a.w, a.heads, head, a.dk_pad, p);
    load_square(s.inv, a, head, p);
    cs_mma_commit();
    load_values(s.d_o, a.d_o + (int64_t)p.begin * a.o_stride + (int64_t)head * a.dv, a.o_stride,
                a.dv, p.n);
    load_gates(a, head, p, s.sum, s.beta);
}

/* dA D, as an operand in n: its part of the decays */
__device__ static void grad_scores(const tiles &s, kept &t)
{
    float qk[4][4] = {}, da[4][4] = {};
    const int col = t.side * 32;
    clear(t.kk, 4);
    if (col < t.row + 16) {
        add<false, true, 4>(t.kk, s.k + t.row * PITCH, PITCH, s.k + col * PITCH, PITCH, 0, WIDTH);
        add<false, true, 4>(qk, s.q + t.row * PITCH, PITCH, s.k + col * PITCH, PITCH, 0, WIDTH);
        add<false, true, 4>(da, s.d_o + t.row * PITCH, PITCH, s.u + col * PITCH, PITCH, 0, WIDTH);
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = t.row + row_of(i), j = col + col_of(n, i);
            da[n][i] = j <= r ? da[n][i] * decay_of(s, r, j) : 0.0f;
            const float e = da[n][i] * qk[n][i];
            t.of_g[i / 2] += e;
            t.columns[n][i % 2] += e;
        }
    store<4>(s.n + t.row * SQUARE + col, SQUARE, da);
}

/* dq = (dA D) k + e^G (dO S^T), and the keys' part of both A and the state that leaves */
__device__ static void grad_queries(const args &a, const tiles &s, kept &t, bool has_state,
                                    bool has_next)
{
    const int half = t.side * 64;
    float x[8][4] = {};
    if (has_state) {
        add<false, true, 8>(x, s.d_o + t.row * PITCH, PITCH, s.s + half * PITCH, PITCH, 0, WIDTH);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float grown = expf(s.sum[t.row + row_of(i)]);
#pragma unroll
            for (int n = 0; n < 8; n++)
                x[n][i] *= grown;
        }
        add_rows<8>(t.of_g, [&](int n, int i) { return x[n][i] * value_at(s.q, t, n, i); });
    }
    add<false, false, 8>(x, s.n + t.row * SQUARE, SQUARE, s.k + half, PITCH, 0, t.row + 16);
    store_chunk<8>(a.dqh, a.heads, t.head, a.dk_pad, t.p, t.row, half, x);
    add<true, false, 8>(t.keys, s.n + t.row, SQUARE, s.q + half, PITCH, t.row, C);
    if (!has_next)
        return;
    clear(x, 8);
    add<false, true, 8>(x, s.u + t.row * PITCH, PITCH, s.d + half * PITCH, PITCH, 0, WIDTH);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float left = expf(s.sum[C - 1] - s.sum[t.row + row_of(i)]);
#pragma unroll
        for (int n = 0; n < 8; n++) {
            x[n][i] *= left;
            t.keys[n][i] += x[n][i];
        }
    }
    add_rows<8>(t.of_kept, [&](int n, int i) { return x[n][i] * value_at(s.k, t, n, i); });
}

/* dBv = T^T dU with dv, in the place of dO; -dU S^T in the place of the queries. Nobody reads those any
 * more. */
__device__ static void grad_values(const args &a, const tiles &s, kept &t, bool has_state)
{
    const int half = t.side * 64;
    const half_t *const v = a.v + (int64_t)t.head * a.dv;
    float x[8][4] = {};
    add<true, false, 8>(x, s.inv + t.row, SQUARE, s.du + half, PITCH, t.row, C);
    store<8>(s.d_o + t.row * PITCH + half, PITCH, x);
    add_rows<8>(t.of_beta, [&](int n, int i) {
        const int r = t.row + row_of(i), j = half + col_of(n, i);
        return r < t.p.n && j < a.dv ? x[n][i] * cs_to_float(v[(t.p.begin + r) * a.v_stride + j])
                                     : 0.0f;
    });
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int n = 0; n < 8; n++)
            x[n][i] *= s.beta[t.row + row_of(i)];
    store_values<8>(a.dv_out + (int64_t)t.head * a.dv, a.v_stride, a.dv, t.p, t.row, half, x);
    if (!has_state)
        return;
    clear(x, 8);
    add<false, true, 8>(x, s.du + t.row * PITCH, PITCH, s.s + half * PITCH, PITCH, 0, WIDTH);
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            x[n][i] = -x[n][i];
    store<8>(s.q + t.row * PITCH + half, PITCH, x);
}

/* dBk = T^T (-dU S^T), in the place of U */
__device__ static void grad_weights(const tiles &s, kept &t)
{
    const int half = t.side * 64;
    float x[8][4] = {}, along[2] = {};
    add<true, false, 8>(x, s.inv + t.row, SQUARE, s.q + half, PITCH, t.row, C);
    store<8>(s.u + t.row * PITCH + half, PITCH, x);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = t.row + row_of(i);
        const float grown = expf(s.sum[r]), beta = s.beta[r];
#pragma unroll
        for (int n = 0; n < 8; n++) {
            x[n][i] *= grown;
            t.keys[n][i] += beta * x[n][i];
        }
    }
    add_rows<8>(along, [&](int n, int i) { return x[n][i] * value_at(s.k, t, n, i); });
#pragma unroll
    for (int h = 0; h < 2; h++) {
        t.of_beta[h] += along[h];
        t.of_g[h] += s.beta[t.row + row_of(2 * h)] * along[h];
    }
}

/* dL = -tril(dBv U0^T + dBk W^T, -1); M = dL D beta as an operand in n */
__device__ static void grad_lower(const tiles &s, kept &t, bool has_state)
{
    const int col = t.side * 32;
    float x[4][4] = {};
    if (col < t.row + 16) {
        add<false, true, 4>(x, s.d_o + t.row * PITCH, PITCH, s.u0 + col * PITCH, PITCH, 0, WIDTH);
        if (has_state)
            add<false, true, 4>(x, s.u + t.row * PITCH, PITCH, s.w + col * PITCH, PITCH, 0, WIDTH);
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = t.row + row_of(i), j = col + col_of(n, i);
            const float one = j < r ? -x[n][i] * decay_of(s, r, j) : 0.0f;
            const float e = one * t.kk[n][i];
            x[n][i] = one * s.beta[r];
            t.of_beta[i / 2] += e;
            t.of_g[i / 2] += s.beta[r] * e;
            t.columns[n][i % 2] += s.beta[r] * e;
        }
    store<4>(s.n + t.row * SQUARE + col, SQUARE, x);
}

/* <S, dS'>: a warp's part */
__device__ static void grad_state(const tiles &s)
{
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < WIDTH * (WIDTH / 2); i += THREADS) {
        const int at = i / (WIDTH / 2) * PITCH + i % (WIDTH / 2) * 2;
        const float2 x = pair_at(s.s + at), y = pair_at(s.d + at);
        sum += x.x * y.x + x.y * y.y;
    }
    sum = cs_warp_sum(sum);
    if (threadIdx.x % 32 == 0)
        s.of_state[threadIdx.x / 32] = sum;
}

/* What threads have of rows and columns, to their parts. */
__device__ static void put_parts(const tiles &s, const kept &t)
{
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float g = cs_quad_sum(t.of_g[h]), beta = cs_quad_sum(t.of_beta[h]);
        const float kept = cs_quad_sum(t.of_kept[h]);
        const int r = t.row + row_of(2 * h);
        if (lane % 4 != 0)
            continue;
        s.part[(OF_G + t.side) * C + r] = g;
        s.part[(OF_BETA + t.side) * C + r] = beta;
        s.part[(OF_KEPT + t.side) * C + r] = kept;
    }
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float x = t.columns[n][i];
            for (int d = 4; d < 32; d *= 2)
                x += __shfl_xor_sync(0xffffffffu, x, d);
            if (lane < 4)
                s.part[(OF_COLUMNS + t.row / 16) * C + t.side * 32 + col_of(n, i)] = x;
        }
}

/* dg and dbeta, by one warp, two rows a lane: dg is the sum of all dG from its row on. */
__device__ static void grad_gates(const args &a, const tiles &s, const kept &t, bool has_both)
{
    const int lane = (int)threadIdx.x;
    if (lane >= 32)
        return;
    float own[2], beta[2], keeps = 0.0f, state = 0.0f;
    for (int i = 0; i < 2; i++) {
        const int r = 2 * lane + i;
        const float *const part = s.part + r;
        const float kept = part[OF_KEPT * C] + part[(OF_KEPT + 1) * C];
        own[i] = part[OF_G * C] + part[(OF_G + 1) * C] - kept;
        for (int k = 0; k < 4; k++)
            own[i] -= part[(OF_COLUMNS + k) * C];
        beta[i] = part[OF_BETA * C] + part[(OF_BETA + 1) * C];
        keeps += kept;
    }
    for (int w = 0; has_both && w < THREADS / 32; w++)
        state += s.of_state[w];
    const float base = expf(s.sum[C - 1]) * state + cs_warp_sum(keeps);
    float later = own[0] + own[1];
    for (int d = 1; d < 32; d *= 2) {
        const float behind = __shfl_down_sync(0xffffffffu, later, d);
        later += lane + d < 32 ? behind : 0.0f;
    }
    for (int i = 0; i < 2; i++) {
        const int r = 2 * lane + i;
        const int64_t at = (int64_t)(t.p.begin + r) * a.heads + t.head;
        if (r >= t.p.n)
            continue;
        a.dg[at] = base + later - (i == 1 ? own[0] : 0.0f);
        a.dbeta[at] = beta[i];
    }
}

__global__ void __launch_bounds__(THREADS, 1) delta_grad_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    const tiles s = tiles_of(shared);
    const int warp = (int)threadIdx.x / 32;
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        kept t = {};
        t.head = (int)blockIdx.y, t.row = warp % 4 * 16, t.side = warp / 4;
        t.p = cs_delta_at(a, c);
        const bool has_state = t.p.has_state;
        const half_t *const leaving = cs_delta_leaving(a, t.p, t.head);
        const bool has_next = leaving != nullptr;
        load_all(a, s, t.head, t.p,
                 has_state ? cs_delta_state(a, a.state, t.p.begin, t.head) : nullptr, leaving);
        cs_mma_wait<1>();
        __syncthreads();
        grad_scores(s, t);
        cs_mma_wait<0>();
        __syncthreads();
        grad_queries(a, s, t, has_state, has_next);
        if (has_state && has_next)
            grad_state(s);
        __syncthreads();
        grad_values(a, s, t, has_state);
        __syncthreads();
        if (has_state)
            grad_weights(s, t);
        __syncthreads();
        grad_lower(s, t, has_state);
        put_parts(s, t);
        __syncthreads();
        const int half = t.side * 64;
        add<false, false, 8>(t.keys, s.n + t.row * SQUARE, SQUARE, s.k + half, PITCH, 0,
                             t.row + 16);
        add<true, false, 8>(t.keys, s.n + t.row, SQUARE, s.k + half, PITCH, t.row, C);
        store_chunk<8>(a.dkh, a.heads, t.head, a.dk_pad, t.p, t.row, half, t.keys);
        grad_gates(a, s, t, has_state && has_next);
        __syncthreads();
    }
}

void cs_delta_mma_grad(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH(ctx, delta_grad_mma_kernel, cs_delta_grid(a), GRAD_BYTES, a);
}
