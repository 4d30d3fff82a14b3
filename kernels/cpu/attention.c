/* Attention and its gradient: per document, per block of Q_BLOCK query rows (counted from the start
 * of the document), per head, with small GEMMs over the keys that the block can see. Where keys are others
 * than the queries, or documents do not ascend, a document is every run of its rows, and its keys lie in
 * as many runs: right in any order, and as fast where runs are long.
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

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/softmax_rows.h"

#define Q_BLOCK   64
#define MOST_RUNS 8 /* of keys; more are taken as one, with what lies between them */

enum segment_mask {
    SEGMENT_FULL,   /* every row sees every row */
    SEGMENT_CAUSAL, /* row i sees the rows up to i */
    SEGMENT_RULE,   /* ask cs_mask_allows for every pair */
};

/* Keys that follow each other. */
struct run {
    int32_t k0, n; /* absolute row */
    int32_t at;    /* column of matrices of a block; of a span its keys follow each other */
};

/* One block of query rows with the runs of keys that it sees; rows are absolute. */
struct block {
    enum segment_mask mask;
    int32_t q0, q1;
    struct run run[MOST_RUNS];
    int32_t n_runs, n;    /* keys of all of them: the columns */
    const uint8_t *allow; /* SEGMENT_RULE: (q1 - q0, n), rows allow_stride apart */
    int32_t allow_stride;
    uint8_t sees[Q_BLOCK]; /* does the row see anything */
};

struct scratch {
    float *z, *p, *dp; /* (Q_BLOCK, longest span of keys) each; p, dp: backward only */
    uint8_t *allow;
};

/* Rows of queries and the keys that they can see at most. */
struct span {
    int32_t q0, q1;
    struct run run[MOST_RUNS];
    int32_t n_runs, n;
    enum segment_mask mask;
    int32_t next; /* segment */
};

static const struct cs_mask_plan *keys_of(const struct cs_mask_plan *mask)
{
    return mask->keys != NULL ? mask->keys : mask;
}

/* Is every document one segment, and does it hold all that its rows can see? */
static bool is_in_order(const struct cs_mask_plan *mask)
{
    for (int32_t s = 1; s < mask->n_segments; s++)
        if (mask->doc[mask->segment[s]] <= mask->doc[mask->segment[s - 1]])
            return false;
    return mask->keys == NULL;
}

static int32_t longest_span(const struct cs_mask_plan *mask)
{
    int32_t longest = 0;
    if (!is_in_order(mask))
        return keys_of(mask)->n_tokens;
    for (int32_t s = 0; s < mask->n_segments; s++) {
        const int32_t n = mask->segment[s + 1] - mask->segment[s];
        longest = n > longest ? n : longest;
    }
    return longest;
}

size_t cs_cpu_attention_workspace(const struct cs_attention_shape *shape,
                                  const struct cs_mask_plan *mask)
{
    (void)shape;
    const size_t area = (size_t)Q_BLOCK * (size_t)longest_span(mask);
    return 3 * cs_carve_bound(area * sizeof(float)) + cs_carve_bound(area);
}

static struct scratch take_scratch(const struct cs_ctx *ctx, const struct cs_mask_plan *mask)
{
    const size_t area = (size_t)Q_BLOCK * (size_t)longest_span(mask);
    struct cs_carve carve = cs_carve_begin(ctx);
    struct scratch s;
    s.z = cs_carve_take(&carve, area * sizeof(float));
    s.p = cs_carve_take(&carve, area * sizeof(float));
    s.dp = cs_carve_take(&carve, area * sizeof(float));
    s.allow = cs_carve_take(&carve, area);
    return s;
}

/* The cheap masks are found from the tokens of this segment alone, never from its neighbours. They
 * give the same bits as SEGMENT_RULE: same key range, same zeros. */
static enum segment_mask classify(const struct cs_mask_plan *plan, int32_t begin, int32_t end)
{
    bool is_ascending = true, has_item = false;
    for (int32_t i = begin; i < end; i++) {
        if (plan->word != NULL && plan->word[i] == 0)
            return SEGMENT_RULE;
        if (i > begin && plan->doc[i] != plan->doc[begin])
            return SEGMENT_RULE;
        is_ascending = is_ascending && (i == begin || plan->pos[i] > plan->pos[i - 1]);
        has_item = has_item || (plan->item != NULL && plan->item[i] >= 0);
    }
    if (plan->rule.kind == CS_MASK_FULL)
        return SEGMENT_FULL;
    const bool is_causal =
        plan->rule.kind == CS_MASK_CAUSAL || (plan->rule.kind == CS_MASK_IMAGE_BIDIR && !has_item);
    return is_causal && is_ascending ? SEGMENT_CAUSAL : SEGMENT_RULE;
}

/* Of a row, for the keys of a run; widens seen to those that it sees. Returns whether it sees any. */
static bool evaluate_row(const struct cs_mask_plan *plan, struct cs_mask_token q,
                         const struct run *run, struct run *seen, uint8_t *row)
{
    const struct cs_mask_plan *keys = keys_of(plan);
    int32_t first = run->n, last = -1;
    for (int32_t j = 0; j < run->n; j++) {
        const int32_t k = run->k0 + j;
        row[j] = keys->doc[k] == q.doc && cs_mask_allows(plan->rule, q, cs_mask_token_at(keys, k));
        if (row[j]) {
            first = first < j ? first : j;
            last = j;
        }
    }
    if (last < 0)
        return false;
    const int32_t end = seen->k0 + seen->n, begin = run->k0 + first;
    const bool is_first = seen->n == 0;
    seen->k0 = is_first || begin < seen->k0 ? begin : seen->k0;
    seen->n = (is_first || run->k0 + last + 1 > end ? run->k0 + last + 1 : end) - seen->k0;
    return true;
}

/* Columns of a row of allow, as they are of the span, closed up to those of the block. */
static void close_up(const struct span *span, const struct run *seen, uint8_t *row)
{
    int32_t at = 0;
    for (int32_t r = 0; r < span->n_runs; r++) {
        memmove(row + at, row + span->run[r].at + seen[r].k0 - span->run[r].k0, (size_t)seen[r].n);
        at += seen[r].n;
    }
}

/* Evaluate the rule for all pairs of the block; narrows the runs to what is seen. */
static void evaluate_rule(const struct cs_mask_plan *plan, const struct span *span, struct block *b,
                          uint8_t *allow)
{
    struct run seen[MOST_RUNS];
    for (int32_t r = 0; r < span->n_runs; r++)
        seen[r] = (struct run){.k0 = span->run[r].k0};
    for (int32_t i = b->q0; i < b->q1; i++) {
        const struct cs_mask_token q = cs_mask_token_at(plan, i);
        bool sees = false;
        for (int32_t r = 0; r < span->n_runs; r++)
            sees |= evaluate_row(plan, q, &span->run[r], &seen[r],
                                 allow + (int64_t)(i - b->q0) * span->n + span->run[r].at);
        b->sees[i - b->q0] = sees;
    }
    for (int32_t i = b->q0; i < b->q1; i++)
        close_up(span, seen, allow + (int64_t)(i - b->q0) * span->n);
    b->allow = allow;
    b->allow_stride = span->n;
    b->n_runs = b->n = 0;
    for (int32_t r = 0; r < span->n_runs; r++) {
        if (seen[r].n == 0)
            continue;
        b->run[b->n_runs++] = (struct run){seen[r].k0, seen[r].n, b->n};
        b->n += seen[r].n;
    }
}

/* runs of keys of a document */
static void find_keys(const struct cs_mask_plan *keys, int32_t doc, struct span *span)
{
    for (int32_t k = 0; k < keys->n_tokens; k++) {
        struct run *last = &span->run[span->n_runs > 0 ? span->n_runs - 1 : 0];
        if (keys->doc[k] != doc)
            continue;
        if (span->n_runs > 0 && (last->k0 + last->n == k || span->n_runs == MOST_RUNS))
            last->n = k + 1 - last->k0;
        else
            span->run[span->n_runs++] = (struct run){.k0 = k, .n = 1};
    }
    for (int32_t r = 0; r < span->n_runs; r++) {
        span->run[r].at = span->n;
        span->n += span->run[r].n;
    }
}

/* The rows from q0 on that are of one document, with its keys. */
static struct span run_at(const struct cs_mask_plan *plan, int32_t q0)
{
    struct span span = {.q0 = q0, .q1 = q0 + 1, .mask = SEGMENT_RULE};
    while (span.q1 < plan->n_tokens && plan->doc[span.q1] == plan->doc[q0])
        span.q1++;
    find_keys(keys_of(plan), plan->doc[q0], &span);
    return span;
}

static struct span segment_at(const struct cs_mask_plan *plan, int32_t i)
{
    const int32_t begin = plan->segment[i], end = plan->segment[i + 1], n = end - begin;
    return (struct span){
        .q0 = begin,
        .q1 = end,
        .run = {{begin, n, 0}},
        .n_runs = 1,
        .n = n,
        .mask = classify(plan, begin, end),
    };
}

/* The rows behind those of the span; false: there are none. */
static bool next(const struct cs_mask_plan *plan, bool in_order, struct span *span)
{
    const int32_t i = span->next;
    if (in_order ? i == plan->n_segments : span->q1 == plan->n_tokens)
        return false;
    *span = in_order ? segment_at(plan, i) : run_at(plan, span->q1);
    span->next = i + 1;
    return true;
}

static struct block make_block(const struct cs_mask_plan *plan, const struct span *span, int32_t q0,
                               uint8_t *allow)
{
    struct block b = {.mask = span->mask, .q0 = q0, .n_runs = span->n_runs, .n = span->n};
    b.q1 = span->q1 - q0 < Q_BLOCK ? span->q1 : q0 + Q_BLOCK;
    memcpy(b.run, span->run, sizeof b.run);
    memset(b.sees, 1, sizeof b.sees);
    if (span->mask == SEGMENT_CAUSAL)
        b.run[0].n = b.n = b.q1 - span->q0;
    if (span->mask == SEGMENT_RULE)
        evaluate_rule(plan, span, &b, allow);
    return b;
}

/* Put value where row i of the block may not look; x is the row's part of a (rows, keys) matrix. */
static void mask_row(const struct block *b, int32_t i, float value, float *x)
{
    if (b->mask == SEGMENT_CAUSAL)
        for (int32_t j = i + 1 - b->run[0].k0; j < b->n; j++)
            x[j] = value;
    if (b->mask == SEGMENT_RULE)
        cs_rows_select(b->n, b->allow + (int64_t)(i - b->q0) * b->allow_stride, value, x);
}

/* out (rows, keys) = scale q k^T; q: the first row of the block, k: of all keys */
static void by_keys(const struct cs_attention_shape *s, const struct block *b, float scale,
                    const float *q, int64_t q_stride, const float *k, float *out)
{
    for (int32_t r = 0; r < b->n_runs; r++)
        cs_cpu_sgemm(0, 1, b->q1 - b->q0, b->run[r].n, s->head_dim, scale, q, q_stride,
                     k + (int64_t)b->run[r].k0 * s->kv_stride, s->kv_stride, 0.0f,
                     out + b->run[r].at, b->n);
}

/* out (rows, head_dim) = scale x (rows, keys) k; no keys: zeros */
static void over_keys(const struct cs_attention_shape *s, const struct block *b, float scale,
                      const float *x, const float *k, float *out, int64_t out_stride)
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
static void to_keys(const struct cs_attention_shape *s, const struct block *b, float scale,
                    const float *x, const float *rows, int64_t row_stride, float *keys)
{
    for (int32_t r = 0; r < b->n_runs; r++)
        cs_cpu_sgemm(1, 0, b->run[r].n, s->head_dim, b->q1 - b->q0, scale, x + b->run[r].at, b->n,
                     rows, row_stride, 1.0f, keys + (int64_t)b->run[r].k0 * s->kv_stride,
                     s->kv_stride);
}

/* z (rows, keys) = cap(scale q k^T) */
static void scores(const struct cs_attention_shape *s, const struct block *b, const float *q,
                   const float *k, float *z)
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

static void forward_head(const struct cs_attention_shape *s, const struct block *b, float sink,
                         const float *q, const float *k, const float *v, float *o, float *lse,
                         float *z)
{
    const int64_t m = b->q1 - b->q0, n = b->n;
    float inv_sum[Q_BLOCK];
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
    CS_ASSERT(keys_of(mask)->n_tokens == key_rows(shape));
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
    const bool in_order = is_in_order(mask);
    struct span span = {.q1 = 0};
    while (next(mask, in_order, &span)) {
        for (int32_t q0 = span.q0; q0 < span.q1; q0 += Q_BLOCK) {
            const struct block b = make_block(mask, &span, q0, tmp.allow);
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
static float sink_grad(const struct cs_attention_shape *s, const struct block *b,
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
static void backward_rows(const struct cs_attention_shape *s, const struct block *b,
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

static void backward_head(const struct cs_attention_shape *s, const struct block *b,
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
    const bool in_order = is_in_order(mask);
    zero_heads(shape, dk, dv);
    struct span span = {.q1 = 0};
    while (next(mask, in_order, &span)) {
        for (int32_t q0 = span.q0; q0 < span.q1; q0 += Q_BLOCK) {
            const struct block b = make_block(mask, &span, q0, tmp.allow);
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
