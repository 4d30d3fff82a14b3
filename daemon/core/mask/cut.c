/* The cut of query tiles, plain or at borders, that makes fewer halves of tiles meet. */
#include "core/mask/cut.h"

#include <string.h>

#include "core/mask/runs.h"

enum { MOST_STEPS = 1 << 20 };

int32_t cs_mask_tile_halves(const int32_t *row, int32_t n, int32_t *half)
{
    int32_t halves = 0;
    for (int32_t t = 0; t < n; t++)
        for (int32_t at = row[t]; at < row[t + 1]; at += CS_MASK_CELL)
            half[halves++] = at;
    half[halves] = row[n];
    return halves;
}

static int64_t count_met(const struct cs_mask_runs *runs, const int32_t *row, int32_t n,
                         struct cs_arena *arena)
{
    int32_t *half = CS_NEW_ARRAY(arena, int32_t, 2 * (size_t)n + 1);
    const int32_t halves = cs_mask_tile_halves(row, n, half);
    return cs_mask_tiles_met(runs, half, halves, CS_MASK_TILE, arena, NULL);
}

/* Do the tiles at borders save enough? */
static bool is_worth_it(const struct cs_mask_plan *plan, const int32_t *plain, int32_t n_plain,
                        const int32_t *cut, int32_t n_cut, struct cs_arena *arena)
{
    struct cs_mask_runs runs;
    if (cs_mask_runs_make(plan, arena, &runs, NULL) != CS_OK ||
        (int64_t)runs.n_runs * (runs.n_runs + 2 * n_cut) > MOST_STEPS)
        return false;
    const int64_t before = count_met(&runs, plain, n_plain, arena),
                  after = count_met(&runs, cut, n_cut, arena);
    return before - after >= before / CS_MASK_CUT_GAIN + 1;
}

int32_t cs_mask_tile_rows_chosen(const struct cs_mask_plan *plan, int32_t *row)
{
    const int32_t n_plain = cs_mask_tile_rows(plan, false, row);
    /* a run is a document: that leaves ragged tiles only */
    if (!cs_mask_asks_what(plan->rule.kind))
        return n_plain;
    struct cs_arena *arena = cs_arena_new(0);
    int32_t *cut = CS_NEW_ARRAY(arena, int32_t, cs_mask_tile_room(plan));
    const int32_t n_cut = cs_mask_tile_rows_at_runs(plan, cut);
    const bool is_same =
        n_cut == n_plain && memcmp(cut, row, ((size_t)n_cut + 1) * sizeof *cut) == 0;
    int32_t n = n_plain;
    if (!is_same && is_worth_it(plan, row, n_plain, cut, n_cut, arena)) {
        memcpy(row, cut, ((size_t)n_cut + 1) * sizeof *cut);
        n = n_cut;
    }
    cs_arena_free(arena);
    return n;
}
