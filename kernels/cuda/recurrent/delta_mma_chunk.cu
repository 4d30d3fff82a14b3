/* The delta rule in bf16, what every chunk of every head does for itself, forward: (I + L)^-1, U0 and W
 * before the state is known, outputs after it; and what outputs ask of U, backward. A block of eight
 * warps for a chunk and head, 16 rows and half of the columns a warp (delta_mma.cuh); two blocks share a
 * multiprocessor, so that one's loads hide behind the other's products. */
#include "kernels/cuda/recurrent/delta_mma.cuh"

using namespace cs_delta_mma;

#define THREADS CS_DELTA_THREADS

/* --- (I + L)^-1 -------------------------------------------------------------------------------- */

constexpr int BLOCK = 16, BLOCKS = C / BLOCK, LOWER = C + 4; /* LOWER: floats of a row */

/* In fp32, 16 rows and columns at a time: blocks of the diagonal by substitution, a thread a column; then
 * from the diagonal outwards T_ij = -T_ii (L_ij T_jj + ... ), block by block, a thread an element, 256 of
 * them for as many blocks of a diagonal as there are. sum: (BLOCKS - 1) 256 floats. Ends with a barrier. */
__device__ static void invert(const float *lower, float *inv, float *sum)
{
    const int t = (int)threadIdx.x, i = t / BLOCK, j = t % BLOCK;
    for (int k = t; k < C * C; k += THREADS)
        inv[k / C * LOWER + k % C] = 0.0f;
    __syncthreads();
    if (t < C) {
        const int at = t / BLOCK * BLOCK * LOWER + t / BLOCK * BLOCK;
        float column[BLOCK];
#pragma unroll
        for (int r = 0; r < BLOCK; r++) {
            float x = r == j ? 1.0f : 0.0f;
#pragma unroll
            for (int m = 0; m < r; m++)
                x -= lower[at + r * LOWER + m] * column[m];
            column[r] = r < j ? 0.0f : x;
            inv[at + r * LOWER + j] = column[r];
        }
    }
    __syncthreads();
    for (int apart = 1; apart < BLOCKS; apart++) {
        for (int b = 0; b + apart < BLOCKS; b++) {
            const float *const row = lower + ((b + apart) * BLOCK + i) * LOWER;
            float x = 0.0f;
            for (int m = b * BLOCK; m < (b + apart) * BLOCK; m++)
                x += row[m] * inv[m * LOWER + b * BLOCK + j];
            sum[b * BLOCK * BLOCK + t] = x;
        }
        __syncthreads();
        for (int b = 0; b + apart < BLOCKS; b++) {
            const float *const row = inv + ((b + apart) * BLOCK + i) * LOWER + (b + apart) * BLOCK;
            float x = 0.0f;
#pragma unroll
            for (int m = 0; m < BLOCK; m++)
                x += row[m] * sum[b * BLOCK * BLOCK + m * BLOCK + j];
            inv[((b + apart) * BLOCK + i) * LOWER + b * BLOCK + j] = -x;
        }
        __syncthreads();
    }
}

/* --- before the state -------------------------------------------------------------------------- */

constexpr int PREPARE_BYTES = (2 * C * PITCH + 2 * C * SQUARE) * 2 +
                              (2 * C * LOWER + (BLOCKS - 1) * BLOCK * BLOCK + 2 * C) * 4;

/* Sums of g in the chunk, by one warp, two rows a lane; to shared memory and to the workspace. */
__device__ static void sum_gates(const args &a, int head, const cs_delta_place &p, float *sum,
                                 float *beta)
{
    const int lane = (int)threadIdx.x;
    if (lane >= 32)
        return;
    float g[2];
    for (int i = 0; i < 2; i++) {
        const int r = 2 * lane + i;
        const int64_t at = (int64_t)(p.begin + r) * a.heads + head;
        g[i] = r < p.n ? a.g[at] : 0.0f;
        beta[r] = r < p.n ? a.beta[at] : 0.0f;
    }
    float both = g[0] + g[1];
    for (int d = 1; d < 32; d *= 2) {
        const float before = __shfl_up_sync(0xffffffffu, both, d);
        both += lane >= d ? before : 0.0f;
    }
    sum[2 * lane] = both - g[1];
    sum[2 * lane + 1] = both;
    for (int i = 0; i < 2; i++)
        if (2 * lane + i < p.n)
            a.sums[(int64_t)head * a.rows + p.begin + 2 * lane + i] = sum[2 * lane + i];
}

__global__ void __launch_bounds__(THREADS, 2) delta_prepare_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    half_t *const k = (half_t *)shared, *const v = k + C * PITCH;
    half_t *const by_v = v + C * PITCH, *const by_k = by_v + C * SQUARE;
    float *const lower = (float *)(by_k + C * SQUARE), *const inv = lower + C * LOWER;
    float *const partial = inv + C * LOWER, *const sum = partial + (BLOCKS - 1) * BLOCK * BLOCK;
    float *const beta = sum + C;
    const int head = (int)blockIdx.y, warp = (int)threadIdx.x / 32, row = warp % 4 * 16,
              side = warp / 4;
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        load_chunk<THREADS>(k, a.kn, a.key_heads, cs_delta_key_head(a, head), a.dk_pad, p);
        cs_mma_commit();
        load_values(v, a.v + (int64_t)p.begin * a.v_stride + (int64_t)head * a.dv, a.v_stride, a.dv,
                    p.n);
        sum_gates(a, head, p, sum, beta);
        cs_mma_wait<0>();
        __syncthreads();
        float x[4][4] = {};
        add<false, true, 4>(x, k + row * PITCH, PITCH, k + side * 32 * PITCH, PITCH, 0, WIDTH);
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = row + row_of(i), j = side * 32 + col_of(n, i);
                lower[r * LOWER + j] = j < r ? beta[r] * expf(sum[r] - sum[j]) * x[n][i] : 0.0f;
            }
        __syncthreads();
        invert(lower, inv, partial);
        /* columns of the inverse times beta and beta e^G: then the operands stay as they are */
        for (int i = (int)threadIdx.x; i < C * C / 2; i += THREADS) {
            const int r = i / (C / 2), j = i % (C / 2) * 2;
            const float first = inv[r * LOWER + j], second = inv[r * LOWER + j + 1];
            const float b0 = beta[j], b1 = beta[j + 1];
            put_pair(by_v + r * SQUARE + j, first * b0, second * b1);
            put_pair(by_k + r * SQUARE + j, first * b0 * expf(sum[j]),
                     second * b1 * expf(sum[j + 1]));
            if (r < p.n)
                put_pair(a.inv + ((int64_t)(p.begin + r) * a.heads + head) * C + j, first, second);
        }
        __syncthreads();
        float y[8][4] = {};
        add<false, false, 8>(y, by_v + row * SQUARE, SQUARE, v + side * 64, PITCH, 0, row + 16);
        store_chunk<8>(a.u0, a.heads, head, a.dv_pad, p, row, side * 64, y);
        clear(y, 8);
        add<false, false, 8>(y, by_k + row * SQUARE, SQUARE, k + side * 64, PITCH, 0, row + 16);
        store_chunk<8>(a.w, a.heads, head, a.dk_pad, p, row, side * 64, y);
        __syncthreads();
    }
}

/* --- A ------------------------------------------------------------------------------------------ */

/* A = tril(q k^T) D of the chunk, bf16 (64, 64) */
__device__ static void make_scores(half_t *to, const half_t *q, const half_t *k, const float *sum)
{
    const int warp = (int)threadIdx.x / 32, row = warp % 4 * 16, col = warp / 4 * 32;
    float x[4][4] = {};
    if (col < row + 16)
        add<false, true, 4>(x, q + row * PITCH, PITCH, k + col * PITCH, PITCH, 0, WIDTH);
#pragma unroll
    for (int n = 0; n < 4; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = row + row_of(i), j = col + col_of(n, i);
            x[n][i] = j <= r ? expf(sum[r] - sum[j]) * x[n][i] : 0.0f;
        }
    store<4>(to + row * SQUARE + col, SQUARE, x);
}

constexpr int OUTPUT_BYTES = (3 * C * PITCH + WIDTH * PITCH + C * SQUARE) * 2 + C * 4,
              PULL_BYTES = (3 * C * PITCH + C * SQUARE) * 2 + C * 4;

/* o = (e^G q) S + A U */
__global__ void __launch_bounds__(THREADS, 2) delta_output_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    half_t *const q = (half_t *)shared, *const k = q + C * PITCH, *const u = k + C * PITCH;
    half_t *const s = u + C * PITCH, *const scores = s + WIDTH * PITCH;
    float *const sum = (float *)(scores + C * SQUARE);
    const int head = (int)blockIdx.y, warp = (int)threadIdx.x / 32, row = warp % 4 * 16,
              side = warp / 4;
    const int key = cs_delta_key_head(a, head);
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        load_chunk<THREADS>(q, a.qn, a.key_heads, key, a.dk_pad, p);
        load_chunk<THREADS>(k, a.kn, a.key_heads, key, a.dk_pad, p);
        cs_mma_commit();
        load_chunk<THREADS>(u, a.u, a.heads, head, a.dv_pad, p);
        if (p.has_state)
            load<WIDTH, THREADS>(s, cs_delta_state(a, a.state, p.begin, head), a.dv_pad, a.dv_pad,
                                 a.dk_pad);
        cs_mma_commit();
        load_gates(a, head, p, sum, nullptr);
        cs_mma_wait<1>();
        __syncthreads();
        make_scores(scores, q, k, sum);
        cs_mma_wait<0>();
        __syncthreads();
        float y[8][4] = {};
        if (p.has_state) {
            add<false, false, 8>(y, q + row * PITCH, PITCH, s + side * 64, PITCH, 0, WIDTH);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float grown = expf(sum[row + row_of(i)]);
#pragma unroll
                for (int n = 0; n < 8; n++)
                    y[n][i] *= grown;
            }
        }
        add<false, false, 8>(y, scores + row * SQUARE, SQUARE, u + side * 64, PITCH, 0, row + 16);
        store_values<8>(a.o + (int64_t)head * a.dv, a.o_stride, a.dv, p, row, side * 64, y);
        __syncthreads();
    }
}

/* du = A^T dO */
__global__ void __launch_bounds__(THREADS, 2) delta_pull_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    half_t *const q = (half_t *)shared, *const k = q + C * PITCH, *const d_o = k + C * PITCH;
    half_t *const scores = d_o + C * PITCH;
    float *const sum = (float *)(scores + C * SQUARE);
    const int head = (int)blockIdx.y, warp = (int)threadIdx.x / 32, row = warp % 4 * 16,
              side = warp / 4;
    const int key = cs_delta_key_head(a, head);
    for (int32_t c = (int32_t)blockIdx.x; c < a.count[0]; c += (int32_t)gridDim.x) {
        const cs_delta_place p = cs_delta_at(a, c);
        load_chunk<THREADS>(q, a.qn, a.key_heads, key, a.dk_pad, p);
        load_chunk<THREADS>(k, a.kn, a.key_heads, key, a.dk_pad, p);
        cs_mma_commit();
        load_values(d_o, a.d_o + (int64_t)p.begin * a.o_stride + (int64_t)head * a.dv, a.o_stride,
                    a.dv, p.n);
        load_gates(a, head, p, sum, nullptr);
        cs_mma_wait<0>();
        __syncthreads();
        make_scores(scores, q, k, sum);
        __syncthreads();
        float y[8][4] = {};
        add<true, false, 8>(y, scores + row, SQUARE, d_o + side * 64, PITCH, row, C);
        store_chunk<8>(a.du, a.heads, head, a.dv_pad, p, row, side * 64, y);
        __syncthreads();
    }
}

void cs_delta_mma_prepare(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH(ctx, delta_prepare_mma_kernel, cs_delta_grid(a), PREPARE_BYTES, a);
}

void cs_delta_mma_output(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH(ctx, delta_output_mma_kernel, cs_delta_grid(a), OUTPUT_BYTES, a);
}

void cs_delta_mma_pull(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH(ctx, delta_pull_mma_kernel, cs_delta_grid(a), PULL_BYTES, a);
}
