/* Resized pictures by file and by what was done to it (`how`, a number), least recently used first out, bounded in bytes.
 * Thread-safe. */
#ifndef CS_INPUT_MEDIA_CACHE_H
#define CS_INPUT_MEDIA_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cs_cache;

struct cs_cache *cs_cache_new(size_t max_bytes); /* 0: holds nothing */
void cs_cache_free(struct cs_cache *cache);      /* accepts NULL */
/* copies n bytes out; false: not there */
bool cs_cache_get(struct cs_cache *cache, uint64_t how, const char *path, uint8_t *pixels,
                  size_t n);
void cs_cache_put(struct cs_cache *cache, uint64_t how, const char *path, const uint8_t *pixels,
                  size_t n);
size_t cs_cache_bytes(struct cs_cache *cache);

#endif
