/* The passes of a stage over a slot: forward, backward, and the two halves of a split backward.
 * Between run_on and cs_graphs_close a stage may only be written down (worker/exec/state/graphs.h). */
#include "worker/exec/passes.h"

#include <stdlib.h>

#include "worker/exec/messages/context.h"
#include "worker/exec/messages/stripes.h"
#include "worker/exec/state/offload.h"
#include "worker/exec/state/saved.h"

struct ends {
    const void *x, *dy;
    void *y, *dx;
    struct cs_layer_ends layer;
};

/* errors of what is enqueued show when the device is waited for */
static void note(struct cs_exec *exec, enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK && exec->config.device->error.status == CS_OK)
        exec->config.device->error = *err;
}

/* The head also reads the embedding's weights: it waits for all that is left. */
static void before_layer(void *user, int32_t layer)
{
    struct cs_exec *exec = user;
    struct cs_err err = {0};
    const bool is_head = exec->config.graph->layers[layer].kind == CS_LAYER_HEAD;
    note(exec, cs_replicas_need(exec->config.replicas, is_head ? -1 : layer, &err), &err);
    note(exec, cs_replicas_enter(exec->config.replicas, layer, 1, CS_MADE_FORWARD, &err), &err);
}

static void back_layer(void *user, int32_t layer)
{
    struct cs_exec *exec = user;
    struct cs_err err = {0};
    note(exec, cs_replicas_enter(exec->config.replicas, layer, -1, CS_MADE_BACKWARD, &err), &err);
}

static void back_half(void *user, int32_t layer)
{
    struct cs_exec *exec = user;
    struct cs_err err = {0};
    note(exec, cs_replicas_enter(exec->config.replicas, layer, -1, CS_MADE_WITH_INPUT, &err), &err);
}

static void weigh_layer(void *user, int32_t layer)
{
    struct cs_exec *exec = user;
    struct cs_err err = {0};
    note(exec, cs_replicas_enter(exec->config.replicas, layer, 0, CS_MADE_WITH_WEIGHTS, &err),
         &err);
}

static void sum_layer(struct cs_exec *exec, int32_t layer, unsigned made)
{
    struct cs_err err = {0};
    note(exec, cs_tensor_ranks_layer_done(exec->config.tensors, layer, made, &err), &err);
    note(exec, cs_replicas_layer_done(exec->config.replicas, layer, made, exec->is_last_slot, &err),
         &err);
}

static void made_layer(void *user, int32_t layer)
{
    sum_layer(user, layer, CS_MADE_FORWARD);
}

static void half_layer(void *user, int32_t layer)
{
    sum_layer(user, layer, CS_MADE_WITH_INPUT);
}

static void layer_done(void *user, int32_t layer)
{
    struct cs_exec *exec = user;
    sum_layer(exec, layer, exec->made);
}

/* Replicas' weights come in before the first layer that reads them, gradients go out behind the
 * last backward that adds to them; those that are divided, behind everything that makes some. */
static const struct cs_watch *watch_of(struct cs_exec *exec, const struct cs_action *a)
{
    const bool divides = cs_replicas_divides(exec->config.replicas),
               is_half = a->op == CS_OP_BWD_INPUT;
    exec->is_last_slot = a->slot == exec->program->n_slots - 1;
    exec->watch = (struct cs_watch){.before = before_layer,
                                    .made = divides ? made_layer : NULL,
                                    .back = !divides  ? NULL
                                            : is_half ? back_half
                                                      : back_layer,
                                    .half = divides ? half_layer : NULL,
                                    .weigh = divides ? weigh_layer : NULL,
                                    .done = exec->is_last_slot || divides ? layer_done : NULL,
                                    .user = exec};
    return exec->config.replicas != NULL ? &exec->watch : NULL;
}

static struct cs_run run_on(struct cs_exec *exec, struct cs_ctx *ctx, const struct cs_action *a)
{
    *ctx = cs_device_ctx(exec->config.device);
    struct cs_run run = {.device = exec->config.device,
                         .ops = exec->config.device->ops,
                         .ctx = ctx,
                         .scratch = &exec->scratch,
                         .input = &exec->inputs[a->slot],
                         .context = cs_exec_context(exec),
                         .tensors = cs_exec_sharers(exec, a->stage),
                         .experts = cs_exec_experts(exec, a->slot),
                         .all = cs_exec_all(exec),
                         .watch = watch_of(exec, a)};
    cs_context_begin(run.context);
    cs_context_begin(run.tensors);
    cs_context_begin(run.experts);
    cs_context_begin(run.all);
    cs_graphs_open(exec->graphs, &run);
    return run;
}

static bool is_tap(const struct cs_exec *exec, const struct cs_edge *edge)
{
    return edge->feed >= 0 && exec->config.graph->feeds[edge->feed].is_tap;
}

/* Rows that a stage leaves: where who takes them is on the same ranks, these have them by then. */
static int64_t rows_made(const struct cs_exec *exec, int32_t edge, int32_t slot)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *e = &plan->edges[edge];
    return cs_exec_edge_rows(exec, edge, slot,
                             plan->stages[e->from].rank != plan->stages[e->to].rank);
}

/* The edge has rows of this slot: copies of an encoder take turns at the slots. */
static bool runs(const struct cs_exec *exec, const struct cs_edge *edge, int32_t slot)
{
    const struct cs_slot_share *share = exec->program->share;
    return share == NULL || share[edge->from].n == 0 ||
           slot % share[edge->from].n == share[edge->from].at;
}

/* A copy of an encoder feeds the stage on its rank, which may have none of the layers that use its rows. */
static bool is_used(const struct cs_exec *exec, const struct cs_edge *edge)
{
    const struct cs_stage *to = &exec->config.plan->stages[edge->to];
    if (edge->feed < 0)
        return true;
    const int32_t layer = exec->config.graph->feeds[edge->feed].to_layer;
    return layer >= to->first_layer && layer < to->first_layer + to->n_layers;
}

enum cs_status cs_exec_forward(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_stage_model *stage = exec->stage[a->stage];
    struct ends e = {0};
    struct cs_ctx ctx;
    CS_TRY(cs_exec_offload_before(exec, a, err));
    struct cs_run run = run_on(exec, &ctx, a);
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        if (!runs(exec, edge, a->slot))
            continue;
        if (edge->to == a->stage && edge->feed >= 0)
            e.layer.fill[edge->feed] = cs_boundary_at(exec->boundary, i, a->slot, 0);
        else if (edge->to == a->stage)
            e.x = cs_boundary_at(exec->boundary, i, a->slot, 0);
        if (edge->to == a->stage && edge->feed < 0)
            e.layer.loads_from = cs_boundary_loads(exec->boundary, i, a->slot, 0);
        if (edge->from != a->stage)
            continue;
        void *out = cs_boundary_take(exec->boundary, i, a->slot, 0, rows_made(exec, i, a->slot));
        if (is_tap(exec, edge))
            e.layer.tap[edge->feed] = out;
        else
            e.y = out;
        if (edge->feed < 0)
            e.layer.loads_to = cs_boundary_loads(exec->boundary, i, a->slot, 0);
    }
    struct cs_saved *saved = stage->has_backward && !exec->program->is_eval
                                 ? cs_exec_take_saved(exec, a->stage, a->slot)
                                 : NULL;
    cs_exec_join_stripes(exec, &run, a, CS_FLOW_ROWS);
    run.leaves_parts = cs_exec_leaves_parts(exec, a, CS_FLOW_ROWS);
    cs_stage_fwd(stage, &run, e.x, &e.layer, e.y, saved);
    cs_graphs_close(exec->graphs, a->id);
    if (saved != NULL) {
        cs_exec_count_saved(exec, saved->memory.used);
        CS_TRY(cs_exec_offload_after(exec, a, saved, err));
    }
    for (int32_t i = 0; i < plan->n_edges; i++)
        if (plan->edges[i].to == a->stage)
            cs_boundary_give(exec->boundary, i, a->slot, 0);
    return CS_OK;
}

/* Gradients of rows that the stage has had and not used. */
static void clear_unused(struct cs_exec *exec, const struct cs_action *a)
{
    struct cs_device *device = exec->config.device;
    for (int32_t i = 0; i < exec->config.plan->n_edges; i++) {
        const struct cs_edge *edge = &exec->config.plan->edges[i];
        void *d = NULL;
        if (edge->has_grad && edge->to == a->stage && !is_used(exec, edge))
            d = cs_boundary_at(exec->boundary, i, a->slot, 1);
        if (d != NULL)
            cs_device_zero(device, d,
                           (size_t)cs_exec_edge_rows(exec, i, a->slot, false) *
                               (size_t)edge->width * device->ops->act_bytes);
    }
}

/* The whole backward, or its input half: then what the weight half needs stays saved. */
static enum cs_status run_backward(struct cs_exec *exec, const struct cs_action *a, bool is_half,
                                   struct cs_err *err)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_stage_model *stage = exec->stage[a->stage];
    struct cs_saved *saved = exec->saved[a->slot * plan->n_stages + a->stage];
    struct ends e = {0};
    struct cs_ctx ctx;
    CS_TRY(cs_exec_offload_before(exec, a, err));
    struct cs_run run = run_on(exec, &ctx, a);
    if (saved == NULL)
        return cs_fail(err, CS_INTERNAL, "backward of stage %s on slot %d has no forward",
                       stage->stage->name, a->slot);
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *edge = &plan->edges[i];
        if (!edge->has_grad || !runs(exec, edge, a->slot))
            continue;
        if (edge->from == a->stage && is_tap(exec, edge))
            e.layer.d_tap[edge->feed] = cs_boundary_at(exec->boundary, i, a->slot, 1);
        else if (edge->from == a->stage)
            e.dy = cs_boundary_at(exec->boundary, i, a->slot, 1);
        if (edge->from == a->stage && edge->feed < 0)
            e.layer.loads_from = cs_boundary_loads(exec->boundary, i, a->slot, 1);
        if (edge->to != a->stage)
            continue;
        void *d = cs_boundary_take(exec->boundary, i, a->slot, 1,
                                   cs_exec_edge_rows(exec, i, a->slot, false));
        if (edge->feed >= 0)
            e.layer.d_fill[edge->feed] = d;
        else
            e.dx = d;
        if (edge->feed < 0)
            e.layer.loads_to = cs_boundary_loads(exec->boundary, i, a->slot, 1);
    }
    saved->is_split = is_half;
    exec->made = CS_MADE_BACKWARD;
    cs_exec_join_stripes(exec, &run, a, CS_FLOW_GRADIENTS);
    run.leaves_parts = cs_exec_leaves_parts(exec, a, CS_FLOW_GRADIENTS);
    cs_stage_bwd(stage, &run, e.dy, e.dx, &e.layer, saved);
    cs_graphs_close(exec->graphs, a->id);
    clear_unused(exec, a);
    cs_exec_count_saved(exec, saved->held.used);
    CS_TRY(cs_exec_offload_after(exec, a, saved, err));
    if (saved->later.n == 0)
        cs_exec_give_saved(exec, a->stage, a->slot);
    for (int32_t i = 0; i < plan->n_edges; i++)
        if (plan->edges[i].has_grad && plan->edges[i].from == a->stage)
            cs_boundary_give(exec->boundary, i, a->slot, 1);
    return CS_OK;
}

enum cs_status cs_exec_backward(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    return run_backward(exec, a, false, err);
}

enum cs_status cs_exec_backward_input(struct cs_exec *exec, const struct cs_action *a,
                                      struct cs_err *err)
{
    return run_backward(exec, a, true, err);
}

/* Of a stage without an input half: its whole backward. */
enum cs_status cs_exec_backward_weight(struct cs_exec *exec, const struct cs_action *a,
                                       struct cs_err *err)
{
    struct cs_saved *saved = exec->saved[a->slot * exec->config.plan->n_stages + a->stage];
    struct cs_ctx ctx;
    struct cs_run run = run_on(exec, &ctx, a);
    exec->made = CS_MADE_WITH_WEIGHTS;
    if (saved == NULL) { /* the input half left nothing */
        cs_stage_bwd_weight(exec->stage[a->stage], &run, NULL);
        cs_graphs_close(exec->graphs, a->id);
        return CS_OK;
    }
    if (!saved->is_split)
        return run_backward(exec, a, false, err);
    cs_stage_bwd_weight(exec->stage[a->stage], &run, saved);
    cs_graphs_close(exec->graphs, a->id);
    cs_exec_give_saved(exec, a->stage, a->slot);
    return CS_OK;
}
