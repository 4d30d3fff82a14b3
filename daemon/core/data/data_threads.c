/* Chooses the number of threads that prepare data, and how far ahead they are. */
#include "core/data/data_threads.h"

enum { LEAST = 2, BESIDE_CPU = 2, MOST_BY_ITSELF = 32, MOST_AHEAD = 1024, AHEAD_OF_A_THREAD = 4 };

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

int32_t cs_data_ahead(int64_t batch_samples, int32_t n_threads)
{
    const int64_t n = 2 * batch_samples, least = (int64_t)n_threads * AHEAD_OF_A_THREAD;

    return (int32_t)(n < least ? least : n < MOST_AHEAD ? n : MOST_AHEAD);
}

int64_t cs_data_ahead_bytes(int64_t n, int32_t n_threads, int64_t sample_bytes)
{
    const int64_t all = n * sample_bytes, most = CS_DATA_AHEAD_BYTES + n_threads * sample_bytes;

    return all < most ? all : most;
}
