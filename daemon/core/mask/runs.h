/* A mask as runs of like tokens, and everything that follows from it in closed form: allowed pairs
 * per row, work per block of tokens, the tile map. Exact, and without a look at every pair.
 *
 * Needs rows in document order: rows of one document are contiguous and their positions rise by one
 * (CS_INVALID else). That is the order of a sequence before context parallelism permutes it.
 * Source of tile map and work: Cornstarch, compressed mask and workload estimate. */
#ifndef CS_MASK_RUNS_H
#define CS_MASK_RUNS_H

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/mask/plan.h"

/* One run: neighbours of equal cs_mask_class. */
struct cs_mask_run {
    int32_t row, rows;
    struct cs_mask_token token; /* of its first row: pos is the first position */
    int32_t class_id; /* equal classes of a document share it; counts from 0 per document */
};

struct cs_mask_runs {
    struct cs_mask_rule rule;
    int32_t n_tokens, n_runs, n_docs;
    const struct cs_mask_run *run;
    const int32_t *first;     /* (n_docs + 1) first run of every document; last = n_runs */
    const int32_t *n_classes; /* (n_docs) */
};

/* CS_INVALID: rows are not in document order, or the plan has keys of its own (context parallelism). */
enum cs_status cs_mask_runs_make(const struct cs_mask_plan *plan, struct cs_arena *arena,
                                 struct cs_mask_runs *out, struct cs_err *err) CS_NODISCARD;

/* Allowed keys of every row: pairs (n_tokens). O(tokens + runs * classes). Returns their sum.
 * Scratch comes from the arena. */
int64_t cs_mask_row_pairs(const struct cs_mask_runs *runs, struct cs_arena *arena, int32_t *pairs);
/* Sums of blocks of rows: work (ceil(n_tokens / block)) */
void cs_mask_block_pairs(const int32_t *pairs, int32_t n_tokens, int32_t block, int64_t *work);

enum { CS_TILE_NONE, CS_TILE_PARTIAL, CS_TILE_ALL, CS_TILE_VALUES };

/* One byte per tile of q_rows x k_rows: no pair allowed, some, all (tiles at the edge are compared
 * with the part of them that exists). The reference uses 128 x 32. */
struct cs_mask_tiles {
    int32_t q_rows, k_rows;
    int32_t n_q, n_k;    /* ceil(n_tokens / rows) */
    const uint8_t *tile; /* (n_q, n_k) */
};

struct cs_mask_tile_counts {
    int64_t count[CS_TILE_VALUES];
};

/* O(q tiles * (runs + k tiles)) for runs that are longer than a tile. CS_INVALID: sizes below 1;
 * CS_LIMIT: more than 2^28 tiles. */
enum cs_status cs_mask_tiles_make(const struct cs_mask_runs *runs, int32_t q_rows, int32_t k_rows,
                                  struct cs_arena *arena, struct cs_mask_tiles *out,
                                  struct cs_err *err) CS_NODISCARD;
/* of tile row q; q = -1: of the whole map */
struct cs_mask_tile_counts cs_mask_tiles_count(const struct cs_mask_tiles *tiles, int32_t q);

/* How many tiles of k_rows keys blocks of queries meet, all blocks together: block i is the rows
 * [q_row[i], q_row[i + 1]), ascending. A tile is met where some row of the block sees some key of
 * it. *n_partial (may be NULL): those of them in which not every row sees every key. O(blocks *
 * (runs + k tiles)). */
int64_t cs_mask_tiles_met(const struct cs_mask_runs *runs, const int32_t *q_row, int32_t n_q,
                          int32_t k_rows, struct cs_arena *arena, int64_t *n_partial);

/* '0'/'1' per key of a row (dense) and '0'..'2' per tile of a tile row, appended to out. The dense
 * row asks cs_mask_allows for every pair. */
void cs_mask_text_row(const struct cs_mask_plan *plan, int32_t row, struct cs_buf *out);
void cs_mask_text_tiles(const struct cs_mask_tiles *tiles, int32_t q, struct cs_buf *out);

#endif
