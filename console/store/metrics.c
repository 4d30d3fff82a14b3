/* Rows of steps into curves. */
#include "console/store/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/store/store.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

static const int64_t max_step = (int64_t)1 << 53; /* what the schema allows; sums stay in range */

void cs_metrics_init(struct cs_metrics *metrics)
{
    *metrics = (struct cs_metrics){.last_step = -1};
}

void cs_metrics_free(struct cs_metrics *metrics)
{
    for (int i = 0; i < metrics->n; i++)
        cs_series_free(metrics->curve[i].series);
    cs_series_free(metrics->tokens);
    cs_series_free(metrics->seconds);
    cs_metrics_init(metrics);
}

const struct cs_curve *cs_metrics_find(const struct cs_metrics *metrics, const char *name,
                                       bool is_eval)
{
    for (int i = 0; i < metrics->n; i++)
        if (metrics->curve[i].is_eval == is_eval && strcmp(metrics->curve[i].name, name) == 0)
            return &metrics->curve[i];
    return NULL;
}

/* NULL: there are too many */
static struct cs_curve *curve_of(struct cs_metrics *metrics, const char *name, bool is_eval)
{
    for (int i = 0; i < metrics->n; i++)
        if (metrics->curve[i].is_eval == is_eval && strcmp(metrics->curve[i].name, name) == 0)
            return &metrics->curve[i];
    if (metrics->n == CS_CURVES)
        return NULL;
    struct cs_curve *curve = &metrics->curve[metrics->n++];
    *curve = (struct cs_curve){.is_eval = is_eval, .series = cs_series_new(CS_STORE_SERIES)};
    cs_str_copy(curve->name, sizeof curve->name, name);
    return curve;
}

struct adding {
    struct cs_metrics *metrics;
    const json_t *row;
    int64_t step, steps;
    bool is_eval;
};

/* the least or greatest of the steps that a row stands for; `value` where it does not say */
static double edge(const json_t *row, const char *name, const char *which, double value)
{
    char key[CS_METRIC_NAME + 8];
    snprintf(key, sizeof key, "%s_%s", name, which);
    const double found = cs_msg_num(row, key, value);
    return isfinite(found) ? found : value;
}

static void add_value(void *user, const char *name, double value)
{
    const struct adding *a = user;
    struct cs_curve *curve = curve_of(a->metrics, name, a->is_eval);
    if (curve == NULL)
        return;
    curve->last = value;
    if (a->steps == 1 || !isfinite(value)) {
        cs_series_put(curve->series, a->step, value);
        return;
    }
    const struct cs_series_bucket bucket = {.first_step = a->step - a->steps + 1,
                                            .n_steps = a->steps,
                                            .n = (uint32_t)a->steps,
                                            .min = fmin(value, edge(a->row, name, "min", value)),
                                            .max = fmax(value, edge(a->row, name, "max", value)),
                                            .sum = value * (double)a->steps};
    cs_series_put_bucket(curve->series, &bucket);
}

/* the running sum before a step */
static double sum_before(const struct cs_series *series, int64_t step)
{
    struct cs_series_bucket bucket[CS_SERIES_RATIO];
    const uint32_t n = cs_series_read(series, step > CS_SERIES_RATIO ? step - CS_SERIES_RATIO : 0,
                                      step, CS_SERIES_RATIO, bucket);
    return n > 0 && bucket[n - 1].n > 0 ? bucket[n - 1].max : 0;
}

static void add_sums(struct cs_metrics *metrics, const json_t *row, int64_t step, int64_t steps)
{
    const double tokens = cs_metric_get(row, "tokens"), ms = cs_metric_get(row, "step_ms");
    if (metrics->tokens == NULL) {
        metrics->tokens = cs_series_new(CS_STORE_SERIES);
        metrics->seconds = cs_series_new(CS_STORE_SERIES);
    }
    if (step <= metrics->last_step) {
        metrics->sum_tokens = sum_before(metrics->tokens, step);
        metrics->sum_seconds = sum_before(metrics->seconds, step);
    }
    metrics->sum_tokens += isfinite(tokens) ? tokens * (double)steps : 0;
    metrics->sum_seconds += isfinite(ms) ? ms / 1e3 * (double)steps : 0;
    cs_series_put(metrics->tokens, step, metrics->sum_tokens);
    cs_series_put(metrics->seconds, step, metrics->sum_seconds);
    metrics->last_step = step;
}

void cs_metrics_add(struct cs_metrics *metrics, const json_t *row)
{
    struct adding a = {.metrics = metrics,
                       .row = row,
                       .step = cs_msg_int(row, "step", -1),
                       .steps = cs_msg_int(row, "steps", 1),
                       .is_eval = cs_metric_is_eval(row)};
    if (a.step < 0 || a.step > max_step)
        return;
    a.steps = a.steps < 1 || a.steps > a.step + 1 || a.steps > UINT32_MAX ? 1 : a.steps;
    if (!a.is_eval)
        add_sums(metrics, row, a.step, a.steps);
    cs_metric_read(row, add_value, &a);
}
