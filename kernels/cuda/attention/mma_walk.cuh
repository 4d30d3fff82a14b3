/* Who does what: a block owns rows of one side (queries or keys) of one head and walks over the
 * cells of the mask that these rows have with the other side, in steps of STEP rows. */
#ifndef CS_KERNELS_CUDA_ATTENTION_MMA_WALK_CUH
#define CS_KERNELS_CUDA_ATTENTION_MMA_WALK_CUH

#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/attention/mma_tile.cuh"

/* The mask as one side sees it. */
struct cs_mma_side {
    int32_t n, stride; /* tiles of this side; room per tile of the lists */
    const int32_t *row, *other_row, *count, *order;
    const uint32_t *entry;
    const int4 *cell;
    const uint32_t *bits; /* rows are of this side */
    int32_t heads;        /* a column of blocks each: query heads, or kv heads */
    int32_t section;      /* heads that are worked on at the same time */
    bool is_key;
};

static inline struct cs_mma_side cs_mma_side_of(const struct cs_mask_cells *c, bool is_key,
                                                int32_t heads, int32_t section)
{
    const struct cs_mask_list *list = is_key ? &c->by_k : &c->by_q;
    return {list->n,
            list->stride,
            is_key ? c->k_row : c->q_row,
            is_key ? c->q_row : c->k_row,
            list->count,
            list->order,
            list->entry,
            (const int4 *)list->cell,
            is_key ? c->bits_k : c->bits_q,
            heads,
            section,
            is_key};
}

/* How many kv heads are worked on together: so few that what they walk over, rows of two matrices
 * each, stays in the L2 cache of an A100 or H100 (40 and 50 MB, of which each half of the chip sees
 * one half near), but so many that the last blocks, which are short, fill the card while the long
 * ones end. items: of a kv head. */
static inline int32_t cs_mma_section(const struct cs_ctx *ctx, const struct cs_attention_shape *s,
                                     int64_t rows, int64_t items)
{
    const int64_t bytes = rows * s->head_dim * 4 + 1,
                  slots = 2 * cs_cuda_handle_of(ctx)->processors;
    const int64_t fit = ((int64_t)16 << 20) / bytes, fill = 8 * slots / items + 1;
    const int64_t heads = fit > fill ? fit : fill;
    return (int32_t)(heads > s->kv_heads ? s->kv_heads : heads);
}

/* What a block owns: rows [row, row + rows) of a tile, ROWS at most, and a head. */
struct cs_mma_item {
    int32_t tile, half, head, row, rows;
};

/* Blocks start in the order of their numbers: sections of heads one after the other, in a section
 * the dearest tiles first. */
template <int ROWS> __device__ __forceinline__ cs_mma_item cs_mma_item_of(const cs_mma_side &s)
{
    constexpr int PARTS = CS_MASK_TILE / ROWS;
    int32_t i = (int32_t)blockIdx.x;
    cs_mma_forget(i); /* cheaper to find again than to remember */
    const int32_t per_head = s.n * PARTS;
    const int32_t first = i / (per_head * s.section) * s.section;
    const int32_t heads = min(s.section, s.heads - first), at = i - first * per_head;
    cs_mma_item w;
    w.tile = s.order[at / (heads * PARTS)];
    w.half = at % PARTS;
    w.head = first + at / PARTS % heads;
    w.row = s.row[w.tile] + w.half * ROWS;
    w.rows = max(0, min(ROWS, s.row[w.tile + 1] - w.row));
    return w;
}

/* Rows [row, row + rows) of the other side, rows of a cell from `from` on, and which cells the
 * halves of the own tile have with them. */
struct cs_mma_step {
    int32_t row, extent, cell[2]; /* extent: rows | from << 16 */
};

/* The next steps of a block, in shared memory, so that nobody waits for the lists. */
struct cs_mma_steps {
    enum { ROOM = 64 };

    struct cs_mma_step step[ROOM];
    int32_t n, entry, count;     /* entry: the next one */
    int32_t tile, round, rounds; /* round: how often the list was walked; rounds: to be walked */
};

/* All threads of a block walk in step. STEP: rows; HALF: of the own tile that counts, -1: both. */
template <int STEP> struct cs_mma_walk {
    static constexpr int PARTS = CS_MASK_TILE / STEP, ENTRIES = cs_mma_steps::ROOM / PARTS;
    const cs_mma_side &side;
    struct cs_mma_steps *const steps;
    const int32_t half;
    int32_t at, n;

    __device__ __forceinline__ cs_mma_walk(const cs_mma_side &s, struct cs_mma_steps *shared,
                                           int32_t own_half)
        : side(s), steps(shared), half(own_half), at(0), n(0)
    {
    }

    /* First, once, by all; ends behind a barrier. The list of a tile, so many rounds. */
    __device__ __forceinline__ void begin(int32_t tile, int32_t rounds)
    {
        if (threadIdx.x == 0) {
            steps->entry = steps->round = 0;
            steps->tile = tile;
            steps->rounds = rounds;
            steps->count = side.count[tile];
        }
        __syncthreads();
    }

    /* By one warp: a lane takes an entry. */
    __device__ __forceinline__ void look(void)
    {
        const int64_t list = (int64_t)steps->tile * side.stride;
        const int lane = (int)threadIdx.x % 32;
        const int32_t entry = steps->entry, mine = entry + lane, count = steps->count;
        struct cs_mma_step found[PARTS];
        int32_t is_step = 0;
        if (mine < count && lane < ENTRIES) {
            const int32_t other = (int32_t)(side.entry[list + mine] & 0xffffu);
            const int4 c = side.cell[list + mine]; /* [2 * query half + key half] */
            const int32_t low[2] = {c.x, side.is_key ? c.y : c.z};
            const int32_t high[2] = {side.is_key ? c.z : c.y, c.w};
            const int32_t row = side.other_row[other], end = side.other_row[other + 1];
#pragma unroll
            for (int p = 0; p < PARTS; p++) {
                const int32_t first = row + p * STEP, rows = min(STEP, end - first);
                bool is_any = false;
                found[p].row = first;
                found[p].extent = rows | p * STEP % CS_MASK_CELL << 16;
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int32_t own = p >= PARTS / 2 ? high[h] : low[h];
                    found[p].cell[h] = half == 1 - h ? CS_CELL_NONE : own;
                    is_any = is_any || found[p].cell[h] != CS_CELL_NONE;
                }
                if (rows > 0 && is_any)
                    is_step |= 1 << p;
            }
        }
        int32_t to = __popc(is_step);
        const int32_t own = to;
        for (int d = 1; d < 32; d *= 2) {
            const int32_t before = __shfl_up_sync(0xffffffffu, to, d);
            to += lane >= d ? before : 0;
        }
        const int32_t all = __shfl_sync(0xffffffffu, to, 31);
        to -= own;
#pragma unroll
        for (int p = 0; p < PARTS; p++)
            if (is_step >> p & 1)
                steps->step[to++] = found[p];
        __syncwarp();
        if (lane == 0) {
            steps->n = all;
            steps->entry = entry + ENTRIES;
        }
        __syncwarp();
    }

    /* The steps to come. */
    __device__ __forceinline__ void refill(void)
    {
        __syncthreads();
        if (threadIdx.x < 32)
            for (;;) {
                if (steps->entry >= steps->count) {
                    __syncwarp();
                    const bool is_over = steps->count == 0 || steps->round + 1 >= steps->rounds;
                    __syncwarp();
                    if (threadIdx.x == 0) {
                        steps->n = 0;
                        steps->entry = is_over ? steps->entry : 0;
                        steps->round += !is_over;
                    }
                    __syncwarp();
                    if (is_over)
                        break;
                }
                look();
                if (steps->n > 0)
                    break;
            }
        __syncthreads();
        n = steps->n;
        at = 0;
    }

    /* To the next step; false: there is none. */
    __device__ __forceinline__ bool next(void)
    {
        if (at == n)
            refill();
        at++;
        return n > 0;
    }

    /* The step that next went to, and the round that it is of. */
    __device__ __forceinline__ const struct cs_mma_step &now(void) const
    {
        return steps->step[at - 1];
    }

    __device__ __forceinline__ int32_t row(void) const
    {
        return now().row;
    }

    __device__ __forceinline__ int32_t rows(void) const
    {
        return STEP < CS_MASK_CELL ? now().extent & 0xffff : now().extent;
    }

    __device__ __forceinline__ int32_t from(void) const
    {
        return STEP < CS_MASK_CELL ? now().extent >> 16 : 0;
    }

    __device__ __forceinline__ int32_t round(void) const
    {
        return steps->round;
    }
};

/* What this warp's thread keeps of its 16 rows, number m of its cell, and STEP columns: bit 4 n + i
 * is accumulator i of column tile n; see core/mask/cells.h. */
__device__ __forceinline__ uint32_t cs_mma_bits(const cs_mma_side &s, int32_t cell, int m,
                                                int32_t from)
{
    return cs_cell_bits<true>(s.bits + m * 32, cell, threadIdx.x % 32) >> from / 2;
}

#endif
