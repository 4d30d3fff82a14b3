/* The layers at the ends of a module: embeddings, final norm, projector, head with the loss. */
#include "worker/model/layers.h"

/* ---- embedding ---- */

static const void *make_patches(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                                int64_t columns)
{
    const struct cs_input *in = run->input;
    const struct cs_arch *a = l->arch;
    const int32_t e = l->encoder;
    if (in->at.patches[e] != NULL)
        return in->at.patches[e];
    void *patches = cs_run_hold(run, rows * columns);
    run->ops->patches(run->ctx, in->n_items[e], a->image_size, a->image_size, a->channels,
                      a->patch_size, in->at.pixels[e], in->tables->enc[e].rescale, in->at.mean[e],
                      in->at.std[e], patches);
    return patches;
}

/* y = patches w^T + b + position of the row inside its item */
static void patch_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows, void *y)
{
    const struct cs_arch *a = l->arch;
    const int64_t columns = (int64_t)a->channels * a->patch_size * a->patch_size;
    const struct cs_tensor *pos = l->weight[CS_PARAM_POSITION];
    cs_run_linear(run, rows, columns, a->width, make_patches(run, l, rows, columns),
                  l->weight[CS_PARAM_PATCH_W], l->weight[CS_PARAM_PATCH_B], y);
    if (pos != NULL) /* one item is one long row */
        run->ops->bias_add(run->ctx, run->input->n_items[l->encoder], pos->param->count, y,
                           pos->param->count, pos->w);
}

static void patch_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const void *dy)
{
    const struct cs_arch *a = l->arch;
    const int64_t columns = (int64_t)a->channels * a->patch_size * a->patch_size;
    const struct cs_tensor *pos = l->weight[CS_PARAM_POSITION];
    /* made again from the pixels: they stay in the slot until the step ends */
    cs_run_linear_wgrad(run, rows, columns, a->width, dy, make_patches(run, l, rows, columns),
                        l->weight[CS_PARAM_PATCH_W], l->weight[CS_PARAM_PATCH_B]);
    struct cs_ctx ctx = cs_run_grad_ctx(run, pos, NULL);
    if (pos != NULL && pos->grad != NULL)
        run->ops->bias_grad(&ctx, run->input->n_items[l->encoder], pos->param->count, dy,
                            pos->param->count, pos->grad);
}

static void embed_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)x;
    (void)kept;
    if (rows == 0)
        return;
    if (l->encoder >= 0) {
        patch_fwd(run, l, rows, y);
        return;
    }
    const struct cs_input *in = run->input;
    run->ops->embed(run->ctx, rows, l->arch->width, in->at.embed_ids, l->weight[CS_PARAM_EMBED]->w,
                    l->arch->embed_scale, y);
    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        if (in->n_rows[e] > 0)
            run->ops->scatter_rows(run->ctx, in->n_rows[e], l->arch->width, in->at.fill[e],
                                   ends->fill[e], y, 0);
}

static void embed_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)dx;
    (void)kept;
    if (rows == 0)
        return;
    if (l->encoder >= 0) {
        patch_bwd(run, l, rows, dy);
        return;
    }
    const struct cs_input *in = run->input;
    const struct cs_tensor *table = l->weight[CS_PARAM_EMBED];
    if (cs_run_grad_ctx(run, table, NULL).is_grad_new) /* it adds to some rows */
        cs_device_zero(run->device, table->grad,
                       (size_t)table->param->count * (run->ctx->grad == CS_GRAD_BF16 ? 2 : 4));
    if (table->grad != NULL)
        run->ops->embed_grad(run->ctx, rows, l->arch->width, in->at.embed_ids, dy,
                             l->arch->embed_scale, table->grad);
    for (int e = 0; e < CS_MAX_ENCODERS; e++)
        if (in->n_rows[e] > 0 && ends->d_fill[e] != NULL)
            run->ops->gather_rows(run->ctx, in->n_rows[e], l->arch->width, in->at.fill[e], dy,
                                  ends->d_fill[e]);
}

const struct cs_layer_ops cs_layer_embed = {embed_fwd, embed_bwd, false, false};

/* ---- final norm of an encoder ---- */

static void norm_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *x, void *y, struct cs_kept *kept)
{
    (void)ends;
    kept->stat1 = cs_run_keep_f32(run, true, rows * 2);
    cs_run_norm(run, l->arch, rows, x, l->weight[CS_PARAM_NORM_W], l->weight[CS_PARAM_NORM_B], y,
                kept->stat1);
}

static void norm_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *dy, void *dx,
                     const struct cs_kept *kept)
{
    (void)ends;
    if (dx == NULL)
        dx = cs_run_take(run, rows * l->arch->width);
    cs_run_norm_grad(run, l->arch, rows, kept->x, l->weight[CS_PARAM_NORM_W],
                     l->weight[CS_PARAM_NORM_B], kept->stat1, dy, NULL, dx);
}

const struct cs_layer_ops cs_layer_norm = {norm_fwd, norm_bwd, true, false};

/* ---- projector: linear, or linear - activation - linear ---- */

static void projector_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const struct cs_layer_ends *ends, const void *x, void *y,
                          struct cs_kept *kept)
{
    (void)ends;
    const struct cs_arch *a = l->arch;
    const struct cs_tensor *w1 = l->weight[CS_PARAM_PROJ1_W], *w2 = l->weight[CS_PARAM_PROJ2_W];
    if (w2 == NULL) {
        cs_run_linear(run, rows, a->in_width, a->width, x, w1, l->weight[CS_PARAM_PROJ1_B], y);
        return;
    }
    const int64_t mid = w1->param->dim[0];
    kept->up = cs_run_keep(run, true, rows * mid);
    kept->a = cs_run_keep(run, l->layer->needs_weight_grad, rows * mid);
    cs_run_linear_act(run, rows, a->in_width, mid, x, w1, l->weight[CS_PARAM_PROJ1_B], NULL,
                      (enum cs_act)a->act, kept->up, kept->a);
    cs_run_linear(run, rows, mid, a->width, kept->a, w2, l->weight[CS_PARAM_PROJ2_B], y);
}

static void projector_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const struct cs_layer_ends *ends, const void *dy, void *dx,
                          const struct cs_kept *kept)
{
    (void)ends;
    const struct cs_arch *a = l->arch;
    const struct cs_tensor *w1 = l->weight[CS_PARAM_PROJ1_W], *w2 = l->weight[CS_PARAM_PROJ2_W];
    if (w2 != NULL) {
        const int64_t mid = w1->param->dim[0];
        void *dh = cs_run_hold(run, rows * mid);
        cs_run_linear_wgrad(run, rows, mid, a->width, dy, kept->a, w2, l->weight[CS_PARAM_PROJ2_B]);
        cs_run_linear_dgrad_act(run, rows, mid, a->width, dy, w2, (enum cs_act)a->act, kept->up,
                                dh);
        dy = dh;
    }
    const int64_t out = w1->param->dim[0];
    cs_run_linear_wgrad(run, rows, a->in_width, out, dy, kept->x, w1, l->weight[CS_PARAM_PROJ1_B]);
    if (dx != NULL)
        cs_run_linear_dgrad(run, rows, a->in_width, out, dy, w1, dx);
}

const struct cs_layer_ops cs_layer_projector = {projector_fwd, projector_bwd, true, false};

/* ---- head: rows with a label only, final norm, logits and loss in one pass ---- */

/* The loss is made once, forward, and with it the gradients of its logits: kept->h2 is the gradient
 * after the norm, the weight's gradient is complete. Labels come in row order, slots in slot order,
 * so sums have one order in every layout. */
static void head_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *x, void *y, struct cs_kept *kept)
{
    (void)rows;
    (void)ends;
    (void)y;
    struct cs_input *in = run->input;
    const struct cs_arch *a = l->arch;
    const int64_t n = in->n_labels, width = a->width;
    const struct cs_tensor *w = l->weight[CS_PARAM_HEAD_W];
    const bool is_training = run->keep != NULL;
    if (n == 0)
        return;
    void *picked = cs_run_keep(run, true, n * width);
    kept->x = picked;
    kept->stat1 = cs_run_keep_f32(run, true, n * 2);
    kept->h2 = is_training && l->needs_backward ? cs_run_keep(run, true, n * width) : NULL;
    void *h = cs_run_take(run, n * width);
    run->ops->gather_rows(run->ctx, n, width, in->at.label_rows, x, picked);
    cs_run_norm(run, a, n, picked, l->weight[CS_PARAM_NORM_W], l->weight[CS_PARAM_NORM_B], h,
                kept->stat1);
    struct cs_ctx ctx = cs_run_xent_ctx(run, n, width, a->vocab);
    ctx.is_grad_new = cs_run_grad_ctx(run, is_training ? w : NULL, NULL).is_grad_new;
    run->ops->linear_xent(&ctx, n, width, a->vocab, h, w->w, in->at.label_ids, 0.0f, in->at.loss,
                          in->at.correct, kept->h2, is_training ? w->grad : NULL);
}

static void head_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *dy, void *dx,
                     const struct cs_kept *kept)
{
    (void)ends;
    (void)dy;
    const struct cs_input *in = run->input;
    const int64_t n = in->n_labels, width = l->arch->width;
    if (dx != NULL && rows > 0)
        cs_device_zero(run->device, dx, (size_t)(rows * width) * run->ops->act_bytes);
    if (n == 0)
        return;
    void *d = cs_run_take(run, n * width);
    cs_run_norm_grad(run, l->arch, n, kept->x, l->weight[CS_PARAM_NORM_W],
                     l->weight[CS_PARAM_NORM_B], kept->stat1, kept->h2, NULL, d);
    if (dx != NULL)
        run->ops->scatter_rows(run->ctx, n, width, in->at.label_rows, d, dx, 0);
}

const struct cs_layer_ops cs_layer_head = {head_fwd, head_bwd, false, false};
