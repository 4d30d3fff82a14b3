/* Inside of the tokenizer, shared by the tok_*.c files. */
#ifndef CS_INPUT_TOK_TOK_H
#define CS_INPUT_TOK_TOK_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <jansson.h>
#include <pcre2.h>

#include "core/base/arena.h"
#include "input/tok/tokenizer.h"

enum { TOK_MAX_OPS = 12, TOK_MAX_ID = 1 << 24 };

/* A token: its spelling in the file and the bytes it stands for. spelling NULL: a hole. */
struct tok_entry {
    const char *spelling, *bytes;
    uint32_t n_spelling, n_bytes;
    bool is_model;   /* BPE can produce it */
    bool is_literal; /* has characters outside the byte alphabet */
    bool is_special;
};

/* Open addressing over entries, by spelling or by bytes; slot holds id + 1. */
struct tok_map {
    uint32_t *slots;
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

/* Added tokens of one kind, by first byte, longest first. */
struct tok_trie {
    struct tok_added *items;
    uint32_t first[257];
};

enum tok_behavior { TOK_ISOLATED, TOK_REMOVED, TOK_PREVIOUS, TOK_NEXT, TOK_CONTIGUOUS };

/* One pre-tokenizer step: an optional leading space, an optional split. */
struct tok_op {
    bool has_prefix_space, is_inverted;
    enum tok_behavior behavior;
    pcre2_code *valid, *any; /* for valid UTF-8, for any bytes; NULL: no split */
};

/* "bos_token" and the spelling that the documents give it. */
struct tok_name {
    const char *key, *spelling;
};

struct cs_tokenizer {
    struct cs_arena *arena;
    struct tok_name *names;
    int n_names;
    struct tok_entry *entries;
    int32_t n_entries;
    struct tok_map spellings, bytes;
    struct tok_merge *merges;
    size_t merge_mask;
    int32_t byte_id[256]; /* -1: not in the vocabulary */
    int32_t unk;          /* -1: none */
    bool is_unk_fused, ignores_merges, is_nfc;
    struct tok_op ops[TOK_MAX_OPS];
    int n_ops;
    struct tok_trie raw, normalized;
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
    bool is_special_off; /* whole pieces may not become special ids either */
    /* where byte i of the normalised text lies in the source; NULL: base + i */
    const uint32_t *map_begin, *map_end;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *jit_stack;
    struct tok_pieces pieces[TOK_MAX_OPS];
    void *bpe_memory;
    size_t bpe_bytes;
};

/* Bytes of a piece: bytes[i] came from position base + i - n_virtual (the leading space has
 * none). */
struct tok_view {
    const char *bytes;
    uint32_t n, base, n_virtual;
};

/* tok_alphabet.c: GPT-2's byte alphabet. False when a character is outside; out has room for n. */
bool tok_alphabet_decode(const char *spelling, size_t n, char *out, size_t *n_out);
/* tok_map.c */
void tok_map_init(struct tok_map *map, struct cs_arena *arena, size_t n, bool by_bytes);
int32_t tok_map_find(const struct tok_map *map, const struct tok_entry *entries, const char *key,
                     size_t n); /* -1 */
void tok_map_add(struct tok_map *map, const struct tok_entry *entries, int32_t id);
void tok_merges_init(struct cs_tokenizer *tok, size_t n);
void tok_merges_add(struct cs_tokenizer *tok, int32_t left, int32_t right, int32_t rank,
                    int32_t id);
const struct tok_merge *tok_merges_find(const struct cs_tokenizer *tok, int32_t left,
                                        int32_t right);
/* tok_regex.c */
enum cs_status tok_regex_compile(const char *pattern, size_t n, struct tok_op *op,
                                 struct cs_err *err) CS_NODISCARD;
enum cs_status tok_regex_literal(const char *text, size_t n, struct tok_op *op,
                                 struct cs_err *err) CS_NODISCARD;
/* model.c: added is what tok_files_added made */
enum cs_status tok_load_model(struct cs_tokenizer *tok, const json_t *root, const json_t *added,
                              struct cs_err *err) CS_NODISCARD;
/* load.c */
enum cs_status tok_load_pretokenizer(struct cs_tokenizer *tok, const json_t *node,
                                     struct cs_err *err) CS_NODISCARD;
enum cs_status tok_load_added(struct cs_tokenizer *tok, const json_t *list,
                              struct cs_err *err) CS_NODISCARD;

/* tok_added.c: next match of an added token in text[at, n); false: none. [begin, end) includes the
 * white space it strips. plain ranges are relative to the source, shift is where text lies in
 * it. */
struct tok_match {
    size_t begin, end;
    int32_t id;
};

bool tok_added_next(const struct cs_tokenizer *tok, const struct tok_trie *trie, const char *text,
                    size_t n, size_t at, const struct cs_text_range *plain, size_t n_plain,
                    struct tok_match *out);
void tok_trie_build(struct tok_trie *trie, size_t n);
/* tok_nfc.c: *is_changed false when text is NFC as it is; else malloc'ed text and maps (relative to
 * text). CS_NO_MEMORY leaves nothing. */
enum cs_status tok_nfc(const char *text, size_t n, struct cs_buf *out, uint32_t **begin,
                       uint32_t **end, bool *is_changed, struct cs_err *err) CS_NODISCARD;
/* tok_split.c: run the pre-tokenizer from step `op` on, then BPE */
enum cs_status tok_split(struct tok_run *run, int op, const struct tok_view *view) CS_NODISCARD;
/* tok_bpe.c */
enum cs_status tok_bpe(struct tok_run *run, const struct tok_view *view) CS_NODISCARD;
enum cs_status tok_emit(struct tok_run *run, const struct tok_view *view, int32_t id,
                        uint32_t begin, uint32_t end) CS_NODISCARD;

#endif
