/* The order of samples of several sources. */
#include "core/data/mixture.h"

#include <stddef.h>

#include "core/base/status.h"
#include "core/data/sample_order.h"

/* orders of their own: of a block's positions, and of each source */
static const uint64_t block_key = 0x4d49585455524531u, source_key = 0x9e3779b97f4a7c15u;

/* Positions by weight: whole parts first, then one each by the largest remainder. */
static void deal(struct cs_mixture *m, const double *weights)
{
    double sum = 0, rest[CS_MIXTURE_MAX];
    uint32_t left = CS_MIXTURE_BLOCK;

    for (int32_t i = 0; i < m->n; i++)
        sum += weights[i];
    for (int32_t i = 0; i < m->n; i++) {
        double want = weights[i] / sum * (CS_MIXTURE_BLOCK - m->n); /* one is everybody's */
        m->share[i] = 1 + (uint32_t)want;
        rest[i] = want - (double)(uint32_t)want;
        left -= m->share[i];
    }
    for (; left > 0; left--) {
        int32_t most = 0;
        for (int32_t i = 1; i < m->n; i++)
            if (rest[i] > rest[most])
                most = i;
        m->share[most]++;
        rest[most] = -1;
    }
}

void cs_mixture_init(struct cs_mixture *m, int32_t n, const uint64_t *samples,
                     const double *weights)
{
    CS_ASSERT(n >= 1 && n <= CS_MIXTURE_MAX);
    *m = (struct cs_mixture){.n = n, .is_weighted = weights != NULL};
    for (int32_t i = 0; i < n; i++) {
        m->samples[i] = samples[i];
        m->total += samples[i];
    }
    if (m->is_weighted)
        deal(m, weights);
}

uint64_t cs_mixture_at(const struct cs_mixture *m, uint64_t seed, uint64_t epoch, uint64_t position)
{
    uint64_t at = epoch * m->total + position, block = at / CS_MIXTURE_BLOCK;
    uint64_t rank = 0, first = 0, own = 0;
    int32_t i = 0;

    if (!m->is_weighted)
        return cs_order_at(seed, epoch, m->total, position);
    rank = cs_order_at(seed ^ block_key, block, CS_MIXTURE_BLOCK, at % CS_MIXTURE_BLOCK);
    for (; rank >= m->share[i]; i++) {
        rank -= m->share[i];
        first += m->samples[i];
    }
    own = block * m->share[i] + rank; /* how many of this source came before, in its own order */
    return first + cs_order_at(seed + source_key * (uint64_t)(i + 1), own / m->samples[i],
                               m->samples[i], own % m->samples[i]);
}
