/* Makes one sample of a record: tokenizes its rendered text, expands placeholders to rows, sets
 * labels. */
#include "input/data/sample.h"

#include <stdlib.h>
#include <string.h>

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

static enum cs_status count_rows(const struct cs_sample_rules *s, const struct cs_rendering *r,
                                 const struct cs_tokens *tokens, int64_t *rows, int *media,
                                 struct cs_err *err)
{
    int items[CS_MAX_ENCODERS] = {0}, planned[CS_MAX_ENCODERS] = {0};
    size_t at = 0;

    *rows = 0;
    *media = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->segments[i].encoder >= 0)
            planned[r->segments[i].encoder]++;
    for (size_t i = 0; i < tokens->n; i++) {
        const struct cs_token *t = &tokens->items[i];
        const struct cs_segment *seg = segment_of(r, t->begin, &at);
        if (s->vocab > 0 && t->id >= s->vocab)
            return cs_fail(err, CS_INVALID, "token id %d, but the model has %d embeddings", t->id,
                           s->vocab);
        for (int e = 0; e < s->n_encoders; e++)
            items[e] += t->id == s->token_id[e];
        *media += is_media(s, seg, t);
        *rows += is_media(s, seg, t) ? s->item[seg->encoder].rows : 1;
    }
    for (int e = 0; e < s->n_encoders; e++) {
        if (items[e] != planned[e])
            return cs_fail(err, CS_INVALID, "%d tokens %s in the text, but %d placeholders",
                           items[e], s->token[e], planned[e]);
        if (s->max_items[e] > 0 && items[e] > s->max_items[e])
            return cs_fail(err, CS_LIMIT, "%d of %s, a slot takes %d", items[e], s->token[e],
                           s->max_items[e]);
    }
    return CS_OK;
}

static enum cs_status check_length(const struct cs_sample_rules *s, struct cs_sample *out,
                                   struct cs_err *err)
{
    const int64_t most = s->seq_tokens > 0 ? s->seq_tokens : MAX_ROWS;

    if (out->rows_wanted <= most)
        return CS_OK;
    out->fault = CS_SAMPLE_TOO_LONG;
    return cs_fail(err, CS_LIMIT, "%lld rows after expansion, %s is %lld",
                   (long long)out->rows_wanted, s->seq_tokens > 0 ? "seq_tokens" : "the limit",
                   (long long)most);
}

static enum cs_status allocate(struct cs_sample *out, size_t rows, size_t media, struct cs_err *err)
{
    out->ids = calloc(rows + 1, sizeof *out->ids);
    out->labels = calloc(rows + 1, sizeof *out->labels);
    out->begins = calloc(rows + 1, sizeof *out->begins);
    out->ends = calloc(rows + 1, sizeof *out->ends);
    out->media = calloc(media + 1, sizeof *out->media);
    if (out->ids == NULL || out->labels == NULL || out->begins == NULL || out->ends == NULL ||
        out->media == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample of %zu rows", rows);
    return CS_OK;
}

/* Rows in order; labels still unshifted (the row's own token, or -1). */
static void fill(const struct cs_sample_rules *s, const struct cs_record *record,
                 const struct cs_rendering *r, const struct cs_tokens *tokens,
                 struct cs_sample *out)
{
    int used[CS_MAX_ENCODERS] = {0};
    size_t at = 0;
    int32_t row = 0;

    for (size_t i = 0; i < tokens->n; i++) {
        const struct cs_token *t = &tokens->items[i];
        const struct cs_segment *seg = segment_of(r, t->begin, &at);
        int32_t n = 1;
        if (is_media(s, seg, t)) {
            const struct cs_media_file *file = &record->files[seg->encoder][used[seg->encoder]++];
            const struct cs_item_shape *shape = &s->item[seg->encoder];
            n = shape->rows;
            out->media[out->n_media++] = (struct cs_sample_media){
                .encoder = seg->encoder, .first_row = row, .shape = *shape, .file = file};
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

enum cs_status cs_sample_make(const struct cs_sample_rules *rules, const struct cs_record *record,
                              struct cs_rendering *rendering, struct cs_sample *out,
                              struct cs_err *err)
{
    struct cs_tokens tokens = {0};
    struct cs_text_range *plain = NULL;
    enum cs_status status = CS_OK;
    size_t n_plain = 0;
    int media = 0;

    *out = (struct cs_sample){0};
    CS_TRY(
        cs_template_render(rules->chat, record, rules->token, rules->n_encoders, rendering, err));
    plain = plain_ranges(rendering, &n_plain);
    if (plain == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a sample of %zu bytes",
                       rendering->text.len);
    status = cs_tokenizer_encode_mixed(rules->tok, cs_buf_str(&rendering->text),
                                       rendering->text.len, plain, n_plain, &tokens, err);
    if (status == CS_OK)
        status = count_rows(rules, rendering, &tokens, &out->rows_wanted, &media, err);
    if (status == CS_OK)
        status = check_length(rules, out, err);
    if (status == CS_OK)
        status = allocate(out, (size_t)out->rows_wanted, (size_t)media, err);
    if (status == CS_OK) {
        fill(rules, record, rendering, &tokens, out);
        shift_labels(out);
        if (out->n_labels == 0) {
            out->fault = CS_SAMPLE_UNTRAINED;
            status = cs_fail(err, CS_INVALID, "no token of it trains");
        }
    }
    cs_tokens_free(&tokens);
    free(plain);
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
    free(sample->media);
    *sample = (struct cs_sample){0};
}
