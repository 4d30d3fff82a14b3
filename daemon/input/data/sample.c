/* Makes one sample of a record: lays its files out, expands and tokenizes its rendered text, sets
 * labels. */
#include "input/data/sample.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "input/data/sample_media.h"

enum { MAX_ROWS = 1 << 26 };

enum cs_status cs_sample_rules_init(struct cs_sample_rules *rules, struct cs_tokenizer *tok,
                                    const struct cs_template *chat, const char *const *tokens,
                                    int n_encoders, struct cs_err *err)
{
    CS_ASSERT(n_encoders <= CS_MAX_ENCODERS);
    *rules = (struct cs_sample_rules){.tok = tok, .chat = chat, .n_encoders = n_encoders};
    for (int e = 0; e < n_encoders; e++) {
        CS_TRY(cs_tokenizer_set_special(tok, tokens[e], err));
        rules->token[e] = tokens[e];
        rules->token_id[e] = cs_tokenizer_id(tok, tokens[e]);
    }
    return cs_template_check(chat, tok, err);
}

/* Content is plain; neighbouring plain segments stay apart, which does no harm. NULL: no memory. */
static struct cs_text_range *plain_ranges(const struct cs_rendering *r, size_t *n)
{
    struct cs_text_range *out = calloc(r->n + 1, sizeof *out);

    *n = 0;
    for (size_t i = 0; out != NULL && i < r->n; i++)
        if (!r->segments[i].is_special)
            out[(*n)++] = (struct cs_text_range){r->segments[i].begin, r->segments[i].end};
    return out;
}

/* Segment in which the token starts; tokens come in order, so *at only grows. */
static const struct cs_segment *segment_of(const struct cs_rendering *r, uint32_t begin, size_t *at)
{
    while (*at + 1 < r->n && r->segments[*at].end <= begin)
        (*at)++;
    return &r->segments[*at];
}

/* Is this token the placeholder that the segment stands for? */
static bool is_media(const struct cs_sample_rules *s, const struct cs_segment *seg,
                     const struct cs_token *token)
{
    return seg->encoder >= 0 && token->id == s->token_id[seg->encoder];
}

/* Ids and placeholders against the model, and how many rows there will be. */
static enum cs_status count_rows(const struct cs_sample_rules *s, const struct cs_rendering *r,
                                 const struct cs_expansion *expansion,
                                 const struct cs_tokens *tokens, int64_t *rows, struct cs_err *err)
{
    int items[CS_MAX_ENCODERS] = {0}, planned[CS_MAX_ENCODERS] = {0};
    size_t at = 0;

    *rows = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->segments[i].encoder >= 0)
            planned[r->segments[i].encoder]++;
    for (int32_t k = 0; k < expansion->n_runs; k++)
        *rows += expansion->runs[k].n;
    for (size_t i = 0; i < tokens->n; i++) {
        const struct cs_token *t = &tokens->items[i];
        const struct cs_segment *seg = segment_of(r, t->begin, &at);
        if (s->vocab > 0 && t->id >= s->vocab)
            return cs_fail(err, CS_INVALID, "token id %d, but the model has %d embeddings", t->id,
                           s->vocab);
        for (int e = 0; e < s->n_encoders; e++)
            items[e] += t->id == s->token_id[e];
        *rows += !is_media(s, seg, t);
    }
    for (int e = 0; e < s->n_encoders; e++)
        if (items[e] != planned[e])
            return cs_fail(err, CS_INVALID, "%d token%s %s in the text, but %d placeholder%s",
                           items[e], CS_PLURAL(items[e]), s->token[e], planned[e],
                           CS_PLURAL(planned[e]));
    return CS_OK;
}

static enum cs_status check_length(const struct cs_sample_rules *s, struct cs_sample *out,
                                   struct cs_err *err)
{
    const int64_t most = s->seq_tokens > 0 ? s->seq_tokens : MAX_ROWS;

    if (out->rows_wanted <= most)
        return CS_OK;
    out->fault = CS_SAMPLE_TOO_LONG;
    return cs_fail(err, CS_LIMIT, "%lld row%s after expansion, %s is %lld",
                   (long long)out->rows_wanted, CS_PLURAL(out->rows_wanted),
                   s->seq_tokens > 0 ? "seq_tokens" : "the limit", (long long)most);
}

static enum cs_status allocate(struct cs_sample *out, size_t rows, struct cs_err *err)
{
    out->ids = calloc(rows + 1, sizeof *out->ids);
    out->labels = calloc(rows + 1, sizeof *out->labels);
    out->begins = calloc(rows + 1, sizeof *out->begins);
    out->ends = calloc(rows + 1, sizeof *out->ends);
    if (out->ids == NULL || out->labels == NULL || out->begins == NULL || out->ends == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample of %zu rows", rows);
    return CS_OK;
}

/* Rows in order; labels still unshifted (the row's own token, or -1). */
static void fill(const struct cs_sample_rules *s, const struct cs_rendering *r,
                 const struct cs_expansion *expansion, const struct cs_tokens *tokens,
                 struct cs_sample *out)
{
    const struct cs_media_run *run = expansion->runs;
    size_t at = 0;
    int32_t row = 0;

    for (size_t i = 0; i < tokens->n; i++) {
        const struct cs_token *t = &tokens->items[i];
        const struct cs_segment *seg = segment_of(r, t->begin, &at);
        int32_t n = 1;
        if (is_media(s, seg, t)) {
            n = run->n;
            for (int32_t k = 0; k < n; k++)
                out->media[run->medium].row[run->first + k] = row + k;
            run++;
        }
        for (int32_t k = 0; k < n; k++, row++) {
            out->ids[row] = t->id;
            out->labels[row] = seg->is_trained ? t->id : -1;
            out->begins[row] = t->begin;
            out->ends[row] = t->end;
        }
    }
    out->n_tokens = row;
}

static void shift_labels(struct cs_sample *out)
{
    for (int32_t t = 0; t + 1 < out->n_tokens; t++) {
        out->labels[t] = out->labels[t + 1];
        out->n_labels += out->labels[t] >= 0;
    }
    if (out->n_tokens > 0)
        out->labels[out->n_tokens - 1] = -1;
}

static enum cs_status encode(const struct cs_sample_rules *s, const struct cs_rendering *r,
                             struct cs_tokens *tokens, struct cs_err *err)
{
    size_t n_plain = 0;
    struct cs_text_range *plain = plain_ranges(r, &n_plain);

    if (plain == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample of %zu bytes", r->text.len);
    enum cs_status status = cs_tokenizer_encode_mixed(s->tok, cs_buf_str(&r->text), r->text.len,
                                                      plain, n_plain, tokens, err);
    free(plain);
    if (status == CS_OK && s->chat->is_surrounded)
        status = cs_tokenizer_surround(s->tok, r->text.len, tokens, err);
    return status;
}

/* The text in the rendering expanded in place. */
static enum cs_status expand(const struct cs_sample_rules *s, struct cs_rendering *rendering,
                             const struct cs_sample *out, struct cs_expansion *expansion,
                             struct cs_err *err)
{
    const struct cs_expand_config config = {
        .tok = s->tok, .token = s->token, .media = out->media, .n_media = out->n_media};

    CS_TRY(cs_expand(&config, rendering, expansion, err));
    const struct cs_rendering old = *rendering;
    *rendering = expansion->rendering;
    expansion->rendering = old;
    return CS_OK;
}

static enum cs_status make(const struct cs_sample_rules *s, const struct cs_record *record,
                           struct cs_rendering *rendering, struct cs_expansion *expansion,
                           struct cs_tokens *tokens, struct cs_sample *out, struct cs_err *err)
{
    CS_TRY(cs_template_render(s->chat, record, s->token, s->n_encoders, rendering, err));
    CS_TRY(cs_sample_lay_out_media(s, record, rendering, out, err));
    CS_TRY(expand(s, rendering, out, expansion, err));
    CS_TRY(encode(s, rendering, tokens, err));
    CS_TRY(count_rows(s, rendering, expansion, tokens, &out->rows_wanted, err));
    CS_TRY(check_length(s, out, err));
    CS_TRY(cs_sample_check_items(s, out, err));
    CS_TRY(allocate(out, (size_t)out->rows_wanted, err));
    fill(s, rendering, expansion, tokens, out);
    shift_labels(out);
    if (out->n_labels > 0)
        return CS_OK;
    out->fault = CS_SAMPLE_UNTRAINED;
    return cs_fail(err, CS_INVALID, "no token of it trains");
}

enum cs_status cs_sample_make(const struct cs_sample_rules *rules, const struct cs_record *record,
                              struct cs_rendering *rendering, struct cs_sample *out,
                              struct cs_err *err)
{
    struct cs_expansion expansion = {.n_runs = 0};
    struct cs_tokens tokens = {0};

    *out = (struct cs_sample){0};
    enum cs_status status = make(rules, record, rendering, &expansion, &tokens, out, err);
    cs_tokens_free(&tokens);
    cs_expansion_free(&expansion);
    if (status != CS_OK) {
        const struct cs_sample kept = {.fault = out->fault, .rows_wanted = out->rows_wanted};
        cs_sample_free(out);
        *out = kept;
    }
    return status;
}

void cs_sample_free(struct cs_sample *sample)
{
    free(sample->ids);
    free(sample->labels);
    free(sample->begins);
    free(sample->ends);
    *sample = (struct cs_sample){0};
}
