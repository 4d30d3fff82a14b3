/* Weights that are no numbers: found and named; see safetensors.h. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/buf.h"
#include "core/base/system/parallel.h"
#include "store/safetensors.h"

int64_t cs_find_not_finite(const float *values, int64_t count)
{
    enum { BLOCK = 4096 };

    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t end = count - at < BLOCK ? count : at + BLOCK;
        int bad =
            0; /* counted, which vector instructions do; it is looked for where there is one */
        for (int64_t i = at; i < end; i++)
            bad += !isfinite(values[i]);
        for (int64_t i = at; bad > 0 && i < end; i++)
            if (!isfinite(values[i]))
                return i;
    }
    return -1;
}

/* "[3, 17]": where element `index` stands in the tensor */
static void put_place(struct cs_buf *text, const struct cs_st_tensor *tensor, int64_t index)
{
    int64_t at[CS_MAX_DIMS] = {0};
    for (int d = tensor->n_dims - 1; d >= 0; d--) {
        at[d] = index % tensor->dim[d];
        index /= tensor->dim[d];
    }
    cs_buf_addc(text, '[');
    for (int d = 0; d < tensor->n_dims; d++)
        cs_buf_addf(text, d ? ", %" PRId64 : "%" PRId64, at[d]);
    cs_buf_addc(text, ']');
}

enum cs_status cs_st_read_finite(const struct cs_st_tensor *tensor, int64_t first, int64_t count,
                                 float *out, struct cs_err *err)
{
    struct cs_buf place = {0};
    CS_TRY(cs_st_read_f32(tensor, first, count, out, err));
    int64_t bad = cs_find_not_finite(out, count);
    if (bad < 0)
        return CS_OK;
    put_place(&place, tensor, first + bad);
    enum cs_status status =
        cs_fail(err, CS_CORRUPT,
                "%s, tensor %s: element %s is %s; weights that are no numbers train nothing",
                tensor->file ? cs_st_path(tensor->file) : "memory", tensor->name,
                cs_buf_str(&place), isnan(out[bad]) ? "NaN" : "infinite as fp32");
    cs_buf_free(&place);
    return status;
}

/* A tensor that is read on several threads; err: that of the range before all others that failed. */
struct reading {
    const struct cs_st_tensor *tensor;
    float *out;
    pthread_mutex_t lock;
    int64_t failed_at; /* INT64_MAX: nowhere */
    struct cs_err err;
};

static void read_range(void *user, int64_t first, int64_t n)
{
    struct reading *r = user;
    struct cs_err err = {0};
    if (cs_st_read_finite(r->tensor, first, n, r->out + first, &err) == CS_OK)
        return;
    pthread_mutex_lock(&r->lock);
    if (first < r->failed_at) {
        r->failed_at = first;
        r->err = err;
    }
    pthread_mutex_unlock(&r->lock);
}

enum cs_status cs_st_read_all_finite(const struct cs_st_tensor *tensor, int threads, float *out,
                                     struct cs_err *err)
{
    enum { RANGE = 1 << 18 };

    struct reading r = {.tensor = tensor, .out = out, .failed_at = INT64_MAX};
    pthread_mutex_init(&r.lock, NULL);
    cs_parallel_for(threads, tensor->count, RANGE, read_range, &r);
    pthread_mutex_destroy(&r.lock);
    if (r.failed_at == INT64_MAX)
        return CS_OK;
    if (err != NULL)
        *err = r.err;
    return r.err.status;
}

enum cs_status cs_st_check_finite(const struct cs_st_tensor *tensor, struct cs_err *err)
{
    enum { CHUNK = 1 << 16 };

    float *values = malloc(CHUNK * sizeof *values);
    enum cs_status status = CS_OK;
    if (!values)
        return cs_fail(err, CS_NO_MEMORY, "no memory to read tensor %s", tensor->name);
    for (int64_t at = 0, n; status == CS_OK && at < tensor->count; at += n) {
        n = tensor->count - at < CHUNK ? tensor->count - at : CHUNK;
        status = cs_st_read_finite(tensor, at, n, values, err);
    }
    free(values);
    return status;
}
