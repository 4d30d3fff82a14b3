/* Hashes: SHA-256 for the identity of values (spec, plan, program), xxh3-128 for the contents of
 * files, FNV-1a for names. Hex is lower case and NUL-terminated. Nothing here fails but for memory,
 * which aborts. */
#ifndef CS_BASE_HASH_H
#define CS_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

void cs_sha256_hex(const void *data, size_t len, char out[65]);

/* Incremental: new, add any number of times, hex once, free. */
struct cs_sha256;
struct cs_sha256 *cs_sha256_new(void);
void cs_sha256_add(struct cs_sha256 *sha, const void *data, size_t len);
void cs_sha256_end(struct cs_sha256 *sha, char out[65]); /* no add after it */
void cs_sha256_free(struct cs_sha256 *sha);              /* accepts NULL */

/* xxh3, 128 bits, seed 0, canonical (big-endian) hex, as the xxh128sum tool prints it */
void cs_xxh3_128_hex(const void *data, size_t len, char out[33]);

struct cs_xxh3;
struct cs_xxh3 *cs_xxh3_new(void);
void cs_xxh3_add(struct cs_xxh3 *xxh, const void *data, size_t len);
void cs_xxh3_end(const struct cs_xxh3 *xxh, char out[33]); /* of all added so far; may go on */
void cs_xxh3_free(struct cs_xxh3 *xxh);                    /* accepts NULL */

/* FNV-1a, 64 bits */
uint64_t cs_fnv1a64(const void *data, size_t len);

#endif
