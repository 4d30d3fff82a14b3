/* Resamples with libsoxr. */
#include "input/media/sound/resample.h"

#include <soxr.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/library.h"

/* clang-format off */
#define FUNCTIONS(X) X(soxr_create) X(soxr_process) X(soxr_delete) X(soxr_quality_spec) X(soxr_io_spec)

/* clang-format on */

struct soxr_functions {

#define X(f) __typeof__(f) *f;
    FUNCTIONS(X)
#undef X
};

static const struct cs_symbol symbols[] = {

#define X(f) {#f, offsetof(struct soxr_functions, f)},
    FUNCTIONS(X)
#undef X
};

static const struct cs_library library = {"libsoxr.so.0", "libsoxr0", "sounds of another rate",
                                          symbols, (int)CS_ARRAY_LEN(symbols)};

struct cs_resampler {
    struct soxr_functions lib;
    soxr_t soxr; /* NULL: nothing to do */
};

enum cs_status cs_resampler_new(int32_t from_rate, int32_t to_rate, struct cs_resampler **out,
                                struct cs_err *err)
{
    struct cs_resampler *r = calloc(1, sizeof *r);
    soxr_error_t failed = NULL;

    *out = NULL;
    if (r == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to resample");
    if (from_rate == to_rate) {
        *out = r;
        return CS_OK;
    }
    enum cs_status status = cs_library_open(&library, &r->lib, err);
    if (status != CS_OK) {
        free(r);
        return status;
    }
    const soxr_quality_spec_t quality = r->lib.soxr_quality_spec(SOXR_HQ, 0);
    const soxr_io_spec_t io = r->lib.soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
    r->soxr = r->lib.soxr_create(from_rate, to_rate, 1, &failed, &io, &quality, NULL);
    if (failed != NULL || r->soxr == NULL) {
        cs_resampler_free(r);
        return cs_fail(err, CS_NO_MEMORY, "libsoxr does not resample from %d to %d Hz: %s",
                       from_rate, to_rate, failed != NULL ? failed : "no memory");
    }
    *out = r;
    return CS_OK;
}

/* One call of libsoxr. Where there is no room, what it makes is thrown away. */
static enum cs_status step(struct cs_resampler *r, const float *in, int64_t n, size_t *taken,
                           float *out, int64_t room, size_t *made, struct cs_err *err)
{
    float drain[1024];
    const bool is_full = room <= 0;
    soxr_error_t failed = r->lib.soxr_process(r->soxr, in, (size_t)n, taken, is_full ? drain : out,
                                              is_full ? CS_ARRAY_LEN(drain) : (size_t)room, made);

    if (failed != NULL)
        return cs_fail(err, CS_INTERNAL, "libsoxr fails: %s", failed);
    return CS_OK;
}

enum cs_status cs_resampler_push(struct cs_resampler *r, const float *in, int64_t n, float *out,
                                 int64_t room, int64_t *made, struct cs_err *err)
{
    const bool is_end = n == 0;
    size_t taken = 0, came = 0;

    *made = 0;
    if (r->soxr == NULL) {
        *made = n < room ? n : room;
        memcpy(out, in, (size_t)*made * sizeof *out);
        return CS_OK;
    }
    do {
        CS_TRY(step(r, is_end ? NULL : in, n, &taken, out + *made, room - *made, &came, err));
        if (*made < room)
            *made += (int64_t)came;
        if (!is_end) {
            in += taken;
            n -= (int64_t)taken;
        }
    } while (is_end ? came > 0 : n > 0);
    return CS_OK;
}

void cs_resampler_free(struct cs_resampler *r)
{
    if (r == NULL)
        return;
    if (r->soxr != NULL)
        r->lib.soxr_delete(r->soxr);
    free(r);
}
