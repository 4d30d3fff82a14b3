/* The final norm of an encoder, a layer of its own (an LLM has its final norm in the head). */
#include "worker/model/layers.h"

static void norm_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *x, void *y, struct cs_kept *kept)
{
    (void)ends;
    kept->stat1 = cs_run_keep(run, l, CS_KEEP_STAT1, rows);
    cs_run_norm(run, l->arch, rows, x, cs_weight(l, CS_PARAM_NORM_W), cs_weight(l, CS_PARAM_NORM_B),
                y, kept->stat1);
}

static void norm_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                     const struct cs_layer_ends *ends, const void *dy, void *dx,
                     const struct cs_kept *kept)
{
    (void)ends;
    if (dx == NULL)
        dx = cs_run_take(run, rows * l->arch->width);
    cs_run_norm_grad(run, l->arch, rows, kept->x, cs_weight(l, CS_PARAM_NORM_W),
                     cs_weight(l, CS_PARAM_NORM_B), kept->stat1, dy, NULL, dx);
}

const struct cs_layer_ops cs_layer_norm = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = norm_fwd, .bwd = norm_bwd};
