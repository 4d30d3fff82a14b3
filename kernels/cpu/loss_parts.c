/* Cross-entropy over logits of which several ranks have some columns each: what a part says of its rows,
 * the loss from what all parts say, and the gradient of a part's logits. */
#include <math.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/softmax_rows.h"

void cs_cpu_xent_part(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                      float softcap, void *z, float *stat)
{
    (void)ctx;
    for (int64_t r = 0; r < rows; r++) {
        float *row = (float *)z + r * words, *out = stat + r * CS_XENT_STATS;
        const int32_t label = labels[r];
        CS_ASSERT(label < words);
        if (softcap != 0.0f)
            cs_rows_cap(words, softcap, row);
        out[CS_XENT_MAX] = cs_rows_max(words, row); /* NaN come back through the sum */
        out[CS_XENT_SUM] = cs_rows_exp_sum(words, out[CS_XENT_MAX], row);
        out[CS_XENT_LABEL] = label >= 0 ? row[label] : 0.0f;
        out[CS_XENT_IS_BEST] = label < 0 ? -1.0f : (float)cs_rows_is_best(words, row, label);
    }
}

/* what the parts say of one row, `step` apart */
struct parts {
    const float *stat;
    int64_t step;
    int32_t n;
};

static float part(const struct parts *p, int32_t i, int which)
{
    return p->stat[i * p->step + which];
}

/* the part that has the label */
static int32_t whose_label(const struct parts *p)
{
    for (int32_t i = 0; i < p->n; i++)
        if (part(p, i, CS_XENT_IS_BEST) >= 0.0f)
            return i;
    CS_ASSERT(false);
    return 0;
}

/* Words of other parts come before those of the label's, or after them: the first of the largest wins. */
static uint8_t is_correct(const struct parts *p, int32_t own, float sum)
{
    const float label = part(p, own, CS_XENT_LABEL);
    bool is_best = part(p, own, CS_XENT_IS_BEST) > 0.0f && !isnan(sum);
    for (int32_t i = 0; i < p->n; i++)
        is_best = is_best && (i < own    ? part(p, i, CS_XENT_MAX) < label
                              : i == own ? true
                                         : part(p, i, CS_XENT_MAX) <= label);
    return is_best;
}

void cs_cpu_xent_join(struct cs_ctx *ctx, int64_t rows, int32_t parts, const float *stat,
                      double *loss, double *row_loss, uint8_t *correct, float *whole)
{
    (void)ctx;
    for (int64_t r = 0; r < rows; r++) {
        const struct parts p = {stat + r * CS_XENT_STATS, rows * CS_XENT_STATS, parts};
        const int32_t own = whose_label(&p);
        float max = -INFINITY, sum = 0.0f;
        for (int32_t i = 0; i < parts; i++)
            max = part(&p, i, CS_XENT_MAX) > max ? part(&p, i, CS_XENT_MAX) : max;
        for (int32_t i = 0; i < parts; i++)
            sum += part(&p, i, CS_XENT_SUM) * expf(part(&p, i, CS_XENT_MAX) - max);
        const double row = log((double)sum) + ((double)max - (double)part(&p, own, CS_XENT_LABEL));
        *loss += row;
        if (row_loss != NULL)
            row_loss[r] = row;
        if (correct != NULL)
            correct[r] = is_correct(&p, own, sum);
        whole[2 * r] = max;
        whole[2 * r + 1] = 1.0f / sum;
    }
}

void cs_cpu_xent_part_grad(struct cs_ctx *ctx, int64_t rows, int64_t words, const int32_t *labels,
                           float softcap, const float *whole, void *z)
{
    const float inv_cap = softcap != 0.0f ? 1.0f / softcap : 0.0f;
    (void)ctx;
    for (int64_t r = 0; r < rows; r++) {
        float *row = (float *)z + r * words;
        const int32_t label = labels[r];
        const float t = label >= 0 ? row[label] * inv_cap : 0.0f;
        cs_rows_loss_grad(words, whole[2 * r], whole[2 * r + 1], inv_cap, row);
        if (label >= 0)
            row[label] -= 1.0f - t * t;
    }
}
