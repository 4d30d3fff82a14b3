/* A set of byte strings with a number each, walked byte by byte: pieces of Unigram, added tokens,
 * symbols that stay whole. */
#ifndef CS_INPUT_TOK_TEXT_TRIE_H
#define CS_INPUT_TOK_TEXT_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; free with tok_trie_free. Node 0 is the root. */
struct tok_trie {
    uint64_t *edges; /* open addressing: node and byte above, child below; 0: empty */
    size_t mask, n_nodes, cap;
    int32_t *values;    /* by node, -1: no string ends here */
    uint32_t root[256]; /* the root's children, which are looked for most */
};

void tok_trie_free(struct tok_trie *trie);
/* The last value of a string holds. False: no memory, or more than 2^24 nodes; the trie is as it was
 * but for prefixes without a value. */
bool tok_trie_add(struct tok_trie *trie, const char *bytes, size_t n, int32_t value);
/* The child of a node, 0: none. */
uint32_t tok_trie_next(const struct tok_trie *trie, uint32_t node, unsigned char byte);
/* Length and value of the longest string that begins here; 0: none. */
uint32_t tok_trie_longest(const struct tok_trie *trie, const char *bytes, size_t n, int32_t *value);

#endif
