/* The plugin, device memory and random masks for the programs that try attention on a GPU. */
#include "gpu/attention_lab.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE   ((size_t)1 << 30)
#define BITMAP_ROOM 16384

/* ---- the device ---- */

void att_must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    printf("the GPU failed: %s\n", err->text);
    exit(1);
}

void att_open(struct att_lab *lab, const char *plugin)
{
    struct cs_err err = {.text = ""};
    void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    cs_cuda_ops_fn *get = NULL;
    int devices = 0;
    if (library != NULL)
        *(void **)&get = dlsym(library, "cs_cuda_ops");
    lab->bf16 = get != NULL ? get(CS_OPS_VERSION) : NULL;
    if (lab->bf16 == NULL) {
        printf("%s: %s\n", plugin, library == NULL ? dlerror() : "not the plugin of this build");
        exit(1);
    }
    lab->dev = lab->bf16->device;
    lab->f32 = lab->dev->ops_f32;
    if (lab->dev->count(&devices, &err) != CS_OK || devices == 0) {
        printf("no GPU: %s\n", err.text);
        exit(77);
    }
    struct cs_device_properties props;
    att_must(lab->dev->properties(0, &props, &err), &err);
    printf("GPU: %s, %d processors\n", props.name, (int)props.processors);
    att_must(lab->dev->open(0, &lab->handle, &err), &err);
    att_must(lab->dev->stream_create(lab->handle, &lab->stream, &err), &err);
    lab->ctx = (struct cs_ctx){.stream = lab->stream,
                               .workspace = att_alloc(lab, WORKSPACE),
                               .workspace_bytes = WORKSPACE,
                               .handle = lab->handle};
    att_fill(lab, lab->ctx.workspace, 0xff, WORKSPACE);
}

void att_close(struct att_lab *lab)
{
    att_free(lab, lab->ctx.workspace);
    lab->dev->stream_destroy(lab->handle, lab->stream);
    lab->dev->close(lab->handle);
}

void *att_alloc(struct att_lab *lab, size_t bytes)
{
    struct cs_err err;
    void *p = NULL;
    att_must(lab->dev->alloc(lab->handle, bytes, &p, &err), &err);
    return p;
}

void att_free(struct att_lab *lab, void *p)
{
    lab->dev->free(lab->handle, p);
}

void att_copy(struct att_lab *lab, void *to, const void *from, size_t bytes)
{
    struct cs_err err;
    att_must(lab->dev->copy(lab->handle, lab->stream, to, from, bytes, &err), &err);
    att_sync(lab);
}

void att_fill(struct att_lab *lab, void *p, int byte, size_t bytes)
{
    struct cs_err err;
    att_must(lab->dev->fill(lab->handle, lab->stream, p, byte, bytes, &err), &err);
}

void att_sync(struct att_lab *lab)
{
    struct cs_err err;
    att_must(lab->dev->stream_sync(lab->handle, lab->stream, &err), &err);
}

void att_no_errors(struct att_lab *lab)
{
    struct cs_err err;
    att_must(lab->dev->status(lab->handle, &err), &err);
}

void att_record(struct att_lab *lab)
{
    struct cs_err err;
    att_must(lab->dev->capture_begin(lab->handle, lab->stream, &err), &err);
}

void *att_recorded(struct att_lab *lab)
{
    struct cs_err err;
    void *graph = NULL;
    att_must(lab->dev->capture_end(lab->handle, lab->stream, &graph, &err), &err);
    return graph;
}

void att_replay(struct att_lab *lab, void *graph)
{
    struct cs_err err;
    att_must(lab->dev->graph_launch(lab->handle, graph, lab->stream, &err), &err);
}

/* ---- masks ---- */

int32_t att_between(struct att_lab *lab, int32_t lo, int32_t hi)
{
    lab->seed = lab->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return lo + (int32_t)((lab->seed >> 33) % (uint64_t)(hi - lo + 1));
}

const char *att_order_name(enum att_order order)
{
    static const char *const name[ATT_ORDERS] = {"plain", "restart", "zigzag", "shuffled"};
    return name[order];
}

/* Arrays of a plan in one block of host memory, so that one copy carries them. */
static struct cs_mask_plan new_plan(struct cs_arena *arena, struct cs_mask_rule rule, int32_t n)
{
    uint64_t *word = CS_NEW_ARRAY(arena, uint64_t, 3 * (size_t)n + 2);
    int32_t *doc = (int32_t *)(void *)(word + n);
    return (struct cs_mask_plan){.rule = rule,
                                 .n_tokens = n,
                                 .word = word,
                                 .doc = doc,
                                 .pos = doc + n,
                                 .item = doc + 2 * (size_t)n,
                                 .segment = doc + 3 * (size_t)n};
}

static size_t plan_bytes(const struct cs_mask_plan *plan)
{
    return (3 * (size_t)plan->n_tokens + 2) * sizeof *plan->word;
}

static void set_token(struct cs_mask_plan *plan, int32_t row, struct cs_mask_token t)
{
    /* the arrays are of new_plan, from one block that starts at word */
    uint64_t *word = (uint64_t *)(uintptr_t)plan->word;
    int32_t *doc = (int32_t *)(uintptr_t)plan->doc;
    word[row] = t.word;
    doc[row] = t.doc;
    doc[plan->n_tokens + row] = t.pos;
    doc[2 * (size_t)plan->n_tokens + (size_t)row] = t.item;
}

static void find_segments(struct cs_mask_plan *plan)
{
    plan->n_segments =
        cs_mask_segments(plan->doc, plan->n_tokens, (int32_t *)(uintptr_t)plan->segment);
}

/* Packed documents of text and images, some much shorter than a tile, some padding. */
static struct cs_mask_plan random_tokens(struct att_lab *lab, struct cs_arena *arena,
                                         struct cs_mask_rule rule, int32_t n)
{
    struct cs_mask_plan plan = new_plan(arena, rule, n);
    const int32_t longest_doc = att_between(lab, 1, 3) * n / 3 + 1;
    const int32_t longest_span = att_between(lab, 0, 2) == 0 ? 20 : 300;
    struct cs_mask_token t = {.doc = 3, .item = -1};
    int32_t doc_left = 0, span_left = 0, item = 0;
    for (int32_t i = 0; i < n; i++, doc_left--, span_left--, t.pos++) {
        if (doc_left == 0) {
            doc_left = att_between(lab, 1, longest_doc);
            t.doc += att_between(lab, 1, 2);
            t.pos = att_between(lab, 0, 3) == 0 ? 5 : 0;
            span_left = item = 0;
        }
        if (span_left == 0) {
            const int kind = att_between(lab, 0, 19), modality = att_between(lab, 0, 2);
            span_left = att_between(lab, 1, longest_span);
            t.item = kind > 10 ? item++ : -1;
            t.word = kind == 0   ? 0
                     : kind > 10 ? CS_MASK_MODALITY(modality)
                                 : CS_MASK_TEXT | CS_MASK_MODALITY(0) | CS_MASK_MODALITY(modality);
        }
        set_token(&plan, i, t);
    }
    find_segments(&plan);
    return plan;
}

/* rows[i] of *from become row i */
static struct cs_mask_plan pick(struct cs_arena *arena, const struct cs_mask_plan *from,
                                const int32_t *rows, int32_t n)
{
    struct cs_mask_plan plan = new_plan(arena, from->rule, n);
    for (int32_t i = 0; i < n; i++)
        set_token(&plan, i, cs_mask_token_at(from, rows[i]));
    find_segments(&plan);
    return plan;
}

static void zigzag(struct att_mask *m, const struct cs_mask_plan *all)
{
    const int32_t n = all->n_tokens, chunk = (n + 3) / 4;
    static const int32_t turn[] = {0, 3, 1, 2}; /* rank 0: first and last chunk */
    int32_t *rows = CS_NEW_ARRAY(m->arena, int32_t, n + 1), at = 0, own = 0;
    for (int c = 0; c < 4; c++) {
        for (int32_t i = turn[c] * chunk; i < (turn[c] + 1) * chunk && i < n; i++)
            rows[at++] = i;
        own = c == 1 ? at : own;
    }
    m->plan = pick(m->arena, all, rows, own);
    m->keys = pick(m->arena, all, rows, n);
}

static void shuffle(struct att_lab *lab, struct att_mask *m, const struct cs_mask_plan *all)
{
    const int32_t n = all->n_tokens, n_keys = att_between(lab, 1, n);
    int32_t *rows = CS_NEW_ARRAY(m->arena, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++)
        rows[i] = i;
    for (int32_t i = n - 1; i > 0; i--) {
        const int32_t j = att_between(lab, 0, i), row = rows[i];
        rows[i] = rows[j];
        rows[j] = row;
    }
    m->plan = pick(m->arena, all, rows, n);
    m->keys = pick(m->arena, all, rows + (n - n_keys), n_keys);
}

static int32_t tiles_of(struct att_lab *lab, struct cs_arena *arena,
                        const struct cs_mask_plan *plan, enum att_order order, int32_t **row)
{
    int32_t n = 0;
    *row = CS_NEW_ARRAY(arena, int32_t, plan->n_tokens + 2);
    if (order != ATT_SHUFFLED)
        return cs_mask_tile_rows(plan, order == ATT_RESTART, *row);
    for (int32_t at = 0; at < plan->n_tokens; n++) {
        const int32_t rows = att_between(lab, 0, 2) == 0 ? att_between(lab, 1, 127) : CS_MASK_TILE;
        (*row)[n] = at;
        at = plan->n_tokens - at < rows ? plan->n_tokens : at + rows;
    }
    (*row)[n] = plan->n_tokens;
    return n;
}

static struct cs_mask_plan on_device(const struct cs_mask_plan *host, void *block)
{
    struct cs_mask_plan dev = *host;
    const size_t n = (size_t)host->n_tokens;
    int32_t *doc = (int32_t *)(void *)((uint64_t *)block + n);
    dev.word = block;
    dev.doc = doc;
    dev.pos = doc + n;
    dev.item = doc + 2 * n;
    dev.segment = doc + 3 * n;
    return dev;
}

static void upload(struct att_lab *lab, const struct att_mask *m)
{
    const size_t bytes = plan_bytes(&m->plan);
    att_copy(lab, m->tokens, m->plan.word, bytes);
    if (m->keys.n_tokens > 0)
        att_copy(lab, (char *)m->tokens + bytes, m->keys.word, plan_bytes(&m->keys));
}

static void place_lists(struct att_lab *lab, struct att_mask *out)
{
    out->list_bytes = cs_mask_cells_bytes(out->n_q, out->n_k, BITMAP_ROOM);
    out->lists = att_alloc(lab, out->list_bytes);
    att_fill(lab, out->lists, 0xcd, out->list_bytes);
    cs_mask_cells_place(out->lists, out->n_q, out->n_k, BITMAP_ROOM, &out->cells);
    att_copy(lab, (void *)(uintptr_t)out->cells.q_row, out->q_row,
             ((size_t)out->n_q + 1) * sizeof(int32_t));
    att_copy(lab, (void *)(uintptr_t)out->cells.k_row, out->k_row,
             ((size_t)out->n_k + 1) * sizeof(int32_t));
}

void att_mask_make(struct att_lab *lab, enum cs_mask_kind kind, int32_t tokens,
                   enum att_order order, struct att_mask *out)
{
    const struct cs_mask_rule rule = {kind, att_between(lab, 1, tokens),
                                      att_between(lab, 1, tokens)};
    *out = (struct att_mask){.arena = cs_arena_new(0)};
    const struct cs_mask_plan all =
        random_tokens(lab, out->arena, rule, order == ATT_ZIGZAG ? 2 * tokens : tokens);
    out->plan = all;
    if (order == ATT_ZIGZAG)
        zigzag(out, &all);
    if (order == ATT_SHUFFLED)
        shuffle(lab, out, &all);
    const bool has_keys = out->keys.n_tokens > 0;
    out->n_keys = has_keys ? out->keys.n_tokens : out->plan.n_tokens;
    out->n_q = tiles_of(lab, out->arena, &out->plan, order, &out->q_row);
    out->k_row = out->q_row;
    out->n_k = out->n_q;
    if (has_keys)
        out->n_k = tiles_of(lab, out->arena, &out->keys, order, &out->k_row);
    out->tokens = att_alloc(lab, plan_bytes(&out->plan) + plan_bytes(&out->keys));
    place_lists(lab, out);
    upload(lab, out);
    out->dev = on_device(&out->plan, out->tokens);
    out->dev_keys = on_device(&out->keys, (char *)out->tokens + plan_bytes(&out->plan));
}

static struct cs_mask_plan rows_of(const struct cs_mask_plan *plan, int32_t begin, int32_t end)
{
    return (struct cs_mask_plan){.rule = plan->rule,
                                 .n_tokens = end - begin,
                                 .doc = plan->doc + begin,
                                 .pos = plan->pos + begin,
                                 .item = plan->item + begin,
                                 .word = plan->word + begin};
}

void att_mask_part(struct att_lab *lab, const struct att_mask *whole, int32_t begin, int32_t end,
                   struct att_mask *out)
{
    *out = (struct att_mask){.arena = cs_arena_new(0),
                             .plan = whole->plan,
                             .keys = rows_of(&whole->keys, begin, end),
                             .dev = whole->dev,
                             .dev_keys = rows_of(&whole->dev_keys, begin, end),
                             .n_keys = end - begin};
    out->n_q = tiles_of(lab, out->arena, &out->plan, ATT_PLAIN, &out->q_row);
    out->n_k = tiles_of(lab, out->arena, &out->keys, ATT_PLAIN, &out->k_row);
    place_lists(lab, out);
}

void att_mask_take_tokens(struct att_lab *lab, struct att_mask *m, const struct att_mask *other)
{
    CS_ASSERT(m->plan.n_tokens == other->plan.n_tokens && m->keys.n_tokens == 0);
    memcpy((void *)(uintptr_t)m->plan.word, other->plan.word, plan_bytes(&m->plan));
    m->plan.n_segments = other->plan.n_segments;
    upload(lab, m);
}

void att_mask_build(struct att_lab *lab, struct att_mask *m)
{
    struct cs_ctx exact = lab->ctx;
    m->plan.keys = m->keys.n_tokens > 0 ? &m->keys : NULL;
    m->dev.keys = m->keys.n_tokens > 0 ? &m->dev_keys : NULL;
    m->dev.cells = &m->cells;
    exact.workspace_bytes = lab->bf16->mask_workspace(m->n_q, m->n_k, m->cells.bitmap_room);
    CS_ASSERT(exact.workspace_bytes <= lab->ctx.workspace_bytes);
    lab->bf16->mask_build(&exact, &m->dev, &m->cells);
}

void att_mask_free(struct att_lab *lab, struct att_mask *m)
{
    att_free(lab, m->lists);
    if (m->tokens != NULL)
        att_free(lab, m->tokens);
    cs_arena_free(m->arena);
}
