/* How far what was computed is from what the golden says. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/selftest/parts.h"

bool cs_selftest_is_good(const struct cs_selftest_check *check)
{
    return check->n > 0 && check->deviation <= check->limit;
}

struct cs_selftest_check *cs_selftest_add(struct cs_selftest *test, const char *what, double limit)
{
    CS_ASSERT(test->n_checks < CS_SELFTEST_CHECKS);
    struct cs_selftest_check *check = &test->check[test->n_checks++];
    *check = (struct cs_selftest_check){.what = what, .limit = limit};
    return check;
}

void cs_selftest_note(struct cs_selftest_check *check, double deviation, const char *format, ...)
{
    va_list args;
    const bool is_first = check->n++ == 0;
    if (isnan(check->deviation) || (!is_first && deviation <= check->deviation))
        return;
    check->deviation = deviation;
    va_start(args, format);
    vsnprintf(check->where, sizeof check->where, format, args);
    va_end(args);
}

double cs_selftest_limit(const struct cs_golden *golden, double f32, double bf16)
{
    return cs_device_is_f32(golden->device) ? f32 : bf16;
}

static double one_minus_cosine(int64_t n, const float *got, const float *want)
{
    double both = 0, ours = 0, theirs = 0;
    for (int64_t i = 0; i < n; i++) {
        both += (double)got[i] * (double)want[i];
        ours += (double)got[i] * (double)got[i];
        theirs += (double)want[i] * (double)want[i];
    }
    return 1 - both / sqrt(ours * theirs);
}

/* In units of 1e-4 absolute, or of 1e-5 of the largest value where that is more: sums of values as large
 * as that are rounded on the way to the small ones. (CLIP's golden, whose values reach 200, is off by
 * 1.1e-3 from what transformers computes in fp64.) */
void cs_selftest_values(const struct cs_golden *golden, struct cs_selftest_check *check,
                        const char *name, int64_t n, const float *got, const float *want)
{
    if (!cs_device_is_f32(golden->device)) {
        cs_selftest_note(check, one_minus_cosine(n, got, want), "%s, 1 - cosine", name);
        return;
    }
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    const double size = fmax(1.0, 0.1 * largest);
    for (int64_t i = 0; i < n; i++)
        cs_selftest_note(check, fabs((double)got[i] - (double)want[i]) / size, "%s[%lld]", name,
                         (long long)i);
}

enum cs_status cs_golden_fetch(struct cs_golden *golden, const void *acts, int64_t n, float **out,
                               struct cs_err *err)
{
    struct cs_device *d = golden->device;
    const bool is_f32 = cs_device_is_f32(d);
    uint16_t *halves = is_f32 ? NULL : CS_NEW_ARRAY(golden->arena, uint16_t, n + 1);
    *out = CS_NEW_ARRAY(golden->arena, float, n + 1);
    CS_TRY(cs_device_read(d, is_f32 ? (void *)*out : (void *)halves, acts,
                          (size_t)n * d->ops->act_bytes, err));
    for (int64_t i = 0; i < n && !is_f32; i++)
        (*out)[i] = cs_f32_from_bf16(halves[i]);
    return CS_OK;
}
