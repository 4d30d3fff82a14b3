/* Mixtures of experts: the choice of experts for every row, and its gradient; products with the
 * experts' matrices are in experts_linear.cu. Contracts: kernels/ops.h. A warp works on a row; pairs
 * are sorted by counting, so places do not depend on any order of execution. */
#include "kernels/cuda/cuda_ops.cuh"

#define THREADS   256
#define WARPS     (THREADS / 32)
#define LANE_MAX  (CS_MOE_MAX_EXPERTS / 32) /* experts of a lane: lane, lane + 32 ... */
#define ALL_LANES 0xffffffffu
#define BLOCKS    132 /* of sums over rows */

struct route_args {
    int64_t rows, counted;
    int32_t experts, top_k;
    bool is_normed;
    struct cs_moe_routes to;
};

/* Lane's part of the row's logits; -inf where there is no expert. */
template <typename T>
__device__ static void load_logits(const route_args &g, const T *logits, int64_t row, int lane,
                                   float v[LANE_MAX])
{
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++) {
        const int e = lane + 32 * i;
        v[i] = e < g.experts ? cs_to_float(logits[row * g.experts + e]) : -INFINITY;
    }
}

/* logits become probabilities; 0 where there is no expert */
__device__ static void softmax(float v[LANE_MAX])
{
    float most = -INFINITY, sum = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        most = fmaxf(most, v[i]);
    most = cs_warp_max(most);
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++) {
        v[i] = v[i] == -INFINITY ? 0.0f : expf(v[i] - most);
        sum += v[i];
    }
    sum = cs_warp_sum(sum);
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        v[i] /= sum;
}

/* the value of an expert, to all lanes */
__device__ static float value_of(const float v[LANE_MAX], int expert)
{
    float mine = 0.0f;
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        mine = expert / 32 == i ? v[i] : mine;
    return __shfl_sync(ALL_LANES, mine, expert % 32);
}

/* The best of the lane's experts that is not taken, -1: none. */
__device__ static int best_of_lane(const route_args &g, const float v[LANE_MAX], unsigned taken,
                                   int lane, float *value)
{
    int best = -1;
    *value = -INFINITY;
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++) {
        const bool is_open = lane + 32 * i < g.experts && (taken >> i & 1u) == 0;
        if (is_open && (best < 0 || v[i] > *value)) {
            best = lane + 32 * i;
            *value = v[i];
        }
    }
    return best;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) choose_kernel(route_args g, const T *logits)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (row >= g.rows)
        return;
    float v[LANE_MAX];
    unsigned taken = 0;
    load_logits(g, logits, row, lane, v);
    for (int k = 0; k < g.top_k; k++) {
        float value;
        int best = best_of_lane(g, v, taken, lane, &value);
        for (int width = 16; width > 0; width /= 2) {
            const float other = __shfl_xor_sync(ALL_LANES, value, width);
            const int whose = __shfl_xor_sync(ALL_LANES, best, width);
            const bool is_better = best < 0 || other > value || (!(value > other) && whose < best);
            if (whose >= 0 && is_better) {
                value = other;
                best = whose;
            }
        }
        if (best % 32 == lane)
            taken |= 1u << (best / 32);
        if (lane == 0)
            g.to.expert[row * g.top_k + k] = best;
    }
}

/* Block e finds the first place of expert e and gives its pairs their places. Block `experts` has no
 * pairs and writes the end. */
__global__ static void __launch_bounds__(THREADS) place_kernel(route_args g)
{
    __shared__ int in_warp[WARPS];
    const int e = (int)blockIdx.x, warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t pairs = g.rows * g.top_k;
    int before = 0;
    for (int64_t i = threadIdx.x; i < pairs; i += THREADS)
        before += g.to.expert[i] < e;
    int at = cs_block_sum(before);
    if (threadIdx.x == 0)
        g.to.first[e] = at;
    for (int64_t from = 0; e < g.experts && from < pairs; from += THREADS) {
        const int64_t i = from + threadIdx.x;
        const bool is_mine = i < pairs && g.to.expert[i] == e;
        const unsigned all = __ballot_sync(ALL_LANES, is_mine);
        __syncthreads();
        if (lane == 0)
            in_warp[warp] = __popc(all);
        __syncthreads();
        int place = at + __popc(all & ((1u << lane) - 1u));
        for (int w = 0; w < WARPS; w++) {
            place += w < warp ? in_warp[w] : 0;
            at += in_warp[w];
        }
        if (is_mine) {
            g.to.place[i] = place;
            g.to.token[place] = (int32_t)(i / g.top_k);
        }
    }
}

/* what the probabilities of the row's experts are divided by */
__device__ static float sum_of(const route_args &g, int64_t row, const float p[LANE_MAX])
{
    float sum = 0.0f;
    for (int k = 0; g.is_normed && k < g.top_k; k++)
        sum += value_of(p, g.to.expert[row * g.top_k + k]);
    return g.is_normed ? sum : 1.0f;
}

template <typename T>
__global__ void __launch_bounds__(THREADS) weigh_kernel(route_args g, const T *logits)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (row >= g.rows)
        return;
    float p[LANE_MAX];
    load_logits(g, logits, row, lane, p);
    softmax(p);
    const float sum = sum_of(g, row, p);
    for (int k = 0; k < g.top_k; k++) {
        const float value = value_of(p, g.to.expert[row * g.top_k + k]);
        if (lane == 0)
            g.to.weight[g.to.place[row * g.top_k + k]] = value / sum;
    }
}

/* A warp adds up its rows, a block its warps, then all blocks add: whole numbers, in any order. A row of
 * NaN has no probability. */
template <typename T>
__global__ void __launch_bounds__(THREADS) load_kernel(route_args g, const T *logits, int64_t *load)
{
    __shared__ unsigned long long sum[CS_MOE_LOADS * CS_MOE_MAX_EXPERTS];
    const int lane = (int)threadIdx.x % 32, n = CS_MOE_LOADS * g.experts;
    int64_t units[LANE_MAX] = {0};
    float p[LANE_MAX];
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        sum[i] = 0;
    __syncthreads();
    for (int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32; row < g.counted;
         row += (int64_t)gridDim.x * WARPS) {
        load_logits(g, logits, row, lane, p);
        softmax(p);
#pragma unroll
        for (int i = 0; i < LANE_MAX; i++)
            units[i] += p[i] >= 0.0f ? (int64_t)((double)p[i] * CS_MOE_UNIT + 0.5) : 0;
        for (int k = lane; k < g.top_k; k += 32)
            atomicAdd(&sum[g.to.expert[row * g.top_k + k]], 1ull);
    }
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        if (lane + 32 * i < g.experts)
            atomicAdd(&sum[g.experts + lane + 32 * i], (unsigned long long)units[i]);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < n; i += THREADS)
        if (sum[i] != 0)
            atomicAdd((unsigned long long *)&load[i], sum[i]);
}

/* dp: what the row's weights and the balancing loss ask of the lane's probabilities */
__device__ static void probabilities_grad(const route_args &g, int64_t row, int lane,
                                          const float p[LANE_MAX], const float *dweight,
                                          float balance, const int64_t *pairs, float dp[LANE_MAX])
{
    const int32_t *chosen = g.to.expert + row * g.top_k, *place = g.to.place + row * g.top_k;
    const float sum = sum_of(g, row, p);
    float shared = 0.0f;
    for (int k = 0; g.is_normed && k < g.top_k; k++)
        shared += dweight[place[k]] * value_of(p, chosen[k]) / sum;
    const bool is_counted = row < g.counted && pairs != NULL;
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++) {
        const int e = lane + 32 * i;
        dp[i] = is_counted && e < g.experts ? (float)((double)balance * (double)pairs[e]) : 0.0f;
        for (int k = 0; k < g.top_k; k++)
            dp[i] += chosen[k] == e ? (dweight[place[k]] - shared) / sum : 0.0f;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    route_grad_kernel(route_args g, const T *logits, const float *dweight, float balance,
                      const int64_t *pairs, T *dlogits)
{
    const int64_t row = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    const int lane = (int)threadIdx.x % 32;
    if (row >= g.rows)
        return;
    float p[LANE_MAX], dp[LANE_MAX], along = 0.0f;
    load_logits(g, logits, row, lane, p);
    softmax(p);
    probabilities_grad(g, row, lane, p, dweight, balance, pairs, dp);
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        along += p[i] * dp[i];
    along = cs_warp_sum(along);
#pragma unroll
    for (int i = 0; i < LANE_MAX; i++)
        if (lane + 32 * i < g.experts)
            dlogits[row * g.experts + lane + 32 * i] = cs_from_float<T>(p[i] * (dp[i] - along));
}

static bool begin(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                  const struct cs_moe_routes *routes, route_args *g)
{
    if (shape->experts > CS_MOE_MAX_EXPERTS || shape->top_k > shape->experts) {
        CS_CUDA_REFUSE(ctx, CS_INTERNAL, "%d of %d experts, of %d at most", shape->top_k,
                       shape->experts, CS_MOE_MAX_EXPERTS);
        return false;
    }
    *g = {rows, shape->counted, shape->experts, shape->top_k, shape->is_normed, *routes};
    return rows > 0;
}

static unsigned warps_of(int64_t rows)
{
    return (unsigned)((rows + WARPS - 1) / WARPS);
}

template <typename T>
void cs_cuda_moe_route(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                       const void *logits, const struct cs_moe_routes *routes)
{
    route_args g;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    if (!begin(ctx, shape, rows, routes, &g))
        return;
    choose_kernel<T><<<warps_of(rows), THREADS, 0, stream>>>(g, (const T *)logits);
    place_kernel<<<(unsigned)shape->experts + 1, THREADS, 0, stream>>>(g);
    weigh_kernel<T><<<warps_of(rows), THREADS, 0, stream>>>(g, (const T *)logits);
    CS_CUDA_LAUNCHED(ctx, "moe_route");
}

template <typename T>
void cs_cuda_moe_load(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes, int64_t *load)
{
    route_args g;
    if (!begin(ctx, shape, rows, routes, &g))
        return;
    g.counted = g.counted < rows ? g.counted : rows;
    const unsigned blocks = warps_of(g.counted) < BLOCKS ? warps_of(g.counted) : BLOCKS;
    if (blocks > 0)
        load_kernel<T><<<blocks, THREADS, 0, cs_cuda_stream_of(ctx)>>>(g, (const T *)logits, load);
    CS_CUDA_LAUNCHED(ctx, "moe_load");
}

template <typename T>
void cs_cuda_moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                            const void *logits, const struct cs_moe_routes *routes,
                            const float *dweight, float balance, const int64_t *pairs,
                            void *dlogits)
{
    route_args g;
    if (!begin(ctx, shape, rows, routes, &g))
        return;
    route_grad_kernel<T><<<warps_of(rows), THREADS, 0, cs_cuda_stream_of(ctx)>>>(
        g, (const T *)logits, dweight, balance, pairs, (T *)dlogits);
    CS_CUDA_LAUNCHED(ctx, "moe_route_grad");
}

__global__ static void __launch_bounds__(THREADS)
    add_counts_kernel(int64_t n, const int64_t *x, int64_t *y)
{
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < n)
        y[i] += x[i];
}

void cs_cuda_add_counts(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y)
{
    if (n <= 0)
        return;
    add_counts_kernel<<<(unsigned)((n + THREADS - 1) / THREADS), THREADS, 0,
                        cs_cuda_stream_of(ctx)>>>(n, x, y);
    CS_CUDA_LAUNCHED(ctx, "add_counts");
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_moe_route<T>(struct cs_ctx *, const struct cs_moe_shape *, int64_t,      \
                                       const void *, const struct cs_moe_routes *);                \
    template void cs_cuda_moe_load<T>(struct cs_ctx *, const struct cs_moe_shape *, int64_t,       \
                                      const void *, const struct cs_moe_routes *, int64_t *);      \
    template void cs_cuda_moe_route_grad<T>(struct cs_ctx *, const struct cs_moe_shape *, int64_t, \
                                            const void *, const struct cs_moe_routes *,            \
                                            const float *, float, const int64_t *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
