/* Streaming xxh3-128 of file contents as 32 hex digits (canonical, big-endian byte order). */
#ifndef CS_STORE_HASHING_H
#define CS_STORE_HASHING_H

#include <stddef.h>

struct cs_hashing;

struct cs_hashing *cs_hashing_new(void); /* NULL: no memory */
void cs_hashing_add(struct cs_hashing *hash, const void *data, size_t bytes);
void cs_hashing_hex(const struct cs_hashing *hash, char hex[33]);
void cs_hashing_free(struct cs_hashing *hash); /* accepts NULL */

#endif
