/* Edges of all nodes in one hash table. */
#include "input/tok/text/trie.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1 << 24 };

void tok_trie_free(struct tok_trie *trie)
{
    free(trie->edges);
    free(trie->values);
    *trie = (struct tok_trie){0};
}

static uint32_t edge_key(uint32_t node, unsigned char byte)
{
    return node << 8 | byte;
}

/* Nodes are numbered one after the other: neighbours must not fill one stretch of the table. */
static size_t hash(uint32_t key)
{
    uint64_t h = (uint64_t)key * 0x9e3779b97f4a7c15u;

    return (size_t)(h >> 32 ^ h >> 15);
}

static uint64_t *place(uint64_t *edges, size_t mask, uint32_t key)
{
    size_t i = hash(key) & mask;

    while (edges[i] != 0 && (uint32_t)(edges[i] >> 32) != key)
        i = (i + 1) & mask;
    return &edges[i];
}

static bool grow(struct tok_trie *trie)
{
    const size_t cap = trie->cap == 0 ? 64 : trie->cap * 2;
    uint64_t *edges = calloc(cap * 2, sizeof *edges);
    int32_t *values = edges == NULL ? NULL : realloc(trie->values, cap * sizeof *values);

    if (values == NULL) {
        free(edges);
        return false;
    }
    for (size_t i = 0; trie->edges != NULL && i <= trie->mask; i++)
        if (trie->edges[i] != 0)
            *place(edges, cap * 2 - 1, (uint32_t)(trie->edges[i] >> 32)) = trie->edges[i];
    memset(values + trie->cap, -1, (cap - trie->cap) * sizeof *values);
    free(trie->edges);
    trie->edges = edges;
    trie->values = values;
    trie->mask = cap * 2 - 1;
    trie->cap = cap;
    trie->n_nodes += trie->n_nodes == 0; /* the root */
    return true;
}

bool tok_trie_add(struct tok_trie *trie, const char *bytes, size_t n, int32_t value)
{
    uint32_t node = 0;

    for (size_t i = 0; i < n; i++) {
        const uint32_t key = edge_key(node, (unsigned char)bytes[i]);
        uint32_t child = tok_trie_next(trie, node, (unsigned char)bytes[i]);
        if (child == 0) {
            if (trie->n_nodes >= NODES_MAX || (trie->n_nodes >= trie->cap && !grow(trie)))
                return false;
            child = (uint32_t)trie->n_nodes++;
            *place(trie->edges, trie->mask, key) = (uint64_t)key << 32 | child;
            if (node == 0)
                trie->root[(unsigned char)bytes[i]] = child;
        }
        node = child;
    }
    if (n > 0)
        trie->values[node] = value;
    return true;
}

uint32_t tok_trie_next(const struct tok_trie *trie, uint32_t node, unsigned char byte)
{
    if (node == 0)
        return trie->root[byte];
    return (uint32_t)*place(trie->edges, trie->mask, edge_key(node, byte));
}

uint32_t tok_trie_longest(const struct tok_trie *trie, const char *bytes, size_t n, int32_t *value)
{
    uint32_t longest = 0;

    for (uint32_t node = 0, i = 0; i < n; i++) {
        node = tok_trie_next(trie, node, (unsigned char)bytes[i]);
        if (node == 0)
            break;
        if (trie->values[node] != -1) {
            longest = i + 1;
            *value = trie->values[node];
        }
    }
    return longest;
}
