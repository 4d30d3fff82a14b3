/* Keeps resized pictures: a chained hash table with a list in order of use. */
#include "input/media/cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/status.h"

enum { BUCKETS = 4096 };

struct entry {
    struct entry *next;          /* in its bucket */
    struct entry *newer, *older; /* in the list */
    uint64_t hash;
    uint64_t how;
    size_t n;
    char *path;
    uint8_t *pixels;
};

struct cs_cache {
    pthread_mutex_t lock;
    struct entry *bucket[BUCKETS];
    struct entry *newest, *oldest;
    size_t bytes, max_bytes;
};

struct cs_cache *cs_cache_new(size_t max_bytes)
{
    struct cs_cache *c = calloc(1, sizeof *c);

    CS_ASSERT(c != NULL && pthread_mutex_init(&c->lock, NULL) == 0);
    c->max_bytes = max_bytes;
    return c;
}

static void free_entry(struct entry *e)
{
    free(e->path);
    free(e->pixels);
    free(e);
}

static size_t cost(const struct entry *e)
{
    return sizeof *e + e->n + strlen(e->path) + 1;
}

static void unlink_entry(struct cs_cache *c, struct entry *e)
{
    if (e->newer != NULL)
        e->newer->older = e->older;
    else
        c->newest = e->older;
    if (e->older != NULL)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
    e->newer = e->older = NULL;
}

static void put_first(struct cs_cache *c, struct entry *e)
{
    e->older = c->newest;
    if (c->newest != NULL)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
}

static void drop(struct cs_cache *c, struct entry *e)
{
    struct entry **at = &c->bucket[e->hash % BUCKETS];

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_entry(c, e);
    c->bytes -= cost(e);
    free_entry(e);
}

void cs_cache_free(struct cs_cache *c)
{
    if (c == NULL)
        return;
    while (c->oldest != NULL)
        drop(c, c->oldest);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

static struct entry *find(struct cs_cache *c, uint64_t hash, uint64_t how, const char *path)
{
    struct entry *e = c->bucket[hash % BUCKETS];

    while (e != NULL && (e->hash != hash || e->how != how || strcmp(e->path, path) != 0))
        e = e->next;
    return e;
}

static uint64_t hash_of(uint64_t how, const char *path)
{
    return XXH3_64bits_withSeed(path, strlen(path), how);
}

bool cs_cache_get(struct cs_cache *c, uint64_t how, const char *path, uint8_t *pixels, size_t n)
{
    struct entry *e = NULL;

    if (c->max_bytes == 0)
        return false;
    (void)pthread_mutex_lock(&c->lock);
    e = find(c, hash_of(how, path), how, path);
    if (e != NULL && e->n == n) {
        memcpy(pixels, e->pixels, n);
        unlink_entry(c, e);
        put_first(c, e);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return e != NULL && e->n == n;
}

/* NULL: no memory */
static struct entry *new_entry(uint64_t how, const char *path, size_t n)
{
    struct entry *e = calloc(1, sizeof *e);

    if (e == NULL)
        return NULL;
    *e = (struct entry){.hash = hash_of(how, path), .how = how, .n = n};
    e->path = strdup(path);
    e->pixels = malloc(n);
    if (e->path != NULL && e->pixels != NULL)
        return e;
    free_entry(e);
    return NULL;
}

void cs_cache_put(struct cs_cache *c, uint64_t how, const char *path, const uint8_t *pixels,
                  size_t n)
{
    struct entry *e = NULL;

    if (c->max_bytes == 0 || n + strlen(path) + sizeof *e > c->max_bytes / 4)
        return;
    e = new_entry(how, path, n);
    if (e == NULL) /* a cache may forget */
        return;
    memcpy(e->pixels, pixels, n);
    (void)pthread_mutex_lock(&c->lock);
    if (find(c, e->hash, how, path) != NULL) { /* another thread was faster */
        free_entry(e);
    } else {
        e->next = c->bucket[e->hash % BUCKETS];
        c->bucket[e->hash % BUCKETS] = e;
        put_first(c, e);
        c->bytes += cost(e);
        while (c->bytes > c->max_bytes)
            drop(c, c->oldest);
    }
    (void)pthread_mutex_unlock(&c->lock);
}

size_t cs_cache_bytes(struct cs_cache *c)
{
    size_t n = 0;

    (void)pthread_mutex_lock(&c->lock);
    n = c->bytes;
    (void)pthread_mutex_unlock(&c->lock);
    return n;
}
