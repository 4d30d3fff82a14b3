/* The mask builder: the lists of core/mask/cells.h on the device, entry by entry those of the CPU
 * twin (cs_mask_cells_make). Five kernels, no wait, no allocation, so a graph can hold them:
 *
 *   1. every half tile is reduced to its runs of like tokens (below)
 *   2. every cell is decided from two such halves: empty, whole, or to be asked (below)
 *   3. the rule is asked for every pair of the latter; equal bitmaps are stored once
 * (mask_cells.cu)
 *   4. ranks and counts of every line of both sides (mask_lists.cu)
 *   5. entries and orders (mask_lists.cu)
 *
 * Two runs stand in one relation, which leaves a test of positions, so their least and greatest
 * position decide without a look at the tokens, whatever the order of the rows. */
#include "kernels/cuda/mask/mask_build.cuh"

#define ALIGN(bytes) (((size_t)(bytes) + 255) & ~(size_t)255)

/* ---- 1. halves ---- */

__device__ static bool is_other_class(const struct cs_mask_token &a, const struct cs_mask_token &b)
{
    return a.word != b.word || a.item != b.item || a.doc != b.doc;
}

__device__ static struct cs_mask_token shuffle(const struct cs_mask_token &t, int lane)
{
    return {__shfl_sync(0xffffffffu, t.word, lane), __shfl_sync(0xffffffffu, t.doc, lane),
            __shfl_sync(0xffffffffu, t.pos, lane), __shfl_sync(0xffffffffu, t.item, lane)};
}

/* Lane l holds rows l (low) and l + 32 (high) of the half. */
__device__ static void summarise(struct cs_mask_rule rule, const struct cs_mask_plan &plan,
                                 int32_t begin, int32_t rows, struct cs_half *out)
{
    const int lane = (int)threadIdx.x % 32;
    struct cs_mask_token t[2] = {};
    int32_t pos[2] = {}, doc_lo = INT32_MAX, doc_hi = INT32_MIN;
    for (int i = 0; i < 2; i++) {
        const int32_t row = lane + 32 * i;
        if (row >= rows)
            continue;
        t[i] = cs_mask_token_of(plan, begin + row);
        pos[i] = t[i].pos;
        t[i] = cs_mask_class(rule, t[i]);
        if (t[i].word != 0) {
            doc_lo = min(doc_lo, t[i].doc);
            doc_hi = max(doc_hi, t[i].doc);
        }
    }
    const struct cs_mask_token before = shuffle(t[0], (lane + 31) % 32), /* lane 0: not used */
        middle = shuffle(t[0], 31), before_high = shuffle(t[1], (lane + 31) % 32);
    const bool low = lane < rows && (lane == 0 || is_other_class(t[0], before));
    const bool high = lane + 32 < rows && is_other_class(t[1], lane == 0 ? middle : before_high);
    uint64_t starts = __ballot_sync(0xffffffffu, low) | (uint64_t)__ballot_sync(0xffffffffu, high)
                                                            << 32;
    const int32_t n = __popcll(starts);
    doc_lo = __reduce_min_sync(0xffffffffu, doc_lo);
    doc_hi = __reduce_max_sync(0xffffffffu, doc_hi);
    if (lane == 0) {
        out->rows = rows;
        out->n_runs = n;
        out->doc_lo = doc_lo;
        out->doc_hi = doc_hi;
    }
    if (n > CS_HALF_RUNS)
        return;
    for (int32_t r = 0; r < n; r++) {
        const int first = __ffsll((long long)starts) - 1;
        starts &= starts - 1;
        const int end = starts != 0 ? __ffsll((long long)starts) - 1 : rows;
        int32_t lo = INT32_MAX, hi = INT32_MIN;
        for (int i = 0; i < 2; i++)
            if (lane + 32 * i >= first && lane + 32 * i < end) {
                lo = min(lo, pos[i]);
                hi = max(hi, pos[i]);
            }
        lo = __reduce_min_sync(0xffffffffu, lo);
        hi = __reduce_max_sync(0xffffffffu, hi);
        if (lane == first % 32) {
            const struct cs_mask_token own = first < 32 ? t[0] : t[1];
            out->run[r] = {own.word, own.doc, own.item, lo, hi};
        }
    }
}

/* One warp per half; all threads clear the tables of step 3. */
__global__ void __launch_bounds__(CS_MASK_THREADS)
    halves_kernel(struct cs_mask_plan q, struct cs_mask_plan k, struct cs_mask_cells cells,
                  struct cs_mask_scratch s)
{
    const int64_t thread = (int64_t)blockIdx.x * CS_MASK_THREADS + threadIdx.x;
    if (thread == 0) {
        *s.n_ask = 0;
        *cells.n_bitmaps = 0;
        *cells.pairs = 0;
    }
    for (int64_t i = thread; i < s.slots; i += (int64_t)gridDim.x * CS_MASK_THREADS) {
        s.key[i] = 0;
        s.number[i] = 0;
    }
    const int64_t warp = thread / 32;
    const bool is_key = warp >= 2 * cells.n_q;
    const int32_t half = (int32_t)(is_key ? warp - 2 * cells.n_q : warp);
    if (is_key && half >= 2 * cells.n_k)
        return;
    const int32_t *row = is_key ? cells.k_row : cells.q_row;
    const int32_t begin = row[half / 2] + half % 2 * CS_MASK_CELL;
    const int32_t rows = max(0, min(CS_MASK_CELL, row[half / 2 + 1] - begin));
    summarise(q.rule, is_key ? k : q, begin, rows, (is_key ? s.half_k : s.half_q) + half);
}

/* ---- 2. decisions ---- */

enum verdict { VERDICT_NONE, VERDICT_SOME, VERDICT_ALL };

/* q_lo ..: positions of two runs in the relation */
__device__ static enum verdict judge(enum cs_mask_relation relation, struct cs_mask_rule rule,
                                     const struct cs_half_run &q, const struct cs_half_run &k)
{
    const bool all_earlier = k.hi <= q.lo, some_earlier = k.lo <= q.hi;
    switch (relation) {
    case CS_MASK_NEVER:
        return VERDICT_NONE;
    case CS_MASK_ALWAYS:
        return VERDICT_ALL;
    case CS_MASK_EARLIER:
        return all_earlier ? VERDICT_ALL : some_earlier ? VERDICT_SOME : VERDICT_NONE;
    case CS_MASK_NEAR:
        if (!some_earlier || (int64_t)q.lo - k.hi >= rule.window)
            return VERDICT_NONE;
        return all_earlier && (int64_t)q.hi - k.lo < rule.window ? VERDICT_ALL : VERDICT_SOME;
    case CS_MASK_BACK:
        if ((int64_t)q.lo - k.hi >= rule.window)
            return VERDICT_NONE;
        return (int64_t)q.hi - k.lo < rule.window ? VERDICT_ALL : VERDICT_SOME;
    case CS_MASK_HEAD:
        if (all_earlier || (q.hi < rule.prefix && k.hi < rule.prefix))
            return VERDICT_ALL;
        return some_earlier || (q.lo < rule.prefix && k.lo < rule.prefix) ? VERDICT_SOME
                                                                          : VERDICT_NONE;
    }
    return VERDICT_SOME;
}

__device__ static int32_t decide(struct cs_mask_rule rule, const struct cs_half &q,
                                 const struct cs_half &k)
{
    if (q.doc_lo > q.doc_hi || k.doc_lo > k.doc_hi || q.doc_hi < k.doc_lo || k.doc_hi < q.doc_lo)
        return CS_CELL_NONE;
    if (q.n_runs > CS_HALF_RUNS || k.n_runs > CS_HALF_RUNS)
        return CS_CELL_ASK;
    bool some = false, all = q.rows == CS_MASK_CELL && k.rows == CS_MASK_CELL;
    for (int32_t a = 0; a < q.n_runs; a++)
        for (int32_t b = 0; b < k.n_runs; b++) {
            const struct cs_half_run &own = q.run[a], &other = k.run[b];
            const enum cs_mask_relation relation = cs_mask_relation(
                rule, {own.word, own.doc, 0, own.item}, {other.word, other.doc, 0, other.item});
            const enum verdict v = judge(relation, rule, own, other);
            some = some || v != VERDICT_NONE;
            all = all && v == VERDICT_ALL;
        }
    return all ? CS_CELL_ALL : some ? CS_CELL_ASK : CS_CELL_NONE;
}

/* One thread per pair of tiles. */
__global__ void __launch_bounds__(CS_MASK_THREADS)
    decide_kernel(struct cs_mask_rule rule, struct cs_mask_cells cells, struct cs_mask_scratch s)
{
    const int lane = (int)threadIdx.x % 32;
    const int64_t pair = (int64_t)blockIdx.x * CS_MASK_THREADS + threadIdx.x;
    int32_t cell[CS_MASK_CELLS] = {}, asks = 0, whole = 0;
    if (pair < (int64_t)cells.n_q * cells.n_k) {
        const struct cs_half *q = s.half_q + 2 * (pair / cells.n_k);
        const struct cs_half *k = s.half_k + 2 * (pair % cells.n_k);
#pragma unroll
        for (int c = 0; c < CS_MASK_CELLS; c++) {
            cell[c] = decide(rule, q[c / 2], k[c % 2]);
            asks += cell[c] == CS_CELL_ASK;
            whole += cell[c] == CS_CELL_ALL;
        }
        s.cell[pair] = make_int4(cell[0], cell[1], cell[2], cell[3]);
    }
    whole = __reduce_add_sync(0xffffffffu, whole);
    if (lane == 0 && whole > 0)
        atomicAdd((unsigned long long *)cells.pairs,
                  (unsigned long long)whole * (CS_MASK_CELL * CS_MASK_CELL));
    int32_t before = asks; /* of the lanes up to this one */
    for (int step = 1; step < 32; step *= 2) {
        const int32_t other = __shfl_up_sync(0xffffffffu, before, step);
        before += lane >= step ? other : 0;
    }
    uint32_t at = 0;
    if (lane == 31 && before > 0)
        at = atomicAdd(s.n_ask, (uint32_t)before);
    at = __shfl_sync(0xffffffffu, at, 31) + (uint32_t)(before - asks);
#pragma unroll
    for (int c = 0; c < CS_MASK_CELLS; c++)
        if (cell[c] == CS_CELL_ASK)
            s.ask[at++] = (uint32_t)(CS_MASK_CELLS * pair + c);
}

/* ---- the operator ---- */

static void *take(char **at, size_t bytes)
{
    char *p = *at;
    *at += ALIGN(bytes);
    return p;
}

/* Returns the bytes from block on. */
static size_t place(char *block, size_t n_q, size_t n_k, int32_t room, struct cs_mask_scratch *s)
{
    char *at = (char *)ALIGN((uintptr_t)block);
    s->slots = 1024;
    while (s->slots < 2 * (uint32_t)room)
        s->slots *= 2;
    s->half_q = (struct cs_half *)take(&at, 2 * n_q * sizeof *s->half_q);
    s->half_k = (struct cs_half *)take(&at, 2 * n_k * sizeof *s->half_k);
    s->cell = (int4 *)take(&at, n_q * n_k * sizeof *s->cell);
    s->rank_of_q = (uint16_t *)take(&at, n_q * n_k * sizeof *s->rank_of_q);
    s->rank_of_k = (uint16_t *)take(&at, n_q * n_k * sizeof *s->rank_of_k);
    s->line = (struct cs_line *)take(&at, (n_q + n_k) * sizeof *s->line);
    s->ask = (uint32_t *)take(&at, CS_MASK_CELLS * n_q * n_k * sizeof *s->ask);
    s->n_ask = (uint32_t *)take(&at, sizeof *s->n_ask);
    s->key = (unsigned long long *)take(&at, s->slots * sizeof *s->key);
    s->number = (int32_t *)take(&at, s->slots * sizeof *s->number);
    return (size_t)(at - block);
}

size_t cs_cuda_mask_workspace(int32_t n_q_tiles, int32_t n_k_tiles, int32_t bitmap_room)
{
    struct cs_mask_scratch s;
    return 256 + place((char *)256, (size_t)n_q_tiles, (size_t)n_k_tiles, bitmap_room, &s);
}

static bool is_list_of(const struct cs_mask_list *list, int32_t n, int32_t n_other)
{
    return list->n == n && list->stride == n_other;
}

static bool check(struct cs_ctx *ctx, const struct cs_mask_cells *c)
{
    const int64_t pairs = (int64_t)c->n_q * c->n_k;
    if (c->n_q > 65535 || c->n_k > 65535 || pairs > (INT64_C(1) << 30) || c->bitmap_room < 1 ||
        c->bitmap_room > (1 << 30)) {
        CS_CUDA_REFUSE(ctx, CS_LIMIT,
                       "mask_build: %d query tiles, %d key tiles, room for %d bitmaps: at most "
                       "65535 of a side, 2^30 pairs, and 1 to 2^30 bitmaps",
                       c->n_q, c->n_k, c->bitmap_room);
        return false;
    }
    const size_t bytes = cs_cuda_mask_workspace(c->n_q, c->n_k, c->bitmap_room);
    if (!is_list_of(&c->by_q, c->n_q, c->n_k) || !is_list_of(&c->by_k, c->n_k, c->n_q) ||
        ctx->workspace_bytes < bytes) {
        CS_CUDA_REFUSE(ctx, CS_INVALID,
                       "mask_build: lists of %d x %d and %d x %d for %d query and %d key tiles, "
                       "workspace of %zu bytes (%zu needed)",
                       c->by_q.n, c->by_q.stride, c->by_k.n, c->by_k.stride, c->n_q, c->n_k,
                       ctx->workspace_bytes, bytes);
        return false;
    }
    return true;
}

static unsigned blocks_of(int64_t threads)
{
    return (unsigned)((threads + CS_MASK_THREADS - 1) / CS_MASK_THREADS);
}

void cs_cuda_mask_build(struct cs_ctx *ctx, const struct cs_mask_plan *mask,
                        struct cs_mask_cells *cells)
{
    if (cells->n_q <= 0 || cells->n_k <= 0 || !check(ctx, cells))
        return;
    struct cs_mask_scratch s;
    (void)place((char *)ctx->workspace, (size_t)cells->n_q, (size_t)cells->n_k, cells->bitmap_room,
                &s);
    const struct cs_mask_plan *keys = mask->keys != nullptr ? mask->keys : mask;
    const cudaStream_t stream = cs_cuda_stream_of(ctx);
    halves_kernel<<<blocks_of(64 * ((int64_t)cells->n_q + cells->n_k)), CS_MASK_THREADS, 0,
                    stream>>>(*mask, *keys, *cells, s);
    CS_CUDA_LAUNCHED(ctx, "mask_build");
    decide_kernel<<<blocks_of((int64_t)cells->n_q * cells->n_k), CS_MASK_THREADS, 0, stream>>>(
        mask->rule, *cells, s);
    CS_CUDA_LAUNCHED(ctx, "mask_build");
    cs_mask_evaluate(ctx, mask, keys, cells, &s);
    cs_mask_lists(ctx, cells, &s);
}
