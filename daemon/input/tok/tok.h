/* Inside of the tokenizer, shared by the files of this folder. */
#ifndef CS_INPUT_TOK_TOK_H
#define CS_INPUT_TOK_TOK_H

#include <jansson.h>

#include "core/base/arena.h"
#include "input/tok/text/mapped.h"
#include "input/tok/text/regex.h"
#include "input/tok/text/steps.h"
#include "input/tok/text/trie.h"
#include "input/tok/tokenizer.h"

enum { TOK_MAX_OPS = 12, TOK_MAX_STEPS = 12 };

/* A token: its spelling in the file and the bytes it stands for. spelling NULL: a hole. */
struct tok_entry {
    const char *spelling, *bytes;
    uint32_t n_spelling, n_bytes;
    bool is_model;   /* the model can produce it */
    bool is_literal; /* byte-level: has characters outside the byte alphabet */
    bool is_special;
    bool is_kept; /* a user-defined symbol of SentencePiece */
};

/* Open addressing over entries, by spelling or by bytes; a slot holds half of the hash and id + 1. */
struct tok_map {
    uint64_t *slots;
    size_t mask;
    bool by_bytes;
};

struct tok_merge {
    uint64_t key;     /* left id << 32 | right id */
    int32_t rank, id; /* id -1: empty slot */
};

struct tok_added {
    const char *text;
    uint32_t n;
    int32_t id;
    bool is_single_word, is_lstrip, is_rstrip;
};

/* Added tokens of one kind. */
struct tok_added_set {
    struct tok_added *items;
    struct tok_trie trie; /* to the place in items */
    int32_t n;
};

enum tok_behavior { TOK_ISOLATED, TOK_REMOVED, TOK_PREVIOUS, TOK_NEXT, TOK_CONTIGUOUS };

enum tok_prepend { TOK_NEVER, TOK_ALWAYS, TOK_FIRST };

/* One pre-tokenizer step: spaces become marks, something is put before the text, the text is split. */
struct tok_op {
    const char *mark; /* for spaces, also what is put before; NULL: a space is put before */
    enum tok_prepend prepend;
    bool is_inverted;
    enum tok_behavior behavior;
    struct tok_regex split; /* valid NULL: no split */
};

enum tok_decode_kind {
    TOK_DECODE_REPLACE,
    TOK_DECODE_METASPACE,
    TOK_DECODE_BYTES,
    TOK_DECODE_FUSE,
    TOK_DECODE_STRIP,
    TOK_DECODE_SUFFIX,
    TOK_DECODE_SPACES,
};

struct tok_decode_step {
    enum tok_decode_kind kind;
    const char *from, *to;
    size_t n_from, n_to;
    int n_left, n_right; /* STRIP: how often `from` at the ends */
};

/* "bos_token" and the spelling that the documents give it. */
struct tok_name {
    const char *key, *spelling;
};

/* Tokens that stand before or behind every text. */
enum { TOK_AROUND_MAX = 8 };

struct tok_around {
    int32_t ids[TOK_AROUND_MAX];
    int n;
};

struct tok_run;
typedef enum cs_status tok_model_fn(struct tok_run *run, const struct tok_view *view);

struct cs_tokenizer {
    struct cs_arena *arena;
    struct tok_name *names;
    int n_names;
    struct tok_entry *entries;
    int32_t n_entries;
    struct tok_map spellings, bytes;
    uint32_t max_bytes; /* of a token of the model */
    bool is_byte_level; /* a character of the model is a byte */

    tok_model_fn *model;
    int32_t byte_id[256];     /* of a token of one byte, -1: none */
    int32_t fallback_id[256]; /* of "<0x41>", where such tokens stand for bytes; -1: none */
    int32_t unk;              /* -1: none */
    bool is_unk_fused, ignores_merges;
    /* BPE: merges by pair, or by the text that results: then `ranks` by id */
    struct tok_merge *merges;
    size_t merge_mask;
    const char *word_prefix, *word_suffix; /* of a character inside and at the end; NULL: none */
    int32_t *ranks;
    /* Unigram: */
    double *scores; /* by id */
    double unk_score;
    bool is_single_precision;
    struct tok_trie pieces;
    /* SentencePiece: user-defined symbols, which are never cut */
    struct tok_trie kept;
    double kept_score; /* Unigram: for each byte of one */

    struct tok_step steps[TOK_MAX_STEPS];
    int n_steps;
    struct tok_op ops[TOK_MAX_OPS];
    int n_ops;
    struct tok_decode_step decode[TOK_MAX_STEPS];
    int n_decode;
    struct tok_added_set raw, normalized;
    struct tok_around before, after;
};

/* One encoding: source text, scratch memory, output. */
struct tok_piece {
    uint32_t begin, end;
    bool is_match;
};

struct tok_pieces {
    struct tok_piece *items;
    size_t n, cap;
};

struct tok_run {
    const struct cs_tokenizer *tok;
    struct cs_tokens *out;
    struct cs_err *err;
    bool is_special_off; /* the model may not find special ids either */
    struct tok_matcher matcher;
    struct tok_text normal[2];
    struct tok_text marked[TOK_MAX_OPS];
    struct tok_pieces pieces[TOK_MAX_OPS];
    void *model_memory;
    size_t model_bytes;
};

/* map.c */
void tok_map_init(struct tok_map *map, struct cs_arena *arena, size_t n, bool by_bytes);
int32_t tok_map_find(const struct tok_map *map, const struct tok_entry *entries, const char *key,
                     size_t n); /* -1 */
/* The first of two equal keys stays, or the last one wins. */
void tok_map_add(struct tok_map *map, const struct tok_entry *entries, int32_t id, bool last_wins);
void tok_merges_init(struct cs_tokenizer *tok, size_t n);
void tok_merges_add(struct cs_tokenizer *tok, int32_t left, int32_t right, int32_t rank,
                    int32_t id);
const struct tok_merge *tok_merges_find(const struct cs_tokenizer *tok, int32_t left,
                                        int32_t right);

/* What a loader reads. A document that was made here of another kind of file has no merges: tokens
 * merge by their scores or, where they have none, in the order of their ids. */
struct tok_source {
    const json_t *root;
    const json_t *added; /* what tok_files_added made */
    bool is_own;
};

/* model.c and its parts: merges.c, unigram.c */
/* around.c; the names are there */
struct tok_files;
enum cs_status tok_load_around(struct cs_tokenizer *tok, const struct tok_files *files,
                               struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_model(struct cs_tokenizer *tok, const struct tok_source *source,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_vocab(struct cs_tokenizer *tok, const struct tok_source *source,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_merges(struct cs_tokenizer *tok, const struct tok_source *source,
                               struct cs_err *err) CS_NODISCARD;
/* normalizer.c, pretokenizer.c, decoder.c, added.c */
enum cs_status tok_load_normalizer(struct cs_tokenizer *tok, const struct tok_source *source,
                                   struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_pretokenizer(struct cs_tokenizer *tok, const json_t *node,
                                     struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_decoder(struct cs_tokenizer *tok, const json_t *node,
                                struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_added(struct cs_tokenizer *tok, const json_t *list,
                              struct cs_err *err) CS_NODISCARD;
/* node.c. A flag of a node; where it is not there or null: fallback. */
bool tok_flag(const json_t *node, const char *key, bool fallback);
/* CS_UNSUPPORTED: what is not known, by its name. */
enum cs_status tok_refuse(struct cs_err *err, const char *what, const json_t *name);

/* find.c: next match of an added token in text[at, n); false: none. [begin, end) includes the white
 * space it strips. Special tokens are not found in the plain ranges, which are relative to the
 * text. */
struct tok_match {
    size_t begin, end;
    int32_t id;
};

bool tok_added_next(const struct cs_tokenizer *tok, const struct tok_added_set *set,
                    const char *text, size_t n, size_t at, const struct cs_text_range *plain,
                    size_t n_plain, struct tok_match *out);
/* split.c: run the pre-tokenizer from step `op` on, then the model */
enum cs_status tok_split(struct tok_run *run, int op, const struct tok_view *view) CS_NODISCARD;
/* The models. */
tok_model_fn tok_bpe, tok_unigram, tok_word_level;

/* symbols.c: what BPE starts from and ends with */
struct tok_symbol {
    int32_t id; /* TOK_GONE: merged into the one before, -1: not in the vocabulary */
    uint32_t begin, end;
    uint32_t prev, next; /* TOK_NONE at the ends */
    bool is_kept;        /* never merged */
};

#define TOK_NONE UINT32_MAX

enum { TOK_GONE = -2 };

/* At most as many symbols as tok_symbols_count says. */
uint32_t tok_symbols_count(const struct cs_tokenizer *tok, const struct tok_view *view);
uint32_t tok_symbols_make(const struct cs_tokenizer *tok, const struct tok_view *view,
                          struct tok_symbol *s);
/* emit.c */
enum cs_status tok_emit(struct tok_run *run, const struct tok_view *view, int32_t id,
                        uint32_t begin, uint32_t end) CS_NODISCARD;
/* Bytes [begin, end) that no token spells: their bytes where all have tokens, else unk, else
 * nothing. */
enum cs_status tok_emit_unknown(struct tok_run *run, const struct tok_view *view, uint32_t begin,
                                uint32_t end) CS_NODISCARD;
/* Memory that lasts until the next piece. */
enum cs_status tok_reserve(struct tok_run *run, size_t bytes,
                           const struct tok_view *view) CS_NODISCARD;
/* Bytes of the character of the model at `at`. */
uint32_t tok_char_at(const struct cs_tokenizer *tok, const struct tok_view *view, uint32_t at);

#endif
