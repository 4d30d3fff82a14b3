/* How many threads prepare the data of a job: read, decode and resize pictures, render and tokenize. */
#ifndef CS_DATA_DATA_THREADS_H
#define CS_DATA_DATA_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* of samples that are prepared ahead of the step that takes them: as many as a step has, no more bytes than this */
#define CS_DATA_AHEAD_BYTES ((int64_t)2 << 30)

/* asked (data_threads of the job) where that is not 0. Else what the cores leave beside one for each
 * rank and one for the feeder itself, 2 to 32 of them; beside CPU ranks 2. cores: that the processes of
 * the job may use, 0: not known. */
int32_t cs_data_threads(int32_t asked, bool is_gpu, int32_t n_ranks, int32_t cores);

#endif
