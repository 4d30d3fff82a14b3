/* From the masks of a slot to the owner of every row. */
#include "core/plan/tokens/context_map.h"

#include "core/plan/context.h"

/* Adds the work of attention under one mask. Rows whose positions do not rise by one have no closed
 * form: they count as what they cost beside attention. */
static void add_pairs(const struct cs_mask_plan *mask, double per_pair, int32_t block,
                      struct cs_arena *arena, double *work)
{
    struct cs_mask_runs runs;
    const int32_t n = mask->n_tokens, n_blocks = (n - 1) / block + 1;
    if (per_pair <= 0 || cs_mask_runs_make(mask, arena, &runs, NULL) != CS_OK)
        return;
    int32_t *rows = CS_NEW_ARRAY(arena, int32_t, n);
    int64_t *pairs = CS_NEW_ARRAY(arena, int64_t, n_blocks);
    cs_mask_row_pairs(&runs, arena, rows);
    cs_mask_block_pairs(rows, n, block, pairs);
    for (int32_t b = 0; b < n_blocks; b++)
        work[b] += per_pair * (double)pairs[b];
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

static enum cs_status map_blocks(const struct cs_mask_plan *masks, int32_t n_masks,
                                 const struct cs_context_cost *cost, enum cs_balance_how how,
                                 int32_t ranks, struct cs_arena *arena, int32_t *owner,
                                 struct cs_err *err)
{
    const int32_t n = masks[0].n_tokens, block = cs_context_block(n, ranks);
    const int32_t n_blocks = (n - 1) / block + 1;
    const struct cs_balance_options options = {
        .how = how, .ranks = ranks, .cap = is_capped(how) ? cs_context_cap(n_blocks, ranks) : 0};
    struct cs_balance_result result;
    double *work = CS_NEW_ARRAY(arena, double, n_blocks);
    for (int32_t b = 0; b < n_blocks; b++)
        work[b] = cost->per_row * (b < n_blocks - 1 ? block : n - b * block);
    for (int32_t m = 0; m < n_masks; m++)
        add_pairs(&masks[m], cost->per_pair[m], block, arena, work);
    CS_TRY(cs_balance(work, n_blocks, &options, arena, &result, err));
    keep_cap(result.owner, n_blocks, ranks, arena);
    for (int32_t i = 0; i < n; i++)
        owner[i] = result.owner[i / block];
    return CS_OK;
}

enum cs_status cs_context_map(const struct cs_mask_plan *masks, int32_t n_masks,
                              const struct cs_context_cost *cost, enum cs_balance_how how,
                              int32_t ranks, int32_t *owner, struct cs_err *err)
{
    if (masks[0].n_tokens == 0)
        return CS_OK;
    struct cs_arena *arena = cs_arena_new(0);
    const enum cs_status status = map_blocks(masks, n_masks, cost, how, ranks, arena, owner, err);
    cs_arena_free(arena);
    return status;
}
