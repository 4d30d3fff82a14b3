/* Keeps a series of numbers at several resolutions in bounded memory. */
#include "core/trace/series.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/status.h"

/* ring of the newest `capacity` buckets, oldest first */
struct level {
    struct cs_series_bucket *bucket;
    uint32_t first, n;
    bool has_dropped;
};

struct cs_series {
    uint32_t capacity;
    struct level level[CS_SERIES_LEVELS];
    int64_t last_step;
};

static const int64_t width_steps[CS_SERIES_LEVELS] = {1, CS_SERIES_RATIO,
                                                      CS_SERIES_RATIO *CS_SERIES_RATIO};

struct cs_series *cs_series_new(uint32_t capacity)
{
    CS_ASSERT(capacity >= CS_SERIES_RATIO);
    struct cs_series *series = calloc(1, sizeof *series);
    CS_ASSERT(series);
    series->capacity = capacity;
    series->last_step = -1;
    for (int k = 0; k < CS_SERIES_LEVELS; k++) {
        series->level[k].bucket = calloc(capacity, sizeof(struct cs_series_bucket));
        CS_ASSERT(series->level[k].bucket);
    }
    return series;
}

void cs_series_free(struct cs_series *series)
{
    if (!series)
        return;
    for (int k = 0; k < CS_SERIES_LEVELS; k++)
        free(series->level[k].bucket);
    free(series);
}

int64_t cs_series_last_step(const struct cs_series *series)
{
    return series->last_step;
}

double cs_series_mean(const struct cs_series_bucket *bucket)
{
    return bucket->n ? bucket->sum / bucket->n : (double)NAN;
}

static struct cs_series_bucket *at(const struct cs_series *series, int k, uint32_t i)
{
    const struct level *level = &series->level[k];
    return &level->bucket[(level->first + i) % series->capacity];
}

static struct cs_series_bucket *append(struct cs_series *series, int k, int64_t first_step)
{
    struct level *level = &series->level[k];
    if (level->n == series->capacity) {
        level->first = (level->first + 1) % series->capacity;
        level->n--;
        level->has_dropped = true;
    }
    struct cs_series_bucket *bucket = at(series, k, level->n++);
    *bucket = (struct cs_series_bucket){.first_step = first_step, .n_steps = width_steps[k]};
    return bucket;
}

static void merge(struct cs_series_bucket *into, const struct cs_series_bucket *from)
{
    if (from->n) {
        into->min = into->n && into->min < from->min ? into->min : from->min;
        into->max = into->n && into->max > from->max ? into->max : from->max;
        into->sum += from->sum;
    }
    into->n += from->n;
    into->n_bad += from->n_bad;
}

/* The last bucket of level k loses the steps >= step: build it again from the finer level, whose
 * buckets have been cut already. Where the finer level no longer reaches back it stays as it is. */
static void rebuild_last(struct cs_series *series, int k)
{
    struct cs_series_bucket *last = at(series, k, series->level[k].n - 1);
    const struct level *fine = &series->level[k - 1];
    if (fine->has_dropped && (fine->n == 0 || at(series, k - 1, 0)->first_step > last->first_step))
        return;
    *last = (struct cs_series_bucket){.first_step = last->first_step, .n_steps = width_steps[k]};
    for (uint32_t i = 0; i < fine->n; i++)
        if (at(series, k - 1, i)->first_step >= last->first_step)
            merge(last, at(series, k - 1, i));
}

static void cut_from(struct cs_series *series, int64_t step)
{
    for (int k = 0; k < CS_SERIES_LEVELS; k++) {
        struct level *level = &series->level[k];
        while (level->n && at(series, k, level->n - 1)->first_step >= step)
            level->n--;
        if (k > 0 && level->n && at(series, k, level->n - 1)->first_step + width_steps[k] > step)
            rebuild_last(series, k);
    }
}

static void put(struct cs_series *series, int64_t step, const struct cs_series_bucket *value)
{
    CS_ASSERT(step >= 0);
    if (step <= series->last_step)
        cut_from(series, step);
    series->last_step = step;
    for (int k = 0; k < CS_SERIES_LEVELS; k++) {
        int64_t first = step - step % width_steps[k];
        uint32_t n = series->level[k].n;
        struct cs_series_bucket *bucket = n ? at(series, k, n - 1) : NULL;
        if (!bucket || bucket->first_step != first)
            bucket = append(series, k, first);
        merge(bucket, value);
    }
}

void cs_series_put(struct cs_series *series, int64_t step, double value)
{
    const bool is_finite = isfinite(value);
    const struct cs_series_bucket one = {.n = is_finite,
                                         .n_bad = !is_finite,
                                         .min = is_finite ? value : 0,
                                         .max = is_finite ? value : 0,
                                         .sum = is_finite ? value : 0};
    put(series, step, &one);
}

void cs_series_put_bucket(struct cs_series *series, const struct cs_series_bucket *bucket)
{
    CS_ASSERT(bucket->n_steps >= 1);
    put(series, bucket->first_step + bucket->n_steps - 1, bucket);
}

/* Buckets of level k that overlap [from, to): index of the first and the count. */
static uint32_t find_range(const struct cs_series *series, int k, int64_t from, int64_t to,
                           uint32_t *first)
{
    uint32_t n = series->level[k].n, i = 0;
    while (i < n && at(series, k, i)->first_step + width_steps[k] <= from)
        i++;
    *first = i;
    while (i < n && at(series, k, i)->first_step < to)
        i++;
    return i - *first;
}

static bool reaches_back_to(const struct cs_series *series, int k, int64_t from)
{
    const struct level *level = &series->level[k];
    return !level->has_dropped || (level->n && at(series, k, 0)->first_step <= from);
}

uint32_t cs_series_read(const struct cs_series *series, int64_t from, int64_t to, uint32_t max,
                        struct cs_series_bucket *out)
{
    CS_ASSERT(max >= 1);
    uint32_t first = 0, n = 0;
    int k = 0;
    for (; k < CS_SERIES_LEVELS; k++) {
        n = find_range(series, k, from, to, &first);
        if (k == CS_SERIES_LEVELS - 1 || (n <= max && reaches_back_to(series, k, from)))
            break;
    }
    uint32_t group = (n + max - 1) / max, count = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_series_bucket *bucket = at(series, k, first + i);
        if (i % group == 0) {
            out[count++] = *bucket;
        } else {
            merge(&out[count - 1], bucket);
            out[count - 1].n_steps =
                bucket->first_step + bucket->n_steps - out[count - 1].first_step;
        }
    }
    return count;
}
