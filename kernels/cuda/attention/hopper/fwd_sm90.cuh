/* The forward pass of attention on Hopper: flash attention with an online softmax over the tiles
 * that a mask has (core/mask/cells.h), persistent blocks, warp specialisation.
 *
 * A block is three warpgroups. The first only loads, by TMA: one warp takes the work items and
 * loads keys and bitmaps, another the values, a third the queries; keys and values go into rings,
 * so that the next item's are there when it begins. The other two warpgroups own 64 query rows each
 * and compute. An item is (query tile, head); blocks take items from a counter, the dearest tiles
 * first.
 *
 * A warpgroup keeps its queries in registers as far as there is room for them: its products read
 * keys and values only then, which shared memory is fast enough for. It issues the scores of step
 * j + 1 and, behind them, the product of step j with the values; while the tensor cores are busy
 * with the latter it takes the softmax of the former. The two warpgroups take turns at issuing, so
 * that one's softmax hides behind the other's products. A step of which a warpgroup's cells are all
 * empty costs it nothing but its turn.
 *
 * Items of equal cost (a full mask) rarely fill the last round of the blocks: those of that round
 * are cut along their keys into shares of equal length, one for each block. A warpgroup leaves what
 * it has of a cut item in memory; the last one to do so adds the pieces, in the order of the keys.
 *
 * Sources of the algorithm: FlashAttention-3 (arXiv 2407.08608), the online softmax of Milakov and
 * Gimelshein; skipping the rescale of small growths: FlashAttention-4. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_FWD_SM90_CUH

#include "kernels/cuda/attention/hopper/fwd_items.h"
#include "kernels/cuda/attention/hopper/hopper.cuh"
#include "kernels/cuda/attention/hopper/sm90.cuh"

/* What the kernel reads besides its tensor maps; all pointers are device memory. */
struct cs_fwd_args {
    struct cs_fwd_items items;
    int32_t list_stride;
    const int32_t *q_row, *k_row;
    const uint32_t *entry;
    const int4 *cell;
    int32_t tokens, group; /* group: query heads of a key head */
    int32_t o_stride;
    struct cs_attention_scales scales;
    __nv_bfloat16 *o;
    float *lse;
    const float *sink; /* (heads), NULL: none */
    int32_t *counter;  /* 0 at the start */
    float *piece;      /* (shares, 2 pieces, 2 warpgroups, S::PIECE) */
    int32_t *arrived;  /* (cut, 2) pieces in memory, by warpgroup; 0 at the start */
};

/* What a head dimension needs. A matrix (rows, DIM) lies in shared memory as boxes of 64 columns
 * under the 128-byte swizzle and, where DIM is no multiple of 64, one narrower box, filled up with
 * zeros by TMA where DIM is no multiple of 16. */
template <int DIM_, int KEYS_, int K_STAGES_, int V_STAGES_, bool IS_CAPPED_> struct cs_fwd_shape {
    static constexpr int DIM = DIM_;
    static constexpr int KEYS = KEYS_; /* of a step: a key tile (128) or a half of one (64) */
    static constexpr int K_STAGES = K_STAGES_; /* steps of which keys are in shared memory, */
    static constexpr int V_STAGES = V_STAGES_; /* and values, which are needed one step later */
    static constexpr bool IS_CAPPED = IS_CAPPED_;
    static constexpr bool HAS_QUERIES = DIM <= (IS_CAPPED ? 80 : 128); /* in registers */

    static constexpr int PADDED = (DIM + 15) / 16 * 16;
    static constexpr int WIDE = DIM / 64 * 64, TAIL = PADDED - WIDE;
    static constexpr int CELLS = KEYS / CS_MASK_CELL; /* of a query half in a step */

    static constexpr int Q_BYTES = CS_MASK_TILE * PADDED * 2; /* two halves, one after the other */
    static constexpr int K_BYTES = KEYS * PADDED * 2;
    static constexpr int BITMAP_BYTES = CS_MASK_TILE * 4; /* of a cell */
    static constexpr int BITS_BYTES = 2 * CELLS * BITMAP_BYTES;
    static constexpr int PIECE = CS_MASK_CELL * PADDED + 4 * CS_WARPGROUP; /* out, then rows */
    static_assert(KEYS == 128 || KEYS == 64);
    static_assert(K_STAGES >= 2); /* a step is looked at before the one in hand is freed */
    static_assert(TAIL == 0 || TAIL == 16 || TAIL == 32);
};

enum { CS_FWD_ITEMS = 3 }; /* that are known at the same time */

struct cs_fwd_item {   /* in shared memory */
    int32_t row, rows; /* query rows [row, row + rows); rows 0: no more items */
    int32_t head, tile;
    int32_t first, end; /* entries of the tile's list; none: these rows see nothing */
    int32_t pieces;     /* that the item was cut into; 1: not cut, and what follows is not set */
    int32_t nth_cut;    /* which of the items that were cut */
    int32_t share, first_share; /* of this piece, of the first one of the item */
};

/* What a step holds for a warpgroup; the first two are shifted by the number of its cell. */
enum {
    CS_FWD_MASKED = 1, /* some of the cell is forbidden, */
    CS_FWD_BITMAP = 4, /* and a bitmap says what, else all of it */
    CS_FWD_EMPTY = 16, /* no cell allows anything */
    CS_FWD_LAST = 32,  /* of the item */
    CS_FWD_OVER = 64,  /* no step: what comes behind the last one */
};

struct cs_fwd_step {  /* in shared memory */
    int32_t flags[2]; /* of each warpgroup */
};

/* Offsets in shared memory from its first multiple of 1024. */
template <class S> struct cs_fwd_layout {
    static constexpr int Q = 0;
    static constexpr int K = Q + S::Q_BYTES;
    static constexpr int V = K + S::K_STAGES * S::K_BYTES;
    static constexpr int BITS = V + S::V_STAGES * S::K_BYTES;
    static constexpr int BARRIERS = BITS + S::K_STAGES * S::BITS_BYTES;
    static constexpr int ITEM_FULL = BARRIERS, ITEM_FREE = ITEM_FULL + 8 * CS_FWD_ITEMS;
    static constexpr int Q_FULL = ITEM_FREE + 8 * CS_FWD_ITEMS, Q_FREE = Q_FULL + 8;
    static constexpr int K_FULL = Q_FREE + 8, K_FREE = K_FULL + 8 * S::K_STAGES;
    static constexpr int V_FULL = K_FREE + 8 * S::K_STAGES, V_FREE = V_FULL + 8 * S::V_STAGES;
    static constexpr int ITEM = V_FREE + 8 * S::V_STAGES;
    static constexpr int STEP = ITEM + (int)sizeof(cs_fwd_item) * CS_FWD_ITEMS;
    static constexpr int ARRIVED = STEP + (int)sizeof(cs_fwd_step) * S::K_STAGES; /* (2) int32 */
    static constexpr int BYTES = ARRIVED + 8;
    static constexpr int ALIGN = 1024;
    static_assert(ALIGN + BYTES <= 232448, "more shared memory than a block can have");
};

enum {
    CS_FWD_THREADS = 3 * CS_WARPGROUP,
    CS_FWD_WARPS = 8,            /* that compute; each frees what it has read */
    CS_FWD_LOAD_REGISTERS = 56,  /* of a thread that loads, */
    CS_FWD_MATH_REGISTERS = 224, /* of one that computes */
    CS_FWD_TURN = 1,             /* named barriers 1 and 2, */
    CS_FWD_JOIN = 3,             /* 3 and 4 */
};

struct cs_fwd_maps {
    CUtensorMap q, k, v;                /* boxes of 64 columns */
    CUtensorMap q_tail, k_tail, v_tail; /* the rest */
    CUtensorMap bits;                   /* one bitmap */
};

/* --- steps, as both sides count them ---------------------------------------------------------- */

/* load(first key row, cells, is last) for every step of an item. */
template <class S, class Load>
__device__ __forceinline__ void cs_fwd_each_step(const cs_fwd_args &a, const cs_fwd_item &item,
                                                 Load load)
{
    const uint32_t *entry = a.entry + (int64_t)item.tile * a.list_stride;
    const int4 *cells = a.cell + (int64_t)item.tile * a.list_stride;
    for (int32_t i = item.first; i < item.end; i++) {
        const int32_t row = __ldg(a.k_row + (__ldg(entry + i) & 0xffff));
        const int4 c = __ldg(cells + i); /* [2 * query half + key half] */
        const bool is_last = i + 1 == item.end;
        if (S::CELLS == 2) {
            load(row, c, is_last);
            continue;
        }
        const bool has_low = c.x != CS_CELL_NONE || c.z != CS_CELL_NONE;
        const bool has_high = c.y != CS_CELL_NONE || c.w != CS_CELL_NONE;
        if (has_low)
            load(row, {c.x, CS_CELL_NONE, c.z, CS_CELL_NONE}, is_last && !has_high);
        if (has_high)
            load(row + CS_MASK_CELL, {c.y, CS_CELL_NONE, c.w, CS_CELL_NONE}, is_last);
    }
}

#endif
