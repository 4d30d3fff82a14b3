/* The passes over rows of the Hopper attention backward, bound by memory: statistics before the
 * main kernel, conversion of fp32 sums after it. */
#include "kernels/cuda/attention/hopper/bwd_sm90.cuh"

#define BLOCK 256

/* One half of a query tile and one head: its statistics, and zeros in what the main kernel adds to.
 * Rows past the end of the tile, and rows that see nothing, get -inf in place of -lse: p = 0. */
static __global__ void __launch_bounds__(BLOCK) before_kernel(struct cs_bwd_args a)
{
    constexpr int LANES = CS_ATTENTION_LANES;
    const int half = (int)blockIdx.x, head = (int)blockIdx.y, tid = (int)threadIdx.x;
    const int64_t at = head * cs_bwd_halves(a) + half;
    const int32_t first = a.q_row[half / 2] + half % 2 * CS_BWD_ROWS;
    const int32_t rows = min(CS_BWD_ROWS, a.q_row[half / 2 + 1] - first);
    float *stat = a.stat + at * CS_BWD_STAT;
    for (int r = tid / LANES; r < CS_BWD_ROWS; r += BLOCK / LANES) {
        const int64_t row = (int64_t)(first + r) * a.o_stride + (int64_t)head * a.head_dim;
        const float sum =
            cs_attention_row_dot((const __nv_bfloat16 *)a.o + row,
                                 (const __nv_bfloat16 *)a.d_o + row, r < rows ? a.head_dim : 0);
        if (tid % LANES == 0) {
            const float lse = r < rows ? a.lse[(int64_t)head * a.tokens + first + r] : -INFINITY;
            stat[r] = cs_attention_log_of(lse);
            stat[CS_BWD_ROWS + r] = sum;
        }
    }
    float4 *dq = (float4 *)(a.dq_sum + at * CS_BWD_ROWS * a.head_dim);
    for (int i = tid; i < CS_BWD_ROWS * a.head_dim / 4; i += BLOCK)
        dq[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (tid < 2)
        a.turn[at * 2 + tid] = 0;
    if (tid == 0 && at == 0)
        *a.next = 0;
}

/* One half of a tile and one head; see cs_bwd_rows. */
static __global__ void __launch_bounds__(BLOCK) after_kernel(struct cs_bwd_rows a)
{
    const int half = (int)blockIdx.x, head = (int)blockIdx.y, octets = a.head_dim / 8;
    const int32_t first = a.row[half / 2] + half % 2 * CS_BWD_ROWS;
    const int32_t rows = min(CS_BWD_ROWS, a.row[half / 2 + 1] - first);
    const float *from = a.sum + ((int64_t)head * gridDim.x + half) * CS_BWD_ROWS * a.head_dim;
    /* Four threads of a fragment hold 8 columns of rows r and r + 8: 64 bytes on end. */
    for (int i = (int)threadIdx.x; i < 32 * octets; i += BLOCK) {
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

void cs_bwd_before(struct cs_ctx *ctx, const struct cs_bwd_args &a)
{
    const dim3 grid((unsigned)cs_bwd_halves(a), (unsigned)a.heads);
    before_kernel<<<grid, BLOCK, 0, cs_cuda_stream_of(ctx)>>>(a);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}

void cs_bwd_after(struct cs_ctx *ctx, const struct cs_bwd_rows &rows, int32_t tiles, int32_t heads)
{
    const dim3 grid((unsigned)(2 * tiles), (unsigned)heads);
    after_kernel<<<grid, BLOCK, 0, cs_cuda_stream_of(ctx)>>>(rows);
    CS_CUDA_LAUNCHED(ctx, "attention_grad");
}
