/* One pre-norm transformer block: x2 = x + mixer(norm1 x), y = x2 + ffn(norm2 x2). What the halves
 * are says the layer (halves.h). What is around them looks at rows one by one: `own` are those that are
 * here (worker/layer/sequence.h). Some families have a norm behind each half, before the sum, and
 * multiply the whole with a number: y = s (x2 + post2 ffn(norm2 x2)).
 *
 * What leaves the last block nobody but the head reads, and of rows with a label only. Its ffn, which looks
 * at every row by itself, is made of these alone: of y other rows are left as they were, and the gradient of
 * their x2 is 0. */
#include "worker/layer/sequence.h"
#include "worker/layer/spread.h"
#include "worker/model/halves/context.h"
#include "worker/model/halves/halves.h"

static const struct cs_half_ops *mixer_of(const struct cs_layer_model *l)
{
    static const struct cs_half_ops *const mixers[CS_MIXERS] = {
        [CS_MIXER_ATTENTION] = &cs_mixer_attention, [CS_MIXER_DELTA] = &cs_mixer_delta};
    return mixers[l->layer->mixer];
}

static const struct cs_half_ops *ffn_of(const struct cs_layer_model *l)
{
    static const struct cs_half_ops *const ffns[CS_FFNS] = {
        [CS_FFN_DENSE] = &cs_ffn_dense, [CS_FFN_EXPERTS] = &cs_ffn_experts};
    return ffns[l->layer->ffn];
}

/* Inputs of products are read again by weight gradients only, and are cheap to make again. */
static void forget_normed(struct cs_run *run, const struct cs_layer_model *l, struct cs_kept *kept)
{
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_H1))
        kept->h1 = kept->h2 = NULL; /* they were scratch */
}

/* What a half makes passes a norm, or is scaled by columns, before it is added. */
struct behind {
    enum cs_param_role norm, scale;
};

static const struct behind mixer_behind = {CS_PARAM_POST1_W, CS_PARAM_SCALE1},
                           ffn_behind = {CS_PARAM_POST2_W, CS_PARAM_SCALE2};

static bool has_behind(const struct cs_layer_model *l)
{
    return l->arch->has_post_norms || l->arch->has_layer_scale;
}

/* y (NULL: not wanted) = x + norm(made), or + made times a vector */
static void add_behind(struct cs_run *run, const struct cs_layer_model *l, int64_t own,
                       const struct behind *behind, const void *made, float *stat, const void *x,
                       void *y)
{
    const int64_t n = own * l->arch->width;
    if (l->arch->has_layer_scale) {
        if (y != NULL)
            run->ops->scale_columns(run->ctx, own, l->arch->width, made,
                                    cs_weight(l, behind->scale)->w, 1, x, y);
        return;
    }
    void *normed = cs_run_take(run, n);
    cs_run_norm(run, l->arch, own, made, cs_weight(l, behind->norm), NULL, normed, stat);
    if (y != NULL)
        run->ops->add(run->ctx, n, x, normed, y);
}

/* The rows that the ffn looks at: n of the own ones; at NULL: all. */
struct ffn_rows {
    int64_t n;
    const int32_t *at; /* (n) on the device */
};

/* The same on all ranks that share the matrices, whatever part of them each has. */
static bool looks_at_labels(const struct cs_run *run, const struct cs_layer_model *l, int64_t rows)
{
    if (!l->picks_labels || run->splits_rows)
        return false;
    const int64_t ffn = cs_weight(l, CS_PARAM_DOWN_W)->whole->dim[1];
    return cs_layer_picks(l->arch, ffn / (run->tensors != NULL ? run->tensors->n : 1), rows,
                          run->input->n_picked);
}

static struct ffn_rows ffn_rows(const struct cs_run *run, const struct cs_layer_model *l,
                                int64_t rows)
{
    const struct cs_input *in = run->input;
    return looks_at_labels(run, l, rows) ? (struct ffn_rows){in->n_picked, in->at.picked}
                                         : (struct ffn_rows){cs_sequence_rows(run, rows), NULL};
}

/* x2 (own rows, width): the sum */
static void mix(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, const void *x,
                void *x2, struct cs_kept *kept)
{
    const bool has_post = has_behind(l);
    const int64_t own = cs_sequence_rows(run, rows);
    kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, own);
    kept->h1 = cs_run_keep(run, l, CS_KEEP_H1, own);
    cs_run_norm(run, l->arch, own, x, cs_weight(l, CS_PARAM_NORM1_W),
                cs_weight(l, CS_PARAM_NORM1_B), kept->h1, kept->stat1);
    if (has_post) {
        kept->m1 = cs_run_keep(run, l, CS_KEEP_M1, own);
        kept->stat_m1 = l->arch->has_layer_scale ? NULL : cs_run_keep(run, l, CS_KEEP_STAT_M1, own);
    }
    mixer_of(l)->fwd(run, l, rows, kept->h1, has_post ? NULL : x, has_post ? kept->m1 : x2, kept);
    if (has_post)
        add_behind(run, l, own, &mixer_behind, kept->m1, kept->stat_m1, x, x2);
}

/* The number that the whole block is multiplied with, NULL: none. */
static const struct cs_shard *scalar_of(const struct cs_layer_model *l)
{
    return cs_weight(l, CS_PARAM_LAYER_SCALAR);
}

/* rows: of the layer, or as many as are picked; own of them are here, as x2 and y are */
static void feed_forward(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                         int64_t own, void *y, struct cs_kept *kept)
{
    const bool has_post = has_behind(l);
    kept->stat2 = cs_run_keep(run, l, CS_KEEP_STAT2, own);
    kept->h2 = cs_run_keep(run, l, CS_KEEP_H2, own);
    cs_run_norm(run, l->arch, own, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                cs_weight(l, CS_PARAM_NORM2_B), kept->h2, kept->stat2);
    if (has_post) {
        kept->m2 = cs_run_keep(run, l, CS_KEEP_M2, own);
        kept->stat_m2 = l->arch->has_layer_scale ? NULL : cs_run_keep(run, l, CS_KEEP_STAT_M2, own);
    }
    ffn_of(l)->fwd(run, l, rows, kept->h2, has_post ? NULL : kept->x2, has_post ? kept->m2 : y,
                   kept);
    if (has_post)
        add_behind(run, l, own, &ffn_behind, kept->m2, kept->stat_m2, kept->x2, y);
    if (scalar_of(l) != NULL && y != NULL)
        run->ops->scale_columns(run->ctx, own, l->arch->width, y, scalar_of(l)->w, 0, NULL, y);
}

/* The same of picked rows. */
static void feed_picked(struct cs_run *run, const struct cs_layer_model *l,
                        const struct ffn_rows *picked, const void *x2, void *y,
                        struct cs_kept *kept)
{
    const int64_t n = picked->n, width = l->arch->width;
    if (n == 0)
        return;
    kept->x2 = cs_run_keep(run, l, CS_KEEP_X2, n);
    kept->d_ffn = run->keep != NULL ? cs_run_keep_acts(run, n * width) : NULL;
    run->ops->gather_rows(run->ctx, n, width, picked->at, x2, kept->x2);
    void *made = y != NULL ? cs_run_take(run, n * width) : NULL;
    feed_forward(run, l, n, n, made, kept);
    if (y != NULL)
        run->ops->scatter_rows(run->ctx, n, width, picked->at, made, y, 0);
}

static bool moves_heads(const struct cs_run *run, const struct cs_layer_model *l)
{
    return l->layer->mixer == CS_MIXER_ATTENTION && cs_context_moves_heads(run, l);
}

static void block_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0) { /* but heads and experts that are here may have rows of other ranks */
        if (moves_heads(run, l))
            cs_mixer_attention.fwd(run, l, 0, NULL, NULL, NULL, kept);
        if (cs_layer_is_spread(run, l))
            cs_ffn_experts.fwd(run, l, 0, NULL, NULL, y, kept);
        return;
    }
    const struct ffn_rows of_ffn = ffn_rows(run, l, rows);
    const int64_t own = cs_sequence_rows(run, rows);
    if (of_ffn.at == NULL) {
        kept->x2 = cs_run_keep(run, l, CS_KEEP_X2, own);
        mix(run, l, rows, x, kept->x2, kept);
        feed_forward(run, l, rows, own, y, kept);
    } else {
        void *x2 = cs_run_take(run, own * l->arch->width);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        mix(run, l, rows, x, x2, kept);
        if (!run->is_again) /* what the backward reads is not there */
            cs_scratch_rewind(run->scratch, mark);
        feed_picked(run, l, &of_ffn, x2, y, kept);
    }
    forget_normed(run, l, kept);
}

static bool has_grad(const struct cs_shard *t)
{
    return t != NULL && t->grad != NULL;
}

/* Gradients that weights of a half read, which may come later; where rows are split these read all of
 * them, put together. */
static void *hold(struct cs_run *run, int64_t n)
{
    return run->splits_rows ? cs_run_take(run, n) : cs_run_hold(run, n);
}

/* The gradient of what a half made, from that of the sum: the same, or through what is behind it. */
static const void *post_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t own,
                            const struct behind *behind, const void *made, const float *stat,
                            const void *dy)
{
    const int64_t width = l->arch->width;
    if (!has_behind(l))
        return dy;
    void *d = hold(run, own * width);
    if (!l->arch->has_layer_scale) {
        cs_run_norm_grad(run, l->arch, own, made, cs_weight(l, behind->norm), NULL, stat, dy, NULL,
                         d);
        return d;
    }
    const struct cs_shard *scale = cs_weight(l, behind->scale);
    struct cs_ctx ctx = cs_run_grad_ctx(run, own > 0 ? scale : NULL, NULL);
    if (scale->grad != NULL)
        run->ops->scale_columns_wgrad(&ctx, own, width, made, dy, scale->grad);
    run->ops->scale_columns(run->ctx, own, width, dy, scale->w, 1, NULL, d);
    return d;
}

static const void *scalar_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t own,
                              const void *dy)
{
    if (scalar_of(l) == NULL)
        return dy;
    CS_ASSERT(l->arch->has_post_norms); /* else dy would be held for the ffn's weights */
    void *d = cs_run_take(run, own * l->arch->width);
    run->ops->scale_columns(run->ctx, own, l->arch->width, dy, scalar_of(l)->w, 0, NULL, d);
    return d;
}

/* dx2 (own rows) from dy (own rows), with dh for as many; rows as in feed_forward */
static void ffn_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, int64_t own,
                    const void *dy, void *dh, void *dx2, const struct cs_kept *kept)
{
    dy = scalar_bwd(run, l, own, dy);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    const void *made = post_bwd(run, l, own, &ffn_behind, kept->m2, kept->stat_m2, dy);
    ffn_of(l)->bwd(run, l, rows, made, dh, kept);
    cs_scratch_rewind(run->scratch, mark);
    cs_run_norm_grad(run, l->arch, own, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                     cs_weight(l, CS_PARAM_NORM2_B), kept->stat2, dh, dy, dx2);
}

/* The same of picked rows: dy, dh and dx2 are of all own ones. */
static void picked_bwd(struct cs_run *run, const struct cs_layer_model *l,
                       const struct ffn_rows *picked, int64_t own, const void *dy, void *dh,
                       void *dx2, const struct cs_kept *kept)
{
    const int64_t n = picked->n, width = l->arch->width;
    cs_device_zero(run->device, dx2, (size_t)(own * width) * run->ops->act_bytes);
    if (n == 0)
        return;
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    void *d = kept->d_ffn != NULL ? kept->d_ffn : cs_run_hold(run, n * width);
    void *dx = cs_run_take(run, n * width);
    run->ops->gather_rows(run->ctx, n, width, picked->at, dy, d);
    ffn_bwd(run, l, n, n, d, dh, dx, kept);
    run->ops->scatter_rows(run->ctx, n, width, picked->at, dx, dx2, 0);
    cs_scratch_rewind(run->scratch, mark); /* what the weight half reads is kept, or held */
}

static void block_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0) {
        if (cs_layer_is_spread(run, l))
            cs_ffn_experts.bwd(run, l, 0, NULL, NULL, kept);
        if (moves_heads(run, l))
            cs_mixer_attention.bwd(run, l, 0, NULL, NULL, kept);
        return;
    }
    const int64_t own = cs_sequence_rows(run, rows), n = own * l->arch->width;
    const struct cs_shard *norm1_w = cs_weight(l, CS_PARAM_NORM1_W),
                          *norm1_b = cs_weight(l, CS_PARAM_NORM1_B);
    const bool is_needed = dx != NULL || has_grad(norm1_w) || has_grad(norm1_b);
    void *dh = cs_run_take(run, n);
    void *dx2 = has_behind(l) ? cs_run_take(run, n) : hold(run, n);
    const struct ffn_rows of_ffn = ffn_rows(run, l, rows);
    if (of_ffn.at == NULL)
        ffn_bwd(run, l, rows, own, dy, dh, dx2, kept);
    else
        picked_bwd(run, l, &of_ffn, own, dy, dh, dx2, kept);
    const void *made = post_bwd(run, l, own, &mixer_behind, kept->m1, kept->stat_m1, dx2);
    mixer_of(l)->bwd(run, l, rows, made, is_needed ? dh : NULL, kept);
    if (!is_needed)
        return;
    if (dx == NULL)
        dx = cs_run_take(run, n);
    cs_run_norm_grad(run, l->arch, own, kept->x, norm1_w, norm1_b, kept->stat1, dh, dx2, dx);
}

const struct cs_layer_ops cs_layer_block = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = block_fwd, .bwd = block_bwd};
