/* The way from a mask to the positions of every rank. */
#include "core/plan/tokens/balance_tokens.h"
#include "core/base/units.h"

bool cs_balance_splits(int32_t n_tokens, int32_t ranks, int32_t block)
{
    return ranks > 1 && n_tokens >= (int64_t)block * ranks;
}

void cs_balance_expand(const int32_t *owner, int32_t n_tokens, int32_t block, int32_t ranks,
                       struct cs_arena *arena, struct cs_token_split *out)
{
    int32_t *first = CS_NEW_ARRAY(arena, int32_t, ranks + 1),
            *next = CS_NEW_ARRAY(arena, int32_t, ranks),
            *position = CS_NEW_ARRAY(arena, int32_t, n_tokens);
    const int32_t n = (n_tokens - 1) / block + 1;
    for (int32_t b = 0; b < n; b++)
        first[owner[b] + 1] += b < n - 1 ? block : n_tokens - b * block;
    for (int32_t r = 0; r < ranks; r++) {
        first[r + 1] += first[r];
        next[r] = first[r];
    }
    for (int32_t b = 0; b < n; b++) {
        const int32_t end = b < n - 1 ? (b + 1) * block : n_tokens;
        int32_t *out_at = position + next[owner[b]];
        for (int32_t i = b * block; i < end; i++)
            *out_at++ = i;
        next[owner[b]] += end - b * block;
    }
    *out = (struct cs_token_split){n_tokens, ranks, first, position};
}

static enum cs_status block_work(const struct cs_mask_plan *mask,
                                 const struct cs_balance_cost *cost, struct cs_arena *arena,
                                 double *work, struct cs_err *err)
{
    const int32_t n = mask->n_tokens, block = CS_BALANCE_BLOCK;
    struct cs_mask_runs runs;
    struct cs_mask_tiles tiles;
    int64_t *pairs = NULL;
    const bool has_tiles = cost->per_tile_all != 0 || cost->per_tile_partial != 0;
    CS_TRY(cs_mask_runs_make(mask, arena, &runs, err));
    if (has_tiles)
        CS_TRY(cs_mask_tiles_make(&runs, block, 32, arena, &tiles, err));
    if (cost->per_pair != 0) {
        int32_t *rows = CS_NEW_ARRAY(arena, int32_t, n);
        pairs = CS_NEW_ARRAY(arena, int64_t, (n - 1) / block + 1);
        cs_mask_row_pairs(&runs, arena, rows);
        cs_mask_block_pairs(rows, n, block, pairs);
    }
    cs_balance_work(cost, n, block, pairs, has_tiles ? &tiles : NULL, work);
    return CS_OK;
}

enum cs_status cs_balance_tokens(const struct cs_mask_plan *mask,
                                 const struct cs_balance_cost *cost,
                                 const struct cs_balance_options *options, struct cs_arena *arena,
                                 struct cs_token_split *out, struct cs_balance_result *result,
                                 struct cs_err *err)
{
    struct cs_balance_result own;
    struct cs_balance_options one = *options;
    if (mask->n_tokens < 1 || options->ranks < 1)
        return cs_fail(err, CS_INVALID, "%d token%s on %d rank%s; both must be at least 1",
                       (int)mask->n_tokens, CS_PLURAL(mask->n_tokens), (int)options->ranks,
                       CS_PLURAL(options->ranks));
    const int32_t n = (mask->n_tokens - 1) / CS_BALANCE_BLOCK + 1;
    double *work = CS_NEW_ARRAY(arena, double, n);
    CS_TRY(block_work(mask, cost, arena, work, err));
    if (!cs_balance_splits(mask->n_tokens, options->ranks, CS_BALANCE_BLOCK)) {
        one.ranks = 1;
        one.cap = 0;
    }
    CS_TRY(cs_balance(work, n, &one, arena, &own, err));
    cs_balance_expand(own.owner, mask->n_tokens, CS_BALANCE_BLOCK, options->ranks, arena, out);
    if (one.ranks != options->ranks) { /* the loads of the ranks that stay empty */
        double *load = CS_NEW_ARRAY(arena, double, options->ranks);
        load[0] = own.load[0];
        own.load = load;
        own.mean /= options->ranks;
    }
    if (result)
        *result = own;
    return CS_OK;
}
