/* How many threads prepare the data of a job, and how far ahead: read, decode and resize pictures, render and tokenize. */
#ifndef CS_DATA_DATA_THREADS_H
#define CS_DATA_DATA_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Of samples that are prepared ahead of the step that takes them: where they are more bytes no further one is begun. */
#define CS_DATA_AHEAD_BYTES ((int64_t)2 << 30)

/* asked (data_threads of the job) where that is not 0. Else what the cores leave beside one for each
 * rank and one for the feeder itself, 2 to 32 of them; beside CPU ranks 2. cores: that the processes of
 * the job may use, 0: not known. */
int32_t cs_data_threads(int32_t asked, bool is_gpu, int32_t n_ranks, int32_t cores);

/* Samples that may be loaded ahead: two steps, at most 1024, at least 4 for every thread. */
int32_t cs_data_ahead(int64_t batch_samples, int32_t n_threads);
/* Bytes that n of them take at most, of sample_bytes each: every thread may have begun one when they are
 * CS_DATA_AHEAD_BYTES. */
int64_t cs_data_ahead_bytes(int64_t n, int32_t n_threads, int64_t sample_bytes);

#endif
