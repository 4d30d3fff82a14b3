/* Several sets of samples trained as one: which sample stands at which position.
 *
 * The samples of all sources are numbered one behind the other. Without weights an epoch is a keyed
 * permutation of them all. With weights every 4096 positions hold each source as often as its weight says (the
 * largest remainders round up, none is left out), in a keyed order; a source goes through its own samples in
 * epochs of its own, each a permutation, so that small ones come round oftener. O(number of sources), random
 * access; depends on seed, sources and position alone, so a job goes on where it was. */
#ifndef CS_DATA_MIXTURE_H
#define CS_DATA_MIXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum { CS_MIXTURE_MAX = 64, CS_MIXTURE_BLOCK = 4096 };

struct cs_mixture {
    int32_t n;
    bool is_weighted;
    uint64_t samples[CS_MIXTURE_MAX]; /* of each source */
    uint32_t share[CS_MIXTURE_MAX];   /* positions of a block */
    uint64_t total;
};

/* samples (n), each >= 1; weights (n) > 0, NULL: none. */
void cs_mixture_init(struct cs_mixture *mixture, int32_t n, const uint64_t *samples,
                     const double *weights);
/* Position of an epoch (of as many positions as there are samples) -> sample. */
uint64_t cs_mixture_at(const struct cs_mixture *mixture, uint64_t seed, uint64_t epoch,
                       uint64_t position);

#endif
