/* Cells of random masks against the rule asked for every pair: rows in any order, keys that are not
 * the queries, tiles that start anywhere. */
#include "core/mask/cells.h"
#include "core/mask/runs.h"
#include "core/mask/span.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

enum { CASES = 300, MAX_SPANS = 14 };

static uint64_t seed = 11;

static int32_t between(int32_t lo, int32_t hi)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return lo + (int32_t)((seed >> 33) % (uint64_t)(hi - lo + 1));
}

static void make_random(struct cs_arena *arena, struct cs_mask_plan *plan)
{
    struct cs_mask_span span[MAX_SPANS];
    const struct cs_mask_rule rule = {(enum cs_mask_kind)between(0, CS_MASK_KINDS - 1),
                                      between(1, 90), between(1, 90)};
    const int n = between(1, MAX_SPANS);
    int32_t doc = 0;
    for (int i = 0; i < n; i++) {
        doc += i > 0 && between(0, 4) == 0;
        span[i] = (struct cs_mask_span){between(-2, 3), between(i == 0, between(0, 3) ? 70 : 300),
                                        doc, between(0, 2) ? CS_SPAN_OWN_ITEM : between(0, 2)};
    }
    struct cs_err err = {.text = ""};
    const enum cs_mask_text text = between(0, 3) ? CS_TEXT_SEES_ALL : CS_TEXT_SEES_TEXT;
    if (cs_mask_from_spans(span, n, rule, text, arena, plan, &err) != CS_OK)
        fail_msg("%s", err.text);
}

/* Rows of *from in another order, as context parallelism hands them out. */
static struct cs_mask_plan pick(struct cs_arena *arena, const struct cs_mask_plan *from, int32_t n,
                                bool shuffled)
{
    int32_t *doc = CS_NEW_ARRAY(arena, int32_t, n), *pos = CS_NEW_ARRAY(arena, int32_t, n),
            *item = CS_NEW_ARRAY(arena, int32_t, n), *segment = CS_NEW_ARRAY(arena, int32_t, n + 1);
    uint64_t *word = CS_NEW_ARRAY(arena, uint64_t, n);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_mask_token t =
            cs_mask_token_at(from, shuffled ? between(0, from->n_tokens - 1) : i);
        doc[i] = t.doc;
        pos[i] = t.pos;
        item[i] = t.item;
        word[i] = t.word;
    }
    struct cs_mask_plan plan = {from->rule, n, doc, pos, item, word, 0, segment, NULL, NULL};
    plan.n_segments = cs_mask_segments(doc, n, segment);
    return plan;
}

static int32_t random_tiles(const struct cs_mask_plan *plan, int32_t *row)
{
    int32_t n = 0;
    for (int32_t at = 0; at < plan->n_tokens; n++) {
        const int32_t rows = between(0, 1) ? CS_MASK_TILE : between(1, CS_MASK_TILE);
        row[n] = at;
        at = plan->n_tokens - at < rows ? plan->n_tokens : at + rows;
    }
    row[n] = plan->n_tokens;
    return n;
}

/* What the lists say about the pair (i of this side's tile, j of the other's). */
static bool says(const struct cs_mask_cells *c, const int32_t cell[CS_MASK_CELLS], bool by_q,
                 int32_t q, int32_t k)
{
    const int32_t value = cell[q / CS_MASK_CELL * 2 + k / CS_MASK_CELL];
    if (value < 0)
        return value == CS_CELL_ALL;
    const int row = (by_q ? q : k) % CS_MASK_CELL, col = (by_q ? k : q) % CS_MASK_CELL;
    const int thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
    const int bit = col / 8 * 4 + row % 16 / 8 * 2 + col % 2;
    const uint32_t *bits = by_q ? c->bits_q : c->bits_k;
    return bits[(size_t)value * CS_MASK_TILE + (size_t)thread] >> bit & 1;
}

static int64_t check_tile(const struct cs_mask_plan *q, const struct cs_mask_plan *k,
                          const struct cs_mask_cells *c, bool by_q, int32_t t, int32_t u,
                          const int32_t cell[CS_MASK_CELLS])
{
    int64_t yes = 0;
    for (int32_t i = 0; i < CS_MASK_TILE; i++)
        for (int32_t j = 0; j < CS_MASK_TILE; j++) {
            const int32_t row = c->q_row[t] + i, col = c->k_row[u] + j;
            const bool want =
                row < c->q_row[t + 1] && col < c->k_row[u + 1] &&
                cs_mask_allows(q->rule, cs_mask_token_at(q, row), cs_mask_token_at(k, col));
            if (says(c, cell, by_q, i, j) != want)
                fail_msg("rule %s, query %d, key %d", cs_mask_kind_name(q->rule.kind), (int)row,
                         (int)col);
            yes += want;
        }
    return yes;
}

static bool has_bitmap(const int32_t *cell)
{
    return cell[0] >= 0 || cell[1] >= 0 || cell[2] >= 0 || cell[3] >= 0;
}

/* Every tile of the other side once, in order, or empty. Returns the allowed pairs. */
static int64_t check_line(struct cs_arena *arena, const struct cs_mask_plan *q,
                          const struct cs_mask_plan *k, const struct cs_mask_cells *c, bool by_q,
                          int32_t line)
{
    static const int32_t none[] = {CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE, CS_CELL_NONE};
    const struct cs_mask_list *list = by_q ? &c->by_q : &c->by_k;
    const int32_t **of = CS_NEW_ARRAY(arena, const int32_t *, list->stride + 1);
    int64_t yes = 0;
    int32_t last = -1;
    for (int32_t i = 0; i < list->count[line]; i++) {
        const size_t at = (size_t)line * (size_t)list->stride + (size_t)i;
        const int32_t other = (int32_t)(list->entry[at] & 0xffff);
        const bool is_first =
            i > 0 && has_bitmap(list->cell[at]) && !has_bitmap(list->cell[at - 1]);
        assert_true(i == 0 || has_bitmap(list->cell[at]) || !has_bitmap(list->cell[at - 1]));
        assert_true(other > last || is_first);
        assert_memory_not_equal(list->cell[at], none, sizeof none);
        last = other;
        of[other] = list->cell[at];
    }
    for (int32_t o = 0; o < list->stride; o++)
        yes += check_tile(q, k, c, by_q, by_q ? line : o, by_q ? o : line, of[o] ? of[o] : none);
    return yes;
}

/* The rank of an entry is the number of lower tiles that meet the same other tile. */
static void check_ranks(struct cs_arena *arena, const struct cs_mask_list *list)
{
    uint32_t *met = CS_NEW_ARRAY(arena, uint32_t, list->stride + 1);
    for (int32_t line = 0; line < list->n; line++)
        for (int32_t i = 0; i < list->count[line]; i++) {
            const uint32_t e = list->entry[(size_t)line * (size_t)list->stride + (size_t)i];
            assert_int_equal(e >> 16, met[e & 0xffff]++);
        }
}

static int32_t cost_of(const struct cs_mask_list *list, int32_t line)
{
    int32_t n = 0;
    for (int32_t i = 0; i < list->count[line]; i++)
        for (int cell = 0; cell < CS_MASK_CELLS; cell++)
            n += list->cell[(size_t)line * (size_t)list->stride + (size_t)i][cell] != CS_CELL_NONE;
    return n;
}

static void check_order(struct cs_arena *arena, const struct cs_mask_list *list)
{
    uint8_t *seen = CS_NEW_ARRAY(arena, uint8_t, list->n + 1);
    for (int32_t i = 0; i < list->n; i++) {
        assert_false(seen[list->order[i]]++);
        if (i == 0)
            continue;
        const int32_t a = cost_of(list, list->order[i - 1]), b = cost_of(list, list->order[i]);
        assert_true(a > b || (a == b && list->order[i - 1] < list->order[i]));
    }
}

static void check_unique(const struct cs_mask_cells *c)
{
    for (int32_t a = 0; a < *c->n_bitmaps; a++)
        for (int32_t b = 0; b < a; b++)
            assert_memory_not_equal(c->bits_q + a * CS_MASK_TILE, c->bits_q + b * CS_MASK_TILE,
                                    CS_MASK_TILE * sizeof *c->bits_q);
}

static void check(struct cs_arena *arena, const struct cs_mask_plan *q,
                  const struct cs_mask_plan *k, const struct cs_mask_cells *c)
{
    int64_t by_q = 0, by_k = 0;
    for (int32_t t = 0; t < c->n_q; t++)
        by_q += check_line(arena, q, k, c, true, t);
    for (int32_t u = 0; u < c->n_k; u++)
        by_k += check_line(arena, q, k, c, false, u);
    assert_int_equal(by_q, *c->pairs);
    assert_int_equal(by_k, *c->pairs);
    check_ranks(arena, &c->by_q);
    check_ranks(arena, &c->by_k);
    check_order(arena, &c->by_q);
    check_order(arena, &c->by_k);
    check_unique(c);
}

static void cells_equal_the_dense_mask(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan all, q, k;
        struct cs_mask_cells cells;
        make_random(arena, &all);
        q = pick(arena, &all, between(1, all.n_tokens), i % 3 == 1);
        k = pick(arena, &all, between(1, all.n_tokens), i % 3 > 0);
        int32_t *q_row = CS_NEW_ARRAY(arena, int32_t, q.n_tokens + 2),
                *k_row = CS_NEW_ARRAY(arena, int32_t, k.n_tokens + 2);
        const int32_t n_q = random_tiles(&q, q_row), n_k = random_tiles(&k, k_row);
        assert_int_equal(cs_mask_cells_make(&q, &k, q_row, n_q, k_row, n_k, arena, &cells, NULL),
                         CS_OK);
        check(arena, &q, &k, &cells);
        cs_arena_free(arena);
    }
}

/* The planner counts tiles by closed forms: the same ones. */
static void counts_equal_the_tile_map(void **state)
{
    (void)state;
    for (int i = 0; i < CASES; i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan plan;
        struct cs_mask_runs runs;
        struct cs_mask_tiles tiles;
        struct cs_mask_cells cells;
        make_random(arena, &plan);
        assert_int_equal(cs_mask_runs_make(&plan, arena, &runs, NULL), CS_OK);
        assert_int_equal(cs_mask_tiles_make(&runs, CS_MASK_TILE, CS_MASK_TILE, arena, &tiles, NULL),
                         CS_OK);
        int32_t *row =
            CS_NEW_ARRAY(arena, int32_t, plan.n_tokens / CS_MASK_TILE + plan.n_segments + 2);
        const int32_t n = cs_mask_tile_rows(&plan, false, row);
        assert_int_equal(cs_mask_cells_make(&plan, NULL, row, n, row, n, arena, &cells, NULL),
                         CS_OK);
        assert_int_equal(n, tiles.n_q);
        for (int32_t t = 0; t < n; t++) {
            const struct cs_mask_tile_counts c = cs_mask_tiles_count(&tiles, t);
            int32_t whole = 0;
            for (int32_t e = 0; e < cells.by_q.count[t]; e++)
                whole +=
                    !has_bitmap(cells.by_q.cell[(size_t)t * (size_t)n + (size_t)e]) &&
                    memchr(cells.by_q.cell[(size_t)t * (size_t)n + (size_t)e], 0xfe, 16) == NULL;
            assert_int_equal(cells.by_q.count[t], c.count[CS_TILE_PARTIAL] + c.count[CS_TILE_ALL]);
            /* a ragged tile that is allowed whole has bitmaps */
            assert_true(whole <= c.count[CS_TILE_ALL]);
            if (row[t + 1] - row[t] == CS_MASK_TILE && plan.n_tokens % CS_MASK_TILE == 0)
                assert_int_equal(whole, c.count[CS_TILE_ALL]);
        }
        cs_arena_free(arena);
    }
}

/* Where runs of one class that fill a tile begin and end, each row asked for its class. Returns how
 * many there are. */
static int mark_long_runs(const struct cs_mask_plan *plan, bool *is_border)
{
    int n = 0;
    for (int32_t begin = 0, end; begin < plan->n_tokens; begin = end) {
        const struct cs_mask_token own = cs_mask_class(plan->rule, cs_mask_token_at(plan, begin));
        for (end = begin + 1; end < plan->n_tokens; end++) {
            const struct cs_mask_token t = cs_mask_class(plan->rule, cs_mask_token_at(plan, end));
            if (t.word != own.word || t.item != own.item || t.doc != own.doc)
                break;
        }
        if (end - begin < CS_MASK_TILE)
            continue;
        is_border[begin] = is_border[end] = true;
        n++;
    }
    return n;
}

/* Valid tiles, within the room that is promised; short ones end where a long run begins or ends,
 * none crosses such a place. */
static void tiles_at_runs_are_tiles(void **state)
{
    int long_runs = 0;
    (void)state;
    for (int i = 0; i < 5 * CASES; i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_mask_plan plan;
        make_random(arena, &plan);
        const int32_t room = cs_mask_tile_room(&plan);
        int32_t *row = CS_NEW_ARRAY(arena, int32_t, room);
        const int32_t n = cs_mask_tile_rows_at_runs(&plan, row);
        assert_true(n < room);
        assert_int_equal(row[0], 0);
        assert_int_equal(row[n], plan.n_tokens);
        bool *is_border = CS_NEW_ARRAY(arena, bool, plan.n_tokens + 1);
        long_runs += mark_long_runs(&plan, is_border);
        is_border[plan.n_tokens] = true;
        for (int32_t t = 0; t < n; t++) {
            assert_in_range(row[t + 1] - row[t], 1, CS_MASK_TILE);
            assert_true(is_border[row[t + 1]] || row[t + 1] - row[t] == CS_MASK_TILE);
            for (int32_t r = row[t] + 1; r < row[t + 1]; r++)
                assert_false(is_border[r]);
        }
        cs_arena_free(arena);
    }
    assert_true(long_runs > CASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cells_equal_the_dense_mask),
        cmocka_unit_test(counts_equal_the_tile_map),
        cmocka_unit_test(tiles_at_runs_are_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
