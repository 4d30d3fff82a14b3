/* Attention under multimodal masks: bench_attention PLUGIN [--masks DIR] [--sinks] [--cap]
 * [CASE...], or bench_attention --list for the names. --sinks: every head has one; --cap: a soft
 * cap. A CASE is the begin of a name. For every case: how long the lists of the mask take to build,
 * what is in them, and median milliseconds and TFLOP/s of allowed pairs (4 D a pair and head
 * forward, 10 D backward) of forward, backward and deterministic backward; bf16, normally
 * distributed operands. --masks writes the tokens of every mask for tests/bench/attention_peer.py,
 * which measures others. */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/mask/cells.h"
#include "core/mask/span.h"
#include "kernels/device.h"
#include "kernels/ops.h"

#define WARMUP      3
#define ROUNDS      11
#define BITMAP_ROOM 8192
#define OPERANDS    ((size_t)8 << 30)
#define WORKSPACE   ((size_t)4 << 30)

struct bench {
    const struct cs_ops *ops;
    const struct cs_device_ops *dev;
    void *handle, *stream, *begin, *end;
    char *operands;
    struct cs_ctx ctx;
    const char *mask_dir;
    bool has_sinks, is_capped;
};

/* How text and images lie: spans of both in turn, made as in the probe of the design. */
enum layout {
    LAYOUT_TEXT,
    LAYOUT_DOCS,
    LAYOUT_MIXED,
    LAYOUT_MIXED_DOCS,
    LAYOUT_VIDEO,
    LAYOUT_IMAGES
};

enum tiling { TILES_PLAIN, TILES_AT_DOCS, QUERY_TILES_AT_RUNS, TILES_AT_RUNS };

struct bench_case {
    const char *name;
    enum cs_mask_kind kind;
    enum layout layout;
    enum tiling tiling;
    int32_t heads, kv_heads, dim, tokens[3];
};

static const struct bench_case cases[] = {
    {"causal",       CS_MASK_CAUSAL,      LAYOUT_TEXT,       TILES_PLAIN,   32, 8,  128, {8192, 16384, 32768}},
    {"full",         CS_MASK_FULL,        LAYOUT_TEXT,       TILES_PLAIN,   32, 8,  128, {8192, 16384, 32768}},
    {"packed",
     CS_MASK_IMAGE_BIDIR,                 LAYOUT_MIXED_DOCS,
     TILES_PLAIN,                                                           32,
     8,                                                                             128,
     {8192, 16384, 32768}                                                                                    },
    {"isolated",     CS_MASK_ITEM,        LAYOUT_MIXED,      TILES_PLAIN,   32, 8,  128, {8192, 16384, 32768}},
    {"isolated-q",
     CS_MASK_ITEM,                        LAYOUT_MIXED,
     QUERY_TILES_AT_RUNS,                                                   32,
     8,                                                                             128,
     {8192, 16384, 32768}                                                                                    },
    {"isolated-qk",  CS_MASK_ITEM,        LAYOUT_MIXED,      TILES_AT_RUNS, 32, 8,  128, {8192, 16384, 32768}},
    {"video",        CS_MASK_ITEM,        LAYOUT_VIDEO,      TILES_PLAIN,   32, 8,  128, {8192, 16384, 32768}},
    {"short",        CS_MASK_CAUSAL,      LAYOUT_DOCS,       TILES_PLAIN,   32, 8,  128, {8192, 16384, 32768}},
    {"short-docs",   CS_MASK_CAUSAL,      LAYOUT_DOCS,       TILES_AT_DOCS, 32, 8,  128, {8192, 16384, 32768}},
    {"d64-causal",   CS_MASK_CAUSAL,      LAYOUT_TEXT,       TILES_PLAIN,   32, 8,  64,  {8192, 16384, 32768}},
    {"d64-packed",
     CS_MASK_IMAGE_BIDIR,                 LAYOUT_MIXED_DOCS,
     TILES_PLAIN,                                                           32,
     8,                                                                             64,
     {8192, 16384, 32768}                                                                                    },
    {"d64-isolated",
     CS_MASK_ITEM,                        LAYOUT_MIXED,
     QUERY_TILES_AT_RUNS,                                                   32,
     8,                                                                             64,
     {8192, 16384, 32768}                                                                                    },
    {"siglip",       CS_MASK_FULL,        LAYOUT_IMAGES,     TILES_AT_DOCS, 16, 16, 72,  {8019, 16038, 32076}},
    {"d80-images",   CS_MASK_FULL,        LAYOUT_IMAGES,     TILES_AT_DOCS, 16, 16, 80,  {16038}             },
    {"d96-causal",   CS_MASK_CAUSAL,      LAYOUT_TEXT,       TILES_PLAIN,   32, 32, 96,  {8192}              },
    {"d256-causal",  CS_MASK_CAUSAL,      LAYOUT_TEXT,       TILES_PLAIN,   8,  4,  256, {8192, 16384}       },
    {"d256-packed",  CS_MASK_IMAGE_BIDIR, LAYOUT_MIXED_DOCS, TILES_PLAIN,   8,  4,  256, {16384}             },
    {"d512-causal",  CS_MASK_CAUSAL,      LAYOUT_TEXT,       TILES_PLAIN,   16, 4,  512, {4096, 8192}        },
    {"d512-packed",  CS_MASK_IMAGE_BIDIR, LAYOUT_MIXED_DOCS, TILES_PLAIN,   16, 4,  512, {8192}              },
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

/* ---- masks ---- */

enum { IMAGE = 729 };

struct tokens {
    int32_t n, n_docs;
    int32_t *doc, *pos, *item;
    uint64_t *word;
};

/* Rows [t->n, end) of one span; item -1: text, which sees all modalities. */
static void add_span(struct tokens *t, int32_t end, int32_t doc, int32_t item)
{
    for (; t->n < end; t->n++) {
        const int32_t i = t->n;
        t->doc[i] = doc;
        t->pos[i] = i > 0 && t->doc[i - 1] == doc ? t->pos[i - 1] + 1 : 0;
        t->item[i] = item;
        t->word[i] = item < 0 ? CS_MASK_TEXT | CS_MASK_MODALITY(0) : CS_MASK_MODALITY(0);
    }
    t->n_docs = doc + 1;
}

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static void mixed(struct tokens *t, int32_t n, bool is_packed)
{
    uint32_t x = 12345;
    for (int32_t doc = 0, item = 0, border = n / 3; t->n < n; item++) {
        x = x * 1664525u + 1013904223u;
        add_span(t, least(n, t->n + 32 + (int32_t)((x >> 8) % 480)), doc, -1);
        add_span(t, least(n, t->n + IMAGE), doc, item);
        if (is_packed && t->n >= border) {
            doc++;
            border += n / 3;
        }
    }
}

static void lay_out(enum layout layout, int32_t n, struct tokens *t)
{
    uint32_t x = 777;
    switch (layout) {
    case LAYOUT_TEXT:
        add_span(t, n, 0, -1);
        return;
    case LAYOUT_DOCS:
        for (int32_t doc = 0; t->n < n; doc++) {
            x = x * 1664525u + 1013904223u;
            add_span(t, least(n, t->n + 64 + (int32_t)((x >> 8) % 960)), doc, -1);
        }
        return;
    case LAYOUT_MIXED:
    case LAYOUT_MIXED_DOCS:
        mixed(t, n, layout == LAYOUT_MIXED_DOCS);
        return;
    case LAYOUT_VIDEO:
        add_span(t, n / 16, 0, -1);
        add_span(t, n / 16 * 13, 0, 0);
        add_span(t, n, 0, -1);
        return;
    case LAYOUT_IMAGES:
        for (int32_t doc = 0; t->n < n; doc++)
            add_span(t, least(n, t->n + IMAGE), doc, 0);
        return;
    }
}

static void *upload(struct bench *b, char **at, const void *host, size_t bytes)
{
    struct cs_err err;
    void *to = *at;
    must(b->dev->copy(b->handle, b->stream, to, host, bytes, &err), &err);
    *at += (bytes + 255) / 256 * 256;
    return to;
}

/* A plan on the host and on the device, with tiles and (unfilled) lists in device memory at at. */
struct mask {
    struct cs_mask_plan host, dev;
    struct cs_mask_cells cells;
};

static int32_t make_tiles(const struct cs_mask_plan *plan, enum tiling tiling, bool is_query,
                          struct cs_arena *arena, int32_t **row)
{
    *row = CS_NEW_ARRAY(arena, int32_t, cs_mask_tile_room(plan));
    if (tiling == TILES_AT_RUNS || (is_query && tiling == QUERY_TILES_AT_RUNS))
        return cs_mask_tile_rows_at_runs(plan, *row);
    return cs_mask_tile_rows(plan, tiling == TILES_AT_DOCS, *row);
}

static char *place_mask(struct bench *b, const struct bench_case *c, int32_t n,
                        struct cs_arena *arena, char *at, struct mask *m)
{
    struct tokens t = {.doc = CS_NEW_ARRAY(arena, int32_t, n),
                       .pos = CS_NEW_ARRAY(arena, int32_t, n),
                       .item = CS_NEW_ARRAY(arena, int32_t, n),
                       .word = CS_NEW_ARRAY(arena, uint64_t, n)};
    int32_t *segment = CS_NEW_ARRAY(arena, int32_t, n + 1);
    lay_out(c->layout, n, &t);
    m->host = (struct cs_mask_plan){.rule = {.kind = c->kind},
                                    .n_tokens = n,
                                    .doc = t.doc,
                                    .pos = t.pos,
                                    .item = t.item,
                                    .word = t.word,
                                    .segment = segment};
    m->host.n_segments = cs_mask_segments(t.doc, n, segment);
    int32_t *q_row, *k_row;
    const int32_t n_q = make_tiles(&m->host, c->tiling, true, arena, &q_row);
    const int32_t n_k = make_tiles(&m->host, c->tiling, false, arena, &k_row);
    const size_t words = (size_t)n * sizeof(int32_t);
    m->dev = m->host;
    m->dev.word = upload(b, &at, t.word, 2 * words);
    m->dev.doc = upload(b, &at, t.doc, words);
    m->dev.pos = upload(b, &at, t.pos, words);
    m->dev.item = upload(b, &at, t.item, words);
    m->dev.segment = upload(b, &at, segment, ((size_t)m->host.n_segments + 1) * sizeof *segment);
    cs_mask_cells_place(at, n_q, n_k, BITMAP_ROOM, &m->cells);
    at += cs_mask_cells_bytes(n_q, n_k, BITMAP_ROOM);
    m->cells.q_row = upload(b, &at, q_row, ((size_t)n_q + 1) * sizeof *q_row);
    m->cells.k_row = upload(b, &at, k_row, ((size_t)n_k + 1) * sizeof *k_row);
    m->dev.cells = &m->cells;
    return at;
}

/* int32: tokens, rule, then doc and item of every token. */
static void write_mask(const struct bench *b, const struct bench_case *c, const struct mask *m)
{
    char path[512];
    const size_t n = (size_t)m->host.n_tokens;
    const int32_t head[] = {m->host.n_tokens, (int32_t)c->kind};
    snprintf(path, sizeof path, "%s/%s-%d.mask", b->mask_dir, c->name, (int)m->host.n_tokens);
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(head, sizeof head, 1, f) != 1 ||
        fwrite(m->host.doc, sizeof(int32_t), n, f) != n ||
        fwrite(m->host.item, sizeof(int32_t), n, f) != n || fclose(f) != 0) {
        fprintf(stderr, "%s cannot be written\n", path);
        exit(1);
    }
}

/* ---- measuring ---- */

struct call {
    struct cs_attention_shape shape;
    struct mask *mask;
    char *q, *k, *v, *d_o, *o, *dq, *dk, *dv;
    float *lse;
};

static void call_build(struct bench *b, struct call *c)
{
    b->ops->mask_build(&b->ctx, &c->mask->dev, &c->mask->cells);
}

static void call_forward(struct bench *b, struct call *c)
{
    b->ops->attention(&b->ctx, &c->shape, &c->mask->dev, c->q, c->k, c->v, c->o, c->lse);
}

static void call_backward(struct bench *b, struct call *c)
{
    b->ops->attention_grad(&b->ctx, &c->shape, &c->mask->dev, c->q, c->k, c->v, c->o, c->lse,
                           c->d_o, c->dq, c->dk, c->dv);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_ms(struct bench *b, void (*run)(struct bench *b, struct call *c),
                        struct call *c)
{
    struct cs_err err;
    double ms[ROUNDS];
    for (int round = -WARMUP; round < ROUNDS; round++) {
        double one = 0.0;
        must(b->dev->event_record(b->handle, b->begin, b->stream, &err), &err);
        run(b, c);
        must(b->dev->event_record(b->handle, b->end, b->stream, &err), &err);
        must(b->dev->stream_sync(b->handle, b->stream, &err), &err);
        must(b->dev->event_elapsed(b->handle, b->begin, b->end, &one, &err), &err);
        if (round >= 0)
            ms[round] = one;
    }
    must(b->dev->status(b->handle, &err), &err);
    qsort(ms, ROUNDS, sizeof ms[0], by_value);
    return ms[ROUNDS / 2];
}

struct counts {
    int64_t tiles, partial, cells, pairs;
    int32_t bitmaps;
};

static struct counts count(struct bench *b, const struct cs_mask_cells *dev, struct cs_arena *arena)
{
    struct cs_err err;
    struct cs_mask_cells c;
    struct counts n = {0};
    const size_t bytes = cs_mask_cells_bytes(dev->n_q, dev->n_k, dev->bitmap_room);
    void *block = cs_arena_alloc(arena, bytes);
    const char *first =
        (const char *)dev->by_q.count; /* the block begins with two arrays of rows */
    cs_mask_cells_place(block, dev->n_q, dev->n_k, dev->bitmap_room, &c);
    const size_t rows = (size_t)((char *)c.by_q.count - (char *)block);
    must(b->dev->copy(b->handle, b->stream, c.by_q.count, first, bytes - rows, &err), &err);
    must(b->dev->stream_sync(b->handle, b->stream, &err), &err);
    n.pairs = *c.pairs;
    n.bitmaps = *c.n_bitmaps;
    for (int32_t t = 0; t < c.n_q; t++) {
        n.tiles += c.by_q.count[t];
        for (int32_t e = 0; e < c.by_q.count[t]; e++) {
            const int32_t *cell = c.by_q.cell[(size_t)t * (size_t)c.n_k + (size_t)e];
            int some = 0, maps = 0;
            for (int i = 0; i < CS_MASK_CELLS; i++) {
                some += cell[i] != CS_CELL_NONE;
                maps += cell[i] >= 0;
            }
            n.cells += some;
            n.partial += maps > 0;
        }
    }
    return n;
}

static char *take(char **at, size_t bytes)
{
    char *p = *at;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

static struct call make_call(struct bench *b, const struct bench_case *c, int32_t n, char *at,
                             struct mask *m)
{
    struct call call = {.mask = m};
    const size_t q = (size_t)n * (size_t)(c->heads * c->dim) * 2;
    const size_t k = (size_t)n * (size_t)(c->kv_heads * c->dim) * 2;
    call.shape = (struct cs_attention_shape){.tokens = n,
                                             .heads = c->heads,
                                             .kv_heads = c->kv_heads,
                                             .head_dim = c->dim,
                                             .q_stride = c->heads * c->dim,
                                             .kv_stride = c->kv_heads * c->dim,
                                             .o_stride = c->heads * c->dim,
                                             .scale = 1.0f / sqrtf((float)c->dim),
                                             .softcap = b->is_capped ? 50.0f : 0.0f};
    call.q = take(&at, q);
    call.k = take(&at, k);
    call.v = take(&at, k);
    call.d_o = take(&at, q);
    call.o = take(&at, q);
    call.dq = take(&at, q);
    call.dk = take(&at, k);
    call.dv = take(&at, k);
    call.lse = (float *)(void *)take(&at, (size_t)n * (size_t)c->heads * sizeof(float));
    if (b->has_sinks) { /* random numbers as well: the high half of a float is a bf16 */
        const size_t bytes = (size_t)c->heads * sizeof(float);
        call.shape.sink = (const float *)(void *)take(&at, bytes);
        call.shape.dsink = (float *)(void *)take(&at, bytes);
    }
    if (at > b->operands + OPERANDS ||
        b->ops->attention_workspace(&call.shape, &m->dev) > WORKSPACE) {
        fprintf(stderr, "%s of %d tokens does not fit\n", c->name, (int)n);
        exit(1);
    }
    return call;
}

static void measure(struct bench *b, const struct bench_case *c, int32_t n)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct mask m;
    /* operands lie in random numbers: the tokens go behind them */
    char *tokens = b->operands + OPERANDS - ((size_t)256 << 20);
    if (place_mask(b, c, n, arena, tokens, &m) > b->operands + OPERANDS) {
        fprintf(stderr, "%s of %d tokens does not fit\n", c->name, (int)n);
        exit(1);
    }
    if (b->mask_dir != NULL)
        write_mask(b, c, &m);
    struct call call = make_call(b, c, n, b->operands, &m);
    const double build = median_ms(b, call_build, &call);
    const struct counts k = count(b, &m.cells, arena);
    if (k.bitmaps > BITMAP_ROOM) {
        fprintf(stderr, "%s of %d tokens has %d bitmaps\n", c->name, (int)n, (int)k.bitmaps);
        exit(1);
    }
    const double forward = median_ms(b, call_forward, &call);
    const double backward = median_ms(b, call_backward, &call);
    call.shape.is_deterministic = true;
    const double same = median_ms(b, call_backward, &call);
    const double flop = (double)k.pairs * c->heads * c->dim * 1e-9; /* per ms: TFLOP/s */
    printf(
        "%-12s %6d D=%-3d %2d:%-2d allowed %.3f tiles %5lld/%-5lld eff %.2f maps %4d build %.3f  "
        "fwd %7.3f ms %4.0f  bwd %7.3f ms %4.0f  det %7.3f ms %4.0f\n",
        c->name, (int)n, (int)c->dim, (int)c->heads, (int)c->kv_heads, (double)k.pairs / n / n,
        (long long)k.tiles, (long long)k.partial,
        (double)k.pairs / (double)(k.cells * CS_MASK_CELL * CS_MASK_CELL), (int)k.bitmaps, build,
        forward, 4 * flop / forward, backward, 10 * flop / backward, same, 10 * flop / same);
    fflush(stdout);
    cs_arena_free(arena);
}

/* ---- the program ---- */

/* Normal numbers (Box and Muller) in a block of host memory, copied over all operands. */
static void fill_operands(struct bench *b)
{
    enum { BLOCK = 1 << 24 };

    struct cs_err err;
    uint16_t *block = malloc(BLOCK * sizeof *block);
    uint64_t x = 99;
    CS_ASSERT(block != NULL);
    for (int32_t i = 0; i < BLOCK; i++) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const float u = ((float)(x >> 40) + 0.5f) / 16777216.0f;
        const float v = (float)(x >> 16 & 0xffffff) / 16777216.0f;
        const float z = sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
        uint32_t bits;
        memcpy(&bits, &z, sizeof bits);
        block[i] = (uint16_t)(bits >> 16);
    }
    for (size_t at = 0; at < OPERANDS; at += BLOCK * sizeof *block)
        must(b->dev->copy(b->handle, b->stream, b->operands + at, block, BLOCK * sizeof *block,
                          &err),
             &err);
    must(b->dev->stream_sync(b->handle, b->stream, &err), &err);
    free(block);
}

static void open_device(struct bench *b, const char *plugin)
{
    struct cs_err err = {.text = ""};
    struct cs_device_properties props;
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL), *p = NULL;
    cs_cuda_ops_fn *get = NULL;
    if (library != NULL)
        *(void **)&get = dlsym(library, "cs_cuda_ops");
    b->ops = get != NULL ? get(CS_OPS_VERSION) : NULL;
    if (b->ops == NULL) {
        fprintf(stderr, "%s is not the plugin of this build\n", plugin);
        exit(1);
    }
    b->dev = b->ops->device;
    must(b->dev->properties(0, &props, &err), &err);
    must(b->dev->open(0, &b->handle, &err), &err);
    must(b->dev->stream_create(b->handle, &b->stream, &err), &err);
    must(b->dev->event_create(b->handle, &b->begin, &err), &err);
    must(b->dev->event_create(b->handle, &b->end, &err), &err);
    must(b->dev->alloc(b->handle, OPERANDS, &p, &err), &err);
    b->operands = p;
    must(b->dev->alloc(b->handle, WORKSPACE, &p, &err), &err);
    b->ctx = (struct cs_ctx){
        .stream = b->stream, .workspace = p, .workspace_bytes = WORKSPACE, .handle = b->handle};
    printf(
        "GPU: %s; ms, TFLOP/s of allowed pairs; tiles: met/with bitmaps; eff: pairs allowed / in "
        "cells\n",
        props.name);
    fill_operands(b);
}

static bool is_wanted(const char *name, int n, char **wanted)
{
    for (int i = 0; i < n; i++)
        if (strncmp(name, wanted[i], strlen(wanted[i])) == 0)
            return true;
    return n == 0;
}

/* b NULL: prints the names */
static void each_case(struct bench *b, int n, char **wanted)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int s = 0; s < 3 && cases[i].tokens[s] > 0; s++) {
            char name[64];
            snprintf(name, sizeof name, "%s-%d", cases[i].name, (int)cases[i].tokens[s]);
            if (b == NULL)
                puts(name);
            else if (is_wanted(name, n, wanted))
                measure(b, &cases[i], cases[i].tokens[s]);
        }
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    int first = 2;
    if (argc < 2) {
        fprintf(stderr,
                "usage: %s PLUGIN [--masks DIR] [--sinks] [--cap] [CASE...], or %s --list\n",
                argv[0], argv[0]);
        return 1;
    }
    if (strcmp(argv[1], "--list") == 0) {
        each_case(NULL, 0, NULL);
        return 0;
    }
    if (argc > 3 && strcmp(argv[2], "--masks") == 0) {
        b.mask_dir = argv[3];
        first = 4;
    }
    for (; argc > first && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--sinks") == 0) {
            b.has_sinks = true;
        } else if (strcmp(argv[first], "--cap") == 0) {
            b.is_capped = true;
        } else {
            fprintf(stderr, "%s: no such option\n", argv[first]);
            return 1;
        }
    }
    open_device(&b, argv[1]);
    each_case(&b, argc - first, argv + first);
    b.dev->close(b.handle);
    return 0;
}
