/* Attention and its gradient: per document, per block of query rows (counted from the start
 * of the document), per head, with small GEMMs over the keys that the block can see
 * (attention_blocks.h).
 *
 *     z = cap(scale q k^T), P = exp(z - lse), o = P v                       (softmax in fp32)
 *     dS = P (dO v^T - D) cap'(z), D = rowsum(dO o), dq = scale dS k, dk = scale dS^T q, dv = P^T
 * dO
 *
 * (the recomputing form of FlashAttention-2). A sink is one score more in the sum of lse:
 * d sink = - sum over rows of exp(sink - lse) D. All sums run in a fixed order: blocks ascending,
 * then the query heads of a kv head ascending. Nothing depends on where the document lies in its
 * slot, so a document alone and a packed one give the same bits. Keys that no row of a block sees
 * are not touched where they lie outside of the block's key range. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/attention_blocks.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/softmax_rows.h"

struct scratch {
    float *z, *p, *dp; /* (CS_QUERY_BLOCK, longest span of keys) each; p, dp: backward only */
    uint8_t *allow;
    int32_t *like; /* (longest span) of attention_blocks.h */
};

size_t cs_cpu_attention_workspace(const struct cs_attention_shape *shape,
                                  const struct cs_mask_plan *mask)
{
    (void)shape;
    const size_t area = (size_t)CS_QUERY_BLOCK * (size_t)cs_query_span_longest(mask);
    return 3 * cs_carve_bound(area * sizeof(float)) + cs_carve_bound(area) +
           cs_carve_bound((size_t)cs_query_span_longest(mask) * sizeof(int32_t));
}

static struct scratch take_scratch(const struct cs_ctx *ctx, const struct cs_mask_plan *mask)
{
    const size_t area = (size_t)CS_QUERY_BLOCK * (size_t)cs_query_span_longest(mask);
    struct cs_carve carve = cs_carve_begin(ctx);
    struct scratch s;
    s.z = cs_carve_take(&carve, area * sizeof(float));
    s.p = cs_carve_take(&carve, area * sizeof(float));
    s.dp = cs_carve_take(&carve, area * sizeof(float));
    s.allow = cs_carve_take(&carve, area);
    s.like = cs_carve_take(&carve, (size_t)cs_query_span_longest(mask) * sizeof *s.like);
    return s;
}

/* Put value where row i of the block may not look; x is the row's part of a (rows, keys) matrix. */
static void mask_row(const struct cs_query_block *b, int32_t i, float value, float *x)
{
    if (b->mask == CS_SEGMENT_CAUSAL)
        for (int32_t j = i + 1 - b->run[0].k0; j < b->n; j++)
            x[j] = value;
    if (b->mask == CS_SEGMENT_RULE)
        cs_rows_select(b->n, b->allow + (int64_t)(i - b->q0) * b->allow_stride, value, x);
}

/* out (rows, keys) = scale q k^T; q: the first row of the block, k: of all keys */
static void by_keys(const struct cs_attention_shape *s, const struct cs_query_block *b, float scale,
                    const float *q, int64_t q_stride, const float *k, float *out)
{
    for (int32_t r = 0; r < b->n_runs; r++)
        cs_cpu_sgemm(0, 1, b->q1 - b->q0, b->run[r].n, s->head_dim, scale, q, q_stride,
                     k + (int64_t)b->run[r].k0 * s->kv_stride, s->kv_stride, 0.0f,
                     out + b->run[r].at, b->n);
}

/* out (rows, head_dim) = scale x (rows, keys) k; no keys: zeros */
static void over_keys(const struct cs_attention_shape *s, const struct cs_query_block *b,
                      float scale, const float *x, const float *k, float *out, int64_t out_stride)
{
    const int64_t m = b->q1 - b->q0;
    for (int64_t i = 0; b->n_runs == 0 && i < m; i++)
        memset(out + i * out_stride, 0, (size_t)s->head_dim * sizeof *out);
    for (int32_t r = 0; r < b->n_runs; r++)
        cs_cpu_sgemm(0, 0, m, s->head_dim, b->run[r].n, scale, x + b->run[r].at, b->n,
                     k + (int64_t)b->run[r].k0 * s->kv_stride, s->kv_stride, r > 0 ? 1.0f : 0.0f,
                     out, out_stride);
}

/* keys += scale x^T rows, x (rows, keys) */
static void to_keys(const struct cs_attention_shape *s, const struct cs_query_block *b, float scale,
                    const float *x, const float *rows, int64_t row_stride, float *keys)
{
    for (int32_t r = 0; r < b->n_runs; r++)
        cs_cpu_sgemm(1, 0, b->run[r].n, s->head_dim, b->q1 - b->q0, scale, x + b->run[r].at, b->n,
                     rows, row_stride, 1.0f, keys + (int64_t)b->run[r].k0 * s->kv_stride,
                     s->kv_stride);
}

/* z (rows, keys) = cap(scale q k^T) */
static void scores(const struct cs_attention_shape *s, const struct cs_query_block *b,
                   const float *q, const float *k, float *z)
{
    by_keys(s, b, s->scale, q + (int64_t)b->q0 * s->q_stride, s->q_stride, k, z);
    if (s->softcap != 0.0f)
        cs_rows_cap((int64_t)(b->q1 - b->q0) * b->n, s->softcap, z);
}

static float sink_of(const struct cs_attention_shape *s, int32_t head)
{
    return s->sink != NULL ? s->sink[head] : -INFINITY;
}

/* z (n), masked, to exp(z - max); sink: one more score. Returns their sum. */
static float soften(int64_t n, bool sees, float sink, float *z, float *lse)
{
    const bool has_sink = sink != -INFINITY;
    float max = sees ? cs_rows_max(n, z) : 0.0f;
    if (has_sink && !(sees && max > sink)) /* also: the sink is no number */
        max = sink;
    const float sum = cs_rows_exp(n, max, z) + (has_sink ? expf(sink - max) : 0.0f);
    *lse = sees || has_sink ? max + logf(sum) : -INFINITY;
    return sum;
}

static void forward_head(const struct cs_attention_shape *s, const struct cs_query_block *b,
                         float sink, const float *q, const float *k, const float *v, float *o,
                         float *lse, float *z)
{
    const int64_t m = b->q1 - b->q0, n = b->n;
    float inv_sum[CS_QUERY_BLOCK];
    scores(s, b, q, k, z);
    for (int64_t r = 0; r < m; r++) {
        mask_row(b, b->q0 + (int32_t)r, -INFINITY, z + r * n);
        inv_sum[r] = 1.0f / soften(n, b->sees[r] != 0, sink, z + r * n, &lse[b->q0 + r]);
    }
    float *out = o + (int64_t)b->q0 * s->o_stride;
    over_keys(s, b, 1.0f, z, v, out, s->o_stride);
    for (int64_t r = 0; r < m; r++) {
        if (b->sees[r])
            cs_rows_scale(s->head_dim, inv_sum[r], out + r * s->o_stride);
        else
            memset(out + r * s->o_stride, 0, (size_t)s->head_dim * sizeof(float));
    }
}

static int32_t key_rows(const struct cs_attention_shape *shape)
{
    return shape->k_tokens > 0 ? shape->k_tokens : shape->tokens;
}

static void check_plan(const struct cs_attention_shape *shape, const struct cs_mask_plan *mask)
{
    CS_ASSERT(mask->n_tokens == shape->tokens);
    CS_ASSERT(cs_mask_keys(mask)->n_tokens == key_rows(shape));
    CS_ASSERT(mask->keys != NULL || (mask->n_segments > 0 && mask->segment[0] == 0 &&
                                     mask->segment[mask->n_segments] == shape->tokens));
    CS_ASSERT(shape->kv_heads > 0 && shape->heads % shape->kv_heads == 0);
    CS_ASSERT(shape->dsink == NULL || shape->sink != NULL);
}

void cs_cpu_attention(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                      const struct cs_mask_plan *mask, const void *q, const void *k, const void *v,
                      void *o, float *lse)
{
    if (shape->tokens <= 0 || shape->heads <= 0)
        return;
    check_plan(shape, mask);
    const struct scratch tmp = take_scratch(ctx, mask);
    const int32_t d = shape->head_dim, group = shape->heads / shape->kv_heads;
    const bool in_order = cs_query_spans_in_order(mask);
    struct cs_query_span span = {.q1 = 0};
    while (cs_query_span_next(mask, in_order, tmp.like, &span)) {
        for (int32_t q0 = span.q0; q0 < span.q1; q0 += CS_QUERY_BLOCK) {
            const struct cs_query_block b = cs_query_block(mask, &span, q0, tmp.like, tmp.allow);
            for (int32_t h = 0; h < shape->heads; h++) {
                const int64_t kv = (int64_t)(h / group) * d, qo = (int64_t)h * d;
                forward_head(shape, &b, sink_of(shape, h), (const float *)q + qo,
                             (const float *)k + kv, (const float *)v + kv, (float *)o + qo,
                             lse + (int64_t)h * shape->tokens, tmp.z);
            }
        }
    }
}

/* Pointers of one head: its first column in row 0 of every matrix. */
struct grad_head {
    const float *q, *k, *v, *o, *d_o, *lse;
    float *dq, *dk, *dv;
};

/* What the rows of the block give to d sink: all of them, whether they see keys here or not. */
static float sink_grad(const struct cs_attention_shape *s, const struct cs_query_block *b,
                       const struct grad_head *h, float sink)
{
    double sum = 0.0;
    for (int64_t row = b->q0; row < b->q1 && sink != -INFINITY; row++) {
        const int64_t at = row * s->o_stride;
        sum += (double)expf(sink - h->lse[row]) *
               (double)cs_rows_dot(s->head_dim, h->d_o + at, h->o + at);
    }
    return -(float)sum;
}

/* p = exp(z - lse) where allowed; dp (on entry dO v^T) becomes dS */
static void backward_rows(const struct cs_attention_shape *s, const struct cs_query_block *b,
                          const struct grad_head *h, const struct scratch *tmp)
{
    const int64_t m = b->q1 - b->q0, n = b->n;
    const float inv_cap = s->softcap != 0.0f ? 1.0f / s->softcap : 0.0f;
    for (int64_t r = 0; r < m; r++) {
        float *p = tmp->p + r * n, *ds = tmp->dp + r * n;
        if (!b->sees[r]) {
            memset(p, 0, (size_t)n * sizeof *p);
            memset(ds, 0, (size_t)n * sizeof *ds);
            continue;
        }
        const int64_t row = (b->q0 + r) * (int64_t)s->o_stride;
        cs_rows_prob(n, h->lse[b->q0 + r], tmp->z + r * n, p);
        mask_row(b, b->q0 + (int32_t)r, 0.0f, p);
        cs_rows_score_grad(n, cs_rows_dot(s->head_dim, h->d_o + row, h->o + row), inv_cap,
                           tmp->z + r * n, p, ds);
    }
}

static void backward_head(const struct cs_attention_shape *s, const struct cs_query_block *b,
                          const struct grad_head *h, const struct scratch *tmp)
{
    const int64_t at_q = (int64_t)b->q0 * s->q_stride;
    const float *d_o = h->d_o + (int64_t)b->q0 * s->o_stride;
    scores(s, b, h->q, h->k, tmp->z);
    by_keys(s, b, 1.0f, d_o, s->o_stride, h->v, tmp->dp);
    backward_rows(s, b, h, tmp);
    to_keys(s, b, 1.0f, tmp->p, d_o, s->o_stride, h->dv);
    over_keys(s, b, s->scale, tmp->dp, h->k, h->dq + at_q, s->q_stride);
    to_keys(s, b, s->scale, tmp->dp, h->q + at_q, s->q_stride, h->dk);
}

static void zero_heads(const struct cs_attention_shape *s, float *dk, float *dv)
{
    const size_t bytes = (size_t)s->kv_heads * (size_t)s->head_dim * sizeof(float);
    for (int64_t i = 0; i < key_rows(s); i++) {
        memset(dk + i * s->kv_stride, 0, bytes);
        memset(dv + i * s->kv_stride, 0, bytes);
    }
}

void cs_cpu_attention_grad(struct cs_ctx *ctx, const struct cs_attention_shape *shape,
                           const struct cs_mask_plan *mask, const void *q, const void *k,
                           const void *v, const void *o, const float *lse, const void *d_o,
                           void *dq, void *dk, void *dv)
{
    if (shape->tokens <= 0 || shape->heads <= 0)
        return;
    check_plan(shape, mask);
    const struct scratch tmp = take_scratch(ctx, mask);
    const int32_t d = shape->head_dim, group = shape->heads / shape->kv_heads;
    const bool in_order = cs_query_spans_in_order(mask);
    zero_heads(shape, dk, dv);
    struct cs_query_span span = {.q1 = 0};
    while (cs_query_span_next(mask, in_order, tmp.like, &span)) {
        for (int32_t q0 = span.q0; q0 < span.q1; q0 += CS_QUERY_BLOCK) {
            const struct cs_query_block b = cs_query_block(mask, &span, q0, tmp.like, tmp.allow);
            for (int32_t h = 0; h < shape->heads; h++) {
                const int64_t kv = (int64_t)(h / group) * d, qo = (int64_t)h * d;
                const struct grad_head head = {
                    .q = (const float *)q + qo,
                    .k = (const float *)k + kv,
                    .v = (const float *)v + kv,
                    .o = (const float *)o + qo,
                    .d_o = (const float *)d_o + qo,
                    .lse = lse + (int64_t)h * shape->tokens,
                    .dq = (float *)dq + qo,
                    .dk = (float *)dk + kv,
                    .dv = (float *)dv + kv,
                };
                backward_head(shape, &b, &head, &tmp);
                if (shape->dsink != NULL)
                    shape->dsink[h] += sink_grad(shape, &b, &head, sink_of(shape, h));
            }
        }
    }
}
