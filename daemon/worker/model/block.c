/* One pre-norm transformer block: x2 = x + mixer(norm1 x), y = x2 + ffn(norm2 x2). What the halves
 * are says the layer (halves.h). */
#include "worker/model/halves.h"

static const struct cs_half_ops *mixer_of(const struct cs_layer_model *l)
{
    static const struct cs_half_ops *const mixers[CS_MIXERS] = {[CS_MIXER_ATTENTION] =
                                                                    &cs_mixer_attention};
    return mixers[l->layer->mixer];
}

static const struct cs_half_ops *ffn_of(const struct cs_layer_model *l)
{
    static const struct cs_half_ops *const ffns[CS_FFNS] = {[CS_FFN_DENSE] = &cs_ffn_dense};
    return ffns[l->layer->ffn];
}

/* Inputs of products are read again by weight gradients only, and are cheap to make again. */
static void forget_normed(struct cs_run *run, const struct cs_layer_model *l, struct cs_kept *kept)
{
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_H1))
        kept->h1 = kept->h2 = NULL; /* they were scratch */
}

static void block_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0)
        return;
    kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, rows);
    kept->h1 = cs_run_keep(run, l, CS_KEEP_H1, rows);
    kept->x2 = cs_run_keep(run, l, CS_KEEP_X2, rows);
    cs_run_norm(run, l->arch, rows, x, cs_weight(l, CS_PARAM_NORM1_W),
                cs_weight(l, CS_PARAM_NORM1_B), kept->h1, kept->stat1);
    mixer_of(l)->fwd(run, l, rows, kept->h1, x, kept->x2, kept);
    kept->stat2 = cs_run_keep(run, l, CS_KEEP_STAT2, rows);
    kept->h2 = cs_run_keep(run, l, CS_KEEP_H2, rows);
    cs_run_norm(run, l->arch, rows, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                cs_weight(l, CS_PARAM_NORM2_B), kept->h2, kept->stat2);
    ffn_of(l)->fwd(run, l, rows, kept->h2, kept->x2, y, kept);
    forget_normed(run, l, kept);
}

static bool has_grad(const struct cs_shard *t)
{
    return t != NULL && t->grad != NULL;
}

static void block_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)ends;
    if (rows == 0)
        return;
    const int64_t n = rows * l->arch->width;
    const struct cs_shard *norm1_w = cs_weight(l, CS_PARAM_NORM1_W),
                          *norm1_b = cs_weight(l, CS_PARAM_NORM1_B);
    const bool is_needed = dx != NULL || has_grad(norm1_w) || has_grad(norm1_b);
    void *dh = cs_run_take(run, n);
    void *dx2 = cs_run_hold(run, n);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    ffn_of(l)->bwd(run, l, rows, dy, dh, kept);
    cs_scratch_rewind(run->scratch, mark);
    cs_run_norm_grad(run, l->arch, rows, kept->x2, cs_weight(l, CS_PARAM_NORM2_W),
                     cs_weight(l, CS_PARAM_NORM2_B), kept->stat2, dh, dy, dx2);
    mixer_of(l)->bwd(run, l, rows, dx2, is_needed ? dh : NULL, kept);
    if (!is_needed)
        return;
    if (dx == NULL)
        dx = cs_run_take(run, n);
    cs_run_norm_grad(run, l->arch, rows, kept->x, norm1_w, norm1_b, kept->stat1, dh, dx2, dx);
}

const struct cs_layer_ops cs_layer_block = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = block_fwd, .bwd = block_bwd};
