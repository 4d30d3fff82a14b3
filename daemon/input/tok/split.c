/* Pre-tokenizer steps: add a leading space, split by a regex, hand every piece to the next step. */
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
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
    bool is_valid = cs_utf8_valid(view->bytes, view->n);
    const pcre2_code *re = is_valid ? op->valid : op->any;
    uint32_t options = is_valid ? PCRE2_NO_UTF_CHECK : 0;
    size_t at = 0, done = 0;

    while (at <= view->n) {
        const PCRE2_SIZE *span = NULL;
        int rc = pcre2_match(re, (PCRE2_SPTR)view->bytes, view->n, at, options, run->match,
                             run->context);
        if (rc == PCRE2_ERROR_NOMATCH)
            break;
        if (rc < 0)
            return cs_fail(run->err, CS_LIMIT,
                           "the tokenizer's regex gave up at byte %zu of %u (PCRE2 error %d)", at,
                           view->n, rc);
        span = pcre2_get_ovector_pointer(run->match);
        if (span[1] <= span[0]) { /* empty: step over one character */
            at = (span[0] > at ? span[0] : at) + 1;
            while (at < view->n && ((unsigned char)view->bytes[at] & 0xc0) == 0x80)
                at++;
            continue;
        }
        if (span[0] > done)
            CS_TRY(push(run, list, (uint32_t)done, (uint32_t)span[0], op->is_inverted));
        CS_TRY(push(run, list, (uint32_t)span[0], (uint32_t)span[1], !op->is_inverted));
        at = done = span[1];
    }
    if (done < view->n)
        CS_TRY(push(run, list, (uint32_t)done, view->n, op->is_inverted));
    return CS_OK;
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

static struct tok_view sub_view(const struct tok_view *view, uint32_t begin, uint32_t end)
{
    uint32_t virtual_left = begin < view->n_virtual ? view->n_virtual - begin : 0;
    uint32_t skipped = begin < view->n_virtual ? 0 : begin - view->n_virtual;

    return (struct tok_view){view->bytes + begin, end - begin, view->base + skipped, virtual_left};
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
        struct tok_view piece = sub_view(view, list->items[i].begin, list->items[i].end);
        CS_TRY(tok_split(run, at + 1, &piece));
    }
    return CS_OK;
}

static enum cs_status prefix_space(struct tok_run *run, int at, const struct tok_view *view)
{
    struct tok_view longer = {NULL, view->n + 1, view->base, view->n_virtual + 1};
    enum cs_status status = CS_OK;
    char *text = malloc((size_t)view->n + 1);

    if (text == NULL)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize %u bytes", view->n);
    text[0] = ' ';
    memcpy(text + 1, view->bytes, view->n);
    longer.bytes = text;
    status = run->tok->ops[at].valid != NULL ? split_by_regex(run, at, &longer)
                                             : tok_split(run, at + 1, &longer);
    free(text);
    return status;
}

enum cs_status tok_split(struct tok_run *run, int op, const struct tok_view *view)
{
    if (view->n == 0)
        return CS_OK;
    if (op == run->tok->n_ops)
        return tok_bpe(run, view);
    if (run->tok->ops[op].has_prefix_space && view->bytes[0] != ' ')
        return prefix_space(run, op, view);
    if (run->tok->ops[op].valid == NULL)
        return tok_split(run, op + 1, view);
    return split_by_regex(run, op, view);
}
