/* A compiled map of characters, as SentencePiece keeps its normalisation rules: a double-array trie
 * from byte strings to their replacements. */
#ifndef CS_INPUT_TOK_TEXT_CHARSMAP_H
#define CS_INPUT_TOK_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* Borrows its bytes. */
struct tok_charsmap {
    const char *units; /* of the trie: little-endian, 32 bits each, not aligned */
    uint32_t n_units;
    const char *texts; /* replacements, each up to a zero byte */
    uint32_t n_texts;
};

enum cs_status tok_charsmap_open(struct tok_charsmap *map, const char *bytes, size_t n,
                                 struct cs_err *err) CS_NODISCARD;

/* The longest or shortest rule that begins (text, n): how many bytes it takes and in *to, *n_to what
 * stands for them; 0: none. */
uint32_t tok_charsmap_longest(const struct tok_charsmap *map, const char *text, uint32_t n,
                              const char **to, uint32_t *n_to);
uint32_t tok_charsmap_shortest(const struct tok_charsmap *map, const char *text, uint32_t n,
                               const char **to, uint32_t *n_to);

#endif
