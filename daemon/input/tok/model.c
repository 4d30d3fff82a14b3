/* Reads the model of tokenizer.json, or of a document of the same form that was made here of a
 * SentencePiece or tiktoken file. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "input/tok/tok.h"

enum { AFFIX_MAX = 24 };

static const double UNKNOWN_PENALTY = 10.0;

/* What marks a character inside of a word, or at its end. */
static enum cs_status load_affix(struct cs_tokenizer *tok, const json_t *model, const char *key,
                                 const char **out, struct cs_err *err)
{
    const json_t *text = json_object_get(model, key);

    if (!json_is_string(text) || json_string_length(text) == 0)
        return CS_OK;
    if (json_string_length(text) > AFFIX_MAX)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: %s \"%.60s\" is longer than %d",
                       key, json_string_value(text), AFFIX_MAX);
    *out = cs_arena_strdup(tok->arena, json_string_value(text));
    return CS_OK;
}

/* Tokens "<0x41>" stand for bytes. */
static void load_fallback(struct cs_tokenizer *tok, const json_t *model)
{
    char spelling[16];

    memset(tok->fallback_id, -1, sizeof tok->fallback_id);
    if (!tok_flag(model, "byte_fallback", false))
        return;
    for (int b = 0; b < 256; b++) {
        const int n = snprintf(spelling, sizeof spelling, "<0x%02X>", (unsigned)b);
        tok->fallback_id[b] = tok_map_find(&tok->spellings, tok->entries, spelling, (size_t)n);
    }
}

static enum cs_status load_unk(struct cs_tokenizer *tok, const json_t *model, struct cs_err *err)
{
    const json_t *text = json_object_get(model, "unk_token"),
                 *id = json_object_get(model, "unk_id");

    tok->unk = -1;
    if (json_is_string(text))
        tok->unk = tok_map_find(&tok->spellings, tok->entries, json_string_value(text),
                                json_string_length(text));
    if (!json_is_integer(id))
        return CS_OK;
    if (json_integer_value(id) < 0 || json_integer_value(id) >= tok->n_entries)
        return cs_fail(err, CS_CORRUPT, "tokenizer: unk_id %lld is not in the vocabulary",
                       (long long)json_integer_value(id));
    tok->unk = (int32_t)json_integer_value(id);
    return CS_OK;
}

static enum cs_status load_bpe(struct cs_tokenizer *tok, const struct tok_source *source,
                               struct cs_err *err)
{
    const json_t *model = json_object_get(source->root, "model");
    const json_t *dropout = json_object_get(model, "dropout");

    if (json_is_number(dropout) && json_number_value(dropout) != 0.0)
        return cs_fail(err, CS_UNSUPPORTED, "unsupported tokenizer: dropout %g",
                       json_number_value(dropout));
    CS_TRY(load_affix(tok, model, "continuing_subword_prefix", &tok->word_prefix, err));
    CS_TRY(load_affix(tok, model, "end_of_word_suffix", &tok->word_suffix, err));
    tok->is_unk_fused = tok_flag(model, "fuse_unk", false);
    tok->ignores_merges = tok_flag(model, "ignore_merges", false);
    return tok_load_merges(tok, source, err);
}

/* The unknown token is worse than every other. */
static enum cs_status load_unigram(struct cs_tokenizer *tok, const struct tok_source *source,
                                   struct cs_err *err)
{
    double worst = INFINITY, best = FLT_MIN;

    if (tok->scores == NULL)
        return cs_fail(err, CS_CORRUPT, "tokenizer: model.vocab is not a list of [text, score]");
    tok->is_single_precision = source->is_own;
    for (int32_t id = 0; id < tok->n_entries; id++) {
        const struct tok_entry *e = &tok->entries[id];
        if (!e->is_model)
            continue;
        if (!e->is_kept) {
            worst = fmin(worst, tok->scores[id]);
            best = fmax(best, tok->scores[id]);
        }
        if (!tok_trie_add(&tok->pieces, e->bytes, e->n_bytes, id))
            return cs_fail(err, CS_NO_MEMORY, "no memory for a vocabulary of %d tokens",
                           tok->n_entries);
    }
    tok->kept_score = best;
    tok->unk_score = worst - UNKNOWN_PENALTY;
    if (tok->is_single_precision)
        tok->unk_score = (double)(float)tok->unk_score;
    return CS_OK;
}

static enum cs_status load_words(struct cs_tokenizer *tok, const struct tok_source *source,
                                 struct cs_err *err)
{
    (void)tok;
    (void)source;
    (void)err;
    return CS_OK;
}

static const struct {
    const char *type;
    tok_model_fn *encode;
    enum cs_status (*load)(struct cs_tokenizer *tok, const struct tok_source *source,
                           struct cs_err *err);
} models[] = {
    {"BPE",       tok_bpe,        load_bpe    },
    {"Unigram",   tok_unigram,    load_unigram},
    {"WordLevel", tok_word_level, load_words  },
};

enum cs_status tok_load_model(struct cs_tokenizer *tok, const struct tok_source *source,
                              struct cs_err *err)
{
    const json_t *model = json_object_get(source->root, "model");
    const json_t *type = json_object_get(model, "type");
    const char *name = type == NULL ? "BPE" : json_string_value(type);
    size_t i = 0;

    while (i < CS_ARRAY_LEN(models) && (name == NULL || strcmp(name, models[i].type) != 0))
        i++;
    if (i == CS_ARRAY_LEN(models))
        return tok_refuse(err, "model", type);
    CS_TRY(tok_load_normalizer(tok, source, err));
    CS_TRY(tok_load_pretokenizer(tok, json_object_get(source->root, "pre_tokenizer"), err));
    CS_TRY(tok_load_decoder(tok, json_object_get(source->root, "decoder"), err));
    CS_TRY(tok_load_vocab(tok, source, err));
    load_fallback(tok, model);
    CS_TRY(load_unk(tok, model, err));
    tok->model = models[i].encode;
    CS_TRY(models[i].load(tok, source, err));
    return tok_load_added(tok, source->added, err);
}
