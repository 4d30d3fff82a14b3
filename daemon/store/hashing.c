/* xxh3-128 over the library xxhash; see hashing.h. */
#include "store/hashing.h"

#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

struct cs_hashing {
    XXH3_state_t *state;
};

struct cs_hashing *cs_hashing_new(void)
{
    struct cs_hashing *hash = calloc(1, sizeof(*hash));
    if (!hash)
        return NULL;
    hash->state = XXH3_createState(); /* aligned as the library wants it */
    if (!hash->state || XXH3_128bits_reset(hash->state) != XXH_OK) {
        cs_hashing_free(hash);
        return NULL;
    }
    return hash;
}

void cs_hashing_add(struct cs_hashing *hash, const void *data, size_t bytes)
{
    if (bytes > 0)
        (void)XXH3_128bits_update(hash->state, data, bytes); /* fails for NULL only */
}

void cs_hashing_hex(const struct cs_hashing *hash, char hex[33])
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(hash->state));
    for (int i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest.digest[i]);
}

void cs_hashing_free(struct cs_hashing *hash)
{
    if (!hash)
        return;
    XXH3_freeState(hash->state);
    free(hash);
}
