/* How far what was computed is from what the golden says. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/selftest/parts.h"

/* Noise never allows more of what is computed once, before any weight has moved, in fp32. */
enum { MOST_OF_A_STEP = 30 };

bool cs_selftest_is_good(const struct cs_selftest_check *check)
{
    return check->n > 0 && check->deviation <= check->limit;
}

struct cs_selftest_check *cs_selftest_add(const struct cs_golden *golden, struct cs_selftest *test,
                                          const char *what, double f32, double bf16)
{
    const bool is_f32 = cs_device_is_f32(golden->device);
    const double limit = is_f32 ? f32 : bf16;
    CS_ASSERT(test->n_checks < CS_SELFTEST_CHECKS);
    struct cs_selftest_check *check = &test->check[test->n_checks++];
    *check = (struct cs_selftest_check){.what = what,
                                        .limit = limit,
                                        .usual = limit,
                                        .most = is_f32 ? MOST_OF_A_STEP * limit : HUGE_VAL};
    return check;
}

/* ---- distances ---- */

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

/* The largest difference in units of 1, or of a tenth of the largest value where that is more: sums of
 * values as large as that are rounded on the way to the small ones. NaN where there is one. */
static double worst_value(int64_t n, const float *got, const float *want, int64_t *at)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)want[i]));
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)got[i] - (double)want[i]) / fmax(1.0, 0.1 * largest);
        if (d <= worst)
            continue;
        worst = d;
        *at = i;
        if (isnan(d))
            break;
    }
    return worst;
}

/* ||got - want|| / (||want|| + floor) */
static double relative_norm(int64_t n, const float *got, const float *want, double floor)
{
    double diff = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)got[i] - (double)want[i];
        diff += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    return sqrt(diff) / (sqrt(norm) + floor);
}

static double distance(const struct cs_golden *g, const struct cs_selftest_pair *p,
                       const float *want, int64_t *at)
{
    switch (p->kind) {
    case CS_PAIR_VALUES:
        return cs_device_is_f32(g->device) ? worst_value(p->n, p->got, want, at)
                                           : one_minus_cosine(p->n, p->got, want);
    case CS_PAIR_VECTOR:
        return relative_norm(p->n, p->got, want, p->unit);
    case CS_PAIR_NUMBER:
        break;
    }
    return fabs((double)p->got[0] - (double)want[0]) / p->unit;
}

/* ---- notes ---- */

/* The pair that is furthest over what is allowed of it stands for the check; NaN is further than all. */
static void note(const struct cs_golden *g, struct cs_selftest_check *check,
                 const struct cs_selftest_pair *p, double deviation, double allowed, int64_t at)
{
    const bool is_first = check->n++ == 0;
    if (isnan(check->deviation) ||
        (!is_first && deviation / allowed <= check->deviation / check->limit))
        return;
    check->deviation = deviation;
    check->limit = allowed;
    if (p->kind == CS_PAIR_NUMBER)
        snprintf(check->where, sizeof check->where, "%s: %.9g, expected %.9g", p->name,
                 (double)p->got[0], (double)p->want[0]);
    else if (p->kind == CS_PAIR_VALUES && cs_device_is_f32(g->device))
        snprintf(check->where, sizeof check->where, "%s[%lld]", p->name, (long long)at);
    else
        snprintf(check->where, sizeof check->where, "%s", p->name);
}

void cs_selftest_compare(const struct cs_golden *g, struct cs_selftest_check *check,
                         struct cs_selftest_pair pair)
{
    struct cs_noise_entry *entry = cs_noise_next(g->noise, &pair);
    int64_t at = 0;
    if (g->noise != NULL && g->noise->phase == CS_NOISE_MOVED) {
        const double moved = distance(g, &pair, entry->got, &at);
        entry->noise = moved > entry->noise ? moved : entry->noise; /* NaN is no noise */
        check->noise = moved > check->noise ? moved : check->noise;
    }
    const double noise = entry != NULL ? entry->noise : 0;
    const double allowed = cs_device_is_f32(g->device) ? CS_NOISE_ALLOWED : CS_NOISE_ALLOWED_BF16;
    note(g, check, &pair, distance(g, &pair, pair.want, &at),
         fmin(check->most, fmax(check->usual, allowed * noise)), at);
}

void cs_selftest_number(const struct cs_golden *g, struct cs_selftest_check *check,
                        const char *name, double got, float want, double unit)
{
    const float rounded = (float)got;
    cs_selftest_compare(g, check,
                        (struct cs_selftest_pair){.name = name,
                                                  .kind = CS_PAIR_NUMBER,
                                                  .n = 1,
                                                  .got = &rounded,
                                                  .want = &want,
                                                  .unit = unit});
}

const char *cs_selftest_step(int i)
{
    static const char *const names[CS_GOLDEN_STEPS] = {"step 0", "step 1", "step 2", "step 3",
                                                       "step 4"};
    return names[i];
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
