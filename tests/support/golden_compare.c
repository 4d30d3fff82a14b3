/* Single values in fp32, directions and norms in bf16. */
#include "support/golden_compare.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "store/safetensors.h"
#include "support/device.h"
#include "support/need.h"

const struct golden_limits golden_usual = {"", 0.999, 0.996, 6.3e-2, 0.1};

static const struct golden_limits bf16_limits[] = {
    {"gemma4",    0.99,  0.98, 1.0,    0.5},
    {"mixtral",   0.99,  0.95, 0.3,    0.5},
    {"qwen3_moe", 0.998, 0.99, 6.3e-2, 0.1},
    {"qwen3_5",   0.98,  0.95, 1.5,    0.5},
};

const struct golden_limits *golden_limits_of(const struct cs_graph *graph)
{
    const char *family = cs_graph_llm(graph)->arch.family;
    for (size_t i = 0; i < CS_ARRAY_LEN(bf16_limits); i++)
        if (strncmp(family, bf16_limits[i].family, strlen(bf16_limits[i].family)) == 0)
            return &bf16_limits[i];
    return &golden_usual;
}

float *golden_fetch(const void *acts, int64_t n)
{
    struct cs_device *d = cs_test_device();
    struct cs_err err = {0};
    float *out = malloc(((size_t)n + 1) * sizeof *out);
    uint16_t *bf16 = malloc(((size_t)n + 1) * sizeof *bf16);
    assert_non_null(out);
    assert_non_null(bf16);
    need(cs_device_read(d, cs_device_is_f32(d) ? (void *)out : (void *)bf16, acts,
                        (size_t)n * d->ops->act_bytes, &err),
         &err);
    for (int64_t i = 0; i < n && !cs_device_is_f32(d); i++)
        out[i] = cs_f32_from_bf16(bf16[i]);
    free(bf16);
    return out;
}

double golden_allowed(const struct golden_limits *bf16, double tolerance)
{
    return cs_device_is_f32(cs_test_device()) ? tolerance : bf16->steps;
}

void golden_assert_cosine(const char *what, int64_t n, const float *got, const float *want,
                          double least)
{
    double both = 0, ours = 0, theirs = 0;
    for (int64_t i = 0; i < n; i++) {
        both += (double)got[i] * (double)want[i];
        ours += (double)got[i] * (double)got[i];
        theirs += (double)want[i] * (double)want[i];
    }
    if (!(both / sqrt(ours * theirs) > least))
        fail_msg("%s: cosine %.6f", what, both / sqrt(ours * theirs));
}

void golden_assert_close(const char *what, int64_t n, const void *acts, const float *want,
                         double tolerance, double cosine)
{
    float *got = golden_fetch(acts, n);
    if (!cs_device_is_f32(cs_test_device()))
        golden_assert_cosine(what, n, got, want, cosine);
    for (int64_t i = 0; i < n && cs_device_is_f32(cs_test_device()); i++) {
        const double d = fabs((double)got[i] - (double)want[i]);
        if (!(d <= tolerance))
            fail_msg("%s[%lld] is %.9g, transformers has %.9g", what, (long long)i, (double)got[i],
                     (double)want[i]);
    }
    free(got);
}

void golden_assert_norm_close(const char *what, int64_t n, const float *grad, double scale,
                              const float *want, double noise, double bf16)
{
    double diff = 0, norm = 0;
    struct cs_err err = {0};
    float *got = malloc((size_t)n * sizeof *got);
    assert_non_null(got);
    need(cs_device_read(cs_test_device(), got, grad, (size_t)n * sizeof *got, &err), &err);
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)got[i] * scale - (double)want[i];
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    /* bf16: 0.063 is the angle whose cosine is 0.998 */
    const bool is_f32 = cs_device_is_f32(cs_test_device());
    if (!(sqrt(diff) <= (is_f32 ? 1e-3 : bf16) * sqrt(norm) + (is_f32 ? 1.0 : 3e3) * noise))
        fail_msg("%s: off by %.3g of %.3g", what, sqrt(diff), sqrt(norm));
    free(got);
}
