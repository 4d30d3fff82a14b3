/* Attention backward for Hopper: what its kernels share.
 *
 * Blocks. A key tile is 128 rows (CS_MASK_TILE), 64 for each of two warpgroups; queries are walked
 * in halves of a tile (64 rows, CS_MASK_CELL). Halves are numbered 2 * tile + half and padded to 64
 * rows in the workspace, so sums and statistics are aligned wherever a tile starts.
 *
 * Fragment order, of fp32 sums in the workspace (64 rows, DIM columns): for every 8 columns the
 * four accumulators of each of 128 threads, thread after thread. Threads store and add 16 bytes
 * each, one after the other, whatever the rows. */
#ifndef CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_CUH
#define CS_KERNELS_CUDA_ATTENTION_HOPPER_BWD_SM90_CUH

#include "kernels/cuda/attention/hopper/hopper.cuh"
#include "kernels/cuda/attention/hopper/sm90.cuh"

#include "core/mask/cells.h"

#define CS_BWD_ROWS       64                /* queries of a step, keys of a warpgroup */
#define CS_BWD_STAT       (2 * CS_BWD_ROWS) /* floats of a half: -lse / ln 2 | rowsum(dO o) */
#define CS_BWD_STAT_BYTES (CS_BWD_STAT * 4)
#define CS_BWD_PANEL      64 /* bf16 columns of a swizzled row of 128 bytes */
#define CS_BWD_STAGES     2

/* Everything the kernels take besides tensor maps. A column is what one work item does of the
 * heads: kv head and, where the group of its query heads is split, part of the group. */
struct cs_bwd_args {
    struct cs_mask_list by_k;
    const int32_t *q_row, *k_row;
    const uint32_t *bits; /* bits_k */
    int32_t n_q, n_k;
    int32_t tokens, heads, kv_heads, head_dim, q_stride, kv_stride, o_stride;
    int32_t group, parts, heads_per_item; /* parts * heads_per_item = group = heads / kv_heads */
    int32_t block; /* columns whose items come before those of the next (see item_of) */
    float scale, softcap;
    float to_log2;   /* from a score (under a cap from its tanh) to the exponent of 2 */
    float to_tanh;   /* from a score to the argument of cs_tanh_log2; no cap: 0 */
    bool is_ordered; /* sums of dq in the order of ranks */
    const void *o, *d_o;
    const float *lse;
    void *dq, *dk, *dv;
    /* workspace */
    int32_t *next;            /* (1) next work item */
    int32_t *turn;            /* (heads, halves, 2) rank whose turn it is, by warpgroup */
    float *stat;              /* (heads, halves, CS_BWD_STAT) */
    float *dq_sum;            /* (heads, halves, 64 * head_dim) fragment order */
    float *dk_part, *dv_part; /* (parts, kv_heads, n_k, 2, 64 * head_dim), unless parts is 1 */
};

struct cs_bwd_maps {
    CUtensorMap q, k, v, d_o; /* boxes of 64 columns and the rows of an item or a step */
    CUtensorMap stat;
};

__host__ __device__ inline int64_t cs_bwd_halves(const struct cs_bwd_args &a)
{
    return 2 * (int64_t)a.n_q;
}

/* Sums in fragment order to rows of bf16: y = factor * sum over parts. */
struct cs_bwd_rows {
    const float *sum; /* (parts, heads, 2 * tiles, 64 * head_dim) */
    int64_t part;     /* floats from one part to the next */
    int32_t parts;
    const int32_t *row; /* first row of every tile */
    float factor;
    int32_t head_dim, stride;
    __nv_bfloat16 *y;
};

/* Passes over rows (attention/hopper/bwd_sm90_rows.cu). Before the main kernel: statistics of every row,
 * zeros in what is added to; after it: sums to rows. */
void cs_bwd_before(struct cs_ctx *ctx, const struct cs_bwd_args &a);
void cs_bwd_after(struct cs_ctx *ctx, const struct cs_bwd_rows &rows, int32_t tiles, int32_t heads);

/* The main kernel of heads wider than 128 (attention/hopper/bwd_sm90_wide.cu). */
void cs_bwd_wide(struct cs_ctx *ctx, const struct cs_bwd_maps &maps, const struct cs_bwd_args &a);

#endif
