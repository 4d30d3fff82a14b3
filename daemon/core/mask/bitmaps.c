/* How much room the bitmaps of a mask need, counted before the mask is built. */
#include "core/mask/bitmaps.h"

#include "core/mask/cut.h"
#include "core/mask/runs.h"

enum { BITMAPS_PER_TILE = 32, MOST_STEPS = 1 << 22, MOST_ROOM = 1 << 30 };

/* cells with some pairs but not all; -1: counting takes long, or rows are in another order */
static int64_t count_partial(const struct cs_mask_plan *plan, const int32_t *q_row, int32_t n_q)
{
    struct cs_arena *arena = cs_arena_new(0);
    int32_t *half = CS_NEW_ARRAY(arena, int32_t, 2 * (size_t)n_q + 1);
    struct cs_mask_runs runs;
    int64_t partial = -1;
    if (cs_mask_runs_make(plan, arena, &runs, NULL) == CS_OK &&
        (int64_t)runs.n_runs * (runs.n_runs + 2 * n_q) <= MOST_STEPS) {
        const int32_t halves = cs_mask_tile_halves(q_row, n_q, half);
        cs_mask_tiles_met(&runs, half, halves, CS_MASK_CELL, arena, &partial);
    }
    cs_arena_free(arena);
    return partial;
}

static int32_t least_room(int64_t room, int32_t n_q, int32_t n_k)
{
    const int64_t all = (int64_t)CS_MASK_CELLS * n_q * n_k,
                  most = all < MOST_ROOM ? all : MOST_ROOM;
    return (int32_t)(room < most ? room : most);
}

int32_t cs_mask_bitmap_room_usual(int32_t n_q, int32_t n_k)
{
    return least_room((int64_t)BITMAPS_PER_TILE * ((n_q > n_k ? n_q : n_k) + 8), n_q, n_k);
}

int32_t cs_mask_bitmap_room(const struct cs_mask_plan *plan, const int32_t *q_row, int32_t n_q,
                            int32_t n_k)
{
    const bool is_crossed =
        plan->rule.kind == CS_MASK_CORNSTARCH || plan->rule.kind == CS_MASK_MODALITY_BIDIR;
    const int32_t usual = cs_mask_bitmap_room_usual(n_q, n_k);
    if (!is_crossed || n_q == 0)
        return usual;
    /* cells at the ragged ends of tiles have bitmaps even where all pairs are allowed */
    const int64_t partial = count_partial(plan, q_row, n_q);
    return least_room(partial < 0 ? INT64_MAX : usual + partial, n_q, n_k);
}
