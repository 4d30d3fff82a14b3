/* A metric series over steps, bounded in memory, at three resolutions: buckets of 1, 32 and 1024
 * steps with minimum, mean and maximum. Old buckets fall off the fine levels first, so a long run
 * keeps its whole shape and its recent detail.
 *
 * A step at or before the last one supersedes it and all after it (a run that resumed from a
 * checkpoint repeats steps). That is exact while the bucket that is cut is still held at the finer
 * level (rewinds shorter than the capacity); beyond, a coarse bucket keeps its superseded values.
 * Non-finite values are counted, they do not enter minimum, mean, maximum. */
#ifndef CS_TRACE_SERIES_H
#define CS_TRACE_SERIES_H

#include <stdint.h>

enum { CS_SERIES_LEVELS = 3, CS_SERIES_RATIO = 32 };

struct cs_series_bucket {
    int64_t first_step, n_steps; /* the interval it stands for */
    uint32_t n, n_bad;           /* finite and non-finite values */
    double min, max, sum;        /* of the finite ones; 0 when n is 0 */
};

struct cs_series;

struct cs_series *cs_series_new(uint32_t capacity); /* buckets per level, >= CS_SERIES_RATIO */
void cs_series_free(struct cs_series *series);      /* accepts NULL */
void cs_series_put(struct cs_series *series, int64_t step, double value);
/* The same of several steps that were put together elsewhere: they stand at the last of them. */
void cs_series_put_bucket(struct cs_series *series, const struct cs_series_bucket *bucket);
int64_t cs_series_last_step(const struct cs_series *series); /* -1: empty */

/* At most max buckets (max >= 1) that cover the steps from <= step < to, oldest first: from the
 * finest level that still holds `from` (or all there is) in no more than max buckets; when even the
 * coarsest has more, neighbours are merged. Returns the count. */
uint32_t cs_series_read(const struct cs_series *series, int64_t from, int64_t to, uint32_t max,
                        struct cs_series_bucket *out);

/* mean, NaN when nothing finite is in it */
double cs_series_mean(const struct cs_series_bucket *bucket);

#endif
