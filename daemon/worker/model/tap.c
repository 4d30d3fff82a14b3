/* A tap: rows pass an encoder's branch here, and what a chain makes of them feeds a layer of the language
 * model (ends->tap); its gradient is added to theirs. */
#include "worker/layer/share.h"
#include "worker/model/chain.h"

static int64_t width_made(const struct cs_layer_model *l)
{
    const struct cs_chain *chain = &l->arch->tap;
    return cs_chain_at(chain, chain->n).width;
}

static int64_t n_made(const struct cs_run *run, const struct cs_layer_model *l)
{
    return (int64_t)run->input->n_rows[l->encoder] * width_made(l);
}

static void tap_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                    const struct cs_layer_ends *ends, const void *x, void *y, struct cs_kept *kept)
{
    const int64_t n = rows * l->arch->width;
    const bool is_shared = l->tap >= 0 && cs_layer_is_shared(l, run->input);
    void *taken = l->tap >= 0 ? ends->tap[l->tap] : NULL;
    void *made = is_shared ? cs_run_take(run, n_made(run, l)) : taken;
    if (made != NULL && rows > 0)
        cs_chain_fwd(run, l, &l->arch->tap, x, made, kept);
    if (is_shared)
        cs_share_rows(run, l->encoder, width_made(l), made, taken);
    if (rows > 0)
        cs_device_copy(run->device, y, x, (size_t)n * run->ops->act_bytes);
}

/* What the weight half of a split backward reads: its place among the rows between stages is given back
 * before that. */
static const void *hold(struct cs_run *run, const struct cs_layer_model *l, const void *d_made)
{
    const int64_t n = n_made(run, l);
    void *held = cs_run_hold(run, n);
    cs_device_copy(run->device, held, d_made, (size_t)n * run->ops->act_bytes);
    return held;
}

static void tap_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                    const struct cs_layer_ends *ends, const void *dy, void *dx,
                    const struct cs_kept *kept)
{
    const int64_t n = rows * l->arch->width;
    const void *d_made = l->tap >= 0 ? ends->d_tap[l->tap] : NULL;
    const bool is_shared = l->tap >= 0 && cs_layer_is_shared(l, run->input);
    if (is_shared) {
        void *made = cs_run_hold(run, n_made(run, l));
        cs_share_rows_back(run, l->encoder, width_made(l), d_made, made);
        d_made = made;
    }
    void *d = dx != NULL && d_made != NULL ? cs_run_take(run, n) : NULL;
    if (rows == 0)
        return;
    if (d_made != NULL && run->later != NULL && !is_shared)
        d_made = hold(run, l, d_made);
    if (d_made != NULL)
        cs_chain_bwd(run, l, &l->arch->tap, d_made, d, kept);
    if (d != NULL)
        run->ops->add(run->ctx, n, d, dy, dx);
    else if (dx != NULL)
        cs_device_copy(run->device, dx, dy, (size_t)n * run->ops->act_bytes);
}

const struct cs_layer_ops cs_layer_tap = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = tap_fwd, .bwd = tap_bwd};
