/* Trains a byte-level BPE tokenizer on a text. */
#include "input/make/bpe_train.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"

enum { BYTES = 256, MAX_WORDS = 1 << 16, MAX_WORD_BYTES = 64 };

struct word {
    uint32_t *ids;
    size_t n;
    uint64_t count;
};

struct trainer {
    struct word *words;
    size_t n_words;
    struct cs_buf *token; /* bytes of every token */
    int n_tokens;
    int (*merges)[2];
    int n_merges;
};

/* GPT-2's reversible map: printable Latin-1 bytes stand for themselves, the rest for U+0100 and
 * up. */
static uint32_t byte_char(int byte)
{
    uint32_t next = 256;
    for (int b = 0; b < BYTES; b++) {
        bool is_plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
        uint32_t c = is_plain ? (uint32_t)b : next++;
        if (b == byte)
            return c;
    }
    return 0;
}

static void add_byte_text(struct cs_buf *out, int byte)
{
    uint32_t c = byte_char(byte);
    if (c < 0x80) {
        cs_buf_addc(out, (char)c);
    } else {
        cs_buf_addc(out, (char)(0xC0 | (c >> 6)));
        cs_buf_addc(out, (char)(0x80 | (c & 0x3F)));
    }
}

static int class_of(unsigned char c)
{
    return isalpha(c) || c >= 0x80 ? 0 : isdigit(c) ? 1 : isspace(c) ? 3 : 2;
}

/* length of the word at text[0]: " ?" and a run of one class, or one space character */
static size_t word_length(const char *text, size_t len)
{
    size_t i = text[0] == ' ' && len > 1 && class_of((unsigned char)text[1]) != 3 ? 1 : 0;
    int class = class_of((unsigned char)text[i]);
    size_t n = i + 1;
    if (class == 3)
        return n;
    while (n < len && n < MAX_WORD_BYTES && class_of((unsigned char)text[n]) == class)
        n++;
    return n;
}

static enum cs_status count_words(struct trainer *t, const char *text, size_t len,
                                  struct cs_err *err)
{
    json_t *counts = json_object();
    const char *key;
    json_t *value;
    for (size_t at = 0; at < len;) {
        size_t n = word_length(text + at, len - at);
        json_t *old = json_object_getn(counts, text + at, n);
        if (json_object_setn_new(counts, text + at, n, json_integer(json_integer_value(old) + 1)) !=
            0) {
            json_decref(counts);
            return cs_fail(err, CS_INVALID, "the text is not valid UTF-8 near byte %zu", at);
        }
        at += n;
        if (json_object_size(counts) > MAX_WORDS)
            break; /* frequent words come early enough for a small vocabulary */
    }
    t->words = calloc(json_object_size(counts) + 1, sizeof *t->words);
    CS_ASSERT(t->words != NULL);
    json_object_foreach(counts, key, value)
    {
        struct word *w = &t->words[t->n_words++];
        w->n = strlen(key);
        w->count = (uint64_t)json_integer_value(value);
        w->ids = calloc(w->n + 1, sizeof *w->ids);
        CS_ASSERT(w->ids != NULL);
        for (size_t i = 0; i < w->n; i++)
            w->ids[i] = (unsigned char)key[i];
    }
    json_decref(counts);
    return CS_OK;
}

static bool best_pair(const struct trainer *t, uint64_t *table, int *a, int *b)
{
    size_t side = (size_t)t->n_tokens;
    uint64_t best = 1; /* a pair that occurs once is not worth a token */
    memset(table, 0, side * side * sizeof *table);
    for (size_t w = 0; w < t->n_words; w++)
        for (size_t i = 0; i + 1 < t->words[w].n; i++)
            table[t->words[w].ids[i] * side + t->words[w].ids[i + 1]] += t->words[w].count;
    for (size_t i = 0; i < side * side; i++)
        if (table[i] > best) {
            best = table[i];
            *a = (int)(i / side);
            *b = (int)(i % side);
        }
    return best > 1;
}

static void apply_merge(struct trainer *t, int a, int b)
{
    int id = t->n_tokens++;
    cs_buf_add(&t->token[id], t->token[a].data, t->token[a].len);
    cs_buf_add(&t->token[id], t->token[b].data, t->token[b].len);
    t->merges[t->n_merges][0] = a;
    t->merges[t->n_merges++][1] = b;
    for (size_t w = 0; w < t->n_words; w++) {
        struct word *word = &t->words[w];
        size_t n = 0;
        for (size_t i = 0; i < word->n; i++) {
            bool is_pair =
                i + 1 < word->n && word->ids[i] == (uint32_t)a && word->ids[i + 1] == (uint32_t)b;
            word->ids[n++] = is_pair ? (uint32_t)id : word->ids[i];
            i += is_pair;
        }
        word->n = n;
    }
}

static json_t *document(const struct trainer *t, const char *const *special, int n_special)
{
    json_t *vocab = json_object(), *merges = json_array(), *added = json_array();
    for (int i = 0; i < t->n_tokens; i++)
        json_object_setn_new(vocab, cs_buf_str(&t->token[i]), t->token[i].len, json_integer(i));
    for (int i = 0; i < t->n_merges; i++)
        json_array_append_new(merges, json_pack("[s s]", cs_buf_str(&t->token[t->merges[i][0]]),
                                                cs_buf_str(&t->token[t->merges[i][1]])));
    for (int i = 0; i < n_special; i++)
        json_array_append_new(added,
                              json_pack("{s:i s:s s:b s:b s:b s:b s:b}", "id", t->n_tokens + i,
                                        "content", special[i], "single_word", 0, "lstrip", 0,
                                        "rstrip", 0, "normalized", 0, "special", 1));
    json_t *byte_level = json_pack("{s:s s:b s:b s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                   "trim_offsets", 1, "use_regex", 1);
    json_t *model =
        json_pack("{s:s s:n s:n s:n s:n s:b s:b s:b s:o s:o}", "type", "BPE", "dropout",
                  "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                  "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", merges);
    return json_pack("{s:s s:n s:n s:o s:n s:O s:O s:o s:o}", "version", "1.0", "truncation",
                     "padding", "added_tokens", added, "normalizer", "pre_tokenizer", byte_level,
                     "post_processor", byte_level, "decoder", byte_level, "model", model);
}

enum cs_status cs_bpe_train(const char *text, size_t len, int max_vocab, const char *const *special,
                            int n_special, json_t **out, struct cs_err *err)
{
    struct trainer t = {0};
    if (max_vocab < BYTES + n_special || max_vocab > 8192)
        return cs_fail(err, CS_INVALID, "a vocabulary has %d to 8192 tokens, %d were asked for",
                       BYTES + n_special, max_vocab);
    int cap = max_vocab - n_special;
    uint64_t *table = calloc((size_t)cap * (size_t)cap, sizeof *table);
    t.token = calloc((size_t)cap, sizeof *t.token);
    t.merges = calloc((size_t)cap, sizeof *t.merges);
    enum cs_status status = CS_OK;
    if (!table || !t.token || !t.merges)
        status = cs_fail(err, CS_NO_MEMORY,
                         "no memory to count the pairs of %d tokens (%zu MiB): ask for a smaller "
                         "vocabulary",
                         cap, (size_t)cap * (size_t)cap * sizeof *table >> 20);
    for (; status == CS_OK && t.n_tokens < BYTES; t.n_tokens++)
        add_byte_text(&t.token[t.n_tokens], t.n_tokens);
    if (status == CS_OK)
        status = count_words(&t, text, len, err);
    int a = 0, b = 0;
    while (status == CS_OK && t.n_tokens < cap && best_pair(&t, table, &a, &b))
        apply_merge(&t, a, b);
    if (status == CS_OK)
        *out = document(&t, special, n_special);
    for (size_t w = 0; w < t.n_words; w++)
        free(t.words[w].ids);
    for (int i = 0; i < t.n_tokens; i++)
        cs_buf_free(&t.token[i]);
    free(t.words);
    free(t.token);
    free(t.merges);
    free(table);
    return status;
}
