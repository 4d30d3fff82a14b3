/* The gated delta rule over a part of a document's rows on a GPU: what the rows make of the state that enters
 * them, as a map and what is added, and what they ask of it (kernels/recurrent.h).
 *
 * The state that leaves is the pass through documents with zeros entering. A map is the same pass over a
 * state of its own width, with the identity entering and nothing added by values; what is asked is the
 * pass back. None of them keeps anything but its result. */
#include "kernels/cuda/recurrent/delta_mma.cuh"

enum { JOIN_COLUMNS = 32 };

/* (heads, n, n) */
__global__ void __launch_bounds__(CS_DELTA_THREADS)
    delta_identity_kernel(float *map, int32_t n, int64_t all)
{
    const int64_t i = (int64_t)blockIdx.x * CS_DELTA_THREADS + threadIdx.x;
    if (i < all)
        map[i] = i % ((int64_t)n * n) % (n + 1) == 0 ? 1.0f : 0.0f;
}

template <typename T> static void make_map(struct cs_ctx *ctx, cs_delta_args<T> a, float *map)
{
    const int64_t n = (int64_t)a.heads * a.dk * a.dk;
    const unsigned blocks = (unsigned)((n + CS_DELTA_THREADS - 1) / CS_DELTA_THREADS);
    delta_identity_kernel<<<blocks, CS_DELTA_THREADS, 0, cs_cuda_stream_of(ctx)>>>(map, a.dk, n);
    CS_CUDA_LAUNCHED(ctx, "delta_identity");
    a.dv = a.dk;
    a.dv_pad = a.dk_pad;
    a.u0 = a.u = a.state = nullptr;
    a.enter = a.left = map; /* a block reads the columns that it writes in the end */
    a.documents = a.LAST;
    cs_delta_scan(ctx, a);
}

template <typename T>
void cs_cuda_delta_pass(struct cs_ctx *ctx, const struct cs_delta_shape *shape,
                        const struct cs_mask_plan *mask, const struct cs_delta_in *in,
                        const void *d_o, const struct cs_delta_pass *out)
{
    cs_delta_args<T> a;
    if (mask->n_tokens <= 0 || !cs_delta_args_of(ctx, shape, mask, in, "delta_pass", &a))
        return;
    a.d_o = (const T *)d_o;
    cs_delta_prepare(ctx, a);
    if (out->map != nullptr)
        make_map(ctx, a, out->map);
    if (out->state != nullptr) {
        cs_delta_args<T> leaving = a;
        leaving.u = leaving.state = nullptr;
        leaving.left = out->state;
        leaving.documents = a.LAST;
        cs_delta_scan(ctx, leaving);
    }
    if (out->d_state != nullptr) {
        cs_delta_args<T> asking = a;
        cs_delta_pull(ctx, a);
        asking.d_state = nullptr;
        asking.asked = out->d_state;
        asking.documents = a.FIRST;
        cs_delta_back(ctx, asking);
    }
}

/* A strip of columns of a head: read before it is written. */
__global__ void __launch_bounds__(CS_DELTA_THREADS)
    delta_join_kernel(int32_t dk, int32_t dv, const float *map, bool is_transposed,
                      const float *add, float *state)
{
    extern __shared__ float strip[]; /* (dk, JOIN_COLUMNS) */
    const int col = (int)blockIdx.x * JOIN_COLUMNS + (int)threadIdx.x % JOIN_COLUMNS;
    const int lane = (int)threadIdx.x % JOIN_COLUMNS, first = (int)threadIdx.x / JOIN_COLUMNS;
    constexpr int ROWS = CS_DELTA_THREADS / JOIN_COLUMNS;
    map += (int64_t)blockIdx.y * dk * dk;
    add += (int64_t)blockIdx.y * dk * dv;
    state += (int64_t)blockIdx.y * dk * dv;
    for (int r = first; r < dk; r += ROWS)
        strip[r * JOIN_COLUMNS + lane] = col < dv ? state[(int64_t)r * dv + col] : 0.0f;
    __syncthreads();
    if (col >= dv)
        return;
    for (int r = first; r < dk; r += ROWS) {
        float sum = add[(int64_t)r * dv + col];
        for (int m = 0; m < dk; m++)
            sum += (is_transposed ? map[m * dk + r] : map[r * dk + m]) *
                   strip[m * JOIN_COLUMNS + lane];
        state[(int64_t)r * dv + col] = sum;
    }
}

void cs_cuda_delta_join(struct cs_ctx *ctx, const struct cs_delta_shape *shape, const float *map,
                        bool is_transposed, const float *add, float *state)
{
    const int32_t dk = shape->key_dim, dv = shape->value_dim;
    const dim3 grid((unsigned)((dv + JOIN_COLUMNS - 1) / JOIN_COLUMNS), (unsigned)shape->heads);
    const size_t bytes = (size_t)dk * JOIN_COLUMNS * sizeof(float);
    delta_join_kernel<<<grid, CS_DELTA_THREADS, bytes, cs_cuda_stream_of(ctx)>>>(
        dk, dv, map, is_transposed, add, state);
    CS_CUDA_LAUNCHED(ctx, "delta_join");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_delta_pass<T>(struct cs_ctx *, const struct cs_delta_shape *,            \
                                        const struct cs_mask_plan *, const struct cs_delta_in *,   \
                                        const void *, const struct cs_delta_pass *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
