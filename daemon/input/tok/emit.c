/* What models share: tokens that come out, memory, characters. */
#include <stdlib.h>

#include "input/tok/text/unicode.h"
#include "input/tok/tok.h"

enum cs_status tok_emit(struct tok_run *run, const struct tok_view *view, int32_t id,
                        uint32_t begin, uint32_t end)
{
    struct cs_tokens *out = run->out;
    const uint32_t before = out->n == 0 ? 0 : out->items[out->n - 1].begin;
    uint32_t from = tok_view_place(view, begin);
    uint32_t to = end > begin ? tok_view_end(view, end - 1) : from;

    if (out->n == out->cap) {
        const size_t cap = out->cap == 0 ? 64 : out->cap * 2;
        void *grown = realloc(out->items, cap * sizeof *out->items);
        if (grown == NULL)
            return cs_fail(run->err, CS_NO_MEMORY, "no memory for %zu tokens of one text", cap);
        out->items = grown;
        out->cap = cap;
    }
    /* places never go back, also where the reference changes the order of tokens */
    from = from < before ? before : from;
    to = to < from ? from : to;
    out->items[out->n++] = (struct cs_token){id, from, to};
    return CS_OK;
}

enum cs_status tok_emit_unknown(struct tok_run *run, const struct tok_view *view, uint32_t begin,
                                uint32_t end)
{
    const struct cs_tokenizer *tok = run->tok;
    bool are_bytes = true;

    for (uint32_t i = begin; i < end && are_bytes; i++)
        are_bytes = tok->fallback_id[(unsigned char)view->bytes[i]] != -1;
    if (!are_bytes)
        return tok->unk == -1 ? CS_OK : tok_emit(run, view, tok->unk, begin, end);
    for (uint32_t i = begin; i < end; i++)
        CS_TRY(tok_emit(run, view, tok->fallback_id[(unsigned char)view->bytes[i]], i, i + 1));
    return CS_OK;
}

enum cs_status tok_reserve(struct tok_run *run, size_t bytes, const struct tok_view *view)
{
    void *memory = NULL;

    if (bytes <= run->model_bytes)
        return CS_OK;
    bytes = bytes < 4096 ? 4096 : bytes;
    memory = realloc(run->model_memory, bytes);
    if (memory == NULL)
        return cs_fail(run->err, CS_NO_MEMORY, "no memory to tokenize a piece of %u bytes",
                       view->n);
    run->model_memory = memory;
    run->model_bytes = bytes;
    return CS_OK;
}

uint32_t tok_char_at(const struct cs_tokenizer *tok, const struct tok_view *view, uint32_t at)
{
    uint32_t code = 0;

    if (tok->is_byte_level || (unsigned char)view->bytes[at] < 0x80)
        return 1;
    return tok_char(view->bytes + at, view->n - at, &code);
}
