/* The gradient of attention sinks: dsink[h] -= sum over rows of exp(sink - lse) rowsum(dO o). The
 * passes for q, k and v know the sink from lse alone, so that this is all there is. */
#include "kernels/cuda/attention/common.cuh"

#define THREADS 1024

/* A block for each head: always the same sums in the same order. */
static __global__ void __launch_bounds__(THREADS)
    sink_kernel(struct cs_attention_rows a, const float *sink, float *dsink)
{
    const int64_t head = (int64_t)blockIdx.x * a.per_head;
    const float own = sink[blockIdx.x] * CS_LOG2E;
    float sum = 0.0f;
    for (int64_t i = (int64_t)threadIdx.x; i < a.rows; i += THREADS) {
        const int64_t at = head + i / 64 * a.per_64 + i % 64;
        const float log = a.lse[at] * a.to_log2;
        sum += isinf(log) ? 0.0f : exp2f(own + log) * a.sum[at]; /* no row, or it sees nothing */
    }
    sum = cs_block_sum(sum);
    if (threadIdx.x == 0)
        dsink[blockIdx.x] -= sum;
}

void cs_attention_sink_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                            const struct cs_attention_rows &rows)
{
    if (shape->dsink == nullptr)
        return;
    sink_kernel<<<(unsigned)shape->heads, THREADS, 0, cs_cuda_stream_of(ctx)>>>(rows, shape->sink,
                                                                                shape->dsink);
    CS_CUDA_LAUNCHED(ctx, "attention_grad: sinks");
}
