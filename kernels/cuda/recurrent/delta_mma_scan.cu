/* The delta rule in bf16, what goes from chunk to chunk: the state forward, its gradient backward.
 *
 * The chain of chunks of a document is what takes time, so a step is short: four warps carry 16 columns
 * of one head's state, in registers (warp w the rows from 32 w on, as accumulators of the products that
 * change it); four others do nothing but bring the rows of the next chunk, by asynchronous copies, while
 * this one is worked on. Two barriers a step: behind the state as an operand (bf16, in shared memory),
 * and behind what the step adds to it. A document's strips and heads are blocks of their own; with
 * 128 columns and 16 heads that is 128 blocks, one for a multiprocessor. Decays e^(G_C - G_r) scale the
 * narrow operand (64, 16), never the wide one. */
#include "kernels/cuda/recurrent/delta_mma.cuh"

using namespace cs_delta_mma;

constexpr int STRIP = 16, NARROW = STRIP + 8, WARPS = 4, LOADERS = 32 * WARPS,
              THREADS = 2 * LOADERS;

static_assert(WARPS * 32 == WIDTH && WARPS * 16 == C);

/* What a thread has of a strip of a chunk: rows r and r + 8 of its warp's 16, four pairs. */
struct strip {
    float x[2][4];
};

/* Columns from col on of an array (rows, heads, width); zeros where there is nothing */
__device__ static strip load_strip(const half_t *x, const args &a, int head,
                                   const cs_delta_place &p, int row, int col)
{
    strip s;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i += 2) {
            const int r = row + row_of(i), c = col + col_of(n, i);
            float2 two = {0.0f, 0.0f};
            if (x != nullptr && r < p.n && c < a.dv_pad)
                two = pair_at(x + ((int64_t)(p.begin + r) * a.heads + head) * a.dv_pad + c);
            s.x[n][i] = two.x;
            s.x[n][i + 1] = two.y;
        }
    return s;
}

/* of dO, whose rows lie anywhere */
__device__ static strip load_outputs(const args &a, int head, const cs_delta_place &p, int row,
                                     int col)
{
    strip s;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int r = row + row_of(i), c = col + col_of(n, i);
            s.x[n][i] =
                r < p.n && c < a.dv
                    ? cs_to_float(
                          a.d_o[(int64_t)(p.begin + r) * a.o_stride + (int64_t)head * a.dv + c])
                    : 0.0f;
        }
    return s;
}

/* The chunks of a document, of which all but the last are whole: so nobody waits for the lists. */
struct document {
    int32_t first, end, begin, rows_end; /* chunks; rows */
    bool has_state;                      /* one enters its first chunk */

    __device__ cs_delta_place at(int32_t c) const
    {
        const int32_t row = begin + (c - first) * C;
        return {row, min(C, rows_end - row), c > first || has_state};
    }
};

__device__ static document document_of(const args &a, int32_t doc)
{
    const int32_t first = a.first[doc], end = a.first[doc + 1];
    return {first, end, a.begin[first], a.begin[end], doc == 0 && a.enter != nullptr};
}

/* sums of the rows of a thread and of the whole chunk */
struct gates {
    float row[2], all;
};

__device__ static gates load_gates_of(const args &a, int head, const cs_delta_place &p, int row)
{
    return {
        {sum_at(a, head, p, row + row_of(0)), sum_at(a, head, p, row + row_of(2))},
        sum_at(a, head, p, C - 1)
    };
}

/* The state (32 rows of a warp, 16 columns) as an operand, and to memory unless to is NULL */
__device__ static void put_state(const args &a, const float (&state)[2][2][4], half_t *shared,
                                 half_t *to, int col)
{
    const int row = (int)threadIdx.x / 32 * 32;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i += 2) {
                const int r = row + 16 * m + row_of(i), c = col_of(n, i);
                put_pair(shared + r * STRIP + c, state[m][n][i], state[m][n][i + 1]);
                if (to != nullptr && r < a.dk_pad && col + c < a.dv_pad)
                    put_pair(to + (int64_t)r * a.dv_pad + col + c, state[m][n][i],
                             state[m][n][i + 1]);
            }
}

/* The state from memory, and to it: fp32 (dk, dv) of a head; NULL: zeros, or nowhere */
__device__ static void begin_state(const args &a, const float *from, int col,
                                   float (&state)[2][2][4])
{
    const int row = (int)threadIdx.x / 32 * 32;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = row + 16 * m + row_of(i), c = col + col_of(n, i);
                const bool is_there = from != nullptr && r < a.dk && c < a.dv;
                state[m][n][i] = is_there ? from[r * a.dv + c] : 0.0f;
            }
}

__device__ static void end_state(const args &a, const float (&state)[2][2][4], int col, float *to)
{
    const int row = (int)threadIdx.x / 32 * 32;
    if (to == nullptr)
        return;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int r = row + 16 * m + row_of(i), c = col + col_of(n, i);
                if (r < a.dk && c < a.dv)
                    to[r * a.dv + c] = state[m][n][i];
            }
}

__device__ static void decay_state(float (&state)[2][2][4], float by)
{
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                state[m][n][i] *= by;
}

/* state += x^T y: x (64 rows, 128), y (64 rows, 16) */
__device__ static void add_to_state(float (&state)[2][2][4], const half_t *x, const half_t *y)
{
    const int row = (int)threadIdx.x / 32 * 32;
#pragma unroll
    for (int m = 0; m < 2; m++)
        add<true, false, 2>(state[m], x + row + 16 * m, PITCH, y, NARROW, 0, C);
}

constexpr int TILE = C * PITCH, STATE = WIDTH * STRIP, SMALL = C * NARROW;
constexpr int SCAN_BYTES = (4 * TILE + STATE + SMALL) * 2;
constexpr int BACK_BYTES = (6 * TILE + STATE + 2 * SMALL) * 2; /* two blocks of 227 KiB */

static_assert(BACK_BYTES <= 113 * 1024);

/* Rows of an array (rows, heads, width) that a loader brings, chunk after chunk. */
struct source {
    const half_t *x; /* what this thread begins with in row 0 */
    int64_t stride;
    uint32_t to; /* in the first of two tiles */
    bool is_there;

    __device__ source(const half_t *array, int32_t heads, int32_t head, int32_t width, half_t *tile)
    {
        const int t = (int)threadIdx.x % LOADERS, row = t / (WIDTH / 8), col = t % (WIDTH / 8) * 8;
        is_there = col < width;
        stride = (int64_t)heads * width;
        x = array + row * stride + (int64_t)head * width + (is_there ? col : 0);
        to = cs_mma_address(tile + row * PITCH + col);
    }

    __device__ void load(const cs_delta_place &p, int tile) const
    {
        constexpr int ROWS = LOADERS / (WIDTH / 8); /* at once */
        const int left = p.n - (int)threadIdx.x % LOADERS / (WIDTH / 8);
        const half_t *from = x + p.begin * stride;
        const uint32_t at = to + (uint32_t)(tile * TILE * 2);
#pragma unroll
        for (int r = 0; r < C; r += ROWS, from += ROWS * stride) {
            const bool is_row = is_there && r < left;
            cs_mma_copy16(at + (uint32_t)(r * PITCH * 2), is_row ? from : x, is_row);
        }
    }
};

/* U = U0 - W S, S' = e^G S + Kd^T U */
__global__ void __launch_bounds__(THREADS) delta_scan_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    half_t *const tile = (half_t *)shared; /* [2] W, [2] K */
    half_t *const s = tile + 4 * TILE, *const y = s + STATE;
    const int head = (int)blockIdx.y, col = (int)blockIdx.z * STRIP;
    const int row = (int)threadIdx.x / 32 * 16;
    const bool is_loader = threadIdx.x >= LOADERS;
    const source w(a.w, a.heads, head, a.dk_pad, tile);
    const source k(a.kn, a.key_heads, cs_delta_key_head(a, head), a.dk_pad, tile + 2 * TILE);
    const auto bring = [&](const cs_delta_place &p, int32_t c) {
        w.load(p, c % 2);
        k.load(p, c % 2);
        cs_mma_commit();
    };
    for (int32_t doc = (int32_t)blockIdx.x; doc < a.count[1]; doc += (int32_t)gridDim.x) {
        if (!cs_delta_takes(a, doc))
            continue;
        const document d = document_of(a, doc);
        __syncthreads(); /* the document before is done with the tiles */
        if (is_loader) {
            bring(d.at(d.first), d.first);
            for (int32_t c = d.first; c < d.end; c++) {
                cs_mma_wait<0>();
                __syncthreads();
                if (c + 1 < d.end)
                    bring(d.at(c + 1), c + 1);
                __syncthreads();
            }
            continue;
        }
        float state[2][2][4];
        begin_state(a, cs_delta_end(a, a.enter, doc == 0, head), col, state);
        cs_delta_place p = d.at(d.first);
        strip u0 = load_strip(a.u0, a, head, p, row, col);
        gates g = load_gates_of(a, head, p, row);
        for (int32_t c = d.first; c < d.end; c++) {
            put_state(a, state, s,
                      p.has_state && a.state != nullptr ? cs_delta_state(a, a.state, p.begin, head)
                                                        : nullptr,
                      col);
            const float left[2] = {expf(g.all - g.row[0]), expf(g.all - g.row[1])};
            const float decay = expf(g.all);
            decay_state(state, decay);
            __syncthreads();
            float u[2][4] = {};
            add<false, false, 2>(u, tile + (c % 2) * TILE + row * PITCH, PITCH, s, STRIP, 0, WIDTH);
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    u[n][i] = row + row_of(i) < p.n ? u0.x[n][i] - u[n][i] : 0.0f;
            float grown[2][4];
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    grown[n][i] = u[n][i] * left[i / 2];
            store<2>(y + row * NARROW, NARROW, grown);
            __syncthreads();
            if (a.u != nullptr)
                store_chunk<2>(a.u, a.heads, head, a.dv_pad, p, row, col, u);
            if (c + 1 < d.end) {
                p = d.at(c + 1);
                u0 = load_strip(a.u0, a, head, p, row, col);
                g = load_gates_of(a, head, p, row);
            }
            add_to_state(state, tile + (2 + c % 2) * TILE, y);
        }
        end_state(a, state, col, cs_delta_end(a, a.left, doc == a.count[1] - 1, head));
    }
}

/* dU = du + Kd dS', dS = e^G dS' + (e^G q)^T dO - W^T dU, from the last chunk to the first */
__global__ void __launch_bounds__(THREADS) delta_back_mma_kernel(args a)
{
    extern __shared__ __align__(128) char shared[];
    half_t *const tile = (half_t *)shared; /* [2] K, [2] Q, [2] W */
    half_t *const s = tile + 6 * TILE, *const y = s + STATE, *const z = y + SMALL;
    const int head = (int)blockIdx.y, col = (int)blockIdx.z * STRIP,
              key = cs_delta_key_head(a, head);
    const int row = (int)threadIdx.x / 32 * 16;
    const bool is_loader = threadIdx.x >= LOADERS;
    const source k(a.kn, a.key_heads, key, a.dk_pad, tile);
    const source q(a.qn, a.key_heads, key, a.dk_pad, tile + 2 * TILE);
    const source w(a.w, a.heads, head, a.dk_pad, tile + 4 * TILE);
    const auto bring = [&](const cs_delta_place &p, int32_t c) {
        k.load(p, c % 2);
        q.load(p, c % 2);
        w.load(p, c % 2);
        cs_mma_commit();
    };
    for (int32_t doc = (int32_t)blockIdx.x; doc < a.count[1]; doc += (int32_t)gridDim.x) {
        if (!cs_delta_takes(a, doc))
            continue;
        const document d = document_of(a, doc);
        const int32_t last = d.end - 1;
        __syncthreads();
        if (is_loader) {
            bring(d.at(last), last);
            for (int32_t c = last; c >= d.first; c--) {
                cs_mma_wait<0>();
                __syncthreads();
                if (c > d.first)
                    bring(d.at(c - 1), c - 1);
                __syncthreads();
            }
            continue;
        }
        float state[2][2][4];
        begin_state(a, cs_delta_end(a, a.leave, doc == a.count[1] - 1, head), col, state);
        cs_delta_place p = d.at(last);
        strip du = load_strip(a.du, a, head, p, row, col);
        strip d_o = load_outputs(a, head, p, row, col);
        gates g = load_gates_of(a, head, p, row);
        for (int32_t c = last; c >= d.first; c--) {
            put_state(a, state, s, a.d_state != nullptr ? cs_delta_leaving(a, p, head) : nullptr,
                      col);
            const float left[2] = {expf(g.all - g.row[0]), expf(g.all - g.row[1])};
            const float grown[2] = {expf(g.row[0]), expf(g.row[1])};
            float u[2][4] = {}, x[2][4];
            decay_state(state, expf(g.all));
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    x[n][i] = grown[i / 2] * d_o.x[n][i];
            __syncthreads();
            store<2>(y + row * NARROW, NARROW, x);
            add<false, false, 2>(u, tile + (c % 2) * TILE + row * PITCH, PITCH, s, STRIP, 0, WIDTH);
#pragma unroll
            for (int n = 0; n < 2; n++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    u[n][i] = row + row_of(i) < p.n ? du.x[n][i] + left[i / 2] * u[n][i] : 0.0f;
                    x[n][i] = -u[n][i];
                }
            store<2>(z + row * NARROW, NARROW, x);
            __syncthreads();
            store_chunk<2>(a.du, a.heads, head, a.dv_pad, p, row, col, u);
            if (c > d.first) {
                p = d.at(c - 1);
                du = load_strip(a.du, a, head, p, row, col);
                d_o = load_outputs(a, head, p, row, col);
                g = load_gates_of(a, head, p, row);
            }
            add_to_state(state, tile + (2 + c % 2) * TILE, y);
            add_to_state(state, tile + (4 + c % 2) * TILE, z);
        }
        end_state(a, state, col, cs_delta_end(a, a.asked, doc == 0, head));
    }
}

static dim3 grid_of(const args &a) /* 16 documents at a time */
{
    return dim3((unsigned)(a.rows < 16 ? a.rows : 16), (unsigned)a.heads,
                (unsigned)((a.dv_pad + STRIP - 1) / STRIP));
}

void cs_delta_mma_scan(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH_OF(ctx, delta_scan_mma_kernel, grid_of(a), THREADS, SCAN_BYTES, a);
}

void cs_delta_mma_back(struct cs_ctx *ctx, const args &a)
{
    CS_DELTA_LAUNCH_OF(ctx, delta_back_mma_kernel, grid_of(a), THREADS, BACK_BYTES, a);
}
