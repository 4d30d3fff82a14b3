/* Mixtures of experts: the choice of experts for every row with its gradient, and products of the
 * rows of every expert with its own matrix. Contracts: kernels/ops.h. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

/* p (experts) */
static void softmax(int32_t experts, const float *logits, float *p)
{
    float most = -INFINITY, sum = 0.0f;
    for (int32_t e = 0; e < experts; e++)
        most = logits[e] > most ? logits[e] : most;
    for (int32_t e = 0; e < experts; e++) {
        p[e] = expf(logits[e] - most);
        sum += p[e];
    }
    for (int32_t e = 0; e < experts; e++)
        p[e] /= sum;
}

static bool is_taken(const int32_t *chosen, int32_t n, int32_t expert)
{
    for (int32_t i = 0; i < n; i++)
        if (chosen[i] == expert)
            return true;
    return false;
}

/* Also of a row of NaN, or of fewer numbers than top_k, are top_k different experts chosen. */
static void choose(const struct cs_moe_shape *s, const float *logits, int32_t *chosen)
{
    for (int32_t k = 0; k < s->top_k; k++) {
        int32_t best = -1;
        for (int32_t e = 0; e < s->experts; e++)
            if (!is_taken(chosen, k, e) && (best < 0 || logits[e] > logits[best]))
                best = e;
        chosen[k] = best;
    }
}

static float sum_of(const struct cs_moe_shape *s, const int32_t *chosen, const float *p)
{
    float sum = 0.0f;
    for (int32_t k = 0; k < s->top_k; k++)
        sum += p[chosen[k]];
    return s->is_normed ? sum : 1.0f;
}

static void count(const struct cs_moe_shape *s, int64_t rows, const struct cs_moe_routes *r)
{
    memset(r->first, 0, ((size_t)s->experts + 1) * sizeof *r->first);
    for (int64_t i = 0; i < rows * s->top_k; i++)
        r->first[r->expert[i] + 1]++;
    for (int32_t e = 0; e < s->experts; e++)
        r->first[e + 1] += r->first[e];
}

void cs_cpu_moe_route(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                      const void *logits, const struct cs_moe_routes *routes)
{
    float p[CS_MOE_MAX_EXPERTS];
    int32_t next[CS_MOE_MAX_EXPERTS];
    const int32_t k = shape->top_k;
    (void)ctx;
    CS_ASSERT(shape->experts <= CS_MOE_MAX_EXPERTS && k <= shape->experts);
    if (rows == 0)
        return;
    for (int64_t i = 0; i < rows; i++)
        choose(shape, (const float *)logits + i * shape->experts, routes->expert + i * k);
    count(shape, rows, routes);
    memcpy(next, routes->first, (size_t)shape->experts * sizeof *next);
    for (int64_t i = 0; i < rows; i++) {
        const int32_t *chosen = routes->expert + i * k;
        softmax(shape->experts, (const float *)logits + i * shape->experts, p);
        const float sum = sum_of(shape, chosen, p);
        for (int32_t j = 0; j < k; j++) {
            const int32_t place = next[chosen[j]]++;
            routes->place[i * k + j] = place;
            routes->token[place] = (int32_t)i;
            routes->weight[place] = p[chosen[j]] / sum;
        }
    }
}

/* a row of NaN has none */
static int64_t units_of(float p)
{
    return p >= 0.0f ? (int64_t)((double)p * CS_MOE_UNIT + 0.5) : 0;
}

void cs_cpu_moe_load(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                     const void *logits, const struct cs_moe_routes *routes, int64_t *load)
{
    float p[CS_MOE_MAX_EXPERTS];
    const int32_t n = shape->experts;
    (void)ctx;
    CS_ASSERT(n <= CS_MOE_MAX_EXPERTS);
    for (int64_t i = 0; i < rows && i < shape->counted; i++) {
        softmax(n, (const float *)logits + i * n, p);
        for (int32_t k = 0; k < shape->top_k; k++)
            load[routes->expert[i * shape->top_k + k]]++;
        for (int32_t e = 0; e < n; e++)
            load[n + e] += units_of(p[e]);
    }
}

/* dp (experts) of a row: what its weights and the balancing loss ask of its probabilities */
static void probabilities_grad(const struct cs_moe_shape *s, const struct cs_moe_routes *r,
                               int64_t row, const float *p, const float *dweight, float balance,
                               const int64_t *pairs, float *dp)
{
    const int32_t *chosen = r->expert + row * s->top_k, *place = r->place + row * s->top_k;
    const float sum = sum_of(s, chosen, p);
    float shared = 0.0f;
    for (int32_t k = 0; s->is_normed && k < s->top_k; k++)
        shared += dweight[place[k]] * p[chosen[k]] / sum;
    const bool is_counted = row < s->counted && pairs != NULL;
    for (int32_t e = 0; e < s->experts; e++)
        dp[e] = is_counted ? (float)((double)balance * (double)pairs[e]) : 0.0f;
    for (int32_t k = 0; k < s->top_k; k++)
        dp[chosen[k]] += (dweight[place[k]] - shared) / sum;
}

void cs_cpu_moe_route_grad(struct cs_ctx *ctx, const struct cs_moe_shape *shape, int64_t rows,
                           const void *logits, const struct cs_moe_routes *routes,
                           const float *dweight, float balance, const int64_t *pairs, void *dlogits)
{
    float p[CS_MOE_MAX_EXPERTS], dp[CS_MOE_MAX_EXPERTS];
    const int32_t n = shape->experts;
    (void)ctx;
    CS_ASSERT(n <= CS_MOE_MAX_EXPERTS);
    for (int64_t i = 0; i < rows; i++) {
        float *out = (float *)dlogits + i * n, along = 0.0f;
        softmax(n, (const float *)logits + i * n, p);
        probabilities_grad(shape, routes, i, p, dweight, balance, pairs, dp);
        for (int32_t e = 0; e < n; e++)
            along += p[e] * dp[e];
        for (int32_t e = 0; e < n; e++)
            out[e] = p[e] * (dp[e] - along);
    }
}

void cs_cpu_add_counts(struct cs_ctx *ctx, int64_t n, const int64_t *x, int64_t *y)
{
    (void)ctx;
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

void cs_cpu_moe_linear(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                       int64_t out, const void *x, const void *w, void *y)
{
    (void)ctx;
    for (int32_t e = 0; groups->places > 0 && e < groups->experts; e++) {
        const int64_t at = groups->first[e], n = groups->first[e + 1] - at;
        cs_cpu_sgemm(0, 1, n, out, in, 1.0f, (const float *)x + at * in, in,
                     (const float *)w + e * out * in, in, 0.0f, (float *)y + at * out, out);
    }
}

void cs_cpu_moe_linear_dgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *w, void *dx)
{
    (void)ctx;
    for (int32_t e = 0; groups->places > 0 && e < groups->experts; e++) {
        const int64_t at = groups->first[e], n = groups->first[e + 1] - at;
        cs_cpu_sgemm(0, 0, n, in, out, 1.0f, (const float *)dy + at * out, out,
                     (const float *)w + e * out * in, in, 0.0f, (float *)dx + at * in, in);
    }
}

void cs_cpu_moe_linear_wgrad(struct cs_ctx *ctx, const struct cs_moe_groups *groups, int64_t in,
                             int64_t out, const void *dy, const void *x, void *dw)
{
    const size_t size = ctx->grad == CS_GRAD_BF16 ? sizeof(uint16_t) : sizeof(float);
    for (int32_t e = 0; groups->places > 0 && e < groups->experts; e++) {
        const int64_t at = groups->first[e], n = groups->first[e + 1] - at;
        void *of_expert = (char *)dw + (size_t)(e * out * in) * size;
        if (n == 0) /* its gradient is 0: the product below leaves alone what has no rows */
            cs_grad_begin(ctx, out * in, of_expert);
        cs_cpu_gemm_wgrad(ctx, n, out, in, (const float *)dy + at * out, out,
                          (const float *)x + at * in, in, of_expert);
    }
}
