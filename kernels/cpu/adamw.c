/* AdamW in PyTorch's order of operations: decay, moments, update. Bias corrections in fp64. Also
 * without masters, all in bf16. */
#include <math.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "kernels/cpu/cpu.h"

struct step {
    float grad_scale, keep;         /* keep: 1 - lr weight_decay */
    float take1, beta2, take2, eps; /* take: 1 - beta */
    float root_bc2, size;           /* sqrt(1 - beta2^t), lr / (1 - beta1^t) */
};

#define TILE 512 /* elements whose square roots are kept at a time */

static CS_CLONES void moments(int64_t n, struct step s, const float *grad, float *exp_avg,
                              float *exp_avg_sq)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float g = grad[i] * s.grad_scale;
        exp_avg[i] = exp_avg[i] + s.take1 * (g - exp_avg[i]);
        exp_avg_sq[i] = exp_avg_sq[i] * s.beta2 + s.take2 * g * g;
    }
}

/* By hand: sqrtf may set errno, which keeps the compiler from vectorising it. The instruction
 * rounds correctly, so both forms give the same bits. */
static void roots(int64_t n, const float *x, float *root)
{
    int64_t i = 0;
#ifdef __SSE2__
    for (; i + 4 <= n; i += 4)
        _mm_storeu_ps(root + i, _mm_sqrt_ps(_mm_loadu_ps(x + i)));
#endif
    for (; i < n; i++)
        root[i] = sqrtf(x[i]);
}

static CS_CLONES void update(int64_t n, struct step s, const float *exp_avg, const float *root,
                             float *master)
{
    CS_ELEMENTWISE
    for (int64_t i = 0; i < n; i++) {
        const float denom = root[i] / s.root_bc2 + s.eps;
        master[i] = master[i] * s.keep - s.size * exp_avg[i] / denom;
    }
}

static struct step step_of(const struct cs_adamw *hyper, float weight_decay)
{
    const double lr = hyper->lr, beta1 = hyper->beta1, beta2 = hyper->beta2;
    const double bc1 = 1.0 - pow(beta1, (double)hyper->step);
    const double bc2 = 1.0 - pow(beta2, (double)hyper->step);
    return (struct step){
        .grad_scale = hyper->grad_scale,
        .keep = (float)(1.0 - lr * (double)weight_decay),
        .take1 = (float)(1.0 - beta1),
        .beta2 = hyper->beta2,
        .take2 = (float)(1.0 - beta2),
        .eps = hyper->eps,
        .root_bc2 = (float)sqrt(bc2),
        .size = (float)(lr / bc1),
    };
}

void cs_cpu_adamw(struct cs_ctx *ctx, int64_t n, const struct cs_adamw *hyper, const float *grad,
                  float *master, float *exp_avg, float *exp_avg_sq, void *w)
{
    (void)ctx;
    if (n <= 0)
        return;
    const struct step s = step_of(hyper, hyper->weight_decay);
    float root[TILE];
    for (int64_t i = 0; i < n; i += TILE) {
        const int64_t part = n - i < TILE ? n - i : TILE;
        moments(part, s, grad + i, exp_avg + i, exp_avg_sq + i);
        roots(part, exp_avg_sq + i, root);
        update(part, s, exp_avg + i, root, master + i);
    }
    if (w != NULL && w != (void *)master)
        memcpy(w, master, (size_t)n * sizeof *master);
}

void cs_cpu_adamw_many(struct cs_ctx *ctx, int32_t n_tensors, const struct cs_adamw_tensor *tensor,
                       const struct cs_adamw *hyper)
{
    for (int32_t i = 0; i < n_tensors; i++) {
        const struct cs_adamw_tensor *t = &tensor[i];
        struct cs_adamw own = *hyper;
        own.weight_decay = t->weight_decay;
        cs_cpu_adamw(ctx, t->n, &own, t->grad, t->master, t->exp_avg, t->exp_avg_sq, t->w);
    }
}

/* One element; g is its gradient. The order of operations is that of moments and update, but the
 * root is multiplied by the inverse of its correction. */
static void one_bf16(struct step s, float g, uint32_t random, uint16_t *w, uint16_t *exp_avg,
                     uint16_t *exp_avg_sq)
{
    const float d = g * s.grad_scale, old = cs_round_widen(*exp_avg);
    const float m = old + s.take1 * (d - old);
    const float v = cs_round_widen(*exp_avg_sq) * s.beta2 + s.take2 * d * d;
    const float denom = sqrtf(v) * (1.0f / s.root_bc2) + s.eps;
    const float p = cs_round_widen(*w) * s.keep - s.size * m / denom;
    *w = cs_round_stochastic(p, random >> CS_ROUND_WEIGHT);
    *exp_avg = cs_round_stochastic(m, random >> CS_ROUND_AVG);
    *exp_avg_sq = cs_round_stochastic(v, random >> CS_ROUND_AVG_SQ);
}

void cs_cpu_adamw_bf16_many(struct cs_ctx *ctx, int32_t n_tensors,
                            const struct cs_adamw_bf16_tensor *tensor, const struct cs_adamw *hyper)
{
    (void)ctx;
    for (int32_t t = 0; t < n_tensors; t++) {
        const struct cs_adamw_bf16_tensor *at = &tensor[t];
        const struct step s = step_of(hyper, at->weight_decay);
        const uint16_t *grad = at->grad;
        uint16_t *w = at->w, *exp_avg = at->exp_avg, *exp_avg_sq = at->exp_avg_sq;
        for (int64_t i = 0; i < at->n; i++)
            one_bf16(s, cs_round_widen(grad[i]),
                     cs_round_element(at->key, (uint64_t)(at->first + i)), &w[i], &exp_avg[i],
                     &exp_avg_sq[i]);
    }
}
