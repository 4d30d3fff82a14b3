/* From the masks of a slot to the owner of every row, and to who needs the keys of which block. */
#include "core/plan/tokens/context_map.h"

#include <string.h>

#include "core/plan/context.h"

static int32_t blocks_of(int32_t n_rows, int32_t block)
{
    return (n_rows - 1) / block + 1;
}

/* Adds the pairs of attention under one mask, and their work. Rows whose positions do not rise by one
 * have no closed form: they count as what they cost beside attention. */
static void add_pairs(const struct cs_mask_plan *mask, double per_pair, int32_t block,
                      struct cs_arena *arena, int64_t *pairs, double *work)
{
    struct cs_mask_runs runs;
    const int32_t n = mask->n_tokens, n_blocks = blocks_of(n, block);
    if (per_pair <= 0 || cs_mask_runs_make(mask, arena, &runs, NULL) != CS_OK)
        return;
    int32_t *rows = CS_NEW_ARRAY(arena, int32_t, n);
    int64_t *own = CS_NEW_ARRAY(arena, int64_t, n_blocks);
    cs_mask_row_pairs(&runs, arena, rows);
    cs_mask_block_pairs(rows, n, block, own);
    for (int32_t b = 0; b < n_blocks; b++) {
        pairs[b] += own[b];
        work[b] += per_pair * (double)own[b];
    }
}

/* Static layouts know no cap: the last blocks of a rank that has too many go to the one that has
 * fewest. */
static void keep_cap(int32_t *owner, int32_t n_blocks, int32_t ranks, struct cs_arena *arena)
{
    const int32_t cap = cs_context_cap(n_blocks, ranks);
    int32_t *count = CS_NEW_ARRAY(arena, int32_t, ranks);
    for (int32_t b = 0; b < n_blocks; b++)
        count[owner[b]]++;
    for (int32_t b = n_blocks - 1; b >= 0; b--) {
        int32_t least = 0;
        if (count[owner[b]] <= cap)
            continue;
        for (int32_t r = 1; r < ranks; r++)
            least = count[r] < count[least] ? r : least;
        count[owner[b]]--;
        count[least]++;
        owner[b] = least;
    }
}

static bool is_capped(enum cs_balance_how how)
{
    return how == CS_BALANCE_LPT || how == CS_BALANCE_EXACT;
}

void cs_context_weigh(const struct cs_mask_plan *masks, int32_t n_masks,
                      const struct cs_context_cost *cost, int32_t ranks, struct cs_arena *arena,
                      struct cs_context_blocks *out)
{
    const int32_t n = masks[0].n_tokens, block = cs_context_block(n, ranks);
    *out = (struct cs_context_blocks){.n_rows = n, .block = block, .n = blocks_of(n, block)};
    out->work = CS_NEW_ARRAY(arena, double, out->n);
    out->pairs = CS_NEW_ARRAY(arena, int64_t, out->n);
    for (int32_t b = 0; b < out->n; b++)
        out->work[b] = cost->per_row * (b < out->n - 1 ? block : n - b * block);
    double *work = cost->moves_heads ? CS_NEW_ARRAY(arena, double, out->n) : out->work;
    for (int32_t m = 0; m < n_masks; m++)
        add_pairs(&masks[m], cost->per_pair[m], block, arena, out->pairs, work);
    for (int32_t b = 0; cost->moves_heads && b < out->n; b++)
        out->even += work[b] / ranks;
}

/* 0: as many as the rule has by itself */
static int64_t nodes_of(enum cs_balance_how how, int32_t ranks)
{
    if (how != CS_BALANCE_EXACT)
        return 0;
    return ranks <= 16 ? CS_CONTEXT_NODES : CS_CONTEXT_NODES * 16 / ranks;
}

enum cs_status cs_context_deal(const struct cs_context_blocks *blocks, enum cs_balance_how how,
                               int32_t ranks, struct cs_arena *arena, int32_t **owner,
                               struct cs_err *err)
{
    const struct cs_balance_options options = {
        .how = how,
        .ranks = ranks,
        .nodes = nodes_of(how, ranks),
        .cap = is_capped(how) ? cs_context_cap(blocks->n, ranks) : 0};
    struct cs_balance_result result;
    CS_TRY(cs_balance(blocks->work, blocks->n, &options, arena, &result, err));
    keep_cap(result.owner, blocks->n, ranks, arena);
    *owner = result.owner;
    return CS_OK;
}

static enum cs_status map_blocks(const struct cs_mask_plan *masks, int32_t n_masks,
                                 const struct cs_context_cost *cost, enum cs_balance_how how,
                                 int32_t ranks, struct cs_arena *arena, int32_t *owner,
                                 struct cs_context_load *load, struct cs_err *err)
{
    struct cs_context_blocks blocks;
    int32_t *of_block;
    cs_context_weigh(masks, n_masks, cost, ranks, arena, &blocks);
    CS_TRY(cs_context_deal(&blocks, how, ranks, arena, &of_block, err));
    for (int32_t i = 0; i < blocks.n_rows; i++) {
        owner[i] = of_block[i / blocks.block];
        load[owner[i]].rows++;
    }
    int64_t pairs = 0;
    for (int32_t b = 0; b < blocks.n; b++) {
        load[of_block[b]].pairs += blocks.pairs[b];
        load[of_block[b]].work += blocks.work[b];
        pairs += blocks.pairs[b];
    }
    for (int32_t r = 0; cost->moves_heads && r < ranks; r++) {
        load[r].pairs = pairs * (r + 1) / ranks - pairs * r / ranks;
        load[r].work += blocks.even;
    }
    return CS_OK;
}

enum cs_status cs_context_map(const struct cs_mask_plan *masks, int32_t n_masks,
                              const struct cs_context_cost *cost, enum cs_balance_how how,
                              int32_t ranks, int32_t *owner, struct cs_context_load *load,
                              struct cs_err *err)
{
    memset(load, 0, (size_t)ranks * sizeof *load);
    if (masks[0].n_tokens == 0)
        return CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    const enum cs_status status =
        map_blocks(masks, n_masks, cost, how, ranks, arena, owner, load, err);
    cs_arena_free(arena);
    return status;
}

static bool make_tiles(const struct cs_mask_plan *mask, int32_t block, struct cs_arena *arena,
                       struct cs_mask_tiles *out)
{
    struct cs_mask_runs runs;
    return cs_mask_runs_make(mask, arena, &runs, NULL) == CS_OK &&
           cs_mask_tiles_make(&runs, block, block, arena, out, NULL) == CS_OK;
}

void cs_context_needs(const struct cs_mask_plan *mask, const int32_t *owner, int32_t ranks,
                      uint8_t *need)
{
    const int32_t n = mask->n_tokens;
    struct cs_mask_tiles tiles;
    if (n == 0)
        return;
    const int32_t block = cs_context_block(n, ranks), n_blocks = blocks_of(n, block);
    struct cs_arena *arena = cs_arena_new(0);
    const bool is_known = make_tiles(mask, block, arena, &tiles);
    memset(need, 0, (size_t)ranks * (size_t)n_blocks);
    for (int32_t q = 0; q < n_blocks; q++) {
        uint8_t *its = need + (int64_t)owner[q * block] * n_blocks;
        for (int32_t k = 0; k < n_blocks; k++)
            its[k] |= !is_known || tiles.tile[(int64_t)q * n_blocks + k] != CS_TILE_NONE;
    }
    cs_arena_free(arena);
}
