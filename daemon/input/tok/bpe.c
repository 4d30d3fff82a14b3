/* Byte pair encoding of one piece: symbols in a linked list, candidate merges in a heap by (rank,
 * position), stale ones skipped. O(n log n), so that a piece of 100 KB is nothing special. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

struct symbol {
    int32_t id;
    uint32_t begin, end;
    uint32_t prev, next; /* NONE at the ends */
};

struct candidate {
    int32_t rank, id;
    uint32_t at; /* left symbol */
};

struct heap {
    struct candidate *items;
    size_t n;
};

#define NONE UINT32_MAX

static bool is_before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void heap_push(struct heap *h, struct candidate c)
{
    size_t i = h->n++;

    while (i > 0 && is_before(&c, &h->items[(i - 1) / 2])) {
        h->items[i] = h->items[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->items[i] = c;
}

static struct candidate heap_pop(struct heap *h)
{
    struct candidate top = h->items[0], last = h->items[--h->n];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && is_before(&h->items[child + 1], &h->items[child]))
            child++;
        if (!is_before(&h->items[child], &last))
            break;
        h->items[i] = h->items[child];
        i = child;
    }
    if (h->n > 0)
        h->items[i] = last;
    return top;
}

static void consider(const struct cs_tokenizer *tok, struct heap *h, const struct symbol *s,
                     uint32_t left)
{
    const struct tok_merge *m = NULL;

    if (left == NONE || s[left].next == NONE)
        return;
    m = tok_merges_find(tok, s[left].id, s[s[left].next].id);
    if (m != NULL)
        heap_push(h, (struct candidate){m->rank, m->id, left});
}

/* One symbol per byte; bytes outside the vocabulary become unk (fused or not) or vanish. */
static uint32_t make_symbols(const struct cs_tokenizer *tok, const struct tok_view *view,
                             struct symbol *s)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < view->n; i++) {
        int32_t id = tok->byte_id[(unsigned char)view->bytes[i]];
        bool is_unknown = id == -1;
        if (is_unknown && tok->unk == -1)
            continue;
        if (is_unknown && tok->is_unk_fused && n > 0 && s[n - 1].id == tok->unk) {
            s[n - 1].end = i + 1;
            continue;
        }
        s[n] = (struct symbol){is_unknown ? tok->unk : id, i, i + 1, n == 0 ? NONE : n - 1, n + 1};
        n++;
    }
    if (n > 0)
        s[n - 1].next = NONE;
    return n;
}

static void merge_all(const struct cs_tokenizer *tok, struct symbol *s, uint32_t n, struct heap *h)
{
    for (uint32_t i = 0; i < n; i++)
        consider(tok, h, s, i);
    while (h->n > 0) {
        struct candidate c = heap_pop(h);
        struct symbol *left = &s[c.at], *right = NULL;
        const struct tok_merge *m = NULL;
        if (left->id == -1 || left->next == NONE)
            continue;
        right = &s[left->next];
        m = tok_merges_find(tok, left->id, right->id);
        if (m == NULL || m->id != c.id)
            continue; /* stale: one of the two has changed since */
        left->id = c.id;
        left->end = right->end;
        left->next = right->next;
        right->id = -1;
        if (left->next != NONE)
            s[left->next].prev = c.at;
        consider(tok, h, s, left->prev);
        consider(tok, h, s, c.at);
    }
}

static enum cs_status reserve(struct tok_run *run, size_t n)
{
    size_t need = n * (sizeof(struct symbol) + 3 * sizeof(struct candidate));
    void *memory = NULL;

    if (need <= run->bpe_bytes)
        return CS_OK;
    need = need < 4096 ? 4096 : need;
    memory = realloc(run->bpe_memory, need);
    if (memory == NULL)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize a piece of %zu bytes", n);
    run->bpe_memory = memory;
    run->bpe_bytes = need;
    return CS_OK;
}

enum cs_status tok_emit(struct tok_run *run, const struct tok_view *view, int32_t id,
                        uint32_t begin, uint32_t end)
{
    struct cs_tokens *out = run->out;
    uint32_t from = 0, to = 0;

    begin -= begin < view->n_virtual ? begin : view->n_virtual;
    end -= end < view->n_virtual ? end : view->n_virtual;
    from = view->base + begin;
    to = view->base + end;
    if (run->map_begin != NULL) {
        uint32_t last = to > from ? to - 1 : from;
        to = to > from ? run->map_end[last] : run->map_begin[from];
        from = run->map_begin[from];
    }
    if (out->n == out->cap) {
        const size_t cap = out->cap == 0 ? 64 : out->cap * 2;
        void *grown = realloc(out->items, cap * sizeof *out->items);
        if (grown == NULL)
            return cs_fail(run->err, CS_NO_MEMORY, "no memory for %zu tokens of one text", cap);
        out->items = grown;
        out->cap = cap;
    }
    out->items[out->n++] = (struct cs_token){id, from, to};
    return CS_OK;
}

enum cs_status tok_bpe(struct tok_run *run, const struct tok_view *view)
{
    const struct cs_tokenizer *tok = run->tok;
    struct symbol *s = NULL;
    struct heap heap = {0};
    uint32_t n = 0;

    if (view->n == 0)
        return CS_OK;
    if (tok->ignores_merges) {
        int32_t id = tok_map_find(&tok->bytes, tok->entries, view->bytes, view->n);
        if (id != -1 && !(run->is_special_off && tok->entries[id].is_special)) {
            CS_TRY(tok_emit(run, view, id, 0, view->n));
            return CS_OK;
        }
    }
    CS_TRY(reserve(run, view->n));
    s = run->bpe_memory;
    heap.items = (struct candidate *)(void *)(s + view->n);
    n = make_symbols(tok, view, s);
    merge_all(tok, s, n, &heap);
    for (uint32_t i = n == 0 ? NONE : 0; i != NONE; i = s[i].next)
        CS_TRY(tok_emit(run, view, s[i].id, s[i].begin, s[i].end));
    return CS_OK;
}
