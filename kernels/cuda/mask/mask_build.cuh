/* What the steps of the mask builder share: the plan on the device, what a half tile looks like
 * from far (runs of like tokens), scratch. mask_build.cu says what the steps are. */
#ifndef CS_KERNELS_CUDA_MASK_MASK_BUILD_CUH
#define CS_KERNELS_CUDA_MASK_MASK_BUILD_CUH

#include "kernels/cuda/cuda_ops.cuh"
#include "kernels/cuda/mask/mask_token.cuh"

#include "core/mask/cells.h"

#define CS_MASK_THREADS 128 /* of every kernel; a bitmap has one word for each */
#define CS_HALF_RUNS    4

/* Neighbours of one class (cs_mask_class) in a half tile. */
struct cs_half_run {
    uint64_t word;
    int32_t doc, item;
    int32_t lo, hi; /* least and greatest position */
};

struct cs_half {
    int32_t rows;
    int32_t n_runs;         /* more than CS_HALF_RUNS: they are not listed */
    int32_t doc_lo, doc_hi; /* of the tokens that are not padding; lo > hi: there are none */
    struct cs_half_run run[CS_HALF_RUNS];
};

/* Of one line of one side's list: how many tiles it meets, those without a bitmap, its cells. */
struct cs_line {
    int32_t count, plain, cost;
};

/* The workspace. Matrices are (n_q, n_k). */
struct cs_mask_scratch {
    struct cs_half *half_q, *half_k; /* (2 n_q), (2 n_k) */
    int4 *cell;                      /* as in the lists; CS_CELL_ASK: to be evaluated */
    uint16_t *rank_of_q, *rank_of_k; /* of the query (key) tile among those the other one meets */
    struct cs_line *line;            /* (n_q + n_k) */
    uint32_t *ask;                   /* (4 n_q n_k) cells to be evaluated: 4 tile + cell */
    uint32_t *n_ask;
    unsigned long long *key; /* (slots) hash of a bitmap, 0: free */
    int32_t *number;         /* (slots) number + 1, 0: its bitmap is not written yet */
    uint32_t slots;          /* a power of 2 */
};

#define CS_CELL_ASK (-3)

/* mask_cells.cu: the bitmaps of the cells in ask, each stored once */
void cs_mask_evaluate(struct cs_ctx *ctx, const struct cs_mask_plan *q,
                      const struct cs_mask_plan *k, const struct cs_mask_cells *cells,
                      const struct cs_mask_scratch *scratch);
/* mask_lists.cu: counts, entries, ranks and orders of both sides from the matrix of cells */
void cs_mask_lists(struct cs_ctx *ctx, const struct cs_mask_cells *cells,
                   const struct cs_mask_scratch *scratch);

#endif
