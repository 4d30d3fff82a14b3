/* Text with a map back to its source. */
#include "input/tok/text/mapped.h"

#include <stdlib.h>
#include <string.h>

uint32_t tok_view_begin(const struct tok_view *view, uint32_t i)
{
    return view->begin != NULL ? view->begin[i] : view->base + i;
}

uint32_t tok_view_end(const struct tok_view *view, uint32_t i)
{
    return view->end != NULL ? view->end[i] : view->base + i + 1;
}

uint32_t tok_view_place(const struct tok_view *view, uint32_t at)
{
    if (at < view->n)
        return tok_view_begin(view, at);
    return view->n > 0 ? tok_view_end(view, view->n - 1) : view->base;
}

struct tok_view tok_view_part(const struct tok_view *view, uint32_t begin, uint32_t end)
{
    const bool is_mapped = view->begin != NULL;

    return (struct tok_view){view->bytes + begin, end - begin,
                             is_mapped ? view->begin + begin : NULL,
                             is_mapped ? view->end + begin : NULL, view->base + begin};
}

void tok_text_free(struct tok_text *text)
{
    free(text->bytes);
    free(text->begin);
    free(text->end);
    *text = (struct tok_text){0};
}

void tok_text_reset(struct tok_text *text)
{
    text->n = 0;
    text->is_short_of_memory = false;
}

struct tok_view tok_text_view(const struct tok_text *text)
{
    if (text->n == 0)
        return (struct tok_view){.bytes = ""};
    return (struct tok_view){text->bytes, (uint32_t)text->n, text->begin, text->end, 0};
}

static bool grow(void **at, size_t bytes)
{
    void *grown = realloc(*at, bytes);

    *at = grown != NULL ? grown : *at;
    return grown != NULL;
}

/* Positions are 32 bits: text that grows beyond them counts as text for which there is no memory. */
static bool reserve(struct tok_text *text, size_t more)
{
    size_t cap = text->n + more;

    if (text->is_short_of_memory)
        return false;
    if (cap <= text->cap)
        return true;
    cap += cap / 2 + 64;
    if (text->n + more < UINT32_MAX && grow((void **)&text->bytes, cap) &&
        grow((void **)&text->begin, cap * sizeof *text->begin) &&
        grow((void **)&text->end, cap * sizeof *text->end))
        text->cap = cap;
    text->is_short_of_memory = text->n + more > text->cap;
    return !text->is_short_of_memory;
}

void tok_text_copy(struct tok_text *text, const struct tok_view *from, uint32_t begin, uint32_t end)
{
    const uint32_t n = end - begin;

    if (n == 0 || !reserve(text, n))
        return;
    memcpy(text->bytes + text->n, from->bytes + begin, n);
    if (from->begin != NULL) {
        memcpy(text->begin + text->n, from->begin + begin, n * sizeof *text->begin);
        memcpy(text->end + text->n, from->end + begin, n * sizeof *text->end);
    } else {
        for (uint32_t i = 0; i < n; i++) {
            text->begin[text->n + i] = from->base + begin + i;
            text->end[text->n + i] = from->base + begin + i + 1;
        }
    }
    text->n += n;
}

void tok_text_put(struct tok_text *text, const char *bytes, size_t n, uint32_t begin, uint32_t end)
{
    if (n == 0 || !reserve(text, n))
        return;
    memcpy(text->bytes + text->n, bytes, n);
    for (size_t i = 0; i < n; i++) {
        text->begin[text->n + i] = begin;
        text->end[text->n + i] = end;
    }
    text->n += n;
}
