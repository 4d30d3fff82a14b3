/* Step 3 of the mask builder: a block asks the rule for every pair of a cell. Its bitmap is looked
 * up in a table by hash; who comes first stores it, who comes later waits until it is there and
 * compares, so equal hashes of different bitmaps do no harm. The waiting is short and ends: the one
 * waited for is running and waits for nobody. */
#include "kernels/cuda/mask/mask_build.cuh"

#define BLOCKS_PER_PROCESSOR 12

/* A cell in the work of one block. */
struct work {
    uint64_t row[CS_MASK_CELL]; /* row: query, bit: key */
    struct cs_mask_token query[CS_MASK_CELL];
    unsigned long long sum[CS_MASK_THREADS / 32]; /* of the hash */
    unsigned long long found;
    int32_t number;
};

/* Warp w asks for rows 16 w to 16 w + 15, a lane for keys lane and lane + 32. */
__device__ static void ask(struct cs_mask_rule rule, const struct cs_mask_plan &q,
                           const struct cs_mask_plan &k, int32_t q0, int32_t rows, int32_t k0,
                           int32_t columns, struct work *w)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    struct cs_mask_token key[2] = {};
    for (int i = 0; i < 2; i++)
        if (lane + 32 * i < columns)
            key[i] = cs_mask_token_of(k, k0 + lane + 32 * i); /* else a word of 0: never seen */
    if ((int)threadIdx.x < CS_MASK_CELL)
        w->query[threadIdx.x] = (int)threadIdx.x < rows
                                    ? cs_mask_token_of(q, q0 + (int32_t)threadIdx.x)
                                    : cs_mask_token{};
    __syncthreads();
    for (int i = 0; i < CS_MASK_CELL / 4; i++) {
        const int row = warp * (CS_MASK_CELL / 4) + i;
        const struct cs_mask_token query = w->query[row];
        const uint32_t low = __ballot_sync(0xffffffffu, cs_mask_allows(rule, query, key[0]));
        const uint32_t high = __ballot_sync(0xffffffffu, cs_mask_allows(rule, query, key[1]));
        if (lane == 0)
            w->row[row] = low | (uint64_t)high << 32;
    }
    __syncthreads();
}

/* Finaliser of SplitMix64 (Steele, Lea and Flood 2014). */
__device__ static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Never 0; the same in all threads. */
__device__ static unsigned long long hash(uint32_t word, struct work *w)
{
    const uint64_t salt = (threadIdx.x + 1) * UINT64_C(0x9e3779b97f4a7c15);
    const unsigned long long sum = cs_warp_sum((unsigned long long)mix(salt + word));
    if (threadIdx.x % 32 == 0)
        w->sum[threadIdx.x / 32] = sum;
    __syncthreads();
    const unsigned long long all = w->sum[0] + w->sum[1] + w->sum[2] + w->sum[3];
    return all != 0 ? all : 1;
}

__device__ static int32_t wait_for(const int32_t *number)
{
    int32_t value;
    do
        asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(number) : "memory");
    while (value == 0);
    return value - 1;
}

/* The first to come: number the bitmap, store it, say so. */
__device__ static int32_t store(const struct cs_mask_cells &cells, int32_t *number, uint32_t word,
                                struct work *w)
{
    if (threadIdx.x == 0)
        w->number = atomicAdd(cells.n_bitmaps, 1);
    __syncthreads();
    const int32_t own = w->number;
    if (own < cells.bitmap_room) {
        const int64_t at = (int64_t)own * CS_MASK_TILE + threadIdx.x;
        cells.bits_q[at] = word;
        cells.bits_k[at] = cs_mask_cell_word_t(w->row, (int)threadIdx.x);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        atomicExch(number, own + 1);
    return own;
}

/* The number of the bitmap; one that is not below the room when there is no room for it. */
__device__ static int32_t number_of(const struct cs_mask_cells &cells,
                                    const struct cs_mask_scratch &s, uint32_t word, struct work *w)
{
    const unsigned long long own = hash(word, w);
    uint32_t at = (uint32_t)own & (s.slots - 1);
    for (uint32_t probe = 0; probe < s.slots; probe++, at = (at + 1) & (s.slots - 1)) {
        __syncthreads(); /* found and number of the last round have been read */
        if (threadIdx.x == 0) {
            w->found = atomicCAS(&s.key[at], 0ull, own);
            if (w->found == own)
                w->number = wait_for(&s.number[at]);
        }
        __syncthreads();
        if (w->found == 0)
            return store(cells, &s.number[at], word, w);
        if (w->found != own)
            continue;
        const int32_t number = w->number;
        if (number >= cells.bitmap_room)
            return number;
        const uint32_t *bits = cells.bits_q + (int64_t)number * CS_MASK_TILE;
        if (__syncthreads_and(__ldcg(bits + threadIdx.x) == word))
            return number;
    }
    return cells.bitmap_room;
}

__global__ void __launch_bounds__(CS_MASK_THREADS)
    evaluate_kernel(struct cs_mask_plan q, struct cs_mask_plan k, struct cs_mask_cells cells,
                    struct cs_mask_scratch s)
{
    __shared__ struct work w;
    const uint32_t n = *s.n_ask;
    unsigned long long pairs = 0;
    for (uint32_t i = blockIdx.x; i < n; i += gridDim.x) {
        const uint32_t id = s.ask[i], tile = id / CS_MASK_CELLS, c = id % CS_MASK_CELLS;
        const int32_t t = (int32_t)(tile / (uint32_t)cells.n_k);
        const int32_t u = (int32_t)(tile % (uint32_t)cells.n_k);
        const int32_t q0 = cells.q_row[t] + (int32_t)(c / 2) * CS_MASK_CELL;
        const int32_t k0 = cells.k_row[u] + (int32_t)(c % 2) * CS_MASK_CELL;
        ask(q.rule, q, k, q0, min(CS_MASK_CELL, cells.q_row[t + 1] - q0), k0,
            min(CS_MASK_CELL, cells.k_row[u + 1] - k0), &w);
        const uint32_t word = cs_mask_cell_word(w.row, (int)threadIdx.x);
        pairs += (unsigned)__popc(word);
        int32_t value = CS_CELL_NONE;
        if (__syncthreads_and(word == 0xffffffffu))
            value = CS_CELL_ALL;
        else if (__syncthreads_or(word != 0))
            value = number_of(cells, s, word, &w);
        if (threadIdx.x == 0)
            ((int32_t *)s.cell)[id] = value;
        __syncthreads(); /* w is free again */
    }
    pairs = cs_warp_sum(pairs);
    if (threadIdx.x % 32 == 0 && pairs > 0)
        atomicAdd((unsigned long long *)cells.pairs, pairs);
}

void cs_mask_evaluate(struct cs_ctx *ctx, const struct cs_mask_plan *q,
                      const struct cs_mask_plan *k, const struct cs_mask_cells *cells,
                      const struct cs_mask_scratch *scratch)
{
    const int processors = cs_cuda_handle_of(ctx)->processors;
    evaluate_kernel<<<(unsigned)(processors * BLOCKS_PER_PROCESSOR), CS_MASK_THREADS, 0,
                      cs_cuda_stream_of(ctx)>>>(*q, *k, *cells, *scratch);
    CS_CUDA_LAUNCHED(ctx, "mask_build");
}
