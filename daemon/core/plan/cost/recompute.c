/* What recompute saves and costs a stage. Selective: the two normed inputs and the
 * activation of the MLP of a block are made again by passes over memory. Full: only a block's input
 * is kept, its forward runs once more. Embeddings, projectors and heads are never made again. */
#include "core/plan/cost/recompute.h"

#include <string.h>

#include "core/plan/cost/bytes.h"
#include "core/plan/layout.h"

static enum cs_recompute recompute_of(const struct cs_spec *spec, const char *branch)
{
    enum cs_recompute level = CS_RECOMPUTE_NONE;
    for (int32_t i = 0; i < spec->n_parallel; i++)
        if (strcmp(spec->parallel[i].branch, branch) == 0 && spec->parallel[i].recompute != NULL)
            (void)cs_recompute_from_name(spec->parallel[i].recompute, &level);
    return level;
}

static void save_layer(const struct cs_graph *graph, const struct cs_layer *layer,
                       const struct cs_slot_budget *budget, const struct cs_device_class *device,
                       int64_t fwd_ns, struct cs_stage *stage)
{
    const struct cs_arch *arch = &graph->modules[layer->module].arch;
    if (layer->kind != CS_LAYER_BLOCK || !(layer->needs_input_grad || layer->needs_weight_grad))
        return;
    const int64_t tokens = cs_layer_work(graph, layer, budget).tokens;
    const int64_t element = cs_device_element_bytes(device), width = arch->width;
    const int64_t all = cs_layer_saved_bytes(graph, layer, tokens) / 4 * element;
    /* a frozen block keeps none of it */
    const int64_t cheap =
        layer->needs_weight_grad ? tokens * (2 * width + arch->ffn_width) * element : 0;
    const bool is_full = stage->recompute == CS_RECOMPUTE_FULL;
    const int64_t redo_ns =
        is_full ? fwd_ns : (int64_t)(2e9 * (double)cheap / (double)device->bytes_per_s);
    stage->saved_bytes -= is_full ? all - tokens * width * element : cheap;
    if (layer->needs_input_grad)
        stage->bwd_input_ns += redo_ns;
    else
        stage->bwd_weight_ns += redo_ns;
}

void cs_stage_recompute(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_layer_cost *cost,
                        struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        stage->recompute = (int32_t)recompute_of(spec, graph->branches[stage->branch].name);
        if (stage->recompute == CS_RECOMPUTE_NONE)
            continue;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
            save_layer(graph, &graph->layers[l], &plan->budget, device, cost[l].fwd_ns, stage);
    }
}
