/* A table of one entry a place: a file is known by 128 bits of a hash of its path. */
#include "input/data/sizes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { PLACES = 1 << 16 };

struct size {
    XXH128_hash_t path;
    struct cs_medium medium;
    bool is_used;
};

struct cs_sizes {
    pthread_mutex_t lock;
    struct size place[PLACES];
};

struct cs_sizes *cs_sizes_new(void)
{
    struct cs_sizes *s = calloc(1, sizeof *s);

    CS_ASSERT(s == NULL || pthread_mutex_init(&s->lock, NULL) == 0);
    return s;
}

void cs_sizes_free(struct cs_sizes *s)
{
    if (s != NULL)
        (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

bool cs_sizes_get(struct cs_sizes *s, const char *path, struct cs_medium *out)
{
    const XXH128_hash_t hash = XXH3_128bits(path, strlen(path));

    (void)pthread_mutex_lock(&s->lock);
    const struct size at = s->place[hash.low64 % PLACES];
    (void)pthread_mutex_unlock(&s->lock);
    if (!at.is_used || !XXH128_isEqual(at.path, hash))
        return false;
    *out = at.medium;
    return true;
}

void cs_sizes_put(struct cs_sizes *s, const char *path, const struct cs_medium *medium)
{
    const XXH128_hash_t hash = XXH3_128bits(path, strlen(path));

    (void)pthread_mutex_lock(&s->lock);
    s->place[hash.low64 % PLACES] = (struct size){hash, *medium, true};
    (void)pthread_mutex_unlock(&s->lock);
}
