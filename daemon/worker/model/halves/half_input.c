/* What a half of a block reads, where it was not kept: made again for the gradients of its weights. */
#include "worker/layer/sequence.h"
#include "worker/model/halves/halves.h"

/* of the own rows, in scratch where all are put together of them */
static const void *made_again(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                              bool is_ffn, const struct cs_kept *kept)
{
    const int64_t own = cs_sequence_rows(run, rows), n = own * l->arch->width;
    float *stat = cs_scratch_floats(run->scratch, own * 2);
    void *made = run->splits_rows ? cs_run_take(run, n) : cs_run_hold(run, n);
    cs_run_norm(run, l->arch, own, is_ffn ? kept->x2 : kept->x,
                cs_weight(l, is_ffn ? CS_PARAM_NORM2_W : CS_PARAM_NORM1_W),
                cs_weight(l, is_ffn ? CS_PARAM_NORM2_B : CS_PARAM_NORM1_B), made, stat);
    return made;
}

const void *cs_half_input(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          enum cs_half half, const struct cs_kept *kept)
{
    const bool is_ffn = half == CS_HALF_FFN;
    const void *h = is_ffn ? kept->h2 : kept->h1;
    if (!l->layer->needs_weight_grad)
        return NULL;
    return h != NULL ? h : made_again(run, l, rows, is_ffn, kept);
}
