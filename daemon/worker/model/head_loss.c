/* The head of the LLM, where the loss is computed: rows with a label only, final norm, logits and
 * cross entropy in one pass. */
#include "worker/model/head_words.h"

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
    const struct cs_shard *w = cs_weight(l, CS_PARAM_HEAD_W);
    const bool is_training = run->keep != NULL;
    if (n == 0)
        return;
    void *picked = cs_run_keep(run, l, CS_KEEP_X, n);
    kept->x = picked;
    kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, n);
    kept->h2 = is_training && l->needs_backward ? cs_run_keep(run, l, CS_KEEP_H2, n) : NULL;
    void *h = cs_run_take(run, n * width);
    run->ops->gather_rows(run->ctx, n, width, in->at.label_rows, x, picked);
    cs_run_norm(run, a, n, picked, cs_weight(l, CS_PARAM_NORM_W), cs_weight(l, CS_PARAM_NORM_B), h,
                kept->stat1);
    if (run->tensors != NULL) {
        cs_head_words(run, l, h, kept->h2);
        return;
    }
    struct cs_ctx ctx = cs_run_xent_ctx(run, n, width, a->vocab);
    ctx.is_grad_new = cs_run_grad_ctx(run, is_training ? w : NULL, NULL).is_grad_new;
    run->ops->linear_xent(&ctx, n, width, a->vocab, h, w->w, in->at.label_ids, a->logit_softcap,
                          in->at.loss, in->at.row_loss, in->at.correct, kept->h2,
                          is_training ? w->grad : NULL);
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
    cs_run_norm_grad(run, l->arch, n, kept->x, cs_weight(l, CS_PARAM_NORM_W),
                     cs_weight(l, CS_PARAM_NORM_B), kept->stat1, kept->h2, NULL, d);
    if (dx != NULL)
        run->ops->scatter_rows(run->ctx, n, width, in->at.label_rows, d, dx, 0);
}

const struct cs_layer_ops cs_layer_head = {
    .in = CS_ROW_MODEL, .out = CS_ROW_NONE, .fwd = head_fwd, .bwd = head_bwd};
