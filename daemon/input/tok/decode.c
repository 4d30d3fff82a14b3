/* Tokens back to text. Every step of the decoder makes a new list of strings of the one before; at the
 * end they are put together. Bytes stay as they are, also where they make no UTF-8. */
#include <string.h>

#include "input/tok/tok.h"

/* Strings one behind the other: string i ends at ends[i]. */
struct strings {
    struct cs_buf text, ends;
};

static size_t n_strings(const struct strings *s)
{
    return s->ends.len / sizeof(size_t);
}

static const char *string_at(const struct strings *s, size_t i, size_t *n)
{
    size_t begin = 0, end = 0;

    if (i > 0)
        memcpy(&begin, s->ends.data + (i - 1) * sizeof begin, sizeof begin);
    memcpy(&end, s->ends.data + i * sizeof end, sizeof end);
    *n = end - begin;
    return cs_buf_str(&s->text) + begin;
}

static void end_string(struct strings *s)
{
    const size_t at = s->text.len;

    cs_buf_add(&s->ends, &at, sizeof at);
}

/* Appends text with every `from` exchanged. */
static void replace(struct cs_buf *out, const char *text, size_t n, const char *from, size_t n_from,
                    const char *to, size_t n_to)
{
    size_t done = 0;

    for (const char *hit = NULL; (hit = memmem(text + done, n - done, from, n_from)) != NULL;) {
        cs_buf_add(out, text + done, (size_t)(hit - text) - done);
        cs_buf_add(out, to, n_to);
        done = (size_t)(hit - text) + n_from;
    }
    cs_buf_add(out, text + done, n - done);
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* "<0x41>" is a byte. */
static void put_byte(struct cs_buf *out, const char *text, size_t n)
{
    if (n == 6 && memcmp(text, "<0x", 3) == 0 && text[5] == '>' && hex(text[3]) >= 0 &&
        hex(text[4]) >= 0)
        cs_buf_addc(out, (char)(hex(text[3]) * 16 + hex(text[4])));
    else
        cs_buf_add(out, text, n);
}

static void put_stripped(struct cs_buf *out, const struct tok_decode_step *step, const char *text,
                         size_t n)
{
    for (int i = 0;
         i < step->n_left && n >= step->n_from && memcmp(text, step->from, step->n_from) == 0;
         i++) {
        text += step->n_from;
        n -= step->n_from;
    }
    for (int i = 0; i < step->n_right && n >= step->n_from &&
                    memcmp(text + n - step->n_from, step->from, step->n_from) == 0;
         i++)
        n -= step->n_from;
    cs_buf_add(out, text, n);
}

/* String i of n through a step. */
static void put_string(struct cs_buf *out, const struct tok_decode_step *step, const char *text,
                       size_t len, size_t i, size_t n)
{
    const bool is_last = i + 1 == n;

    switch (step->kind) {
    case TOK_DECODE_REPLACE:
        replace(out, text, len, step->from, step->n_from, step->to, step->n_to);
        return;
    case TOK_DECODE_METASPACE:
        replace(out, text, len, step->from, step->n_from, " ", i == 0 && step->n_left ? 0 : 1);
        return;
    case TOK_DECODE_SUFFIX:
        replace(out, text, len, step->from, step->n_from, " ", is_last ? 0 : 1);
        return;
    case TOK_DECODE_BYTES:
        put_byte(out, text, len);
        return;
    case TOK_DECODE_STRIP:
        put_stripped(out, step, text, len);
        return;
    case TOK_DECODE_SPACES:
        cs_buf_add(out, text, len);
        if (!is_last)
            cs_buf_addc(out, ' ');
        return;
    case TOK_DECODE_FUSE:
        cs_buf_add(out, text, len);
        return;
    }
}

static void run_step(const struct tok_decode_step *step, struct strings *s)
{
    struct strings out = {{0}, {0}};
    const size_t n = n_strings(s);

    for (size_t i = 0; i < n; i++) {
        size_t len = 0;
        const char *text = string_at(s, i, &len);
        put_string(&out.text, step, text, len, i, n);
        if (step->kind != TOK_DECODE_FUSE || i + 1 == n)
            end_string(&out);
    }
    cs_buf_free(&s->text);
    cs_buf_free(&s->ends);
    *s = out;
}

enum cs_status cs_tokenizer_decode(const struct cs_tokenizer *tok, const int32_t *ids, size_t n,
                                   bool skip_special, struct cs_buf *out, struct cs_err *err)
{
    struct strings s = {{0}, {0}};
    enum cs_status status = CS_OK;

    for (size_t i = 0; i < n && status == CS_OK; i++) {
        const struct tok_entry *e = NULL;
        if (ids[i] >= 0 && ids[i] < tok->n_entries)
            e = &tok->entries[ids[i]];
        if (e == NULL || e->spelling == NULL)
            status = cs_fail(err, CS_INVALID, "id %d at position %zu is not in the vocabulary",
                             ids[i], i);
        else if (!(skip_special && e->is_special)) {
            cs_buf_add(&s.text, e->bytes, e->n_bytes);
            end_string(&s);
        }
    }
    for (int k = 0; k < tok->n_decode && status == CS_OK; k++)
        run_step(&tok->decode[k], &s);
    if (status == CS_OK)
        cs_buf_add(out, s.text.data, s.text.len);
    cs_buf_free(&s.text);
    cs_buf_free(&s.ends);
    return status;
}
