/* Attention backward for Hopper, what its kernels share: arguments, the places in workspace and
 * shared memory, the passes over rows before and after the main kernel.
 *
 * Blocks. A key tile is 128 rows (CS_MASK_TILE), 64 for each of two warpgroups; queries are walked
 * in halves of a tile (64 rows, CS_MASK_CELL). Halves are numbered 2 * tile + half and padded to 64
 * rows in the workspace, so sums and statistics are aligned wherever a tile starts.
 *
 * Fragment order, of fp32 sums in the workspace (64 rows, DIM columns): for every 8 columns the
 * four accumulators of each of 128 threads, thread after thread. Threads store and add 16 bytes
 * each, one after the other, whatever the rows. */
#ifndef CS_CUDA_ATTENTION_BWD_SM90_CUH
#define CS_CUDA_ATTENTION_BWD_SM90_CUH

#include "kernels/cuda/attention_sm90.cuh"
#include "kernels/cuda/hopper.cuh"

#include "core/mask/cells.h"

#define CS_BWD_ROWS       64                /* queries of a step, keys of a warpgroup */
#define CS_BWD_STAT       (2 * CS_BWD_ROWS) /* floats of a half: -lse / ln 2 | rowsum(dO o) */
#define CS_BWD_STAT_BYTES (CS_BWD_STAT * 4)
#define CS_BWD_PANEL      64 /* bf16 columns of a swizzled row of 128 bytes */
#define CS_BWD_STAGES     2
#define CS_BWD_ROW_BLOCK  256 /* threads of the passes over rows */

/* Everything the kernels take besides tensor maps. A column is what one work item does of the
 * heads: kv head and, where the group of its query heads is split, part of the group. */
struct cs_bwd_args {
    struct cs_mask_list by_k;
    const int32_t *q_row, *k_row;
    const uint32_t *bits; /* bits_k */
    int32_t n_q, n_k;
    int32_t tokens, heads, kv_heads, head_dim, q_stride, kv_stride, o_stride;
    int32_t group, parts, heads_per_item; /* parts * heads_per_item = group = heads / kv_heads */
    float scale, softcap;
    bool is_ordered; /* sums of dq in the order of ranks */
    const void *o, *d_o;
    const float *lse;
    void *dq, *dk, *dv;
    /* workspace */
    int32_t *next;            /* (1) next work item */
    int32_t *turn;            /* (heads, halves, 2) rank whose turn it is, by warpgroup */
    float *stat;              /* (heads, halves, CS_BWD_STAT) */
    float *dq_sum;            /* (heads, halves, 64 * head_dim) fragment order */
    float *dk_part, *dv_part; /* (parts, kv_heads, n_k, 2, 64 * head_dim), unless parts is 1 */
};

__host__ __device__ inline int64_t cs_bwd_halves(const struct cs_bwd_args &a)
{
    return 2 * (int64_t)a.n_q;
}

/* --- passes over rows ------------------------------------------------------------------------ */

__device__ inline float cs_bwd_dot(uint4 a, uint4 b)
{
    const uint32_t x[4] = {a.x, a.y, a.z, a.w}, y[4] = {b.x, b.y, b.z, b.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum += __uint_as_float(x[i] << 16) * __uint_as_float(y[i] << 16);
        sum += __uint_as_float(x[i] & 0xffff0000u) * __uint_as_float(y[i] & 0xffff0000u);
    }
    return sum;
}

/* One half of a query tile and one head: its statistics, and zeros in what the main kernel adds to.
 * Rows past the end of the tile, and rows that see nothing, get -inf in place of -lse: p = 0. */
static __global__ void __launch_bounds__(CS_BWD_ROW_BLOCK)
    cs_bwd_before_kernel(struct cs_bwd_args a)
{
    constexpr int LANES = 8; /* that share a row */
    const int half = (int)blockIdx.x, head = (int)blockIdx.y, tid = (int)threadIdx.x;
    const int64_t at = head * cs_bwd_halves(a) + half;
    const int32_t first = a.q_row[half / 2] + half % 2 * CS_BWD_ROWS;
    const int32_t rows = min(CS_BWD_ROWS, a.q_row[half / 2 + 1] - first);
    float *stat = a.stat + at * CS_BWD_STAT;
    for (int r = tid / LANES; r < CS_BWD_ROWS; r += CS_BWD_ROW_BLOCK / LANES) {
        float sum = 0.0f;
        if (r < rows) {
            const int64_t row = (int64_t)(first + r) * a.o_stride + (int64_t)head * a.head_dim;
            const uint4 *o = (const uint4 *)((const __nv_bfloat16 *)a.o + row);
            const uint4 *d_o = (const uint4 *)((const __nv_bfloat16 *)a.d_o + row);
            for (int i = tid % LANES; i < a.head_dim / 8; i += LANES)
                sum += cs_bwd_dot(o[i], d_o[i]);
        }
        for (int step = LANES / 2; step > 0; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (tid % LANES == 0) {
            const float lse = r < rows ? a.lse[(int64_t)head * a.tokens + first + r] : -INFINITY;
            stat[r] = lse == -INFINITY ? -INFINITY : -lse * CS_LOG2E;
            stat[CS_BWD_ROWS + r] = sum;
        }
    }
    float4 *dq = (float4 *)(a.dq_sum + at * CS_BWD_ROWS * a.head_dim);
    for (int i = tid; i < CS_BWD_ROWS * a.head_dim / 4; i += CS_BWD_ROW_BLOCK)
        dq[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (tid < 2)
        a.turn[at * 2 + tid] = 0;
    if (tid == 0 && at == 0)
        *a.next = 0;
}

/* Sums in fragment order to rows of bf16: grid (halves, heads), y = factor * sum over parts. */
struct cs_bwd_rows {
    const float *sum;
    int64_t part; /* floats from one part to the next */
    int32_t parts;
    const int32_t *row; /* first row of every tile */
    float factor;
    int32_t head_dim, stride;
    __nv_bfloat16 *y;
};

static __global__ void __launch_bounds__(CS_BWD_ROW_BLOCK) cs_bwd_after_kernel(struct cs_bwd_rows a)
{
    const int half = (int)blockIdx.x, head = (int)blockIdx.y, octets = a.head_dim / 8;
    const int32_t first = a.row[half / 2] + half % 2 * CS_BWD_ROWS;
    const int32_t rows = min(CS_BWD_ROWS, a.row[half / 2 + 1] - first);
    const float *from = a.sum + ((int64_t)head * gridDim.x + half) * CS_BWD_ROWS * a.head_dim;
    /* Four threads of a fragment hold 8 columns of rows r and r + 8: 64 bytes on end. */
    for (int i = (int)threadIdx.x; i < 32 * octets; i += CS_BWD_ROW_BLOCK) {
        const int octet = i % octets, pair = i / octets;
        const int r = pair / 8 * 16 + pair % 8;
        float4 sum[4] = {};
        for (int p = 0; p < a.parts; p++) {
            const float4 *x = (const float4 *)(from + p * a.part) + octet * 128 + pair * 4;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float4 more = x[j];
                sum[j].x += more.x;
                sum[j].y += more.y;
                sum[j].z += more.z;
                sum[j].w += more.w;
            }
        }
        uint32_t top[4], low[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            top[j] = cs_pack_bf16(sum[j].x * a.factor, sum[j].y * a.factor);
            low[j] = cs_pack_bf16(sum[j].z * a.factor, sum[j].w * a.factor);
        }
        __nv_bfloat16 *y =
            a.y + (int64_t)(first + r) * a.stride + (int64_t)head * a.head_dim + octet * 8;
        if (r < rows)
            *(uint4 *)y = make_uint4(top[0], top[1], top[2], top[3]);
        if (r + 8 < rows)
            *(uint4 *)(y + (int64_t)8 * a.stride) = make_uint4(low[0], low[1], low[2], low[3]);
    }
}

#endif
