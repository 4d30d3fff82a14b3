/* What the layers share: their rows, workspaces, products and norms over parameters. */
#include "worker/layer/layers.h"

#include "worker/layer/adapter.h"
#include "worker/layer/stretch.h"
#include "worker/slot/split.h"

#include <stdlib.h>

/* The enums of core/model and of the operators have the same values: one is passed for the
 * other. */
_Static_assert((int)CS_ARCH_LAYER_NORM == (int)CS_NORM_LAYER, "norm kinds");
_Static_assert((int)CS_ARCH_RMS_NORM == (int)CS_NORM_RMS, "norm kinds");
_Static_assert((int)CS_ARCH_GELU == (int)CS_ACT_GELU, "activations");
_Static_assert((int)CS_ARCH_GELU_TANH == (int)CS_ACT_GELU_TANH, "activations");
_Static_assert((int)CS_ARCH_QUICK_GELU == (int)CS_ACT_QUICK_GELU, "activations");
_Static_assert((int)CS_ARCH_SILU == (int)CS_ACT_SILU, "activations");
_Static_assert((int)CS_ARCH_RELU == (int)CS_ACT_RELU, "activations");

static int32_t rows_of(const struct cs_layer_model *l, enum cs_row_count rows,
                       const struct cs_input *input)
{
    if (l->encoder < 0)
        return cs_layer_is_stretched(l, input) ? input->split->stretch.n : input->llm_rows;
    const int32_t e = l->encoder;
    return rows == CS_ROWS_INNER  ? input->rows[e].n
           : rows == CS_ROWS_FILL ? input->n_leaving[e]
                                  : input->n_rows[e];
}

int32_t cs_layer_rows_in(const struct cs_layer_model *l, const struct cs_input *input)
{
    return rows_of(l, l->rows_in, input);
}

int32_t cs_layer_rows_out(const struct cs_layer_model *l, const struct cs_input *input)
{
    return rows_of(l, l->rows_out, input);
}

/* A GPU takes less than it would like for the logits, in more pieces: two of them pass over the
 * gradient of the weights once more, which costs 3 to 16 % of such a head (9.3 to 10.4 against 9.0
 * ms for 4096 rows and 128256 words on an H200), half a percent of a step, and the largest of all
 * workspaces is not twice as large as all that a block's backward needs. */
enum { XENT_MOST_MIB = 512, XENT_LEAST_ROWS = 128 };

static size_t xent_bytes(const struct cs_run *run, int64_t n, int64_t width, int64_t vocab)
{
    const struct cs_ops *ops = run->ops;
    const size_t best = ops->linear_xent_workspace(n, width, vocab);
    size_t most = (size_t)XENT_MOST_MIB << 20;
    if (run->device->mem == NULL || best <= most)
        return best;
    const int64_t least_rows = n < XENT_LEAST_ROWS ? n : XENT_LEAST_ROWS;
    const size_t least =
        ops->linear_xent_workspace(least_rows, width, vocab) + (size_t)n * sizeof(double);
    return least > most ? least : most;
}

static struct cs_ctx with_workspace(struct cs_run *run, size_t bytes)
{
    struct cs_ctx ctx = *run->ctx;
    ctx.workspace_bytes = bytes;
    ctx.workspace = cs_scratch_take(run->scratch, bytes);
    return ctx;
}

struct cs_ctx cs_run_xent_ctx(struct cs_run *run, int64_t n, int64_t width, int64_t vocab)
{
    size_t bytes = xent_bytes(run, n, width, vocab);
    for (int64_t fewer = 1; run->is_rehearsal && fewer < n; fewer++) {
        const size_t other = xent_bytes(run, fewer, width, vocab);
        bytes = other > bytes ? other : bytes;
    }
    return with_workspace(run, bytes);
}

struct cs_ctx cs_run_attention_ctx(struct cs_run *run, const struct cs_attention_shape *shape,
                                   const struct cs_mask_plan *mask)
{
    size_t bytes = run->ops->attention_workspace(shape, mask);
    struct cs_mask_plan other = *mask;
    struct cs_mask_cells cells;
    if (run->is_rehearsal && mask->cells != NULL) {
        cells = *mask->cells;
        other.cells = &cells;
        for (int32_t n = 1; n < mask->cells->n_q; n++) {
            cells.n_q = n;
            cells.n_k = n < mask->cells->n_k ? n : mask->cells->n_k;
            const size_t fewer = run->ops->attention_workspace(shape, &other);
            bytes = fewer > bytes ? fewer : bytes;
        }
    }
    return with_workspace(run, bytes);
}

struct cs_ctx cs_run_delta_ctx(struct cs_run *run, const struct cs_delta_shape *shape,
                               const struct cs_mask_plan *mask)
{
    return with_workspace(run, run->ops->delta_workspace(shape, mask));
}

void cs_run_linear_act(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                       const struct cs_shard *w, const struct cs_shard *b, const void *residual,
                       enum cs_act act, void *pre, void *y)
{
    if (w->n_adapters > 0 && act != CS_ACT_NONE) { /* what they add comes before the activation */
        void *sum = pre != NULL ? pre : cs_run_take(run, rows * out);
        cs_run_linear_act(run, rows, in, out, x, w, b, residual, CS_ACT_NONE, NULL, sum);
        run->ops->act(run->ctx, act, rows * out, sum, y);
        return;
    }
    run->ops->linear(run->ctx, rows, in, out, x, in, w->w, b != NULL ? b->w : NULL, residual, act,
                     pre, y);
    cs_adapters_add(run, rows, in, out, x, w, y);
}

void cs_run_linear(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *x,
                   const struct cs_shard *w, const struct cs_shard *b, void *y)
{
    cs_run_linear_act(run, rows, in, out, x, w, b, NULL, CS_ACT_NONE, NULL, y);
}

static bool has_grad(const struct cs_shard *t)
{
    return t != NULL && t->grad != NULL;
}

static void make(struct cs_run *run, const struct cs_wgrad *g)
{
    cs_adapters_wgrad(run, g->rows, g->in, g->out, g->dy, g->x, g->w);
    if (!has_grad(g->w) && !has_grad(g->b))
        return;
    struct cs_ctx ctx = cs_run_grad_ctx(run, g->w, g->b);
    if (g->groups.first != NULL)
        run->ops->moe_linear_wgrad(&ctx, &g->groups, g->in, g->out, g->dy, g->x, g->w->grad);
    else
        run->ops->linear_wgrad(&ctx, g->rows, g->in, g->out, g->dy, g->x, g->w->grad,
                               g->b != NULL ? g->b->grad : NULL);
}

static void note(struct cs_later *later, const struct cs_wgrad *g)
{
    if (later->n == later->room) {
        later->room = later->room > 0 ? 2 * later->room : 64;
        later->wgrad = realloc(later->wgrad, (size_t)later->room * sizeof *later->wgrad);
        CS_ASSERT(later->wgrad != NULL);
    }
    later->wgrad[later->n] = *g;
    later->wgrad[later->n++].layer = later->layer;
}

static void make_or_note(struct cs_run *run, const struct cs_wgrad *g)
{
    if (g->rows == 0 || (!has_grad(g->w) && !has_grad(g->b) && g->w->n_adapters == 0))
        return;
    if (run->later != NULL)
        note(run->later, g);
    else
        make(run, g);
}

void cs_run_linear_wgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const void *x, const struct cs_shard *w, const struct cs_shard *b)
{
    const struct cs_wgrad g = {
        .rows = rows, .in = in, .out = out, .dy = dy, .x = x, .w = w, .b = b};
    make_or_note(run, &g);
}

void cs_run_moe_wgrad(struct cs_run *run, const struct cs_moe_groups *groups, int64_t in,
                      int64_t out, const void *dy, const void *x, const struct cs_shard *w)
{
    const struct cs_wgrad g = {
        .rows = groups->places, .in = in, .out = out, .dy = dy, .x = x, .w = w, .groups = *groups};
    make_or_note(run, &g);
}

void cs_run_later(struct cs_run *run, struct cs_later *later, int32_t layer)
{
    while (later->n_made < later->n && later->wgrad[later->n_made].layer == layer)
        make(run, &later->wgrad[later->n_made++]);
    if (later->n_made == later->n)
        later->n = later->n_made = 0;
}

void cs_run_linear_dgrad_act(struct cs_run *run, int64_t rows, int64_t in, int64_t out,
                             const void *dy, const struct cs_shard *w, enum cs_act act,
                             const void *pre, void *dx)
{
    if (w->n_adapters == 0) {
        run->ops->linear_dgrad(run->ctx, rows, in, out, dy, w->w, act, pre, dx);
        return;
    }
    run->ops->linear_dgrad(run->ctx, rows, in, out, dy, w->w, CS_ACT_NONE, NULL, dx);
    cs_adapters_dgrad(run, rows, in, out, dy, w, dx);
    if (act != CS_ACT_NONE)
        run->ops->act_grad(run->ctx, act, rows * in, pre, dx, dx);
}

void cs_run_linear_dgrad(struct cs_run *run, int64_t rows, int64_t in, int64_t out, const void *dy,
                         const struct cs_shard *w, void *dx)
{
    cs_run_linear_dgrad_act(run, rows, in, out, dy, w, CS_ACT_NONE, NULL, dx);
}

void cs_run_norm(struct cs_run *run, const struct cs_arch *arch, int64_t rows, const void *x,
                 const struct cs_shard *w, const struct cs_shard *b, void *y, float *stat)
{
    run->ops->norm(run->ctx, (enum cs_norm)arch->norm, rows, arch->width, arch->norm_eps,
                   arch->norm_offset, x, w->w, b != NULL ? b->w : NULL, y, stat);
}

void cs_run_norm_grad(struct cs_run *run, const struct cs_arch *arch, int64_t rows, const void *x,
                      const struct cs_shard *w, const struct cs_shard *b, const float *stat,
                      const void *dy, const void *dx_in, void *dx)
{
    struct cs_ctx ctx = cs_run_grad_ctx(run, rows > 0 ? w : NULL, rows > 0 ? b : NULL);
    run->ops->norm_grad(&ctx, (enum cs_norm)arch->norm, rows, arch->width, arch->norm_offset, x,
                        w->w, stat, dy, dx_in, dx, w->grad, b != NULL ? b->grad : NULL);
}
