#include "core/base/hash.h"

#include <openssl/evp.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/status.h"

static void to_hex(const unsigned char *bytes, size_t n, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * n] = '\0';
}

struct cs_sha256 {
    EVP_MD_CTX *evp;
};

struct cs_sha256 *cs_sha256_new(void)
{
    struct cs_sha256 *sha = malloc(sizeof *sha);
    CS_ASSERT(sha != NULL);
    sha->evp = EVP_MD_CTX_new();
    CS_ASSERT(sha->evp != NULL && EVP_DigestInit_ex(sha->evp, EVP_sha256(), NULL) == 1);
    return sha;
}

void cs_sha256_add(struct cs_sha256 *sha, const void *data, size_t len)
{
    CS_ASSERT(EVP_DigestUpdate(sha->evp, data, len) == 1);
}

void cs_sha256_end(struct cs_sha256 *sha, char out[65])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    CS_ASSERT(EVP_DigestFinal_ex(sha->evp, digest, &n) == 1 && n == 32);
    to_hex(digest, 32, out);
}

void cs_sha256_free(struct cs_sha256 *sha)
{
    if (sha == NULL)
        return;
    EVP_MD_CTX_free(sha->evp);
    free(sha);
}

void cs_sha256_hex(const void *data, size_t len, char out[65])
{
    struct cs_sha256 *sha = cs_sha256_new();
    cs_sha256_add(sha, data, len);
    cs_sha256_end(sha, out);
    cs_sha256_free(sha);
}

static void xxh_hex(XXH128_hash_t hash, char out[33])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    to_hex(canonical.digest, sizeof(canonical.digest), out);
}

void cs_xxh3_128_hex(const void *data, size_t len, char out[33])
{
    xxh_hex(XXH3_128bits(data, len), out);
}

struct cs_xxh3 {
    XXH3_state_t *state; /* its alignment is above malloc's, hence its own allocator */
};

struct cs_xxh3 *cs_xxh3_new(void)
{
    struct cs_xxh3 *xxh = malloc(sizeof *xxh);
    CS_ASSERT(xxh != NULL);
    xxh->state = XXH3_createState();
    CS_ASSERT(xxh->state != NULL && XXH3_128bits_reset(xxh->state) == XXH_OK);
    return xxh;
}

void cs_xxh3_add(struct cs_xxh3 *xxh, const void *data, size_t len)
{
    CS_ASSERT(XXH3_128bits_update(xxh->state, data, len) == XXH_OK);
}

void cs_xxh3_end(const struct cs_xxh3 *xxh, char out[33])
{
    xxh_hex(XXH3_128bits_digest(xxh->state), out);
}

void cs_xxh3_free(struct cs_xxh3 *xxh)
{
    if (xxh == NULL)
        return;
    XXH3_freeState(xxh->state);
    free(xxh);
}

uint64_t cs_fnv1a64(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}
