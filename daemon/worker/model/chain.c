/* Interprets chains (core/arch/chain.h): an encoder's final norm, projectors. Every step knows what it
 * does forward and backward; what a backward reads of the rows in front of a step is kept there. */
#include "worker/model/chain.h"

/* One pass over a layer's chain. rows, width: in front of the step. */
struct pass {
    struct cs_run *run;
    const struct cs_layer_model *l;
    const struct cs_chain *chain;
    const struct cs_input_rows *inside; /* of the encoder, on the device */
    struct cs_kept *kept;
    int32_t step, linear; /* linear: matrices before the step */
    int64_t rows, width;
    int64_t joined, filled; /* rows behind a step that joins, behind the one that fills */
};

static struct pass pass_of(struct cs_run *run, const struct cs_layer_model *l,
                           const struct cs_chain *chain, struct cs_kept *kept)
{
    return (struct pass){.run = run,
                         .l = l,
                         .chain = chain,
                         .inside = &run->input->at.rows[l->encoder],
                         .kept = kept,
                         .rows = cs_layer_rows_in(l, run->input),
                         .width = chain->in_width,
                         .joined = run->input->n_rows[l->encoder],
                         .filled = run->input->n_leaving[l->encoder]};
}

static enum cs_chain_op op_at(const struct pass *p, int32_t step)
{
    return step < p->chain->n ? p->chain->op[step] : CS_CHAIN_OPS;
}

static bool drops(const struct pass *p)
{
    return p->inside->patch_row != NULL;
}

/* The rows and the width behind the step. */
static void advance(struct pass *p)
{
    const enum cs_chain_op op = op_at(p, p->step);
    const bool is_joining = op == CS_CHAIN_CONCAT || op == CS_CHAIN_WEAVE || op == CS_CHAIN_MEAN;
    if (op == CS_CHAIN_DROP_CLASS && drops(p))
        p->rows = p->inside->n_patches;
    if (op == CS_CHAIN_LINEAR)
        p->width = p->chain->linear[p->linear++];
    if (is_joining)
        p->rows = p->joined;
    if (op == CS_CHAIN_FILL)
        p->rows = p->filled;
    if (is_joining && op != CS_CHAIN_MEAN)
        p->width *= p->chain->group;
    p->step++;
}

/* The step that reads the rows in front of the pass: steps that move nothing hand them on. */
static enum cs_chain_op reader_of(const struct pass *p)
{
    int32_t step = p->step;
    while (op_at(p, step) == CS_CHAIN_CONCAT ||
           (op_at(p, step) == CS_CHAIN_DROP_CLASS && !drops(p)))
        step++;
    return op_at(p, step);
}

/* Where the rows in front of a step lie: kept where a backward reads them. */
static void *rows_for(const struct pass *p)
{
    const enum cs_chain_op op = reader_of(p);
    const bool is_read = op == CS_CHAIN_NORM || op == CS_CHAIN_ACT ||
                         (op == CS_CHAIN_LINEAR && p->l->layer->needs_weight_grad);
    const int64_t n = p->rows * p->width;
    return is_read ? cs_run_keep_acts(p->run, n) : cs_run_take(p->run, n);
}

/* ---- forward ---- */

/* y = x w^T + b, or x w where matrices are stored (in, out); an activation behind it keeps its input */
static void linear(const struct pass *p, const void *x, enum cs_act act, void *pre, void *y)
{
    const struct cs_shard *w = cs_weight_part(p->l, CS_PARAM_PROJ_W, p->linear),
                          *b = cs_weight_part(p->l, CS_PARAM_PROJ_B, p->linear);
    const int64_t out = p->chain->linear[p->linear];
    if (!p->chain->is_transposed)
        cs_run_linear_act(p->run, p->rows, p->width, out, x, w, b, NULL, act, pre, y);
    else
        cs_run_linear_dgrad(p->run, p->rows, out, p->width, x, w, y);
}

static void norm(const struct pass *p, const void *x, void *y)
{
    const struct cs_arch *a = p->l->arch;
    const struct cs_shard *w = cs_weight(p->l, CS_PARAM_NORM_W),
                          *b = cs_weight(p->l, CS_PARAM_NORM_B);
    struct cs_scratch *memory = p->run->keep != NULL ? p->run->keep : p->run->scratch;
    float *stat = cs_scratch_floats(memory, p->rows * 2);
    p->kept->step_stat[p->step] = stat;
    if (w == NULL) /* an RMS norm that scales nothing */
        p->run->ops->norm_heads(p->run->ctx, p->rows, 1, p->width, a->norm_eps, 0, x, p->width,
                                NULL, NULL, y, p->width, stat);
    else
        p->run->ops->norm(p->run->ctx, (enum cs_norm)a->norm, p->rows, p->width, a->norm_eps,
                          a->norm_offset, x, w->w, b != NULL ? b->w : NULL, y, stat);
}

static void affine(const struct pass *p, const void *x, void *y)
{
    const struct cs_ops *ops = p->run->ops;
    const size_t bytes = (size_t)(p->rows * p->width) * ops->act_bytes;
    void *less = cs_run_take(p->run, p->width);
    ops->scale_columns(p->run->ctx, 1, p->width, cs_weight(p->l, CS_PARAM_AFFINE_SHIFT)->w,
                       p->run->input->at.minus_one, 0, NULL, less);
    cs_device_copy(p->run->device, y, x, bytes);
    ops->bias_add(p->run->ctx, p->rows, p->width, y, p->width, less);
    ops->scale_columns(p->run->ctx, p->rows, p->width, y, cs_weight(p->l, CS_PARAM_AFFINE_SCALE)->w,
                       1, NULL, y);
}

/* What the LLM is given: rows, sums of rows, and the learned row. */
static void fill(const struct pass *p, const void *x, void *y)
{
    const struct cs_row_mix *from = &p->inside->fill, *learned = &p->inside->learned;
    const struct cs_shard *row = cs_weight(p->l, CS_PARAM_NEWLINE);
    p->run->ops->mix_rows(p->run->ctx, p->filled, p->width, from->start, from->index, from->weight,
                          x, 0, y);
    if (row != NULL)
        p->run->ops->mix_rows(p->run->ctx, p->filled, p->width, learned->start, learned->index,
                              learned->weight, row->w, 1, y);
}

/* The result of the step, y where the chain ends with it. */
static const void *step_fwd(struct pass *p, const void *x, void *y)
{
    const struct cs_ops *ops = p->run->ops;
    const struct pass now = *p;
    const struct cs_row_mix *mean = &p->inside->mean;
    const bool has_act = op_at(p, p->step + 1) == CS_CHAIN_ACT;
    const enum cs_chain_op op = op_at(p, p->step);
    const bool is_last = p->step + (has_act ? 2 : 1) == p->chain->n;
    void *pre = NULL;
    p->kept->step[p->step] = x;
    advance(p);
    if (has_act) {
        pre = rows_for(p);
        p->kept->step[p->step] = pre;
        advance(p);
    }
    if (op == CS_CHAIN_CONCAT || (op == CS_CHAIN_DROP_CLASS && !drops(p)))
        return x;
    void *out = is_last && y != NULL ? y : rows_for(p);
    switch (op) {
    case CS_CHAIN_DROP_CLASS:
        ops->gather_rows(p->run->ctx, p->rows, p->width, p->inside->patch_row, x, out);
        break;
    case CS_CHAIN_NORM:
        norm(&now, x, out);
        break;
    case CS_CHAIN_WEAVE:
        ops->unfold(p->run->ctx, p->rows, p->chain->group, now.width, NULL, x, out);
        break;
    case CS_CHAIN_MEAN:
        ops->mix_rows(p->run->ctx, p->rows, p->width, mean->start, mean->index, mean->weight, x, 0,
                      out);
        break;
    case CS_CHAIN_AFFINE:
        affine(&now, x, out);
        break;
    case CS_CHAIN_FILL:
        fill(&now, x, out);
        break;
    case CS_CHAIN_LINEAR:
        linear(&now, x, has_act ? (enum cs_act)p->chain->act : CS_ACT_NONE, pre, out);
        break;
    case CS_CHAIN_CONCAT:
    case CS_CHAIN_ACT:
    case CS_CHAIN_OPS:
        break;
    }
    return out;
}

void cs_chain_fwd(struct cs_run *run, const struct cs_layer_model *l, const struct cs_chain *chain,
                  const void *x, void *y, struct cs_kept *kept)
{
    struct pass p = pass_of(run, l, chain, kept);
    if (p.rows == 0)
        return;
    while (p.step < p.chain->n)
        x = step_fwd(&p, x, y);
    if (x != y && y != NULL) /* the last step moved nothing */
        cs_device_copy(run->device, y, x, (size_t)(p.rows * p.width) * run->ops->act_bytes);
}

/* ---- backward ---- */

/* The pass in front of that step, found by walking there. */
static struct pass pass_at(const struct pass *start, int32_t step)
{
    struct pass p = *start;
    while (p.step < step)
        advance(&p);
    return p;
}

static bool trains(const struct cs_layer_model *l, enum cs_param_role role, int32_t part)
{
    const struct cs_shard *w = cs_weight_part(l, role, part);
    return w != NULL && w->grad != NULL;
}

/* The first step that has something to train: before it only the gradient of the input is of use. */
static int32_t first_trained(const struct pass *start)
{
    const struct cs_layer_model *l = start->l;
    for (struct pass p = *start; p.step < p.chain->n; advance(&p)) {
        const enum cs_chain_op op = op_at(&p, p.step);
        if (op == CS_CHAIN_NORM && (trains(l, CS_PARAM_NORM_W, 0) || trains(l, CS_PARAM_NORM_B, 0)))
            return p.step;
        if (op == CS_CHAIN_LINEAR &&
            (trains(l, CS_PARAM_PROJ_W, p.linear) || trains(l, CS_PARAM_PROJ_B, p.linear)))
            return p.step;
        if (op == CS_CHAIN_FILL && trains(l, CS_PARAM_NEWLINE, 0))
            return p.step;
    }
    return start->chain->n;
}

/* act: of the activation in front, whose input is pre; its gradient is dx then */
static void linear_bwd(const struct pass *p, const void *dy, enum cs_act act, const void *pre,
                       void *dx)
{
    const struct cs_shard *w = cs_weight_part(p->l, CS_PARAM_PROJ_W, p->linear),
                          *b = cs_weight_part(p->l, CS_PARAM_PROJ_B, p->linear);
    const int64_t out = p->chain->linear[p->linear];
    const void *x = p->kept->step[p->step];
    if (p->chain->is_transposed) {
        cs_run_linear_wgrad(p->run, p->rows, out, p->width, x, dy, w, NULL);
        if (dx != NULL)
            cs_run_linear(p->run, p->rows, out, p->width, dy, w, NULL, dx);
        return;
    }
    cs_run_linear_wgrad(p->run, p->rows, p->width, out, dy, x, w, b);
    if (dx != NULL)
        cs_run_linear_dgrad_act(p->run, p->rows, p->width, out, dy, w, act, pre, dx);
}

static void norm_bwd(const struct pass *p, const void *dy, void *dx)
{
    const struct cs_arch *a = p->l->arch;
    const struct cs_shard *w = cs_weight(p->l, CS_PARAM_NORM_W),
                          *b = cs_weight(p->l, CS_PARAM_NORM_B);
    const float *stat = p->kept->step_stat[p->step];
    const void *x = p->kept->step[p->step];
    if (w == NULL) {
        p->run->ops->norm_heads_grad(p->run->ctx, p->rows, 1, p->width, 0, x, p->width, NULL, stat,
                                     NULL, dy, p->width, dx, p->width, 0, NULL);
        return;
    }
    struct cs_ctx ctx = cs_run_grad_ctx(p->run, w, b);
    p->run->ops->norm_grad(&ctx, (enum cs_norm)a->norm, p->rows, p->width, a->norm_offset, x, w->w,
                           stat, dy, NULL, dx, w->grad, b != NULL ? b->grad : NULL);
}

static void fill_bwd(const struct pass *p, const void *dy, void *dx)
{
    const struct cs_row_mix *back = &p->inside->fill_back, *learned = &p->inside->learned_back;
    const struct cs_shard *row = cs_weight(p->l, CS_PARAM_NEWLINE);
    if (row != NULL && row->grad != NULL) {
        struct cs_ctx ctx = cs_run_grad_ctx(p->run, row, NULL);
        p->run->ops->mix_rows_grad(&ctx, 1, p->width, learned->start, learned->index,
                                   learned->weight, dy, row->grad);
    }
    if (dx != NULL)
        p->run->ops->mix_rows(p->run->ctx, p->rows, p->width, back->start, back->index,
                              back->weight, dy, 0, dx);
}

static void drop_bwd(const struct pass *p, const void *dy, void *dx)
{
    cs_device_zero(p->run->device, dx, (size_t)(p->rows * p->width) * p->run->ops->act_bytes);
    p->run->ops->scatter_rows(p->run->ctx, p->inside->n_patches, p->width, p->inside->patch_row, dy,
                              dx, 0);
}

/* Backward through the step at p; dx: (rows, width) in front of it, NULL: not needed. Returns where
 * the gradient is, which steps that move nothing leave where it was. */
static const void *step_bwd(const struct pass *p, const void *dy, enum cs_act act, const void *pre,
                            void *dx)
{
    const struct cs_ops *ops = p->run->ops;
    const struct cs_row_mix *back = &p->inside->mean_back;
    switch (op_at(p, p->step)) {
    case CS_CHAIN_DROP_CLASS:
        if (!drops(p))
            return dy;
        drop_bwd(p, dy, dx);
        break;
    case CS_CHAIN_NORM:
        norm_bwd(p, dy, dx);
        break;
    case CS_CHAIN_WEAVE:
        ops->fold(p->run->ctx, p->rows, p->chain->group, p->width, NULL, NULL, dy, dx);
        break;
    case CS_CHAIN_MEAN:
        ops->mix_rows(p->run->ctx, p->rows, p->width, back->start, back->index, back->weight, dy, 0,
                      dx);
        break;
    case CS_CHAIN_AFFINE:
        ops->scale_columns(p->run->ctx, p->rows, p->width, dy,
                           cs_weight(p->l, CS_PARAM_AFFINE_SCALE)->w, 1, NULL, dx);
        break;
    case CS_CHAIN_FILL:
        fill_bwd(p, dy, dx);
        break;
    case CS_CHAIN_LINEAR:
        linear_bwd(p, dy, act, pre, dx);
        break;
    case CS_CHAIN_CONCAT:
    case CS_CHAIN_ACT:
    case CS_CHAIN_OPS:
        return dy;
    }
    return dx;
}

void cs_chain_bwd(struct cs_run *run, const struct cs_layer_model *l, const struct cs_chain *chain,
                  const void *dy, void *dx, const struct cs_kept *kept)
{
    struct cs_kept held = *kept;
    const struct pass start = pass_of(run, l, chain, &held);
    const int32_t lowest = dx != NULL ? 0 : first_trained(&start);
    if (start.rows == 0)
        return;
    for (int32_t step = start.chain->n - 1; step >= lowest; step--) {
        const struct pass p = pass_at(&start, step);
        const bool has_act = step > 0 && op_at(&p, step - 1) == CS_CHAIN_ACT;
        const bool is_end = step == 0, is_lowest = step == lowest && dx == NULL;
        const bool needs_none =
            is_lowest && (op_at(&p, step) == CS_CHAIN_LINEAR || op_at(&p, step) == CS_CHAIN_FILL);
        void *to = is_end && dx != NULL ? dx
                   : needs_none         ? NULL
                                        : cs_run_hold(run, p.rows * p.width);
        dy = step_bwd(&p, dy, has_act ? (enum cs_act)chain->act : CS_ACT_NONE,
                      has_act ? held.step[step - 1] : NULL, to);
        step -= has_act;
    }
    if (dx != NULL && dy != dx)
        cs_device_copy(run->device, dx, dy,
                       (size_t)(start.rows * start.width) * run->ops->act_bytes);
}

/* ---- layers that are a chain ---- */

static void layer_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *x, void *y,
                      struct cs_kept *kept)
{
    (void)ends;
    (void)rows;
    cs_chain_fwd(run, l, &l->arch->chain, x, y, kept);
}

static void layer_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      const struct cs_kept *kept)
{
    (void)ends;
    (void)rows;
    cs_chain_bwd(run, l, &l->arch->chain, dy, dx, kept);
}

const struct cs_layer_ops cs_layer_norm = {
    .in = CS_ROW_MODEL, .out = CS_ROW_MODEL, .fwd = layer_fwd, .bwd = layer_bwd};

const struct cs_layer_ops cs_layer_projector = {
    .in = CS_ROW_INNER, .out = CS_ROW_MODEL, .fwd = layer_fwd, .bwd = layer_bwd};
