/* Entries by the hash of their keys and in order of use; graphs that went stale make room for others. */
#include "worker/exec/state/graph_cache.h"

#include <string.h>

#include "core/base/hash.h"

enum { NONE = -1 };

void cs_graph_cache_open(struct cs_graph_cache *cache, struct cs_device *device)
{
    cache->device = device;
    cache->newest = cache->oldest = NONE;
    for (int i = 0; i < CS_GRAPHS_BUCKETS; i++)
        cache->bucket[i] = NONE;
}

/* ---- graphs ---- */

void cs_graph_cache_bury(struct cs_graph_cache *c)
{
    for (int32_t i = 0; i < c->n_dead; i++)
        c->device->mem->graph_destroy(c->device->handle, c->dead[i]);
    c->n_dead = 0;
}

static void drop_graph(struct cs_graph_cache *c, struct cs_graph_entry *e)
{
    if (e->graph == NULL)
        return;
    CS_ASSERT(c->n_dead < CS_GRAPHS_MAX + CS_GRAPHS_MAX_NEW);
    c->dead[c->n_dead++] = e->graph;
    c->n_graphs--;
    c->n_dropped++;
    e->graph = NULL;
    e->seen = 0; /* it has to earn it again */
    e->pays = false;
}

void cs_graph_cache_drop_all(struct cs_graph_cache *c)
{
    for (int32_t i = 0; i < c->n_entries; i++)
        drop_graph(c, &c->entry[i]);
}

void cs_graph_cache_keep(struct cs_graph_cache *c, struct cs_graph_entry *entry, void *graph)
{
    entry->graph = graph;
    entry->last_step = c->step;
    c->n_graphs++;
}

/* the least recently used graph, where that is long ago */
static int32_t stale(const struct cs_graph_cache *c)
{
    int32_t i = c->oldest;
    while (i != NONE && c->entry[i].graph == NULL)
        i = c->entry[i].newer;
    return i != NONE && c->step - c->entry[i].last_step > CS_GRAPHS_STALE ? i : NONE;
}

bool cs_graph_cache_has_room(const struct cs_graph_cache *c, int more)
{
    return c->n_graphs + more < CS_GRAPHS_MAX || stale(c) != NONE;
}

bool cs_graph_cache_make_room(struct cs_graph_cache *c)
{
    int32_t i;
    while (c->n_graphs >= CS_GRAPHS_MAX && (i = stale(c)) != NONE)
        drop_graph(c, &c->entry[i]);
    return c->n_graphs < CS_GRAPHS_MAX;
}

/* ---- keys in order of use ---- */

static int32_t *bucket_of(struct cs_graph_cache *c, const char key[33])
{
    return &c->bucket[cs_fnv1a64(key, 32) % CS_GRAPHS_BUCKETS];
}

static void unlink_used(struct cs_graph_cache *c, int32_t i)
{
    struct cs_graph_entry *e = &c->entry[i];
    *(e->newer == NONE ? &c->newest : &c->entry[e->newer].older) = e->older;
    *(e->older == NONE ? &c->oldest : &c->entry[e->older].newer) = e->newer;
}

static void link_newest(struct cs_graph_cache *c, int32_t i)
{
    struct cs_graph_entry *e = &c->entry[i];
    e->newer = NONE;
    e->older = c->newest;
    *(c->newest == NONE ? &c->oldest : &c->entry[c->newest].newer) = i;
    c->newest = i;
}

static void forget(struct cs_graph_cache *c, int32_t i)
{
    struct cs_graph_entry *e = &c->entry[i];
    int32_t *link = bucket_of(c, e->key);
    while (*link != i)
        link = &c->entry[*link].next_in_bucket;
    *link = e->next_in_bucket;
    unlink_used(c, i);
    drop_graph(c, e);
}

struct cs_graph_entry *cs_graph_cache_find(struct cs_graph_cache *c, const char key[33])
{
    int32_t *bucket = bucket_of(c, key);
    for (int32_t i = *bucket; i != NONE; i = c->entry[i].next_in_bucket)
        if (memcmp(c->entry[i].key, key, 32) == 0) {
            unlink_used(c, i);
            link_newest(c, i);
            return &c->entry[i];
        }
    int32_t i = c->n_entries;
    if (i < CS_GRAPHS_MAX_KEYS) {
        c->n_entries++;
    } else {
        i = c->oldest;
        forget(c, i);
        bucket = bucket_of(c, key);
    }
    struct cs_graph_entry *e = &c->entry[i];
    *e = (struct cs_graph_entry){.next_in_bucket = *bucket, .number = ++c->last_number};
    memcpy(e->key, key, sizeof e->key);
    *bucket = i;
    link_newest(c, i);
    return e;
}
