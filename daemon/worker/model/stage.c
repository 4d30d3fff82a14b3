/* Runs the layers of a stage over one slot: forward in order, backward down to the lowest layer
 * that needs a gradient, and what is kept, redone or held between them. */
#include "worker/model/stage.h"

#include "worker/layer/loads.h"
#include "worker/layer/sequence.h"
#include "worker/layer/stretch.h"
#include "worker/model/stage_rows.h"

#include <stdlib.h>
#include <string.h>

/* Room for every role's parts; a role may lack some (one of three matrices that has no bias). */
static void count_parts(struct cs_layer_model *l, const struct cs_params *params)
{
    const struct cs_param *param = &params->graph->params[l->layer->first_param];
    for (int32_t i = 0; i < l->layer->n_params; i++)
        if (l->weights[param[i].role].n <= param[i].part)
            l->weights[param[i].role].n = param[i].part + 1;
    if (l->layer->kind == CS_LAYER_HEAD && l->weights[CS_PARAM_HEAD_W].n == 0 &&
        params->tied != NULL)
        l->weights[CS_PARAM_HEAD_W].n = 1;
}

/* The tensors of a layer sorted by role and part. */
static bool bind_params(struct cs_layer_model *l, const struct cs_params *params)
{
    const struct cs_param *param = &params->graph->params[l->layer->first_param];
    int32_t first[CS_PARAM_ROLE_COUNT + 1] = {0};
    count_parts(l, params);
    for (int r = 0; r < CS_PARAM_ROLE_COUNT; r++)
        first[r + 1] = first[r] + l->weights[r].n;
    l->bound = calloc((size_t)first[CS_PARAM_ROLE_COUNT] + 1, sizeof *l->bound);
    if (l->bound == NULL)
        return false;
    for (int r = 0; r < CS_PARAM_ROLE_COUNT; r++)
        l->weights[r].part = l->bound + first[r];
    l->bound[first[CS_PARAM_HEAD_W]] = params->tied; /* unless the layer has weights of its own */
    for (int32_t i = 0; i < l->layer->n_params; i++) {
        const struct cs_shard *t = cs_params_find(params, l->layer->first_param + i);
        CS_ASSERT(t != NULL);
        l->bound[first[param[i].role] + param[i].part] = t;
    }
    return true;
}

static int32_t width_of(const struct cs_arch *arch, enum cs_row_width width)
{
    return width == CS_ROW_MODEL ? arch->width : width == CS_ROW_INNER ? arch->in_width : 0;
}

static void set_widths(struct cs_layer_model *l)
{
    const struct cs_layer_ops *ops = cs_layer_ops_of(l->layer->kind);
    l->in_width = width_of(l->arch, ops->in);
    l->out_width = width_of(l->arch, ops->out);
}

/* Which rows of an encoder enter and leave: fewer leave a chain that joins them. */
static void set_counts(const struct cs_graph *graph, struct cs_layer_model *l)
{
    const bool is_joined =
        l->encoder >= 0 && cs_chain_joins(&cs_graph_encoder(graph, l->encoder)->arch.chain);
    const bool enters_joined = l->layer->kind == CS_LAYER_PROJECTOR && is_joined;
    l->rows_in = enters_joined ? CS_ROWS_OUT : CS_ROWS_INNER;
    l->rows_out = cs_layer_is_inner(graph, l->layer)     ? CS_ROWS_INNER
                  : l->layer->kind == CS_LAYER_PROJECTOR ? CS_ROWS_FILL
                                                         : CS_ROWS_OUT;
}

/* The head's loss feeds gradients back whenever it trains or something upstream does. */
static bool has_gradient(const struct cs_layer_model *l)
{
    const struct cs_shard *head = cs_weight(l, CS_PARAM_HEAD_W);
    return l->layer->needs_weight_grad || l->layer->needs_input_grad ||
           (head != NULL && head->grad != NULL);
}

static bool feeds_own_ranks(const struct cs_layer_model *l, const struct cs_graph *graph,
                            const struct cs_plan *plan, int32_t stage)
{
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *e = &plan->edges[i];
        if (e->from == stage && e->feed >= 0 && graph->feeds[e->feed].from_layer == l->layer->id &&
            plan->stages[e->to].rank == plan->stages[stage].rank)
            return true;
    }
    return false;
}

static void bind_feeds(struct cs_layer_model *l, const struct cs_graph *graph)
{
    l->tap = -1;
    for (int32_t f = 0; f < graph->n_feeds; f++) {
        const struct cs_feed *feed = &graph->feeds[f];
        if (feed->is_tap && feed->from_layer == l->layer->id)
            l->tap = f;
        if (feed->to_layer != l->layer->id)
            continue;
        l->in[l->n_feeds].feed = f;
        l->in[l->n_feeds++].encoder = graph->branches[feed->from].encoder;
    }
}

enum cs_status cs_stage_new(const struct cs_graph *graph, const struct cs_plan *plan,
                            const struct cs_params *params, int32_t stage,
                            struct cs_stage_model **out, struct cs_err *err)
{
    const struct cs_stage *plan_stage = &plan->stages[stage];
    const int32_t n = plan_stage->n_layers;
    struct cs_stage_model *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s != NULL)
        s->layer = calloc((size_t)n, sizeof *s->layer);
    if (s == NULL || s->layer == NULL) {
        cs_stage_free(s);
        return cs_fail(err, CS_NO_MEMORY, "no memory for stage %s", plan_stage->name);
    }
    s->stage = plan_stage;
    s->encoder = graph->branches[plan_stage->branch].encoder;
    s->lowest = n;
    s->recompute = (enum cs_recompute)plan_stage->recompute;
    for (int32_t i = n - 1; i >= 0; i--) {
        struct cs_layer_model *l = &s->layer[i];
        l->layer = &graph->layers[plan_stage->first_layer + i];
        l->arch = &graph->modules[l->layer->module].arch;
        l->attention = cs_layer_attention(graph, l->layer);
        l->attention_id = cs_layer_attention_id(graph, l->layer);
        l->encoder = s->encoder;
        if (!bind_params(l, params)) {
            cs_stage_free(s);
            return cs_fail(err, CS_NO_MEMORY, "no memory for stage %s", plan_stage->name);
        }
        bind_feeds(l, graph);
        l->picks_labels = cs_layer_feeds_head(graph, l->layer);
        l->feeds_own_ranks = feeds_own_ranks(l, graph, plan, stage);
        set_widths(l);
        set_counts(graph, l);
        l->needs_backward = has_gradient(l);
        if (l->needs_backward)
            s->lowest = i;
    }
    s->has_backward = s->lowest < n;
    s->is_first = s->layer[0].layer->kind == CS_LAYER_EMBED;
    s->is_last = s->layer[n - 1].layer->kind == CS_LAYER_HEAD;
    if (s->is_last && cs_weight(&s->layer[n - 1], CS_PARAM_HEAD_W) == NULL) {
        cs_stage_free(s);
        return cs_fail(err, CS_INTERNAL, "stage %s has no output weights", plan_stage->name);
    }
    *out = s;
    return CS_OK;
}

void cs_stage_free(struct cs_stage_model *stage)
{
    if (stage == NULL)
        return;
    for (int32_t i = 0; stage->layer != NULL && i < stage->stage->n_layers; i++)
        free(stage->layer[i].bound);
    free(stage->layer);
    free(stage);
}

int32_t cs_stage_rows(const struct cs_stage_model *stage, const struct cs_input *input)
{
    return cs_layer_rows_out(&stage->layer[stage->stage->n_layers - 1], input);
}

int32_t cs_stage_rows_in(const struct cs_stage_model *stage, const struct cs_input *input)
{
    return cs_layer_rows_in(&stage->layer[0], input);
}

/* The head picks rows of its input, which need not stay. */
static bool keeps_input(const struct cs_stage_model *s, int32_t layer)
{
    const struct cs_layer_model *l = &s->layer[layer];
    return layer >= s->lowest && l->layer->kind != CS_LAYER_HEAD &&
           cs_keep_find(l->arch, l->layer, CS_KEEP_X) != NULL;
}

static int64_t widest(const struct cs_stage_model *s, const struct cs_run *run)
{
    int64_t most = 0;
    for (int32_t i = 0; i < s->stage->n_layers; i++) {
        const int64_t in = cs_layer_n_in(&s->layer[i], run),
                      out = cs_layer_n_out(&s->layer[i], run);
        const bool is_dealt = s->encoder < 0 && (cs_stage_enters_order(s, run, i) ||
                                                 cs_stage_leaves_order(s, run, i));
        const int64_t dealt = is_dealt ? cs_layer_n_dealt_out(&s->layer[i], run) : 0;
        most = in > most ? in : most;
        most = out > most ? out : most;
        most = dealt > most ? dealt : most;
    }
    return most;
}

/* One of two buffers that take turns; taken when it is needed first. */
static void *in_turn(const struct cs_stage_model *s, struct cs_run *run, int32_t i, void *turn[2])
{
    if (turn[i & 1] == NULL)
        turn[i & 1] = cs_run_take(run, widest(s, run));
    return turn[i & 1];
}

/* Where layer i writes: the stage's end, the memory that layer i + 1 keeps, or a buffer in turn. */
static void *output_of(const struct cs_stage_model *s, struct cs_run *run, int32_t i, void *y,
                       void *turn[2])
{
    if (i == s->stage->n_layers - 1)
        return y;
    if (run->keep != NULL && keeps_input(s, i + 1) && !cs_stage_moves_in(s, run, i + 1))
        return cs_run_keep_acts(run, cs_stage_n_between(s, run, i));
    return in_turn(s, run, i, turn);
}

/* Of such a layer only the input is kept. */
static bool is_redone(const struct cs_stage_model *s, int32_t layer)
{
    const struct cs_layer_model *l = &s->layer[layer];
    return s->recompute == CS_RECOMPUTE_FULL && cs_keep_can_redo(l->arch, l->layer);
}

/* The first layer's input lies in a boundary buffer that is given back after the forward. */
static const void *copy_to(struct cs_run *run, void *copy, const void *x, int64_t n)
{
    cs_device_copy(run->device, copy, x, (size_t)n * run->ops->act_bytes);
    return copy;
}

/* x in the order that layer i wants and, of rows that are split, the own ones, in memory that its backward
 * finds */
static const void *put_in_order(const struct cs_stage_model *s, struct cs_run *run, int32_t i,
                                const void *x)
{
    const struct cs_layer_model *l = &s->layer[i];
    const bool is_kept = run->keep != NULL && keeps_input(s, i);
    const bool is_part = cs_stage_enters_split(s, run, i);
    if (cs_stage_enters_order(s, run, i)) {
        void *in_order = is_kept && !is_part ? cs_run_keep_acts(run, cs_layer_n_in(l, run))
                                             : cs_run_take(run, cs_layer_n_in(l, run));
        cs_stretch_rows(run, l->in_width, x, in_order);
        x = in_order;
    }
    if (!is_part)
        return x;
    x = cs_sequence_own(run, cs_layer_rows_in(l, run->input), l->in_width, x);
    const int64_t n = cs_layer_n_own_in(l, run);
    return is_kept ? copy_to(run, cs_run_keep_acts(run, n), x, n) : x;
}

void cs_saved_free(struct cs_saved *saved)
{
    if (saved == NULL)
        return;
    cs_scratch_free(&saved->memory);
    cs_scratch_free(&saved->held);
    free(saved->later.wgrad);
    free(saved->kept);
    free(saved);
}

static void tell(const struct cs_stage_model *s, void (*what)(void *, int32_t),
                 const struct cs_watch *watch, int32_t i)
{
    if (what != NULL)
        what(watch->user, s->stage->first_layer + i);
}

/* The own rows of what a pass leaves. */
static void *own_rows(const struct cs_run *run, int64_t rows, int64_t width, void *all)
{
    return (void *)(uintptr_t)cs_sequence_own(run, rows, width, all);
}

/* y: as the next layer wants it */
static void fwd_layer(const struct cs_stage_model *s, struct cs_run *run, int32_t i,
                      const struct cs_layer_ends *ends, void *y, struct cs_kept *kept)
{
    const struct cs_layer_model *l = &s->layer[i];
    const int64_t rows = cs_layer_rows_out(l, run->input);
    const bool leaves = cs_stage_leaves_order(s, run, i),
               is_part = cs_stage_leaves_split(s, run, i);
    const bool is_end = run->leaves_parts && i == s->stage->n_layers - 1 && is_part && !leaves;
    void *all = leaves ? cs_run_take(run, cs_layer_n_out(l, run)) : y;
    void *out = is_end    ? own_rows(run, rows, l->out_width, all)
                : is_part ? cs_run_take(run, cs_layer_n_own_out(l, run))
                          : all;
    cs_layer_ops_of(l->layer->kind)->fwd(run, l, rows, ends, kept->x, out, kept);
    if (is_part && !is_end)
        cs_sequence_gather(run, rows, l->out_width, out, all);
    if (leaves)
        cs_layer_deal_out(run, l, all, y);
}

void cs_stage_fwd(const struct cs_stage_model *stage, struct cs_run *run, const void *x,
                  const struct cs_layer_ends *ends, void *y, struct cs_saved *saved)
{
    const int32_t n = stage->stage->n_layers;
    const struct cs_scratch_mark start = cs_scratch_mark(run->scratch);
    void *turn[2] = {NULL, NULL};
    struct cs_kept none;
    run->keep = saved != NULL ? &saved->memory : NULL;
    run->recompute = stage->recompute;
    run->splits_rows = stage->stage->splits_rows && run->tensors != NULL;
    if (saved != NULL) {
        if (saved->kept == NULL)
            saved->kept = malloc((size_t)n * sizeof *saved->kept);
        CS_ASSERT(saved->kept != NULL);
        memset(saved->kept, 0, (size_t)n * sizeof *saved->kept);
        if (keeps_input(stage, 0) && !cs_stage_moves_in(stage, run, 0))
            x = copy_to(run, cs_run_keep_acts(run, cs_layer_n_in(&stage->layer[0], run)), x,
                        cs_layer_n_in(&stage->layer[0], run));
    }
    struct cs_scratch *const keep = run->keep;
    cs_loads_forward(run, stage->layer[0].arch, ends, stage->is_last);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_layer_model *l = &stage->layer[i];
        struct cs_kept *kept = saved != NULL && i >= stage->lowest ? &saved->kept[i] : &none;
        void *out = output_of(stage, run, i, y, turn);
        const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
        if (run->watch != NULL) {
            tell(stage, run->watch->at, run->watch, i);
            tell(stage, run->watch->before, run->watch, i);
        }
        memset(&none, 0, sizeof none);
        cs_feeds_take(run, l, ends, (void *)(uintptr_t)x);
        kept->x = put_in_order(stage, run, i, x);
        run->keep = i >= stage->lowest && !is_redone(stage, i) ? keep : NULL;
        fwd_layer(stage, run, i, ends, out, kept);
        if (run->watch != NULL && saved != NULL && l->layer->kind == CS_LAYER_HEAD)
            tell(stage, run->watch->made, run->watch, i);
        run->keep = keep;
        cs_scratch_rewind(run->scratch, mark);
        x = out;
    }
    if (stage->is_last)
        cs_loads_join(run, &stage->layer[n - 1]);
    cs_scratch_rewind(run->scratch, start);
}

/* The weight half of a split backward has something to do for the layer: what it reads is held. */
static bool is_held(const struct cs_stage_model *s, const struct cs_saved *saved, int32_t layer)
{
    return saved->is_split && s->layer[layer].layer->needs_weight_grad;
}

/* Where the gradient of layer i's input goes, as the layer before wants it; NULL: nobody reads it. */
static void *grad_of(const struct cs_stage_model *s, struct cs_run *run, int32_t i,
                     const struct cs_layer_ends *ends, void *dx, void *turn[2],
                     struct cs_saved *saved)
{
    const bool is_end = i == 0 || i == s->lowest;
    if (i == 0 && dx != NULL)
        return dx;
    if (is_end)
        return cs_feeds_ask(&s->layer[i], ends) ? in_turn(s, run, i, turn) : NULL;
    if (!is_held(s, saved, i - 1) || cs_stage_leaves_order(s, run, i - 1) ||
        cs_stage_is_split(s, run, i - 1))
        return in_turn(s, run, i, turn); /* it is moved once more, or put together and held so */
    const int64_t n = cs_stage_enters_order(s, run, i) ? cs_layer_n_dealt_in(&s->layer[i], run)
                                                       : cs_layer_n_in(&s->layer[i], run);
    return cs_scratch_take(&saved->held, (size_t)n * run->ops->act_bytes);
}

static void bwd_layer(const struct cs_stage_model *s, struct cs_run *run, int32_t i,
                      const struct cs_layer_ends *ends, const void *dy, void *dx,
                      struct cs_saved *saved)
{
    const struct cs_layer_model *l = &s->layer[i];
    const struct cs_layer_ops *ops = cs_layer_ops_of(l->layer->kind);
    const int64_t rows = cs_layer_rows_out(l, run->input);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    struct cs_kept kept = saved->kept[i];
    /* dx may be NULL for want of rows here, while other ranks have some */
    const bool enters = l->layer->needs_input_grad && cs_stage_enters_order(s, run, i);
    run->later = is_held(s, saved, i) ? &saved->later : NULL;
    saved->later.layer = i;
    run->keep = is_held(s, saved, i) ? &saved->held : NULL;
    if (cs_stage_leaves_order(s, run, i)) {
        void *in_order = cs_run_hold(run, cs_layer_n_out(l, run));
        cs_layer_call_in(run, l, dy, in_order);
        dy = in_order;
    }
    if (cs_stage_leaves_split(s, run, i))
        dy = cs_sequence_own(run, rows, l->out_width, dy);
    void *in_order = enters ? cs_run_take(run, cs_layer_n_in(l, run)) : dx;
    const bool is_part = in_order != NULL && cs_stage_enters_split(s, run, i);
    const bool is_end = run->leaves_parts && i == 0 && is_part && !enters;
    void *own = is_end    ? own_rows(run, rows, l->in_width, in_order)
                : is_part ? cs_run_take(run, cs_layer_n_own_in(l, run))
                          : in_order;
    if (is_redone(s, i)) {
        kept = (struct cs_kept){.x = kept.x};
        run->is_again = true;
        ops->fwd(run, l, rows, ends, kept.x, NULL, &kept);
        run->is_again = false;
    }
    ops->bwd(run, l, rows, ends, dy, own, &kept);
    if (is_part && !is_end)
        cs_sequence_gather(run, rows, l->in_width, own, in_order);
    if (enters)
        cs_stretch_rows_back(run, l->in_width, in_order, dx);
    cs_scratch_rewind(run->scratch, mark);
}

void cs_stage_bwd(const struct cs_stage_model *stage, struct cs_run *run, const void *dy, void *dx,
                  const struct cs_layer_ends *ends, struct cs_saved *saved)
{
    const int32_t last = stage->stage->n_layers - 1;
    const int64_t n = cs_layer_n_out(&stage->layer[last], run);
    const struct cs_scratch_mark start = cs_scratch_mark(run->scratch);
    void *turn[2] = {NULL, NULL};
    saved->held.device = saved->memory.device;
    saved->later.held = &saved->held;
    run->recompute = stage->recompute;
    run->splits_rows = stage->stage->splits_rows && run->tensors != NULL;
    if (is_held(stage, saved, last) && dy != NULL && !cs_stage_leaves_order(stage, run, last) &&
        !cs_stage_leaves_split(stage, run, last)) /* its buffer is given back before that */
        dy = copy_to(run, cs_scratch_take(&saved->held, (size_t)n * run->ops->act_bytes), dy, n);
    cs_loads_backward(run, stage->layer[0].arch, ends, stage->is_last);
    for (int32_t i = last; i >= stage->lowest; i--) {
        void *out = grad_of(stage, run, i, ends, dx, turn, saved);
        if (run->watch != NULL) {
            tell(stage, run->watch->at, run->watch, i);
            tell(stage, run->watch->back, run->watch, i);
        }
        bwd_layer(stage, run, i, ends, dy, out, saved);
        cs_feeds_give(run, &stage->layer[i], ends, out);
        if (run->watch != NULL)
            tell(stage, saved->is_split ? run->watch->half : run->watch->done, run->watch, i);
        dy = out;
    }
    cs_scratch_rewind(run->scratch, start);
}

void cs_stage_bwd_weight(const struct cs_stage_model *stage, struct cs_run *run,
                         struct cs_saved *saved)
{
    run->keep = NULL;
    run->later = NULL;
    for (int32_t i = stage->stage->n_layers - 1; i >= stage->lowest; i--) {
        if (run->watch != NULL) {
            tell(stage, run->watch->at, run->watch, i);
            tell(stage, run->watch->weigh, run->watch, i);
        }
        if (saved != NULL)
            cs_run_later(run, &saved->later, i);
        if (run->watch != NULL)
            tell(stage, run->watch->done, run->watch, i);
    }
}
