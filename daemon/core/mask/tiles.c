/* The tile map; see runs.h.
 *
 * For every fragment of a row of tiles (the part of a run inside it) and every run of keys of the
 * same document, the keys that some row of the fragment sees are an interval, and so are the keys
 * that every row sees. Intervals are added up per tile: a tile is CS_TILE_ALL when every fragment
 * sees every key of it. */
#include "core/mask/runs.h"

#include <string.h>

enum { MAX_TILES = 1 << 28 };

struct interval { /* keys [lo, hi], empty when lo > hi */
    int64_t lo, hi;
};

/* Sums over one row of tiles. Only the tiles first to last are looked at: most rows see a part. */
struct cover {
    int64_t k_rows;
    int64_t first, last; /* tiles that some fragment sees part of lie between them */
    int32_t *any;        /* (n_k + 1) difference array: fragments that see part of the tile */
    int32_t *whole;      /* (n_k + 1) difference array: fragments that see every key, inner tiles */
    int64_t *keys;       /* (n_k) keys seen whole by a fragment, tiles at the ends of intervals */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Rows stand for positions inside one document; prefix_row is the first row behind the prefix. */
static struct interval seen_by_some(enum cs_mask_relation relation, struct interval q,
                                    struct interval k, int64_t window, int64_t prefix_row)
{
    const struct interval none = {0, -1};
    switch (relation) {
    case CS_MASK_NEVER:
        return none;
    case CS_MASK_ALWAYS:
        return k;
    case CS_MASK_EARLIER:
        return (struct interval){k.lo, least(k.hi, q.hi)};
    case CS_MASK_NEAR:
        return (struct interval){most(k.lo, q.lo - window + 1), least(k.hi, q.hi)};
    case CS_MASK_HEAD:
        return (struct interval){
            k.lo, least(k.hi, q.lo < prefix_row ? most(q.hi, prefix_row - 1) : q.hi)};
    case CS_MASK_BACK:
        return (struct interval){most(k.lo, q.lo - window + 1), k.hi};
    }
    return none;
}

static struct interval seen_by_all(enum cs_mask_relation relation, struct interval q,
                                   struct interval k, int64_t window, int64_t prefix_row)
{
    const struct interval none = {0, -1};
    switch (relation) {
    case CS_MASK_NEVER:
        return none;
    case CS_MASK_ALWAYS:
        return k;
    case CS_MASK_EARLIER:
        return (struct interval){k.lo, least(k.hi, q.lo)};
    case CS_MASK_NEAR:
        return (struct interval){most(k.lo, q.hi - window + 1), least(k.hi, q.lo)};
    case CS_MASK_HEAD: /* a key at or behind the prefix must be earlier than every row */
        return (struct interval){k.lo, least(k.hi, most(q.lo, prefix_row - 1))};
    case CS_MASK_BACK:
        return (struct interval){most(k.lo, q.hi - window + 1), k.hi};
    }
    return none;
}

static void add_any(struct cover *c, struct interval keys)
{
    if (keys.lo > keys.hi)
        return;
    const int64_t first = keys.lo / c->k_rows, last = keys.hi / c->k_rows;
    c->any[first]++;
    c->any[last + 1]--;
    c->first = least(c->first, first);
    c->last = most(c->last, last);
}

static void add_all(struct cover *c, struct interval keys)
{
    if (keys.lo > keys.hi)
        return;
    const int64_t first = keys.lo / c->k_rows, last = keys.hi / c->k_rows;
    if (first == last) {
        c->keys[first] += keys.hi - keys.lo + 1;
        return;
    }
    c->keys[first] += (first + 1) * c->k_rows - keys.lo;
    c->keys[last] += keys.hi - last * c->k_rows + 1;
    c->whole[first + 1]++;
    c->whole[last]--;
}

static void add_fragment(const struct cs_mask_runs *runs, int32_t doc,
                         const struct cs_mask_run *query, struct interval q, struct cover *c)
{
    const struct cs_mask_run *first = &runs->run[runs->first[doc]];
    const int64_t prefix_row = (int64_t)runs->rule.prefix - first->token.pos + first->row;
    for (int32_t r = runs->first[doc]; r < runs->first[doc + 1]; r++) {
        const struct cs_mask_run *key = &runs->run[r];
        const struct interval k = {key->row, (int64_t)key->row + key->rows - 1};
        const enum cs_mask_relation rel = cs_mask_relation(runs->rule, query->token, key->token);
        if (rel == CS_MASK_NEVER)
            continue;
        add_any(c, seen_by_some(rel, q, k, runs->rule.window, prefix_row));
        add_all(c, seen_by_all(rel, q, k, runs->rule.window, prefix_row));
    }
}

/* Sets the tiles first to last, all others are NONE, and clears the sums. */
static void finish_row(const struct cs_mask_runs *runs, struct cover *c, int32_t fragments,
                       uint8_t *tile)
{
    int32_t any = 0, whole = 0;
    if (c->first > c->last)
        return;
    for (int64_t t = c->first; t <= c->last; t++) {
        const int64_t width = least(c->k_rows, runs->n_tokens - t * c->k_rows);
        any += c->any[t];
        whole += c->whole[t];
        tile[t] = any == 0 ? CS_TILE_NONE : CS_TILE_PARTIAL;
        if (any > 0 && c->keys[t] + whole * c->k_rows == fragments * width)
            tile[t] = CS_TILE_ALL;
    }
    const size_t n = (size_t)(c->last - c->first) + 1;
    memset(c->any + c->first, 0, (n + 1) * sizeof *c->any);
    memset(c->whole + c->first, 0, (n + 1) * sizeof *c->whole);
    memset(c->keys + c->first, 0, n * sizeof *c->keys);
}

/* Where a walk over ascending blocks of queries is. */
struct walk {
    int32_t run, doc; /* first run that reaches into the block, its document */
};

/* Covers of the queries [begin, end); returns how many runs have part in it. */
static int32_t add_block(const struct cs_mask_runs *runs, int64_t begin, int64_t end,
                         struct walk *at, struct cover *c)
{
    c->first = INT64_MAX;
    c->last = -1;
    for (int32_t fragments = 1;; fragments++) {
        const struct cs_mask_run *run = &runs->run[at->run];
        const int64_t run_end = (int64_t)run->row + run->rows;
        while (at->run >= runs->first[at->doc + 1])
            at->doc++;
        const struct interval q = {most(begin, run->row), least(end, run_end) - 1};
        add_fragment(runs, at->doc, run, q, c);
        at->run += run_end <= end;
        if (run_end >= end)
            return fragments;
    }
}

static void fill(const struct cs_mask_runs *runs, const struct cs_mask_tiles *out, struct cover *c,
                 uint8_t *tile)
{
    struct walk at = {0, 0};
    for (int32_t t = 0; t < out->n_q; t++) {
        const int64_t begin = (int64_t)t * out->q_rows,
                      end = least(begin + out->q_rows, runs->n_tokens);
        const int32_t fragments = add_block(runs, begin, end, &at, c);
        finish_row(runs, c, fragments, tile + (size_t)t * (size_t)out->n_k);
    }
}

static struct cover new_cover(int32_t k_rows, int32_t n_k, struct cs_arena *arena)
{
    return (struct cover){
        .k_rows = k_rows,
        .any = CS_NEW_ARRAY(arena, int32_t, n_k + 1),
        .whole = CS_NEW_ARRAY(arena, int32_t, n_k + 1),
        .keys = CS_NEW_ARRAY(arena, int64_t, n_k),
    };
}

int64_t cs_mask_tiles_met(const struct cs_mask_runs *runs, const int32_t *q_row, int32_t n_q,
                          int32_t k_rows, struct cs_arena *arena, int64_t *n_partial)
{
    const int32_t n_k = (runs->n_tokens - 1) / k_rows + 1;
    struct cover c = new_cover(k_rows, n_k, arena);
    uint8_t *tile = CS_NEW_ARRAY(arena, uint8_t, n_k);
    struct walk at = {0, 0};
    int64_t met = 0, partial = 0;
    for (int32_t b = 0; b < n_q; b++) {
        const int32_t fragments = add_block(runs, q_row[b], q_row[b + 1], &at, &c);
        finish_row(runs, &c, fragments, tile);
        for (int64_t t = c.first; t <= c.last; t++) {
            met += tile[t] != CS_TILE_NONE;
            partial += tile[t] == CS_TILE_PARTIAL;
        }
    }
    if (n_partial != NULL)
        *n_partial = partial;
    return met;
}

enum cs_status cs_mask_tiles_make(const struct cs_mask_runs *runs, int32_t q_rows, int32_t k_rows,
                                  struct cs_arena *arena, struct cs_mask_tiles *out,
                                  struct cs_err *err)
{
    if (q_rows < 1 || k_rows < 1)
        return cs_fail(err, CS_INVALID, "a tile of %d x %d tokens; both must be at least 1",
                       (int)q_rows, (int)k_rows);
    const int32_t n_q = (runs->n_tokens - 1) / q_rows + 1, n_k = (runs->n_tokens - 1) / k_rows + 1;
    if ((int64_t)n_q * n_k > MAX_TILES)
        return cs_fail(err, CS_LIMIT, "%d x %d tiles are too many; make the tiles larger", (int)n_q,
                       (int)n_k);
    _Static_assert(CS_TILE_NONE == 0, "memory of an arena is NONE");
    uint8_t *tile = CS_NEW_ARRAY(arena, uint8_t, (size_t)n_q * (size_t)n_k);
    struct cover cover = new_cover(k_rows, n_k, arena);
    *out = (struct cs_mask_tiles){q_rows, k_rows, n_q, n_k, tile};
    fill(runs, out, &cover, tile);
    return CS_OK;
}

struct cs_mask_tile_counts cs_mask_tiles_count(const struct cs_mask_tiles *tiles, int32_t q)
{
    struct cs_mask_tile_counts counts = {{0}};
    const size_t n_k = (size_t)tiles->n_k;
    const size_t begin = q < 0 ? 0 : (size_t)q * n_k,
                 end = q < 0 ? (size_t)tiles->n_q * n_k : begin + n_k;
    for (size_t i = begin; i < end; i++)
        counts.count[tiles->tile[i]]++;
    return counts;
}

void cs_mask_text_tiles(const struct cs_mask_tiles *tiles, int32_t q, struct cs_buf *out)
{
    for (int32_t k = 0; k < tiles->n_k; k++)
        cs_buf_addc(out, (char)('0' + tiles->tile[(size_t)q * (size_t)tiles->n_k + (size_t)k]));
}
