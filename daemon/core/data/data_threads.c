/* Chooses the number of threads that prepare data. */
#include "core/data/data_threads.h"

enum { LEAST = 2, BESIDE_CPU = 2, MOST_BY_ITSELF = 32 };

int32_t cs_data_threads(int32_t asked, bool is_gpu, int32_t n_ranks, int32_t cores)
{
    const int32_t left = cores - n_ranks - 1;

    if (asked > 0)
        return asked;
    if (!is_gpu)
        return BESIDE_CPU;
    if (left < LEAST)
        return LEAST;
    return left < MOST_BY_ITSELF ? left : MOST_BY_ITSELF;
}
