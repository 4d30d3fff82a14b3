/* The projector between an encoder and the LLM: linear, or linear, activation, linear. */
#include "worker/model/layers.h"

static void projector_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const struct cs_layer_ends *ends, const void *x, void *y,
                          struct cs_kept *kept)
{
    (void)ends;
    const struct cs_arch *a = l->arch;
    const struct cs_shard *w1 = cs_weight_part(l, CS_PARAM_PROJ_W, 0),
                          *w2 = cs_weight_part(l, CS_PARAM_PROJ_W, 1);
    if (w2 == NULL) {
        cs_run_linear(run, rows, a->in_width, a->width, x, w1,
                      cs_weight_part(l, CS_PARAM_PROJ_B, 0), y);
        return;
    }
    const int64_t mid = w1->param->dim[0];
    kept->up = cs_run_keep(run, l, CS_KEEP_UP, rows);
    kept->a = cs_run_keep(run, l, CS_KEEP_A, rows);
    cs_run_linear_act(run, rows, a->in_width, mid, x, w1, cs_weight_part(l, CS_PARAM_PROJ_B, 0),
                      NULL, (enum cs_act)a->act, kept->up, kept->a);
    cs_run_linear(run, rows, mid, a->width, kept->a, w2, cs_weight_part(l, CS_PARAM_PROJ_B, 1), y);
}

static void projector_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                          const struct cs_layer_ends *ends, const void *dy, void *dx,
                          const struct cs_kept *kept)
{
    (void)ends;
    const struct cs_arch *a = l->arch;
    const struct cs_shard *w1 = cs_weight_part(l, CS_PARAM_PROJ_W, 0),
                          *w2 = cs_weight_part(l, CS_PARAM_PROJ_W, 1);
    if (w2 != NULL) {
        const int64_t mid = w1->param->dim[0];
        void *dh = cs_run_hold(run, rows * mid);
        cs_run_linear_wgrad(run, rows, mid, a->width, dy, kept->a, w2,
                            cs_weight_part(l, CS_PARAM_PROJ_B, 1));
        cs_run_linear_dgrad_act(run, rows, mid, a->width, dy, w2, (enum cs_act)a->act, kept->up,
                                dh);
        dy = dh;
    }
    const int64_t out = w1->param->dim[0];
    cs_run_linear_wgrad(run, rows, a->in_width, out, dy, kept->x, w1,
                        cs_weight_part(l, CS_PARAM_PROJ_B, 0));
    if (dx != NULL)
        cs_run_linear_dgrad(run, rows, a->in_width, out, dy, w1, dx);
}

const struct cs_layer_ops cs_layer_projector = {
    .in = CS_ROW_INNER, .out = CS_ROW_MODEL, .fwd = projector_fwd, .bwd = projector_bwd};
