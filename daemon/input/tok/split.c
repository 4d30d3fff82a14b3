/* Pre-tokenizer operations: put marks for spaces, split by a regex, hand every piece to the next step. */
#include <stdlib.h>
#include <string.h>

#include "input/tok/tok.h"

static enum cs_status push(struct tok_run *run, struct tok_pieces *list, uint32_t begin,
                           uint32_t end, bool is_match)
{
    if (list->n == list->cap) {
        const size_t cap = list->cap == 0 ? 64 : list->cap * 2;
        void *grown = realloc(list->items, cap * sizeof *list->items);
        if (grown == NULL)
            return cs_fail(run->err, CS_NO_MEMORY, "no memory for %zu pieces of one text", cap);
        list->items = grown;
        list->cap = cap;
    }
    list->items[list->n++] = (struct tok_piece){begin, end, is_match};
    return CS_OK;
}

/* All matches and the gaps between them, in order. */
static enum cs_status find_matches(struct tok_run *run, const struct tok_op *op,
                                   const struct tok_view *view, struct tok_pieces *list)
{
    struct tok_search search = {.regex = &op->split, .matcher = &run->matcher, .text = view};
    uint32_t begin = 0, end = 0, done = 0;

    for (;;) {
        CS_TRY(tok_regex_next(&search, &begin, &end, run->err));
        if (begin > done)
            CS_TRY(push(run, list, done, begin, op->is_inverted));
        if (begin == end)
            return CS_OK;
        CS_TRY(push(run, list, begin, end, !op->is_inverted));
        done = end;
    }
}

/* A match joins the piece before it, unless that piece ends with a match. */
static void merge_previous(struct tok_pieces *list)
{
    size_t n = 0;
    bool was_match = false;

    for (size_t i = 0; i < list->n; i++) {
        struct tok_piece p = list->items[i];
        if (p.is_match && !was_match && n > 0)
            list->items[n - 1].end = p.end;
        else
            list->items[n++] = p;
        was_match = p.is_match;
    }
    list->n = n;
}

/* The mirror image: a match joins the piece after it. */
static void merge_next(struct tok_pieces *list)
{
    size_t n = list->n;
    bool was_match = false;

    for (size_t i = list->n; i-- > 0;) {
        struct tok_piece p = list->items[i];
        if (p.is_match && !was_match && n < list->n)
            list->items[n].begin = p.begin;
        else
            list->items[--n] = p;
        was_match = p.is_match;
    }
    memmove(list->items, list->items + n, (list->n - n) * sizeof *list->items);
    list->n -= n;
}

static void merge_alike(struct tok_pieces *list)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++) {
        struct tok_piece p = list->items[i];
        if (n > 0 && list->items[n - 1].is_match == p.is_match)
            list->items[n - 1].end = p.end;
        else
            list->items[n++] = p;
    }
    list->n = n;
}

static void drop_matches(struct tok_pieces *list)
{
    size_t n = 0;

    for (size_t i = 0; i < list->n; i++)
        if (!list->items[i].is_match)
            list->items[n++] = list->items[i];
    list->n = n;
}

static enum cs_status split_by_regex(struct tok_run *run, int at, const struct tok_view *view)
{
    const struct tok_op *op = &run->tok->ops[at];
    struct tok_pieces *list = &run->pieces[at];
    static void (*const reshape[])(struct tok_pieces *) = {
        [TOK_ISOLATED] = NULL,   [TOK_REMOVED] = drop_matches,   [TOK_PREVIOUS] = merge_previous,
        [TOK_NEXT] = merge_next, [TOK_CONTIGUOUS] = merge_alike,
    };

    list->n = 0;
    CS_TRY(find_matches(run, op, view, list));
    if (reshape[op->behavior] != NULL)
        reshape[op->behavior](list);
    for (size_t i = 0; i < list->n; i++) {
        struct tok_view piece = tok_view_part(view, list->items[i].begin, list->items[i].end);
        CS_TRY(tok_split(run, at + 1, &piece));
    }
    return CS_OK;
}

/* Whether the mark (or a space) is to be put before the text: it does not begin with one. */
static bool needs_mark(const struct tok_op *op, const struct tok_view *view)
{
    const char *mark = op->mark == NULL ? " " : op->mark;
    const size_t n = strlen(mark);

    if (op->prepend == TOK_NEVER || (op->prepend == TOK_FIRST && tok_view_place(view, 0) != 0))
        return false;
    return !(op->mark != NULL && view->bytes[0] == ' ') &&
           !(view->n >= n && memcmp(view->bytes, mark, n) == 0);
}

/* The text with marks for its spaces and before it; *view becomes that, where it differs. */
static enum cs_status put_marks(struct tok_run *run, int at, struct tok_view *view)
{
    const struct tok_op *op = &run->tok->ops[at];
    const char *mark = op->mark == NULL ? " " : op->mark;
    const uint32_t n = (uint32_t)strlen(mark);
    const bool is_needed = needs_mark(op, view);
    struct tok_text *out = &run->marked[at];

    if (!is_needed && (op->mark == NULL || memchr(view->bytes, ' ', view->n) == NULL))
        return CS_OK;
    tok_text_reset(out);
    if (is_needed)
        tok_text_put(out, mark, n, tok_view_place(view, 0), tok_view_place(view, 0));
    for (uint32_t i = 0, end = 0; i < view->n; i = end + 1) {
        const char *space = op->mark == NULL ? NULL : memchr(view->bytes + i, ' ', view->n - i);
        end = space == NULL ? view->n : (uint32_t)(space - view->bytes);
        tok_text_copy(out, view, i, end);
        if (space != NULL)
            tok_text_put(out, mark, n, tok_view_begin(view, end), tok_view_end(view, end));
    }
    if (out->is_short_of_memory)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize %u bytes", view->n);
    *view = tok_text_view(out);
    return CS_OK;
}

enum cs_status tok_split(struct tok_run *run, int op, const struct tok_view *view)
{
    struct tok_view marked = *view;

    if (view->n == 0)
        return CS_OK;
    if (op == run->tok->n_ops)
        return run->tok->model(run, view);
    CS_TRY(put_marks(run, op, &marked));
    if (run->tok->ops[op].split.valid == NULL)
        return tok_split(run, op + 1, &marked);
    return split_by_regex(run, op, &marked);
}
