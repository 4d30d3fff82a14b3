/* The documents of a tokenizer, parsed and checked, and the tokens that they add to its vocabulary. */
#ifndef CS_INPUT_TOK_FILES_FILES_H
#define CS_INPUT_TOK_FILES_FILES_H

#include <jansson.h>

#include "core/base/system/io.h"
#include "core/doc/findings.h"

enum { TOK_MAX_ID = 1 << 24, TOK_FILE_MAX_BYTES = 256 * 1024 * 1024 };

/* In documents that are made here, of each id: the model finds it; it is a symbol that is never cut;
 * text is not cut into it. */
enum { TOK_KIND_NORMAL = 'n', TOK_KIND_KEPT = 'k', TOK_KIND_OTHER = '-' };

/* NULL where there is no such file. */
struct tok_files {
    json_t *tokenizer; /* tokenizer.json, or what was made of another file */
    bool is_made_here;
    json_t *config;  /* tokenizer_config.json */
    json_t *special; /* special_tokens_map.json */
    json_t *ids;     /* added_tokens.json */
};

/* path: a file that holds a tokenizer, then alone, or the directory that holds one. Findings of all documents go to
 * `findings` (may be NULL); an error among them is the result. Free in any case. */
enum cs_status tok_files_read(const char *path, struct tok_files *out, struct cs_findings *findings,
                              struct cs_err *err) CS_NODISCARD;
/* The file of a directory that holds the vocabulary; CS_NOT_FOUND: there is none. */
enum cs_status tok_files_find(const char *dir, char file[CS_PATH_CAP],
                              struct cs_err *err) CS_NODISCARD;
/* tokenizer.json alone, from memory. */
enum cs_status tok_files_parse(const char *json, size_t n_bytes, const char *name,
                               struct tok_files *out, struct cs_err *err) CS_NODISCARD;
void tok_files_free(struct tok_files *files);

/* *added: list of added tokens with all their flags and ids, as transformers 5 has them after loading:
 * those of tokenizer.json, then added_tokens_decoder of the configuration by id; where there is none,
 * added_tokens.json; then named tokens and further special ones that are not among them. The number
 * that a document gives a new token does not count: ids continue the vocabulary.
 * *named: "bos_token" and its like to spellings. Both are new references. */
enum cs_status tok_files_added(const struct tok_files *files, json_t **added, json_t **named,
                               struct cs_err *err) CS_NODISCARD;

/* What ids a model's vocabulary has: spelling -> id, a new reference, and in *n how many it counts. */
json_t *tok_files_vocab(const json_t *model, json_int_t *n);
/* The parts of it. named: object of key -> token, extra: list of tokens, both to be filled. */
enum cs_status tok_files_named(const struct tok_files *files, json_t *named, json_t *extra,
                               struct cs_err *err) CS_NODISCARD;
/* Spelling of a token, a string or an object with "content"; NULL: it has none. */
const char *tok_token_content(const json_t *token);
/* The token as an object with all its flags; is_special: also where it does not say so. A new
 * reference. */
json_t *tok_token_complete(const json_t *token, bool is_special);
bool tok_has_token(const json_t *list, const char *content);

#endif
