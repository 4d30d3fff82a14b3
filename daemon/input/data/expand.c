/* Copies a rendered conversation, piece by piece where a file stands. */
#include "input/data/expand.h"

#include <stdlib.h>
#include <string.h>

struct expanding {
    const struct cs_expand_config *config;
    const struct cs_rendering *from;
    struct cs_expansion *out;
};

static void add_segment(struct cs_rendering *out, const char *text, size_t n,
                        const struct cs_segment *like)
{
    struct cs_segment s = *like;

    if (n == 0)
        return;
    if (out->n == out->cap) {
        out->cap = out->cap == 0 ? 32 : out->cap * 2;
        out->segments = realloc(out->segments, out->cap * sizeof *out->segments);
        CS_ASSERT(out->segments != NULL);
    }
    s.begin = (uint32_t)out->text.len;
    s.end = (uint32_t)(out->text.len + n);
    out->segments[out->n++] = s;
    cs_buf_add(&out->text, text, n);
}

static void add_run(struct cs_expansion *out, struct cs_media_run run)
{
    if (out->n_runs == out->cap) {
        out->cap = out->cap == 0 ? 16 : out->cap * 2;
        out->runs = realloc(out->runs, (size_t)out->cap * sizeof *out->runs);
        CS_ASSERT(out->runs != NULL);
    }
    out->runs[out->n_runs++] = run;
}

/* Bytes of special text right before segment i, or right behind it. What is spelt like a token in
 * plain text is none, so a wrap that is a token cannot stand there. */
static size_t special_before(const struct cs_rendering *r, size_t i)
{
    size_t at = i;

    while (at > 0 && r->segments[at - 1].is_special)
        at--;
    return r->segments[i].begin - r->segments[at].begin;
}

static size_t special_behind(const struct cs_rendering *r, size_t i)
{
    size_t at = i;

    while (at + 1 < r->n && r->segments[at + 1].is_special)
        at++;
    return r->segments[at].end - r->segments[i].end;
}

/* Which pieces take the place of the placeholder in segment i. */
static void choose_pieces(const struct cs_media_layout *layout, const struct cs_rendering *r,
                          size_t i, int32_t *first, int32_t *end)
{
    const struct cs_segment *s = &r->segments[i];
    int32_t a = 0, b = layout->n_pieces;

    while (a < b && layout->pieces[a].is_wrap)
        a++;
    while (b > a && layout->pieces[b - 1].is_wrap)
        b--;
    const bool opens = a > 0 && layout->pieces[a - 1].is_token;
    const bool closes = b < layout->n_pieces && layout->pieces[b].is_token;
    const size_t n_before = opens ? special_before(r, i) : s->begin;
    const size_t n_behind = closes ? special_behind(r, i) : r->text.len - s->end;
    const char *text = cs_buf_str(&r->text);
    cs_media_layout_trim(layout, text + s->begin - n_before, n_before, text + s->end, n_behind,
                         first, end);
}

static void add_medium(struct expanding *x, size_t i, int32_t medium)
{
    const struct cs_segment *s = &x->from->segments[i];
    const struct cs_media_layout *layout = &x->config->media[medium].layout;
    const char *token = x->config->token[s->encoder];
    struct cs_segment like = {.is_special = true, .encoder = -1};
    int32_t first = 0, end = 0, row = 0;

    choose_pieces(layout, x->from, i, &first, &end);
    for (int32_t k = 0; k < layout->n_pieces; k++) {
        const struct cs_media_piece *piece = &layout->pieces[k];
        const bool is_text = piece->kind == CS_MEDIA_TEXT;
        const bool is_known = !piece->is_token || cs_tokenizer_id(x->config->tok, piece->text) >= 0;
        like.encoder = is_text ? -1 : s->encoder;
        if (is_text && is_known && k >= first && k < end)
            add_segment(&x->out->rendering, piece->text, strlen(piece->text), &like);
        if (is_text || piece->n_rows == 0)
            continue;
        add_segment(&x->out->rendering, token, strlen(token), &like);
        add_run(x->out, (struct cs_media_run){medium, row, piece->n_rows});
        row += piece->n_rows;
    }
}

enum cs_status cs_expand(const struct cs_expand_config *config, const struct cs_rendering *from,
                         struct cs_expansion *out, struct cs_err *err)
{
    struct expanding x = {config, from, out};
    int32_t medium = 0;

    cs_buf_reset(&out->rendering.text);
    out->rendering.n = 0;
    out->n_runs = 0;
    for (size_t i = 0; i < from->n; i++) {
        const struct cs_segment *s = &from->segments[i];
        if (s->encoder >= 0)
            add_medium(&x, i, medium++);
        else
            add_segment(&out->rendering, cs_buf_str(&from->text) + s->begin, s->end - s->begin, s);
        if (out->rendering.text.len > CS_TEXT_MAX_BYTES)
            return cs_fail(err, CS_LIMIT, "a conversation of more than %d bytes",
                           CS_TEXT_MAX_BYTES);
    }
    CS_ASSERT(medium == config->n_media);
    return CS_OK;
}

void cs_expansion_free(struct cs_expansion *expansion)
{
    cs_rendering_free(&expansion->rendering);
    free(expansion->runs);
    *expansion = (struct cs_expansion){.n_runs = 0};
}
