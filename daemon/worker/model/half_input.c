/* What a half of a block reads, where it was not kept: made again for the gradients of its weights. */
#include "worker/model/halves.h"

const void *cs_half_input(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          enum cs_half half, const struct cs_kept *kept)
{
    const bool is_ffn = half == CS_HALF_FFN;
    const void *h = is_ffn ? kept->h2 : kept->h1;
    if (h != NULL || !l->layer->needs_weight_grad)
        return h;
    float *stat = cs_scratch_floats(run->scratch, rows * 2);
    void *made = cs_run_hold(run, rows * l->arch->width);
    cs_run_norm(run, l->arch, rows, is_ffn ? kept->x2 : kept->x,
                cs_weight(l, is_ffn ? CS_PARAM_NORM2_W : CS_PARAM_NORM1_W),
                cs_weight(l, is_ffn ? CS_PARAM_NORM2_B : CS_PARAM_NORM1_B), made, stat);
    return made;
}
