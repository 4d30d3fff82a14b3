/* Philox4x32-10: random numbers that are a pure function of (seed, name, index), so that every
 * layout of ranks makes the same fresh parameters.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 * The key is the seed; the counter is {index low, index high, name low, name high}. */
#ifndef CS_BASE_PHILOX_H
#define CS_BASE_PHILOX_H

#include <stdint.h>

/* key word 0 is the low half of key */
void cs_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* Uniform in [0, 1) with 53 bits. */
double cs_philox_uniform(uint64_t seed, uint64_t name_hash, uint64_t index);
/* Standard normal by Box-Muller in fp64, rounded to fp32; indices 2k and 2k+1 share counter k. */
float cs_philox_normal(uint64_t seed, uint64_t name_hash, uint64_t index);
/* out[i] = (float)(std * normal(first + i)), i < n; half the work of n single calls */
void cs_philox_fill_normal(uint64_t seed, uint64_t name_hash, uint64_t first, int64_t n, double std,
                           float *out);
/* out[i] = log of uniform(first + i) in [0.01, 16), i < n: how fast heads of recurrent layers forget at the
 * start (Mamba 2's A, as transformers fills it) */
void cs_philox_fill_decay(uint64_t seed, uint64_t name_hash, uint64_t first, int64_t n, float *out);

#endif
