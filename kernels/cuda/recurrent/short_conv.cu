/* The short causal convolution of recurrent layers with its SiLU; contract in kernels/ops.h.
 *
 * Bound by memory: a thread has four neighbouring channels (8 bytes of bf16: as few as leave registers
 * for many threads, who hide the memory's latency) and walks down SPAN rows of them with the last rows in
 * registers, so every row is read once (and a few again where a span begins); AHEAD rows are asked for
 * before the first of them is worked on. Before a document's first row the registers are zeros. Backward
 * the same walk goes on behind the span for the rows that its last ones feed; gradients of rows wait in
 * registers until all of their taps have come. Gradients of weights: sums of a thread over its rows, of a
 * block's warps in shared memory, of blocks in the scratch of the handle, in this order whatever the
 * launch. */
#include "kernels/cuda/colsum.cuh"

#define WARPS   8
#define THREADS (32 * WARPS)
#define SPAN    32 /* rows of a thread in one go */
#define AHEAD   4  /* divides SPAN */
#define PACK    4  /* channels of a thread */

struct conv_args {
    int64_t rows, channels, ldx, ldy;
    int32_t taps;
    int64_t stripe_rows; /* of a block; backward */
    bool is_whole;       /* all packs are there and aligned */
    const int32_t *doc;
    const void *x, *w, *dy;
    void *y, *dx;
    float *part; /* (blocks, channels * taps), NULL: not needed */
};

__device__ static float sigmoid(float x)
{
    return 1.0f / (1.0f + __expf(-x));
}

/* PACK elements of a row as they are, count of them there */
template <typename T> struct alignas(PACK * sizeof(T)) pack {
    T x[PACK];
};

template <typename T> __device__ static pack<T> load_pack(const T *p, int64_t count, bool is_whole)
{
    if (is_whole)
        return *(const pack<T> *)p;
    pack<T> out;
#pragma unroll
    for (int i = 0; i < PACK; i++)
        out.x[i] = i < count ? p[i] : cs_from_float<T>(0.0f);
    return out;
}

template <typename T>
__device__ static void store_pack(T *p, int64_t count, bool is_whole, const float (&x)[PACK])
{
    pack<T> out;
#pragma unroll
    for (int i = 0; i < PACK; i++)
        out.x[i] = cs_from_float<T>(x[i]);
    if (is_whole) {
        *(pack<T> *)p = out;
        return;
    }
#pragma unroll
    for (int i = 0; i < PACK; i++)
        if (i < count)
            p[i] = out.x[i];
}

/* The walk of a thread down its channels: rows before the one that it is at. TAPS: at least s.taps. */
template <typename T, int TAPS> struct walk {
    const conv_args &s;
    const int64_t channel;
    float w[TAPS][PACK], before[TAPS][PACK]; /* by how many rows back; before[0]: this row */
    int age; /* rows of its document before this one, TAPS at most */

    __device__ walk(const conv_args &of, int64_t at) : s(of), channel(at)
    {
#pragma unroll
        for (int t = 0; t < TAPS; t++)
#pragma unroll
            for (int i = 0; i < PACK; i++)
                w[t][i] =
                    t < s.taps && channel + i < s.channels
                        ? cs_to_float(((const T *)s.w)[(channel + i) * s.taps + s.taps - 1 - t])
                        : 0.0f;
    }

    /* of x or dy; zeros behind the last row */
    __device__ pack<T> read(const void *x, int64_t ld, int64_t row) const
    {
        if (row >= s.rows)
            return {};
        return load_pack((const T *)x + row * ld + channel, s.channels - channel, s.is_whole);
    }

    /* whether a document begins with the row */
    __device__ bool is_new(int64_t row) const
    {
        return row == 0 || (row < s.rows && s.doc[row] != s.doc[row - 1]);
    }

    /* Before the row: what next() then moves on from. */
    __device__ void begin(int64_t row)
    {
        age = 0;
#pragma unroll
        for (int t = 0; t < TAPS; t++) {
            const bool is_own = row - t > 0 && s.doc[row - 1 - t] == s.doc[row] && age == t;
            pack<T> x = {};
            if (is_own) {
                age = t + 1;
                x = read(s.x, s.ldx, row - 1 - t);
            }
#pragma unroll
            for (int i = 0; i < PACK; i++)
                before[t][i] = is_own ? cs_to_float(x.x[i]) : 0.0f;
        }
        age--; /* of the row before */
    }

    /* To the next row, which is x. */
    __device__ void next(const pack<T> &x, bool begins)
    {
        age = begins ? 0 : min(age + 1, TAPS);
#pragma unroll
        for (int t = TAPS - 1; t > 0; t--)
#pragma unroll
            for (int i = 0; i < PACK; i++)
                before[t][i] = begins ? 0.0f : before[t - 1][i];
#pragma unroll
        for (int i = 0; i < PACK; i++)
            before[0][i] = cs_to_float(x.x[i]);
    }

    __device__ float sum(int i) const
    {
        float x = 0.0f;
#pragma unroll
        for (int t = 0; t < TAPS; t++)
            x += w[t][i] * before[t][i];
        return x;
    }
};

template <typename T, int TAPS>
__global__ void __launch_bounds__(THREADS, TAPS > 4 ? 1 : 3) conv_kernel(conv_args s)
{
    const int64_t channel = ((int64_t)blockIdx.x * 32 + threadIdx.x % 32) * PACK;
    const int64_t first = ((int64_t)blockIdx.y * WARPS + threadIdx.x / 32) * SPAN;
    if (channel >= s.channels || first >= s.rows)
        return;
    const int64_t end = min(first + SPAN, s.rows);
    walk<T, TAPS> at(s, channel);
    at.begin(first);
    for (int64_t row = first; row < end; row += AHEAD) {
        pack<T> x[AHEAD];
        bool begins[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            x[k] = at.read(s.x, s.ldx, row + k);
            begins[k] = at.is_new(row + k);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            float y[PACK];
            at.next(x[k], begins[k]);
#pragma unroll
            for (int i = 0; i < PACK; i++) {
                const float sum = at.sum(i);
                y[i] = sum * sigmoid(sum);
            }
            if (row + k < end)
                store_pack((T *)s.y + (row + k) * s.ldy + channel, s.channels - channel, s.is_whole,
                           y);
        }
    }
}

/* Gradients of a thread's rows and, in dw, of its weights */
template <typename T, int TAPS>
__device__ static void grad_span(const conv_args &s, walk<T, TAPS> &at, int64_t first, int64_t end,
                                 float (&dw)[TAPS][PACK])
{
    float wait[TAPS][PACK] = {}; /* gradients of the row and of those before it */
    at.begin(first);
    for (int64_t base = first; base < end + TAPS - 1; base += AHEAD) {
        pack<T> x[AHEAD], dy[AHEAD];
        bool begins[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            x[k] = at.read(s.x, s.ldx, base + k);
            dy[k] = at.read(s.dy, s.ldy, base + k);
            begins[k] = at.is_new(base + k);
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            const int64_t row = base + k, done = row - (TAPS - 1);
            float pull[PACK];
            at.next(x[k], begins[k]);
#pragma unroll
            for (int i = 0; i < PACK; i++) { /* times the slope of silu */
                const float sum = at.sum(i), gate = sigmoid(sum);
                pull[i] = cs_to_float(dy[k].x[i]) * gate * (1.0f + sum * (1.0f - gate));
            }
#pragma unroll
            for (int t = TAPS - 1; t > 0; t--)
#pragma unroll
                for (int i = 0; i < PACK; i++)
                    wait[t][i] = wait[t - 1][i] + (t <= at.age ? at.w[t][i] * pull[i] : 0.0f);
#pragma unroll
            for (int i = 0; i < PACK; i++)
                wait[0][i] = at.w[0][i] * pull[i];
#pragma unroll
            for (int t = 0; t < TAPS; t++) /* before[] is zeros where the document is not */
#pragma unroll
                for (int i = 0; i < PACK; i++)
                    dw[t][i] += row < end ? pull[i] * at.before[t][i] : 0.0f;
            if (done >= first && done < end)
                store_pack((T *)s.dx + done * s.ldx + at.channel, s.channels - at.channel,
                           s.is_whole, wait[TAPS - 1]);
        }
    }
}

template <typename T, int TAPS>
__global__ void __launch_bounds__(THREADS, TAPS > 4 ? 1 : 2) conv_grad_kernel(conv_args s)
{
    __shared__ float all[WARPS][32 * PACK];
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t channel = ((int64_t)blockIdx.x * 32 + lane) * PACK;
    const int64_t begin = blockIdx.y * s.stripe_rows, end = min(begin + s.stripe_rows, s.rows);
    float dw[TAPS][PACK] = {};
    if (channel < s.channels) {
        walk<T, TAPS> at(s, channel);
        for (int64_t first = begin + warp * SPAN; first < end; first += WARPS * SPAN)
            grad_span<T, TAPS>(s, at, first, min(first + SPAN, end), dw);
    }
    if (s.part == nullptr)
        return;
#pragma unroll
    for (int t = 0; t < TAPS; t++) {
        __syncthreads();
#pragma unroll
        for (int i = 0; i < PACK; i++)
            all[warp][lane * PACK + i] = dw[t][i];
        __syncthreads();
        const int64_t own = (int64_t)blockIdx.x * 32 * PACK + threadIdx.x;
        if (threadIdx.x >= 32 * PACK || t >= s.taps || own >= s.channels)
            continue;
        float sum = 0.0f;
        for (int k = 0; k < WARPS; k++)
            sum += all[k][threadIdx.x];
        s.part[(int64_t)blockIdx.y * s.channels * s.taps + own * s.taps + s.taps - 1 - t] = sum;
    }
}

/* Is x (NULL: yes) made of whole packs with rows ld apart? */
template <typename T> static bool is_whole(const void *x, int64_t ld, int64_t channels)
{
    return channels % PACK == 0 && ld % PACK == 0 && (uintptr_t)x % (PACK * sizeof(T)) == 0;
}

static conv_args conv_args_of(const struct cs_mask_plan *mask, int64_t channels, int32_t taps,
                              const void *x, int64_t ldx, const void *w, int64_t ldy)
{
    conv_args s = {};
    s.rows = mask->n_tokens, s.channels = channels, s.ldx = ldx, s.ldy = ldy, s.taps = taps;
    s.doc = mask->doc, s.x = x, s.w = w;
    return s;
}

static unsigned packs_of(int64_t channels)
{
    return (unsigned)((channels + 32 * PACK - 1) / (32 * PACK));
}

static bool is_legal(struct cs_ctx *ctx, int32_t taps)
{
    if (taps >= 1 && taps <= CS_SHORT_CONV_TAPS)
        return true;
    CS_CUDA_REFUSE(ctx, CS_INTERNAL, "short_conv: %d taps, 1 to %d can be", taps,
                   CS_SHORT_CONV_TAPS);
    return false;
}

template <typename T>
void cs_cuda_short_conv(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                        int32_t taps, const void *x, int64_t ldx, const void *w, void *y,
                        int64_t ldy)
{
    if (mask->n_tokens <= 0 || channels <= 0 || !is_legal(ctx, taps))
        return;
    conv_args s = conv_args_of(mask, channels, taps, x, ldx, w, ldy);
    s.y = y;
    s.is_whole = is_whole<T>(x, ldx, channels) && is_whole<T>(y, ldy, channels);
    const dim3 grid(packs_of(channels), (unsigned)((s.rows + WARPS * SPAN - 1) / (WARPS * SPAN)));
    auto *const kernel = taps <= 4 ? conv_kernel<T, 4> : conv_kernel<T, CS_SHORT_CONV_TAPS>;
    kernel<<<grid, THREADS, 0, cs_cuda_stream_of(ctx)>>>(s);
    CS_CUDA_LAUNCHED(ctx, "short_conv");
}

template <typename T>
void cs_cuda_short_conv_grad(struct cs_ctx *ctx, const struct cs_mask_plan *mask, int64_t channels,
                             int32_t taps, const void *x, int64_t ldx, const void *w,
                             const void *dy, int64_t ldy, void *dx, void *dw)
{
    if (mask->n_tokens <= 0 || channels <= 0 || !is_legal(ctx, taps))
        return;
    conv_args s = conv_args_of(mask, channels, taps, x, ldx, w, ldy);
    const int64_t fit = (int64_t)(CS_CUDA_SCRATCH_BYTES / sizeof(float)) / (channels * taps);
    if (dw != nullptr && fit < 1) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT, "short_conv_grad of %lld channels", (long long)channels);
        return;
    }
    int64_t stripes = (s.rows + WARPS * SPAN - 1) / (WARPS * SPAN);
    stripes = dw == nullptr || stripes < fit ? stripes : fit;
    s.stripe_rows = (s.rows + stripes - 1) / stripes;
    stripes = (s.rows + s.stripe_rows - 1) / s.stripe_rows;
    s.dy = dy, s.dx = dx;
    s.is_whole = is_whole<T>(x, ldx, channels) && is_whole<T>(dx, ldx, channels) &&
                 is_whole<T>(dy, ldy, channels);
    s.part = dw != nullptr ? (float *)cs_cuda_handle_of(ctx)->scratch : nullptr;
    auto *const kernel =
        taps <= 4 ? conv_grad_kernel<T, 4> : conv_grad_kernel<T, CS_SHORT_CONV_TAPS>;
    kernel<<<dim3(packs_of(channels), (unsigned)stripes), THREADS, 0, cs_cuda_stream_of(ctx)>>>(s);
    CS_CUDA_LAUNCHED(ctx, "short_conv_grad");
    if (dw != nullptr)
        cs_colsum_finish<1>(ctx, channels * taps, (int)stripes, s.part, dw, nullptr);
}

#define INSTANTIATE(T)                                                                             \
    template void cs_cuda_short_conv<T>(struct cs_ctx *, const struct cs_mask_plan *, int64_t,     \
                                        int32_t, const void *, int64_t, const void *, void *,      \
                                        int64_t);                                                  \
    template void cs_cuda_short_conv_grad<T>(struct cs_ctx *, const struct cs_mask_plan *,         \
                                             int64_t, int32_t, const void *, int64_t,              \
                                             const void *, const void *, int64_t, void *, void *);
INSTANTIATE(float)
INSTANTIATE(__nv_bfloat16)
