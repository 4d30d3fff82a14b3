/* Reads a model of SentencePiece: its pieces, and how it cleans text. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/files/made.h"
#include "input/tok/files/protobuf.h"

/* Numbers of the format. */
enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3 };

enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };

enum { TRAINER_MODEL = 3, TRAINER_SUFFIX = 24, TRAINER_FALLBACK = 35 };

enum { CLEAN_MAP = 2, CLEAN_DUMMY = 3, CLEAN_REMOVE = 4, CLEAN_ESCAPE = 5 };

enum piece_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

enum model_type { UNIGRAM = 1, BPE = 2 };

struct making {
    json_t *vocab, *added, *seen[2]; /* texts of pieces that text is cut into, and of others */
    struct cs_buf kinds;
    uint64_t model;
    bool has_trainer, has_normalizer, has_fallback, is_suffix, has_dummy, removes, escapes;
    struct tok_field map;
    json_int_t unk;
    int n_bytes;
    struct cs_err *err;
};

static enum cs_status broken(const struct making *m, const char *what)
{
    return cs_fail(m->err, CS_CORRUPT, "tokenizer: this is no SentencePiece model: %s", what);
}

struct piece {
    struct tok_field text;
    float score;
    uint64_t type;
};

static enum cs_status read_piece(const struct making *m, const struct tok_field *field,
                                 struct piece *out)
{
    struct tok_message message = tok_message_of(field->bytes, field->n);
    struct tok_field f;

    *out = (struct piece){.type = NORMAL};
    while (tok_message_next(&message, &f)) {
        const uint32_t bits = (uint32_t)f.value;
        if (f.number == PIECE_TEXT)
            out->text = f;
        else if (f.number == PIECE_SCORE)
            memcpy(&out->score, &bits, sizeof bits);
        else if (f.number == PIECE_TYPE)
            out->type = f.value;
    }
    if (message.is_broken || out->text.bytes == NULL || out->text.n == 0)
        return broken(m, "a piece has no text");
    if (!(out->score > -1e30F && out->score < 1e30F))
        return broken(m, "the score of a piece is no number");
    return CS_OK;
}

/* What the unknown piece and the control pieces of a document need besides their place. */
static enum cs_status note_type(struct making *m, const struct piece *p, json_int_t id)
{
    static const char kinds[] = {
        [NORMAL] = TOK_KIND_NORMAL,     [UNKNOWN] = TOK_KIND_OTHER, [CONTROL] = TOK_KIND_OTHER,
        [USER_DEFINED] = TOK_KIND_KEPT, [UNUSED] = TOK_KIND_OTHER,  [BYTE] = TOK_KIND_OTHER};

    if (p->type < NORMAL || p->type > BYTE)
        return broken(m, "a piece has a type that is not known");
    cs_buf_addc(&m->kinds, kinds[p->type]);
    m->n_bytes += p->type == BYTE;
    if (p->type == UNUSED && m->model == BPE)
        return cs_fail(m->err, CS_UNSUPPORTED,
                       "unsupported tokenizer: an unused piece in a BPE model of SentencePiece");
    if (p->type == UNKNOWN && m->unk != -1)
        return broken(m, "it has two unknown pieces");
    if (p->type == UNKNOWN)
        m->unk = id;
    if (p->type == UNKNOWN || p->type == CONTROL)
        json_array_append_new(m->added, tok_special_token(p->text.bytes, id));
    return CS_OK;
}

static enum cs_status add_piece(struct making *m, const struct tok_field *field)
{
    const json_int_t id = (json_int_t)json_array_size(m->vocab);
    struct piece p;
    json_t *text = NULL;

    CS_TRY(read_piece(m, field, &p));
    text = json_stringn(p.text.bytes, p.text.n);
    if (text == NULL)
        return broken(m, "a piece is not UTF-8");
    json_array_append_new(m->vocab, json_pack("[o,f]", text, (double)p.score));
    p.text.bytes = json_string_value(text); /* with its end */
    json_t *seen = m->seen[p.type == NORMAL || p.type == USER_DEFINED || p.type == UNUSED];
    if (json_object_getn(seen, p.text.bytes, p.text.n) != NULL)
        return cs_fail(m->err, CS_CORRUPT, "tokenizer: the piece \"%.60s\" is there twice",
                       p.text.bytes);
    json_object_setn_new(seen, p.text.bytes, p.text.n, json_true());
    return note_type(m, &p, id);
}

static enum cs_status read_trainer(struct making *m, const struct tok_field *field)
{
    struct tok_message message = tok_message_of(field->bytes, field->n);
    struct tok_field f;

    m->has_trainer = true;
    while (tok_message_next(&message, &f)) {
        if (f.number == TRAINER_MODEL)
            m->model = f.value;
        else if (f.number == TRAINER_SUFFIX)
            m->is_suffix = f.value != 0;
        else if (f.number == TRAINER_FALLBACK)
            m->has_fallback = f.value != 0;
    }
    return message.is_broken ? broken(m, "its trainer_spec is cut") : CS_OK;
}

static enum cs_status read_normalizer(struct making *m, const struct tok_field *field)
{
    struct tok_message message = tok_message_of(field->bytes, field->n);
    struct tok_field f;

    m->has_normalizer = true;
    while (tok_message_next(&message, &f)) {
        if (f.number == CLEAN_MAP && f.bytes != NULL)
            m->map = f;
        else if (f.number == CLEAN_DUMMY)
            m->has_dummy = f.value != 0;
        else if (f.number == CLEAN_REMOVE)
            m->removes = f.value != 0;
        else if (f.number == CLEAN_ESCAPE)
            m->escapes = f.value != 0;
    }
    return message.is_broken ? broken(m, "its normalizer_spec is cut") : CS_OK;
}

/* Twice, for what pieces mean is said behind them. */
static enum cs_status read_fields(struct making *m, const struct cs_buf *file, bool are_pieces)
{
    struct tok_message message = tok_message_of(file->data, file->len);
    struct tok_field f;

    while (tok_message_next(&message, &f)) {
        if (f.bytes == NULL)
            continue;
        if (f.number == PIECES && are_pieces)
            CS_TRY(add_piece(m, &f));
        else if (f.number == TRAINER && !are_pieces)
            CS_TRY(read_trainer(m, &f));
        else if (f.number == NORMALIZER && !are_pieces)
            CS_TRY(read_normalizer(m, &f));
    }
    return message.is_broken ? broken(m, "a field is cut") : CS_OK;
}

static enum cs_status check(const struct making *m)
{
    if (!m->has_trainer || !m->has_normalizer)
        return broken(m, "it has no trainer_spec or no normalizer_spec; is it cut?");
    if (m->unk == -1)
        return broken(m, "it has no unknown piece");
    if (m->n_bytes != (m->has_fallback ? 256 : 0))
        return broken(m, m->has_fallback ? "byte_fallback without a piece for each byte"
                                         : "pieces of bytes without byte_fallback");
    return CS_OK;
}

static json_t *map_text(const struct making *m)
{
    struct cs_buf text = {0};
    json_t *out = NULL;

    unsigned char *room = cs_buf_room(&text, m->map.n / 3 * 4 + 8);
    text.len = (size_t)EVP_EncodeBlock(room, (const unsigned char *)m->map.bytes, (int)m->map.n);
    out = json_stringn(text.data, text.len);
    cs_buf_free(&text);
    return out;
}

static json_t *normalizer(const struct making *m, const json_t *config)
{
    const bool has_dummy =
        m->has_dummy && !json_is_false(json_object_get(config, "add_prefix_space"));
    json_t *out =
        json_pack("{s:s,s:b,s:b,s:b,s:b,s:b}", "type", "SentencePiece", "add_dummy_prefix",
                  has_dummy, "remove_extra_whitespaces", m->removes, "escape_whitespaces",
                  m->escapes, "treat_whitespace_as_suffix", m->is_suffix, "first_only",
                  !json_is_true(json_object_get(config, "legacy")));

    if (m->map.n > 0)
        json_object_set_new(out, "precompiled_charsmap", map_text(m));
    return out;
}

static json_t *decoder(const struct making *m)
{
    json_t *steps = json_pack("[{s:s},{s:s}]", "type", "ByteFallback", "type", "Fuse");

    if (m->escapes)
        json_array_insert_new(steps, 0,
                              json_pack("{s:s,s:{s:s},s:s}", "type", "Replace", "pattern", "String",
                                        "\xe2\x96\x81", "content", " "));
    if (m->has_dummy || m->removes)
        json_array_append_new(steps, json_pack("{s:s,s:s,s:i,s:i}", "type", "Strip", "content", " ",
                                               "start", m->removes ? INT32_MAX : 1, "stop", 0));
    return json_pack("{s:s,s:o}", "type", "Sequence", "decoders", steps);
}

static enum cs_status make(struct making *m, const struct cs_buf *file, const json_t *config,
                           json_t **out)
{
    CS_TRY(read_fields(m, file, false));
    if (m->model != UNIGRAM && m->model != BPE)
        return cs_fail(m->err, CS_UNSUPPORTED,
                       "unsupported tokenizer: model type %llu of SentencePiece: only unigram (1) "
                       "and bpe (2) are read",
                       (unsigned long long)m->model);
    if (m->map.n > INT32_MAX / 2)
        return broken(m, "its map of characters is too long");
    CS_TRY(read_fields(m, file, true));
    CS_TRY(check(m));
    *out = json_pack("{s:{s:s,s:O,s:s,s:I,s:b},s:O,s:o,s:o}", "model", "type",
                     m->model == BPE ? "BPE" : "Unigram", "vocab", m->vocab, "kinds",
                     cs_buf_str(&m->kinds), "unk_id", m->unk, "byte_fallback", m->has_fallback,
                     "added_tokens", m->added, "normalizer", normalizer(m, config), "decoder",
                     decoder(m));
    return CS_OK;
}

enum cs_status tok_made_of_sentencepiece(const struct cs_buf *file, const json_t *config,
                                         json_t **out, struct cs_err *err)
{
    struct making m = {
        .vocab = json_array(),
        .added = json_array(),
        .seen = {json_object(), json_object()},
        .model = UNIGRAM,
        .has_dummy = true,
        .removes = true,
        .escapes = true,
        .unk = -1,
        .err = err
    };
    const enum cs_status status = make(&m, file, config, out);

    json_decref(m.vocab);
    json_decref(m.added);
    json_decref(m.seen[0]);
    json_decref(m.seen[1]);
    cs_buf_free(&m.kinds);
    return status;
}
