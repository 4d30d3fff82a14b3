/* The mask builder of the GPU against its CPU twin, entry by entry; numbers of bitmaps may differ,
 * what they hold may not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mask/span.h"
#include "gpu/attention_lab.h"

#define EXPECT(what)                                                                               \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            printf("    builder: %s is wrong\n", #what);                                           \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

/* Lists on the host, from a copy of the whole block. */
static struct cs_mask_cells fetch(struct att_lab *lab, const struct att_mask *m, void **block)
{
    struct cs_mask_cells cells;
    *block = malloc(m->list_bytes);
    CS_ASSERT(*block != NULL);
    att_copy(lab, *block, m->lists, m->list_bytes);
    cs_mask_cells_place(*block, m->n_q, m->n_k, m->cells.bitmap_room, &cells);
    return cells;
}

static bool is_same_cell(const struct cs_mask_cells *gpu, int32_t a,
                         const struct cs_mask_cells *cpu, int32_t b)
{
    const size_t bytes = CS_MASK_TILE * sizeof(uint32_t);
    if (a < 0 || b < 0)
        return a == b;
    return a < *gpu->n_bitmaps &&
           memcmp(gpu->bits_q + a * CS_MASK_TILE, cpu->bits_q + b * CS_MASK_TILE, bytes) == 0 &&
           memcmp(gpu->bits_k + a * CS_MASK_TILE, cpu->bits_k + b * CS_MASK_TILE, bytes) == 0;
}

static bool is_same_list(const struct cs_mask_cells *gpu, const struct cs_mask_list *a,
                         const struct cs_mask_cells *cpu, const struct cs_mask_list *b)
{
    EXPECT(memcmp(a->count, b->count, (size_t)b->n * sizeof *a->count) == 0);
    EXPECT(memcmp(a->order, b->order, (size_t)b->n * sizeof *a->order) == 0);
    for (int32_t i = 0; i < b->n; i++)
        for (int32_t e = 0; e < b->count[i]; e++) {
            const size_t at = (size_t)i * (size_t)b->stride + (size_t)e;
            EXPECT(a->entry[at] == b->entry[at]);
            for (int c = 0; c < CS_MASK_CELLS; c++)
                EXPECT(is_same_cell(gpu, a->cell[at][c], cpu, b->cell[at][c]));
        }
    return true;
}

static bool is_same(struct att_lab *lab, struct att_mask *m)
{
    struct cs_mask_cells cpu;
    struct cs_err err = {.text = ""};
    const struct cs_mask_plan *keys = m->keys.n_tokens > 0 ? &m->keys : NULL;
    att_must(cs_mask_cells_make(&m->plan, keys, m->q_row, m->n_q, m->k_row, m->n_k, m->arena, &cpu,
                                &err),
             &err);
    att_no_errors(lab);
    void *block;
    const struct cs_mask_cells gpu = fetch(lab, m, &block);
    const bool is_good = *gpu.pairs == *cpu.pairs && *gpu.n_bitmaps == *cpu.n_bitmaps &&
                         is_same_list(&gpu, &gpu.by_q, &cpu, &cpu.by_q) &&
                         is_same_list(&gpu, &gpu.by_k, &cpu, &cpu.by_k);
    if (!is_good)
        printf("    pairs %lld (want %lld), bitmaps %d (want %d)\n", (long long)*gpu.pairs,
               (long long)*cpu.pairs, (int)*gpu.n_bitmaps, (int)*cpu.n_bitmaps);
    free(block);
    return is_good;
}

static void verdict(struct att_lab *lab, bool is_good, enum cs_mask_kind kind, int32_t tokens,
                    enum att_order order)
{
    lab->passed += is_good;
    lab->failed += !is_good;
    if (!is_good)
        printf("    builder: %s, %d tokens, %s\n", cs_mask_kind_name(kind), (int)tokens,
               att_order_name(order));
}

static void one(struct att_lab *lab, enum cs_mask_kind kind, int32_t tokens, enum att_order order)
{
    struct att_mask m;
    att_mask_make(lab, kind, tokens, order, &m);
    att_mask_build(lab, &m);
    att_sync(lab);
    verdict(lab, is_same(lab, &m), kind, tokens, order);
    att_mask_free(lab, &m);
}

/* A captured build, run again after the tokens have changed. */
static void in_a_graph(struct att_lab *lab, enum cs_mask_kind kind, int32_t tokens)
{
    struct att_mask a, b;
    att_mask_make(lab, kind, tokens, ATT_PLAIN, &a);
    att_mask_make(lab, kind, tokens, ATT_PLAIN, &b);
    att_mask_build(lab, &a); /* loads the kernels */
    att_record(lab);
    att_mask_build(lab, &a);
    void *graph = att_recorded(lab);
    att_fill(lab, a.cells.by_q.count, 0xcd, (size_t)a.n_q * sizeof(int32_t));
    att_replay(lab, graph);
    att_sync(lab);
    bool is_good = is_same(lab, &a);
    att_mask_take_tokens(lab, &a, &b);
    att_replay(lab, graph);
    att_sync(lab);
    is_good = is_same(lab, &a) && is_good;
    lab->dev->graph_destroy(lab->handle, graph);
    verdict(lab, is_good, kind, tokens, ATT_PLAIN);
    att_mask_free(lab, &a);
    att_mask_free(lab, &b);
}

/* Too little room is told, not overrun: the words behind it stay as they are. */
static void room_for_bitmaps_is_kept(struct att_lab *lab)
{
    struct att_mask m;
    int32_t used = 0;
    att_mask_make(lab, CS_MASK_IMAGE_BIDIR, 1000, ATT_SHUFFLED, &m);
    uint32_t *bits = m.cells.bits_q + 3 * CS_MASK_TILE, got[CS_MASK_TILE], want[CS_MASK_TILE];
    memset(want, 0xcd, sizeof want);
    m.cells.bitmap_room = 3;
    att_mask_build(lab, &m);
    att_sync(lab);
    att_no_errors(lab);
    att_copy(lab, &used, m.cells.n_bitmaps, sizeof used);
    att_copy(lab, got, bits, sizeof got);
    verdict(lab, used > 3 && memcmp(got, want, sizeof got) == 0, CS_MASK_IMAGE_BIDIR, 1000,
            ATT_SHUFFLED);
    att_mask_free(lab, &m);
}

void att_test_builder(struct att_lab *lab)
{
    static const int32_t length[] = {1, 57, 64, 128, 144, 256, 283, 512, 1000, 1024, 4097};
    const int n = (int)(sizeof length / sizeof length[0]);
    const int passed = lab->passed, failed = lab->failed;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++) {
        for (int i = 0; i < n; i++)
            for (int order = 0; order < ATT_ORDERS; order++)
                if (length[i] < 4097 || order == (kind & 1) || order == ATT_SHUFFLED)
                    one(lab, (enum cs_mask_kind)kind, length[i], (enum att_order)order);
        in_a_graph(lab, (enum cs_mask_kind)kind, 700);
    }
    room_for_bitmaps_is_kept(lab);
    printf("%-4s mask builder: %d passed, %d failed\n", lab->failed == failed ? "ok" : "FAIL",
           lab->passed - passed, lab->failed - failed);
    fflush(stdout);
}
