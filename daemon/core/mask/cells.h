/* What attention kernels see of a mask: which parts of the score matrix exist, and a bitmap where a
 * part is not whole. Built once per slot from the rule (core/mask/rule.h), used by all layers and
 * heads, forward and backward; no kernel evaluates the rule.
 *
 * Rows are cut into tiles of at most CS_MASK_TILE, every row in exactly one; a tile is two halves
 * of at most CS_MASK_CELL rows. A cell is one half of a query tile against one half of a key tile:
 * empty, whole (all 64 x 64 pairs exist and are allowed), or a bitmap of 64 x 64: a cell at the
 * ragged end of a tile has one even when all of its pairs are allowed. Cells are what a warpgroup
 * skips on its own, tiles are what memory is fetched in. Tiles may start anywhere, so those of an
 * encoder start at its images.
 *
 * One definition for the planner (counts), the CPU twin (cs_mask_cells_make) and the GPU builder
 * (cs_ops.mask_build): the same lists in the same order, entry by entry; numbers of bitmaps may
 * differ, what they hold may not. Design: Cornstarch, compressed mask; FlashAttention-3's
 * tiling. */
#ifndef CS_MASK_CELLS_H
#define CS_MASK_CELLS_H

#include "core/base/arena.h"
#include "core/mask/plan.h"

enum { CS_MASK_TILE = 128, CS_MASK_CELL = 64, CS_MASK_CELLS = 4 };

/* values of a cell; 0 and more: number of its bitmap */
enum { CS_CELL_NONE = -2, CS_CELL_ALL = -1 };

/* For every tile of one side the tiles of the other side that it meets: those without a bitmap
 * first, then the rest, both ascending. */
struct cs_mask_list {
    int32_t n, stride; /* tiles of this side; room per tile = tiles of the other side */
    int32_t *count;    /* (n) entries */
    uint32_t *entry;   /* (n, stride) other tile | rank << 16; rank: where this tile stands among
                        * the ascending tiles that the other one meets: the order of a
                        * deterministic sum */
    int32_t (*cell)[CS_MASK_CELLS]; /* (n, stride) [2 * query half + key half], 16-byte aligned */
    int32_t *order; /* (n) tiles by falling cost (cells that are not empty), ties: lower first */
};

struct cs_mask_cells {
    int32_t n_q, n_k;             /* tiles, at most 65535 each */
    const int32_t *q_row, *k_row; /* (n + 1) first row of each tile, last = number of rows */
    struct cs_mask_list by_q, by_k;
    /* Bitmaps, (room, 128) words: word t holds what thread t of a warpgroup keeps of an m64n64
     * accumulator: with r = 16 (t / 32) + (t % 32) / 4 and c = 2 (t % 4), bit 4 j + 2 h + i is row
     * r + 8 h, column c + 8 j + i, for j in 0..7 and h, i in 0..1. by_q: rows are queries, columns
     * keys; by_k: the same cell with rows keys and columns queries. Rows and columns outside the
     * tile are 0. Equal bitmaps are stored once. */
    uint32_t *bits_q, *bits_k;
    int32_t bitmap_room;
    int32_t *n_bitmaps; /* (1) used; more than room: the lists must not be used */
    int64_t *pairs;     /* (1) allowed pairs, for TFLOP/s and balance */
};

/* Word t of a bitmap, 0..127. row[i] bit j: row i of the cell sees (is seen by) column j. */
CS_MASK_INLINE uint32_t cs_mask_cell_word(const uint64_t row[CS_MASK_CELL], int t)
{
    const int r = 16 * (t / 32) + t % 32 / 4, c = 2 * (t % 4);
    const uint64_t low = row[r] >> c, high = row[r + 8] >> c;
    uint32_t word = 0;
    for (int j = 0; j < 8; j++)
        word |= ((uint32_t)(low >> 8 * j & 3) | (uint32_t)(high >> 8 * j & 3) << 2) << 4 * j;
    return word;
}

/* The same word of the transposed cell. */
CS_MASK_INLINE uint32_t cs_mask_cell_word_t(const uint64_t row[CS_MASK_CELL], int t)
{
    const int r = 16 * (t / 32) + t % 32 / 4, c = 2 * (t % 4);
    uint32_t word = 0;
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 2; i++) {
            const uint64_t column = row[c + 8 * j + i] >> r;
            word |= ((uint32_t)(column & 1) | (uint32_t)(column >> 8 & 1) << 2) << (4 * j + i);
        }
    return word;
}

/* Lay the arrays out in one block of memory, device memory too: bytes of the block, and the
 * addresses, sizes and strides from its start (256-byte aligned). Nothing is read or written. */
size_t cs_mask_cells_bytes(int32_t n_q, int32_t n_k, int32_t bitmap_room);
void cs_mask_cells_place(void *block, int32_t n_q, int32_t n_k, int32_t bitmap_room,
                         struct cs_mask_cells *out);

/* Starts of tiles: row has room for n_tokens / CS_MASK_TILE + n_segments + 2. restart: a tile never
 * reaches over the end of a segment (encoders); else tiles of CS_MASK_TILE without a gap. Returns
 * the number of tiles. */
int32_t cs_mask_tile_rows(const struct cs_mask_plan *plan, bool restart, int32_t *row);
/* The same for query tiles of rules under which neighbours of different classes see very different
 * keys (CORNSTARCH, ITEM): a tile that starts or ends in a run of at least CS_MASK_TILE rows of one
 * class does not reach over its ends, so no image shares a tile with the text around it. row has
 * room for cs_mask_tile_room(plan) numbers. */
int32_t cs_mask_tile_rows_at_runs(const struct cs_mask_plan *plan, int32_t *row);
int32_t cs_mask_tile_room(const struct cs_mask_plan *plan);

/* The CPU twin: asks the rule for every pair. k NULL: keys are the queries (n_tokens of plan).
 * Everything comes from the arena. CS_LIMIT: more tiles than an entry can name. CS_INVALID: tiles
 * that are empty, longer than CS_MASK_TILE, or do not end at the last row. */
enum cs_status cs_mask_cells_make(const struct cs_mask_plan *q, const struct cs_mask_plan *k,
                                  const int32_t *q_row, int32_t n_q, const int32_t *k_row,
                                  int32_t n_k, struct cs_arena *arena, struct cs_mask_cells *out,
                                  struct cs_err *err) CS_NODISCARD;

#endif
