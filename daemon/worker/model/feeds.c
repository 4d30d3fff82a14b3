/* Rows of encoders that are added to those of the language model between two of its blocks
 * (deepstack): the sum is the input of the layer that the feed enters. */
#include "worker/layer/layers.h"

static bool is_taken_here(const struct cs_layer_model *l)
{
    return l->layer->kind != CS_LAYER_EMBED;
}

void cs_feeds_take(struct cs_run *run, const struct cs_layer_model *l,
                   const struct cs_layer_ends *ends, void *x)
{
    const struct cs_input *in = run->input;
    for (int32_t f = 0; is_taken_here(l) && f < l->n_feeds; f++) {
        const int32_t e = l->in[f].encoder;
        const void *rows = ends->fill[l->in[f].feed];
        if (in->n_fills[e] > 0 && rows != NULL)
            run->ops->scatter_rows(run->ctx, in->n_fills[e], l->in_width, in->at.fill[e], rows, x,
                                   1);
    }
}

void cs_feeds_give(struct cs_run *run, const struct cs_layer_model *l,
                   const struct cs_layer_ends *ends, const void *dx)
{
    const struct cs_input *in = run->input;
    for (int32_t f = 0; is_taken_here(l) && f < l->n_feeds; f++) {
        const int32_t e = l->in[f].encoder;
        void *d_fill = ends->d_fill[l->in[f].feed];
        if (in->n_fills[e] > 0 && d_fill != NULL)
            run->ops->gather_rows(run->ctx, in->n_fills[e], l->in_width, in->at.fill[e], dx,
                                  d_fill);
    }
}

bool cs_feeds_ask(const struct cs_layer_model *l, const struct cs_layer_ends *ends)
{
    for (int32_t f = 0; is_taken_here(l) && f < l->n_feeds; f++)
        if (ends->d_fill[l->in[f].feed] != NULL)
            return true;
    return false;
}
