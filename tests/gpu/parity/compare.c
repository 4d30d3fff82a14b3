/* Counting checks and comparing gradients; see parity.h. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/parity/parity.h"

/* fp32 on both sides: what sums of thousands of products in another order leave. bf16: rounding of
 * every activation; 0.045 is the angle whose cosine is 0.999. */
const struct parity_limits parity_limits_f32 = {
    .series = 1e-3, .relative = 1e-3, .cosine = 0.99999, .norm = 1e-3, .key_bias = 1e-3};
const struct parity_limits parity_limits_bf16 = {
    .series = 2e-2, .relative = 4.5e-2, .cosine = 0.999, .norm = 2e-2, .key_bias = 0.2};

void parity_check(struct parity_tally *tally, bool is_good, const char *fmt, ...)
{
    va_list args;
    if (is_good) {
        tally->passed++;
        return;
    }
    tally->failed++;
    printf("FAILED: ");
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    printf("\n");
}

struct parity_diff parity_diff(int64_t n, const float *got, double scale, const float *want)
{
    enum { LANES = 8 };

    double g[LANES] = {0}, w[LANES] = {0}, both[LANES] = {0}, off[LANES] = {0};
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t k = 0; k < LANES && i + k < n; k++) {
            const double a = (double)got[i + k] * scale, b = (double)want[i + k];
            g[k] += a * a;
            w[k] += b * b;
            both[k] += a * b;
            off[k] += (a - b) * (a - b);
        }
    for (int k = 1; k < LANES; k++) {
        g[0] += g[k];
        w[0] += w[k];
        both[0] += both[k];
        off[0] += off[k];
    }
    return (struct parity_diff){.got = sqrt(g[0]),
                                .want = sqrt(w[0]),
                                .off = sqrt(off[0]),
                                .cosine = both[0] / sqrt(g[0] * w[0])};
}

static void note(double value, bool is_worse, const char *name, double *worst, char at[160])
{
    if (!is_worse)
        return;
    *worst = value;
    snprintf(at, 160, "%s", name);
}

static void judge(struct parity_tally *tally, const char *label, const char *name,
                  const struct parity_diff *d, const struct parity_limits *l,
                  struct parity_worst *w)
{
    const double relative = d->off / d->want, norm = fabs(d->got / d->want - 1.0);
    note(relative, !(relative <= w->relative), name, &w->relative, w->relative_at);
    note(d->cosine, !(d->cosine >= w->cosine), name, &w->cosine, w->cosine_at);
    note(norm, !(norm <= w->norm), name, &w->norm, w->norm_at);
    w->n++;
    parity_check(tally, relative <= l->relative && d->cosine > l->cosine && norm <= l->norm,
                 "%s: gradient of %s: cosine %.6f, off by %.3g of its norm %.4g, norm off by %.3g",
                 label, name, d->cosine, relative, d->want, norm);
}

static void read_gradient(struct parity_subject *s, const struct cs_shard *t, float *out)
{
    struct cs_err err = {0};
    const size_t n = (size_t)t->param->count;
    if (!cs_device_keeps_bf16(&s->device)) {
        parity_must(cs_device_read(&s->device, out, t->grad, n * sizeof *out, &err), &err);
        return;
    }
    uint16_t *halves = malloc(n * sizeof *halves);
    CS_ASSERT(halves != NULL);
    parity_must(cs_device_read(&s->device, halves, t->grad, n * sizeof *halves, &err), &err);
    for (size_t i = 0; i < n; i++)
        out[i] = cs_f32_from_bf16(halves[i]);
    free(halves);
}

void parity_gradients(struct parity_tally *tally, const struct parity_job *job,
                      struct parity_subject *s, double scale, parity_want *want, void *user,
                      const struct parity_limits *limits, struct parity_worst *worst)
{
    float *got = NULL;
    double query_bias = NAN;
    int64_t room = 0;
    *worst = (struct parity_worst){.cosine = 1.0};
    for (int32_t i = 0; i < job->graph->n_params; i++) {
        const struct cs_param *param = &job->graph->params[i];
        const struct cs_shard *t = cs_params_find(s->trainer->params, i);
        const float *other;
        if (!param->is_trainable)
            continue;
        if (t == NULL || t->grad == NULL || !want(user, param, &other)) {
            parity_check(tally, false, "%s: no gradient, or none to compare with, of %s", s->label,
                         param->name);
            continue;
        }
        if (param->count > room) {
            free(got);
            got = malloc((size_t)param->count * sizeof *got);
            CS_ASSERT(got != NULL);
            room = param->count;
        }
        read_gradient(s, t, got);
        const struct parity_diff d = parity_diff(param->count, got, scale, other);
        if (param->role == CS_PARAM_Q_B)
            query_bias = d.want;
        if (param->role != CS_PARAM_K_B ||
            job->graph->modules[param->module].arch.attention->rope.kind != CS_ROPE_NONE) {
            judge(tally, s->label, param->name, &d, limits, worst);
            continue;
        }
        const double noise = d.got / query_bias;
        worst->key_bias = noise <= worst->key_bias ? worst->key_bias : noise;
        worst->n++;
        parity_check(tally, noise <= limits->key_bias,
                     "%s: gradient of %s should be 0 and is %.3g of the query's", s->label,
                     param->name, noise);
    }
    free(got);
}

void parity_print_worst(const char *label, const struct parity_worst *w)
{
    printf("  %-4s %d gradients: worst cosine %.7f (%s), difference %.3g (%s), norm %.3g (%s); key "
           "biases %.2g\n",
           label, w->n, w->cosine, w->cosine_at, w->relative, w->relative_at, w->norm, w->norm_at,
           w->key_bias);
}
