/* Times and bytes of the stages of a plan, from those of their layers. */
#include "core/plan/cost/stage/stages.h"

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/windows.h"
#include "core/plan/cost/stage/zero.h"

/* On one rank the tied head reads the embedding's weights, which are updated once; fp32 gradients
 * are two (worker/params/params.h). */
static void share_tied(const struct cs_graph *graph, const struct cs_device_class *device,
                       struct cs_plan *plan)
{
    struct cs_stage *head = &plan->stages[plan->head_stage];
    if (!graph->is_tied || plan->stages[plan->embed_stage].rank != head->rank)
        return;
    const struct cs_param *table = &graph->params[graph->tied_param];
    const struct cs_state_bytes bytes = cs_state_bytes(graph->keeps_bf16, device);
    head->weight_bytes -= table->count * cs_device_element_bytes(device);
    if (table->is_trainable)
        head->state_bytes -= cs_replica_state(table->count * bytes.all, graph->keeps_bf16, device,
                                              cs_plan_holders(plan, head->rank)) -
                             (graph->keeps_bf16 ? 0 : table->count * bytes.grad);
}

void cs_stage_costs(const struct cs_graph *graph, const struct cs_device_class *device,
                    const struct cs_layer_cost *cost, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        const int32_t holders = cs_plan_holders(plan, stage->rank), ep = cs_plan_shape(plan, s).ep;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
            const struct cs_layer_bytes bytes = cs_replica_bytes(
                graph, &graph->layers[l], &plan->budget, device, stage->zero, holders, ep);
            stage->fwd_ns += cost[l].fwd_ns;
            stage->bwd_input_ns += cost[l].bwd_input_ns;
            stage->bwd_weight_ns += cost[l].bwd_weight_ns;
            stage->weight_bytes += bytes.weight;
            stage->state_bytes += bytes.state;
            stage->saved_bytes += cs_context_share(plan, s, bytes.saved);
        }
    }
    share_tied(graph, device, plan);
}

/* The head's copy of a tied embedding that is on the embedding's own rank: it has a gradient, but
 * counts in the norm and is updated as the embedding. */
static int64_t tied_copy(const struct cs_graph *graph, const struct cs_plan *plan, int32_t stage)
{
    if (!graph->is_tied || stage != plan->head_stage ||
        plan->stages[plan->embed_stage].rank != plan->stages[stage].rank)
        return 0;
    const struct cs_param *table = &graph->params[graph->tied_param];
    return table->is_trainable ? table->count : 0;
}

/* Layers were measured on a device that they had to themselves. */
static void share_device(const struct cs_cluster *cluster, struct cs_plan *plan)
{
    const struct cs_device_class *device = cluster->device;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        const int32_t channels =
            cs_channels_without_window(cluster, plan, cs_plan_rank_of(plan, 0, stage->rank));
        const int64_t left = device->units - (int64_t)CS_CHANNEL_UNITS * channels;
        if (left <= 0 || left >= device->units)
            continue;
        stage->fwd_ns = cs_scale(stage->fwd_ns, device->units, left);
        stage->bwd_input_ns = cs_scale(stage->bwd_input_ns, device->units, left);
        stage->bwd_weight_ns = cs_scale(stage->bwd_weight_ns, device->units, left);
    }
}

void cs_stage_step_costs(const struct cs_graph *graph, const struct cs_cluster *cluster,
                         const struct cs_profile *profile, struct cs_plan *plan)
{
    const struct cs_device_class *device = cluster->device;
    const struct cs_state_bytes state = cs_state_bytes(graph->keeps_bf16, device);
    struct cs_profile_step step;
    const enum cs_step_source source = cs_profile_step(profile, graph->keeps_bf16, &step);
    if (profile)
        share_device(cluster, plan);
    for (int32_t s = 0; profile && s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        const struct cs_layer *first = &graph->layers[graph->branches[stage->branch].first_layer];
        const struct cs_profile_row *row =
            cs_profile_find(profile, graph, first, (struct cs_profile_ranks){.tp = 1, .cp = 1});
        const int64_t copy = tied_copy(graph, plan, s);
        int64_t grads = 0;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
            grads +=
                cs_layer_bytes(graph, &graph->layers[l], &plan->budget, device).state / state.all;
        if (row != NULL)
            stage->prepare_ns =
                cs_quadratic_ns(&row->prepare, cs_layer_work(graph, first, &plan->budget).tokens);
        if (source == CS_STEP_BYTES || grads == 0)
            continue;
        stage->clear_ns = cs_quadratic_ns(&step.clear, grads - (graph->keeps_bf16 ? copy : 0));
        stage->norm_ns = cs_quadratic_ns(&step.norm, grads - copy);
        stage->update_ns = cs_quadratic_ns(&step.update, grads - copy);
        /* both gradients are added: two numbers read, one written; in bf16 they are one */
        if (copy > 0 && !graph->keeps_bf16)
            stage->norm_ns +=
                cs_divide_up((cs_u128)(copy * 3 * state.grad) * 1000000000u, device->bytes_per_s);
    }
}
