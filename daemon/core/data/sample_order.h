/* Order of samples: a keyed permutation of [0, n) by (seed, epoch), O(1) memory and random access,
 * independent of ranks and workers. Feistel network with cycle walking over xxh64-like mixing. */
#ifndef CS_DATA_SAMPLE_ORDER_H
#define CS_DATA_SAMPLE_ORDER_H

#include <stdint.h>

/* position i of epoch -> sample index; n >= 1, i < n */
uint64_t cs_order_at(uint64_t seed, uint64_t epoch, uint64_t n, uint64_t i);

#endif
