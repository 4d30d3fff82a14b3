/* Computes the sample at a position of an epoch: a keyed permutation.
 *
 * Balanced Feistel network over 2 * half bits (the smallest such domain that holds n, so less than
 * 4n), restricted to [0, n) by cycle walking: Black and Rogaway, "Ciphers with arbitrary finite
 * domains" (2002). A Feistel network is a bijection whatever its round function, and walking the
 * cycle of a bijection until it re-enters the subset is a bijection of the subset. */
#include "core/data/sample_order.h"

#include "core/base/status.h"

enum { ROUNDS = 8 };

/* finalizer of xxh64 */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xc2b2ae3d27d4eb4fu;
    x ^= x >> 29;
    x *= 0x165667b19e3779f9u;
    x ^= x >> 32;
    return x;
}

static int half_bits(uint64_t n)
{
    int bits = 1;
    while (bits < 64 && (n - 1) >> bits != 0)
        bits++;
    return (bits + 1) / 2;
}

static uint64_t permute(uint64_t key, int half, uint64_t x)
{
    uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t f = mix(key ^ mix(right + 0x9e3779b185ebca87u * (round + 1)));
        uint64_t next = left ^ (f & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

uint64_t cs_order_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i)
{
    CS_ASSERT(n >= 1 && i < n);
    uint64_t key = mix(mix(seed + 0x27d4eb2f165667c5u) ^ mix(epoch + 0x85ebca77c2b2ae63u));
    int half = half_bits(n);
    do
        i = permute(key, half, i);
    while (i >= n);
    return i;
}
