/* Cells of a mask on the CPU; see cells.h. The rule is asked for every pair, and that is the point:
 * nothing here is clever enough to be wrong in the way a builder with summaries could be. */
#include "core/mask/cells.h"

#include <string.h>

enum { MAX_TILES = 65535, FIRST_ROOM = 64, ALIGN = 256 };

int32_t cs_mask_tile_rows(const struct cs_mask_plan *plan, bool restart, int32_t *row)
{
    int32_t n = 0;
    for (int32_t at = 0, segment = 0; at < plan->n_tokens; n++) {
        int32_t end = plan->n_tokens;
        if (restart) {
            while (plan->segment[segment + 1] <= at)
                segment++;
            end = plan->segment[segment + 1];
        }
        row[n] = at;
        at = end - at < CS_MASK_TILE ? end : at + CS_MASK_TILE;
    }
    row[n] = plan->n_tokens;
    return n;
}

static struct cs_mask_token class_at(const struct cs_mask_plan *plan, int32_t row)
{
    return cs_mask_class(plan->rule, cs_mask_token_at(plan, row));
}

/* All that a class is made of: most rows repeat the one before. */
static bool is_repeat(const struct cs_mask_plan *plan, int32_t row)
{
    return plan->doc[row] == plan->doc[row - 1] &&
           (plan->item == NULL || plan->item[row] == plan->item[row - 1]) &&
           (plan->word == NULL || plan->word[row] == plan->word[row - 1]);
}

static int32_t run_end(const struct cs_mask_plan *plan, int32_t begin)
{
    const struct cs_mask_token own = class_at(plan, begin);
    int32_t end = begin + 1;
    for (; end < plan->n_tokens; end++) {
        if (is_repeat(plan, end))
            continue;
        const struct cs_mask_token next = class_at(plan, end);
        if (next.word != own.word || next.item != own.item || next.doc != own.doc)
            break;
    }
    return end;
}

/* A long run gives at most rows / CS_MASK_TILE + 1 tiles and one more for what stands before it. */
int32_t cs_mask_tile_room(const struct cs_mask_plan *plan)
{
    return 3 * (plan->n_tokens / CS_MASK_TILE) + plan->n_segments + 2;
}

int32_t cs_mask_tile_rows_at_runs(const struct cs_mask_plan *plan, int32_t *row)
{
    int32_t n = 0, at = 0;
    for (int32_t begin = 0, end; begin < plan->n_tokens; begin = end) {
        end = run_end(plan, begin);
        const bool is_long = end - begin >= CS_MASK_TILE;
        const int32_t stop = is_long ? begin : (end < plan->n_tokens ? at : end);
        /* short runs are held back until a long one, or the end, says where to cut */
        for (; at < stop; n++) {
            row[n] = at;
            at = stop - at < CS_MASK_TILE ? stop : at + CS_MASK_TILE;
        }
        for (; is_long && at < end; n++) {
            row[n] = at;
            at = end - at < CS_MASK_TILE ? end : at + CS_MASK_TILE;
        }
    }
    row[n] = plan->n_tokens;
    return n;
}

/* ---- one block of memory ---- */

static size_t take(size_t *at, size_t items, size_t item_bytes)
{
    const size_t begin = *at;
    *at += (items * item_bytes + ALIGN - 1) / ALIGN * ALIGN;
    return begin;
}

static size_t lay_out(uintptr_t block, int32_t n_q, int32_t n_k, int32_t room,
                      struct cs_mask_cells *out)
{
    const size_t q = (size_t)n_q, k = (size_t)n_k, bitmaps = (size_t)room;
    struct cs_mask_list *const side[] = {&out->by_q, &out->by_k};
    const size_t lines[] = {q, k};
    size_t at = 0;
    *out = (struct cs_mask_cells){.n_q = n_q, .n_k = n_k, .bitmap_room = room};
#define PLACE(items, type) ((type *)(block + take(&at, items, sizeof(type))))
    out->q_row = PLACE(q + 1, int32_t);
    out->k_row = PLACE(k + 1, int32_t);
    for (int i = 0; i < 2; i++) {
        struct cs_mask_list *list = side[i];
        list->n = (int32_t)lines[i];
        list->stride = (int32_t)lines[1 - i];
        list->count = PLACE(lines[i], int32_t);
        list->entry = PLACE(q * k, uint32_t);
        list->cell = (int32_t(*)[CS_MASK_CELLS])(void *)PLACE(q * k * CS_MASK_CELLS, int32_t);
        list->order = PLACE(lines[i], int32_t);
    }
    out->bits_q = PLACE(bitmaps * CS_MASK_TILE, uint32_t);
    out->bits_k = PLACE(bitmaps * CS_MASK_TILE, uint32_t);
    out->n_bitmaps = PLACE(1, int32_t);
    out->pairs = PLACE(1, int64_t);
#undef PLACE
    return at;
}

size_t cs_mask_cells_bytes(int32_t n_q, int32_t n_k, int32_t bitmap_room)
{
    struct cs_mask_cells cells;
    return lay_out(0, n_q, n_k, bitmap_room, &cells);
}

void cs_mask_cells_place(void *block, int32_t n_q, int32_t n_k, int32_t bitmap_room,
                         struct cs_mask_cells *out)
{
    (void)lay_out((uintptr_t)block, n_q, n_k, bitmap_room, out);
}

/* ---- bitmaps, each once ---- */

struct bitmaps {
    struct cs_arena *arena;
    uint64_t (*row)[CS_MASK_CELL]; /* (room) */
    int32_t n, room;
    int32_t *slot; /* (2 room) number + 1, by hash */
};

static uint64_t hash_rows(const uint64_t row[CS_MASK_CELL])
{
    uint64_t h = UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < CS_MASK_CELL; i++) {
        h = (h ^ row[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        h ^= h >> 29;
    }
    return h;
}

/* The slot of the bitmap, or the free one where it belongs. */
static int32_t *find_slot(const struct bitmaps *b, const uint64_t row[CS_MASK_CELL])
{
    const uint64_t slots = 2 * (uint64_t)b->room;
    uint64_t at = hash_rows(row) % slots;
    while (b->slot[at] != 0 && memcmp(b->row[b->slot[at] - 1], row, sizeof *b->row) != 0)
        at = (at + 1) % slots;
    return &b->slot[at];
}

static void grow(struct bitmaps *b)
{
    const struct bitmaps old = *b;
    b->room = old.room == 0 ? FIRST_ROOM : 2 * old.room;
    b->row = cs_arena_array(b->arena, sizeof *b->row, (size_t)b->room);
    b->slot = CS_NEW_ARRAY(b->arena, int32_t, 2 * (size_t)b->room);
    if (old.n > 0)
        memcpy(b->row, old.row, (size_t)old.n * sizeof *b->row);
    for (int32_t i = 0; i < b->n; i++)
        *find_slot(b, b->row[i]) = i + 1;
}

static int32_t number_of(struct bitmaps *b, const uint64_t row[CS_MASK_CELL])
{
    if (b->n == b->room)
        grow(b);
    int32_t *slot = find_slot(b, row);
    if (*slot == 0) {
        memcpy(b->row[b->n], row, sizeof *b->row);
        *slot = ++b->n;
    }
    return *slot - 1;
}

/* ---- cells ---- */

struct half { /* rows [begin, begin + rows) */
    int32_t begin, rows;
};

static struct half half_of(const int32_t *row, int32_t tile, int half)
{
    const int32_t begin = row[tile] + half * CS_MASK_CELL, left = row[tile + 1] - begin;
    return (struct half){begin, left < 0 ? 0 : (left < CS_MASK_CELL ? left : CS_MASK_CELL)};
}

static int32_t evaluate(struct cs_mask_rule rule, const struct cs_mask_plan *q,
                        const struct cs_mask_plan *k, struct half own, struct half other,
                        struct bitmaps *bitmaps, int64_t *pairs)
{
    uint64_t row[CS_MASK_CELL] = {0};
    struct cs_mask_token key[CS_MASK_CELL];
    int32_t yes = 0;
    for (int32_t j = 0; j < other.rows; j++)
        key[j] = cs_mask_token_at(k, other.begin + j);
    for (int32_t i = 0; i < own.rows; i++) {
        const struct cs_mask_token query = cs_mask_token_at(q, own.begin + i);
        for (int32_t j = 0; j < other.rows; j++)
            if (cs_mask_allows(rule, query, key[j])) {
                row[i] |= UINT64_C(1) << j;
                yes++;
            }
    }
    *pairs += yes;
    if (yes == 0)
        return CS_CELL_NONE;
    return yes == CS_MASK_CELL * CS_MASK_CELL ? CS_CELL_ALL : number_of(bitmaps, row);
}

/* ---- lists ---- */

struct grid { /* cells of tile i of this side against tile j: cell[i * step + j * other_step] */
    int32_t (*cell)[CS_MASK_CELLS];
    int32_t n, n_other;
    size_t step, other_step;
};

static const int32_t *cells_at(const struct grid *g, int32_t i, int32_t j)
{
    return g->cell[(size_t)i * g->step + (size_t)j * g->other_step];
}

static int count_cells(const int32_t cell[CS_MASK_CELLS], bool with_bitmap_only)
{
    int n = 0;
    for (int c = 0; c < CS_MASK_CELLS; c++)
        n += with_bitmap_only ? cell[c] >= 0 : cell[c] != CS_CELL_NONE;
    return n;
}

/* Tiles by falling cost, equal ones as they come: by counting, costs are at most 4 n_other. */
static void order_tiles(const int32_t *cost, int32_t n, int32_t n_other, struct cs_arena *arena,
                        int32_t *order)
{
    const int32_t most = CS_MASK_CELLS * n_other;
    int32_t *first = CS_NEW_ARRAY(arena, int32_t, (size_t)most + 2);
    for (int32_t i = 0; i < n; i++)
        first[most - cost[i] + 1]++;
    for (int32_t c = 0; c <= most; c++)
        first[c + 1] += first[c];
    for (int32_t i = 0; i < n; i++)
        order[first[most - cost[i]]++] = i;
}

static void make_list(const struct grid *g, struct cs_arena *arena, struct cs_mask_list *out)
{
    int32_t *met = CS_NEW_ARRAY(arena, int32_t, g->n_other), /* so far, by each other tile */
        *cost = CS_NEW_ARRAY(arena, int32_t, g->n);
    for (int32_t i = 0; i < g->n; i++) {
        int32_t n = 0;
        for (int partial = 0; partial < 2; partial++)
            for (int32_t j = 0; j < g->n_other; j++) {
                const int32_t *cell = cells_at(g, i, j);
                const int some = count_cells(cell, false);
                if (some == 0 || (count_cells(cell, true) > 0) != (partial == 1))
                    continue;
                const size_t at = (size_t)i * (size_t)out->stride + (size_t)n++;
                out->entry[at] = (uint32_t)j | (uint32_t)met[j]++ << 16;
                memcpy(out->cell[at], cell, sizeof out->cell[at]);
                cost[i] += some;
            }
        out->count[i] = n;
    }
    order_tiles(cost, g->n, g->n_other, arena, out->order);
}

static enum cs_status check_tiles(const char *side, const int32_t *row, int32_t n, int32_t n_tokens,
                                  struct cs_err *err)
{
    if (n > MAX_TILES)
        return cs_fail(err, CS_LIMIT, "%d %s tiles; a mask has at most %d", (int)n, side,
                       (int)MAX_TILES);
    for (int32_t t = 0; t < n; t++)
        if (row[t + 1] <= row[t] || row[t + 1] - row[t] > CS_MASK_TILE)
            return cs_fail(err, CS_INVALID, "%s tile %d is rows %d to %d; it must have 1 to %d",
                           side, (int)t, (int)row[t], (int)row[t + 1], (int)CS_MASK_TILE);
    if (n < 0 || row[0] != 0 || row[n] != n_tokens)
        return cs_fail(err, CS_INVALID, "%d %s tiles do not cover the %d rows", (int)n, side,
                       (int)n_tokens);
    return CS_OK;
}

static void fill(const struct cs_mask_plan *q, const struct cs_mask_plan *k,
                 const struct cs_mask_cells *out, struct bitmaps *bitmaps, const struct grid *g)
{
    for (int32_t t = 0; t < out->n_q; t++)
        for (int32_t u = 0; u < out->n_k; u++)
            for (int c = 0; c < CS_MASK_CELLS; c++)
                g->cell[(size_t)t * g->step + (size_t)u][c] =
                    evaluate(q->rule, q, k, half_of(out->q_row, t, c / 2),
                             half_of(out->k_row, u, c % 2), bitmaps, out->pairs);
}

enum cs_status cs_mask_cells_make(const struct cs_mask_plan *q, const struct cs_mask_plan *k,
                                  const int32_t *q_row, int32_t n_q, const int32_t *k_row,
                                  int32_t n_k, struct cs_arena *arena, struct cs_mask_cells *out,
                                  struct cs_err *err)
{
    k = k ? k : q;
    CS_TRY(check_tiles("query", q_row, n_q, q->n_tokens, err));
    CS_TRY(check_tiles("key", k_row, n_k, k->n_tokens, err));
    const size_t tiles = (size_t)n_q * (size_t)n_k;
    struct bitmaps bitmaps = {.arena = arena};
    struct cs_mask_cells cells = {.n_q = n_q, .n_k = n_k, .q_row = q_row, .k_row = k_row};
    struct grid g = {cs_arena_array(arena, sizeof *g.cell, tiles), n_q, n_k, (size_t)n_k, 1};
    int64_t pairs = 0;
    cells.pairs = &pairs;
    fill(q, k, &cells, &bitmaps, &g);
    cs_mask_cells_place(cs_arena_alloc(arena, cs_mask_cells_bytes(n_q, n_k, bitmaps.n)), n_q, n_k,
                        bitmaps.n, out);
    int32_t *own_q = CS_NEW_ARRAY(arena, int32_t, (size_t)n_q + 1),
            *own_k = CS_NEW_ARRAY(arena, int32_t, (size_t)n_k + 1);
    memcpy(own_q, q_row, ((size_t)n_q + 1) * sizeof *own_q);
    memcpy(own_k, k_row, ((size_t)n_k + 1) * sizeof *own_k);
    out->q_row = own_q;
    out->k_row = own_k;
    for (int32_t b = 0; b < bitmaps.n; b++)
        for (int t = 0; t < CS_MASK_TILE; t++) {
            out->bits_q[b * CS_MASK_TILE + t] = cs_mask_cell_word(bitmaps.row[b], t);
            out->bits_k[b * CS_MASK_TILE + t] = cs_mask_cell_word_t(bitmaps.row[b], t);
        }
    *out->n_bitmaps = bitmaps.n;
    *out->pairs = pairs;
    make_list(&g, arena, &out->by_q);
    g = (struct grid){g.cell, n_k, n_q, 1, (size_t)n_k};
    make_list(&g, arena, &out->by_k);
    return CS_OK;
}
