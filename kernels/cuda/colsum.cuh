/* Column sums of a (rows, n) matrix, added to gradients (fp32 or bf16) or put there, deterministic:
 * pass one writes partial sums of stripes of rows to the handle's scratch, pass two adds the
 * stripes in order. How rows are cut depends on the shape only.
 *
 * A term is a device functor: term(row, col, count, out) gives count <= CS_PACK neighbours of a row
 * as SUMS packs. */
#ifndef CS_CUDA_COLSUM_CUH
#define CS_CUDA_COLSUM_CUH

#include "kernels/cuda/cuda_ops.cuh"

#define CS_COLSUM_WARPS 8
#define CS_COLSUM_COLS  (32 * CS_PACK)

/* A kernel may be put beside the one before it, which says when, and waits for its results itself:
 * from compute capability 9.0 on; before, it starts when that one is over. */
__device__ inline void cs_colsum_early(void)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

__device__ inline void cs_colsum_await(void)
{
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}

/* part (SUMS, stripes, n) */
template <int SUMS, typename Term>
__global__ void cs_colsum_stripes(int64_t rows, int64_t n, int64_t stripe_rows, Term term,
                                  float *part)
{
    __shared__ float sums[CS_COLSUM_WARPS][CS_COLSUM_COLS];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t col = (int64_t)blockIdx.x * CS_COLSUM_COLS + lane * CS_PACK;
    const int64_t first = (int64_t)blockIdx.y * stripe_rows;
    const int64_t last = first + stripe_rows < rows ? first + stripe_rows : rows;
    float total[SUMS][CS_PACK] = {};
    cs_colsum_early(); /* cs_colsum_add may be put beside this one */
    if (col < n)
#pragma unroll 4
        for (int64_t row = first + warp; row < last; row += CS_COLSUM_WARPS) {
            float x[SUMS][CS_PACK];
            term(row, col, n - col, x);
            for (int s = 0; s < SUMS; s++)
                for (int i = 0; i < CS_PACK; i++)
                    total[s][i] += x[s][i];
        }
    for (int s = 0; s < SUMS; s++) {
        __syncthreads();
        for (int i = 0; i < CS_PACK; i++)
            sums[warp][lane * CS_PACK + i] = total[s][i];
        __syncthreads();
        const int64_t out = (int64_t)blockIdx.x * CS_COLSUM_COLS + threadIdx.x;
        if (out >= n)
            continue;
        float sum = 0.0f;
        for (int w = 0; w < CS_COLSUM_WARPS; w++)
            sum += sums[w][threadIdx.x];
        part[((int64_t)s * gridDim.y + blockIdx.y) * n + out] = sum;
    }
}

#define CS_COLSUM_ADD_COLS  32
#define CS_COLSUM_ADD_LANES 32

/* G: the type of the sums. sum0, sum1 (n) += (is_new: =) part (SUMS, stripes, n), block (columns,
 * sum); NULL sums are not wanted. Lane l of a column adds stripes l, l + CS_COLSUM_ADD_LANES ...,
 * the lanes are added in order. Starts while the kernel before it ends, and waits for its
 * memory. */
template <typename G>
static __global__ void __launch_bounds__(CS_COLSUM_ADD_COLS *CS_COLSUM_ADD_LANES)
    cs_colsum_add(int64_t n, int stripes, const float *part, G *sum0, G *sum1, bool is_new)
{
    __shared__ float lanes[CS_COLSUM_ADD_LANES][CS_COLSUM_ADD_COLS];
    const int c = (int)threadIdx.x % CS_COLSUM_ADD_COLS, l = (int)threadIdx.x / CS_COLSUM_ADD_COLS;
    const int64_t col = (int64_t)blockIdx.x * CS_COLSUM_ADD_COLS + c;
    G *out = blockIdx.y == 0 ? sum0 : sum1;
    float sum = 0.0f;
    cs_colsum_await();
    if (out == nullptr)
        return;
    if (col < n) {
        const float *from = part + (int64_t)blockIdx.y * stripes * n + col;
#pragma unroll 8
        for (int i = l; i < stripes; i += CS_COLSUM_ADD_LANES)
            sum += from[(int64_t)i * n];
    }
    lanes[l][c] = sum;
    __syncthreads();
    if (l > 0 || col >= n)
        return;
#pragma unroll
    for (int i = 1; i < CS_COLSUM_ADD_LANES; i++)
        sum += lanes[i][c];
    out[col] = cs_from_float<G>(is_new ? sum : cs_to_float(out[col]) + sum);
}

template <int SUMS>
static void cs_colsum_finish(struct cs_ctx *ctx, int64_t n, int stripes, const float *part,
                             void *sum0, void *sum1)
{
    const bool is_new = ctx->is_grad_new != 0;
    cudaLaunchAttribute early = {};
    cudaLaunchConfig_t config = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3((unsigned)((n + CS_COLSUM_ADD_COLS - 1) / CS_COLSUM_ADD_COLS), SUMS);
    config.blockDim = dim3(CS_COLSUM_ADD_COLS * CS_COLSUM_ADD_LANES);
    config.stream = cs_cuda_stream_of(ctx);
    config.attrs = &early;
    config.numAttrs = cs_cuda_handle_of(ctx)->capability_major >= 9 ? 1 : 0;
    const cudaError_t code =
        ctx->grad == CS_GRAD_BF16
            ? cudaLaunchKernelEx(&config, cs_colsum_add<__nv_bfloat16>, n, stripes, part,
                                 (__nv_bfloat16 *)sum0, (__nv_bfloat16 *)sum1, is_new)
            : cudaLaunchKernelEx(&config, cs_colsum_add<float>, n, stripes, part, (float *)sum0,
                                 (float *)sum1, is_new);
    CS_CUDA_NOTE(ctx, code, "column sums");
}

template <int SUMS, typename Term>
static void cs_colsum(struct cs_ctx *ctx, int64_t rows, int64_t n, Term term, void *sum0,
                      void *sum1)
{
    if (rows <= 0 || n <= 0)
        return;
    static_assert(CS_COLSUM_WARPS * 32 == CS_COLSUM_COLS, "one thread adds one column");
    const int64_t fit = (int64_t)(CS_CUDA_SCRATCH_BYTES / sizeof(float)) / (SUMS * n);
    if (fit < 1) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "column sums of %lld columns", (long long)n);
        return;
    }
    const int64_t col_blocks = (n + CS_COLSUM_COLS - 1) / CS_COLSUM_COLS;
    int64_t stripes = (1056 + col_blocks - 1) / col_blocks; /* eight blocks for each of 132 SMs */
    const int64_t useful = (rows + 31) / 32;
    stripes = stripes < useful ? stripes : useful;
    stripes = stripes < 256 ? stripes : 256;
    stripes = stripes < fit ? stripes : fit;
    const int64_t stripe_rows = (rows + stripes - 1) / stripes;
    stripes = (rows + stripe_rows - 1) / stripe_rows;
    float *part = (float *)cs_cuda_handle_of(ctx)->scratch;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    cs_colsum_stripes<SUMS>
        <<<dim3((unsigned)col_blocks, (unsigned)stripes), CS_COLSUM_COLS, 0, stream>>>(
            rows, n, stripe_rows, term, part);
    CS_CUDA_LAUNCHED(ctx, "column sums");
    cs_colsum_finish<SUMS>(ctx, n, (int)stripes, part, sum0, sum1);
}

#endif
