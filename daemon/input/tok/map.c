/* Hash tables of the tokenizer: spelling -> id, bytes -> id, pair of ids -> merge. */
#include <string.h>
#include <xxhash.h>

#include "input/tok/tok.h"

static size_t table_size(size_t n)
{
    size_t size = 16;

    while (size < n * 2)
        size *= 2;
    return size;
}

void tok_map_init(struct tok_map *map, struct cs_arena *arena, size_t n, bool by_bytes)
{
    size_t size = table_size(n);

    map->slots = CS_NEW_ARRAY(arena, uint64_t, size);
    map->mask = size - 1;
    map->by_bytes = by_bytes;
}

static bool is_same(const struct tok_map *map, const struct tok_entry *e, const char *key, size_t n)
{
    const char *text = map->by_bytes ? e->bytes : e->spelling;

    return (map->by_bytes ? e->n_bytes : e->n_spelling) == n && memcmp(text, key, n) == 0;
}

static int32_t slot_id(uint64_t slot)
{
    return (int32_t)((uint32_t)slot - 1);
}

/* Where the key is, or an empty slot. The upper half of its hash stands in the slot: another key is
 * hardly ever looked at. */
static size_t place(const struct tok_map *map, const struct tok_entry *entries, const char *key,
                    size_t n, uint64_t hash)
{
    size_t i = (size_t)hash & map->mask;

    for (; map->slots[i] != 0; i = (i + 1) & map->mask)
        if (map->slots[i] >> 32 == hash >> 32 &&
            is_same(map, &entries[slot_id(map->slots[i])], key, n))
            break;
    return i;
}

int32_t tok_map_find(const struct tok_map *map, const struct tok_entry *entries, const char *key,
                     size_t n)
{
    const uint64_t slot = map->slots[place(map, entries, key, n, XXH3_64bits(key, n))];

    return slot == 0 ? -1 : slot_id(slot);
}

void tok_map_add(struct tok_map *map, const struct tok_entry *entries, int32_t id, bool last_wins)
{
    const struct tok_entry *e = &entries[id];
    const char *key = map->by_bytes ? e->bytes : e->spelling;
    const size_t n = map->by_bytes ? e->n_bytes : e->n_spelling;
    const uint64_t hash = XXH3_64bits(key, n);
    uint64_t *slot = &map->slots[place(map, entries, key, n, hash)];

    if (*slot == 0 || last_wins)
        *slot = hash >> 32 << 32 | (uint32_t)(id + 1);
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static size_t pair_hash(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key ^ key >> 29);
}

void tok_merges_init(struct cs_tokenizer *tok, size_t n)
{
    size_t size = table_size(n);

    tok->merges = CS_NEW_ARRAY(tok->arena, struct tok_merge, size);
    tok->merge_mask = size - 1;
    for (size_t i = 0; i < size; i++)
        tok->merges[i].id = -1;
}

/* The last of two equal pairs wins, as it does in the reference. */
void tok_merges_add(struct cs_tokenizer *tok, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    uint64_t key = pair_key(left, right);
    size_t i = pair_hash(key) & tok->merge_mask;

    while (tok->merges[i].id != -1 && tok->merges[i].key != key)
        i = (i + 1) & tok->merge_mask;
    tok->merges[i] = (struct tok_merge){key, rank, id};
}

const struct tok_merge *tok_merges_find(const struct cs_tokenizer *tok, int32_t left, int32_t right)
{
    uint64_t key = pair_key(left, right);

    for (size_t i = pair_hash(key) & tok->merge_mask; tok->merges[i].id != -1;
         i = (i + 1) & tok->merge_mask)
        if (tok->merges[i].key == key)
            return &tok->merges[i];
    return NULL;
}
