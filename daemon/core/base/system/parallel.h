/* Loops whose turns do not depend on each other, on several threads. */
#ifndef CS_BASE_PARALLEL_H
#define CS_BASE_PARALLEL_H

#include <stdint.h>

/* indices first .. first + n - 1 of a loop */
typedef void cs_range_fn(void *user, int64_t first, int64_t n);

/* Calls fn for all of 0 .. n - 1, in ranges of `grain` (> 0; the last may be shorter), on up to `threads`
 * threads, the caller's among them; the order is not defined. Returns when all are done. Where threads cannot
 * be started the others do their part. */
void cs_parallel_for(int threads, int64_t n, int64_t grain, cs_range_fn *fn, void *user);

#endif
