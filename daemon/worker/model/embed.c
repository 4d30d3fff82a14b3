/* The first layer of a module. Text: the rows of the token embedding, with encoder rows put over
 * the placeholders. Encoders: front.c. */
#include "store/safetensors.h"
#include "worker/layer/tensors.h"
#include "worker/model/front.h"

/* As transformers rounds it: to the type of the weights. */
static float scale_of(const struct cs_run *run, const struct cs_layer_model *l)
{
    const float scale = l->arch->embed_scale;
    return cs_device_is_f32(run->device) ? scale : cs_f32_from_bf16(cs_bf16_from_f32(scale));
}

static void embed_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)x;
    if (rows == 0)
        return;
    if (l->encoder >= 0) {
        cs_front_fwd(run, l, rows, y, kept);
        return;
    }
    const struct cs_input *in = run->input;
    run->ops->embed(run->ctx, rows, l->arch->width, in->at.embed_ids,
                    cs_weight(l, CS_PARAM_EMBED)->w, scale_of(run, l), y);
    cs_tensors_sum(run, rows * l->arch->width, y); /* a row is 0 but where its word is */
    for (int32_t f = 0; f < l->n_feeds; f++) {
        const int32_t e = l->in[f].encoder;
        if (in->n_fills[e] > 0)
            run->ops->scatter_rows(run->ctx, in->n_fills[e], l->arch->width, in->at.fill[e],
                                   ends->fill[l->in[f].feed], y, 0);
    }
}

static void embed_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)dx;
    if (rows == 0)
        return;
    if (l->encoder >= 0) {
        cs_front_bwd(run, l, rows, dy, kept);
        return;
    }
    const struct cs_input *in = run->input;
    const struct cs_shard *table = cs_weight(l, CS_PARAM_EMBED);
    if (cs_run_grad_ctx(run, table, NULL).is_grad_new) /* it adds to some rows */
        cs_device_zero(run->device, table->grad,
                       (size_t)table->param->count * (run->ctx->grad == CS_GRAD_BF16 ? 2 : 4));
    if (table->grad != NULL)
        run->ops->embed_grad(run->ctx, rows, l->arch->width, in->at.embed_ids, dy, scale_of(run, l),
                             table->grad);
    for (int32_t f = 0; f < l->n_feeds; f++) {
        const int32_t e = l->in[f].encoder;
        void *d_fill = ends->d_fill[l->in[f].feed];
        if (in->n_fills[e] > 0 && d_fill != NULL)
            run->ops->gather_rows(run->ctx, in->n_fills[e], l->arch->width, in->at.fill[e], dy,
                                  d_fill);
    }
}

const struct cs_layer_ops cs_layer_embed = {
    .in = CS_ROW_NONE, .out = CS_ROW_MODEL, .fwd = embed_fwd, .bwd = embed_bwd};
