/* Steps 4 and 5 of the mask builder: from the matrix of cells to the lists. One block per line (a
 * query tile, or a key tile); a line is walked in chunks of one tile per thread. */
#include "kernels/cuda/mask/mask_build.cuh"

/* A line of the matrix: tile i of the other side is element at + i * step. */
struct line_of {
    bool is_key;
    int32_t tile, n; /* which tile of its side; tiles of the other side */
    int64_t at, step;
};

__device__ static struct line_of own_line(const struct cs_mask_cells &cells)
{
    const int32_t line = (int32_t)blockIdx.x;
    if (line < cells.n_q)
        return {false, line, cells.n_k, (int64_t)line * cells.n_k, 1};
    return {true, line - cells.n_q, cells.n_q, line - cells.n_q, cells.n_k};
}

__device__ static int count_some(const int4 &c)
{
    return (c.x != CS_CELL_NONE) + (c.y != CS_CELL_NONE) + (c.z != CS_CELL_NONE) +
           (c.w != CS_CELL_NONE);
}

__device__ static bool has_bitmap(const int4 &c)
{
    return c.x >= 0 || c.y >= 0 || c.z >= 0 || c.w >= 0;
}

/* How many flags of lower threads are set; *sum: of all. */
__device__ static int32_t flags_before(bool flag, int32_t *sum)
{
    __shared__ int32_t warp_sum[CS_MASK_THREADS / 32];
    const uint32_t ballot = __ballot_sync(0xffffffffu, flag);
    const int warp = (int)threadIdx.x / 32;
    __syncthreads(); /* the last sums have been read */
    if (threadIdx.x % 32 == 0)
        warp_sum[warp] = __popc(ballot);
    __syncthreads();
    int32_t before = __popc(ballot & ((1u << threadIdx.x % 32) - 1));
    *sum = 0;
    for (int w = 0; w < CS_MASK_THREADS / 32; w++) {
        before += w < warp ? warp_sum[w] : 0;
        *sum += warp_sum[w];
    }
    return before;
}

__device__ static int32_t block_sum(int32_t x)
{
    __shared__ int32_t warp_sum[CS_MASK_THREADS / 32];
    x = __reduce_add_sync(0xffffffffu, x);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        warp_sum[threadIdx.x / 32] = x;
    __syncthreads();
    return warp_sum[0] + warp_sum[1] + warp_sum[2] + warp_sum[3];
}

__global__ void __launch_bounds__(CS_MASK_THREADS)
    rank_kernel(struct cs_mask_cells cells, struct cs_mask_scratch s)
{
    const struct line_of line = own_line(cells);
    /* a query tile ranks the keys it meets, and the other way round */
    uint16_t *rank = line.is_key ? s.rank_of_q : s.rank_of_k;
    int32_t count = 0, plain = 0, cost = 0;
    for (int32_t first = 0; first < line.n; first += CS_MASK_THREADS) {
        const int32_t i = first + (int32_t)threadIdx.x;
        const int64_t at = line.at + i * line.step;
        const int4 none = make_int4(CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE);
        const int4 cell = i < line.n ? s.cell[at] : none;
        const int some = count_some(cell);
        int32_t sum;
        const int32_t before = flags_before(some > 0, &sum);
        if (some > 0)
            rank[at] = (uint16_t)(count + before);
        count += sum;
        plain += some > 0 && !has_bitmap(cell);
        cost += some;
    }
    plain = block_sum(plain);
    cost = block_sum(cost);
    if (threadIdx.x == 0)
        s.line[blockIdx.x] = {count, plain, cost};
}

/* Where the line stands among those of its side: falling cost, then ascending. */
__device__ static void put_in_order(const struct cs_mask_list &list, const struct cs_line *side,
                                    int32_t own)
{
    const int32_t cost = side[own].cost;
    int32_t before = 0;
    for (int32_t i = (int32_t)threadIdx.x; i < list.n; i += CS_MASK_THREADS)
        before += side[i].cost > cost || (side[i].cost == cost && i < own);
    before = block_sum(before);
    if (threadIdx.x == 0)
        list.order[before] = own;
}

__global__ void __launch_bounds__(CS_MASK_THREADS)
    list_kernel(struct cs_mask_cells cells, struct cs_mask_scratch s)
{
    const struct line_of line = own_line(cells);
    const struct cs_mask_list list = line.is_key ? cells.by_k : cells.by_q;
    const uint16_t *rank = line.is_key ? s.rank_of_k : s.rank_of_q;
    const int64_t to = (int64_t)line.tile * list.stride;
    int32_t plain = 0, partial = s.line[blockIdx.x].plain;
    for (int32_t first = 0; first < line.n; first += CS_MASK_THREADS) {
        const int32_t i = first + (int32_t)threadIdx.x;
        const int64_t at = line.at + i * line.step;
        const int4 none = make_int4(CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE);
        const int4 cell = i < line.n ? s.cell[at] : none;
        const bool is_some = count_some(cell) > 0, is_partial = is_some && has_bitmap(cell);
        int32_t plains, partials;
        const int32_t plain_before = flags_before(is_some && !is_partial, &plains);
        const int32_t partial_before = flags_before(is_partial, &partials);
        if (is_some) {
            const int64_t own = to + (is_partial ? partial + partial_before : plain + plain_before);
            list.entry[own] = (uint32_t)i | (uint32_t)rank[at] << 16;
            ((int4 *)list.cell)[own] = cell;
        }
        plain += plains;
        partial += partials;
    }
    if (threadIdx.x == 0)
        list.count[line.tile] = s.line[blockIdx.x].count;
    put_in_order(list, s.line + (line.is_key ? cells.n_q : 0), line.tile);
}

void cs_mask_lists(struct cs_ctx *ctx, const struct cs_mask_cells *cells,
                   const struct cs_mask_scratch *scratch)
{
    const unsigned lines = (unsigned)(cells->n_q + cells->n_k);
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    rank_kernel<<<lines, CS_MASK_THREADS, 0, stream>>>(*cells, *scratch);
    CS_CUDA_LAUNCHED(ctx, "mask_build");
    list_kernel<<<lines, CS_MASK_THREADS, 0, stream>>>(*cells, *scratch);
    CS_CUDA_LAUNCHED(ctx, "mask_build");
}
