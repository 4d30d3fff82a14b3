/* Byte pair encoding of one piece: symbols in a linked list, candidate merges in a heap by (rank,
 * position), stale ones skipped. O(n log n), so that a piece of 100 KB is nothing special.
 *
 * A merge is found by the pair of its parts, or, where the file has no list of merges (SentencePiece,
 * tiktoken), by the text that results. */
#include "input/tok/tok.h"

struct candidate {
    int32_t rank, id;
    uint32_t at; /* left symbol */
};

struct heap {
    struct candidate *items;
    size_t n;
};

struct merging {
    const struct cs_tokenizer *tok;
    const struct tok_view *view;
    struct tok_symbol *s;
    struct heap heap;
};

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

/* What a symbol and the next one become; id -1: they stay two. */
static struct candidate merge_of(const struct merging *m, uint32_t at)
{
    struct candidate none = {0, -1, at};
    const struct tok_symbol *left = &m->s[at], *right = NULL;

    if (left->next == TOK_NONE)
        return none;
    right = &m->s[left->next];
    if (m->tok->ranks == NULL) {
        const struct tok_merge *merge = tok_merges_find(m->tok, left->id, right->id);
        return merge == NULL ? none : (struct candidate){merge->rank, merge->id, at};
    }
    const uint32_t n = right->end - left->begin;
    if (left->is_kept || right->is_kept || n > m->tok->max_bytes)
        return none;
    const int32_t id =
        tok_map_find(&m->tok->bytes, m->tok->entries, m->view->bytes + left->begin, n);
    return id == -1 ? none : (struct candidate){m->tok->ranks[id], id, at};
}

static void consider(struct merging *m, uint32_t at)
{
    if (at == TOK_NONE)
        return;
    const struct candidate c = merge_of(m, at);
    if (c.id != -1)
        heap_push(&m->heap, c);
}

static void merge_all(struct merging *m, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        consider(m, i);
    while (m->heap.n > 0) {
        const struct candidate c = heap_pop(&m->heap);
        struct tok_symbol *left = &m->s[c.at], *right = NULL;
        if (left->id == TOK_GONE || merge_of(m, c.at).id != c.id)
            continue; /* stale: one of the two has changed since */
        right = &m->s[left->next];
        left->id = c.id;
        left->end = right->end;
        left->next = right->next;
        right->id = TOK_GONE;
        if (left->next != TOK_NONE)
            m->s[left->next].prev = c.at;
        consider(m, left->prev);
        consider(m, c.at);
    }
}

/* Neighbours without a token are one unknown. */
static enum cs_status emit_all(struct tok_run *run, const struct tok_view *view,
                               const struct tok_symbol *s)
{
    for (uint32_t i = 0; i != TOK_NONE;) {
        uint32_t last = i;
        if (s[i].id != -1) {
            CS_TRY(tok_emit(run, view, s[i].id, s[i].begin, s[i].end));
        } else {
            while (s[last].next != TOK_NONE && s[s[last].next].id == -1)
                last = s[last].next;
            CS_TRY(tok_emit_unknown(run, view, s[i].begin, s[last].end));
        }
        i = s[last].next;
    }
    return CS_OK;
}

enum cs_status tok_bpe(struct tok_run *run, const struct tok_view *view)
{
    const struct cs_tokenizer *tok = run->tok;
    struct merging m = {.tok = tok, .view = view};
    uint32_t n = 0;

    if (view->n == 0)
        return CS_OK;
    if (tok->ignores_merges && view->n <= tok->max_bytes) {
        int32_t id = tok_map_find(&tok->bytes, tok->entries, view->bytes, view->n);
        if (id != -1 && !(run->is_special_off && tok->entries[id].is_special))
            return tok_emit(run, view, id, 0, view->n);
    }
    /* every symbol starts at most one candidate, and a merge exchanges one candidate for two */
    n = tok_symbols_count(tok, view);
    CS_TRY(tok_reserve(run, n * (sizeof *m.s + 2 * sizeof *m.heap.items), view));
    m.s = run->model_memory;
    m.heap.items = (struct candidate *)(void *)(m.s + n);
    n = tok_symbols_make(tok, view, m.s);
    if (n == 0)
        return CS_OK;
    merge_all(&m, n);
    return emit_all(run, view, m.s);
}
