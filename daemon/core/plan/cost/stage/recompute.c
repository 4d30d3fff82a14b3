/* What recompute saves and costs a stage; what it drops says the table of core/model/keeps.h.
 * Selective: passes over memory make it again. Full: the layer's forward runs once more. */
#include "core/plan/cost/stage/recompute.h"

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/layout.h"

enum cs_recompute cs_recompute_asked(const struct cs_spec *spec, const char *branch)
{
    enum cs_recompute level = CS_RECOMPUTE_NONE;
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    if (given != NULL && given->recompute != NULL)
        (void)cs_recompute_from_name(given->recompute, &level);
    return level;
}

struct cs_recompute_effect cs_layer_recompute(const struct cs_graph *graph,
                                              const struct cs_layer *layer, int64_t rows,
                                              enum cs_recompute level,
                                              const struct cs_device_class *device, int64_t fwd_ns)
{
    const int64_t dropped = cs_keep_numbers(graph, layer, CS_RECOMPUTE_NONE, rows) -
                            cs_keep_numbers(graph, layer, level, rows);
    const int64_t bytes = dropped * cs_device_element_bytes(device);
    const int64_t passes_ns = (int64_t)(2e9 * (double)bytes / (double)device->bytes_per_s);
    if (dropped == 0)
        return (struct cs_recompute_effect){0};
    return (struct cs_recompute_effect){bytes, level == CS_RECOMPUTE_FULL ? fwd_ns : passes_ns};
}

static void save_layer(const struct cs_graph *graph, const struct cs_layer *layer,
                       const struct cs_plan *plan, const struct cs_device_class *device,
                       int64_t fwd_ns, struct cs_stage *stage)
{
    const int64_t rows =
        cs_context_share(plan, stage->id, cs_layer_work(graph, layer, &plan->budget).tokens);
    const struct cs_recompute_effect effect =
        cs_layer_recompute(graph, layer, rows, (enum cs_recompute)stage->recompute, device, fwd_ns);
    stage->saved_bytes -= effect.bytes;
    if (layer->needs_input_grad)
        stage->bwd_input_ns += effect.redo_ns;
    else
        stage->bwd_weight_ns += effect.redo_ns;
}

void cs_stage_recompute(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_device_class *device, const struct cs_layer_cost *cost,
                        struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        stage->recompute = (int32_t)cs_recompute_asked(spec, graph->branches[stage->branch].name);
        if (stage->recompute == CS_RECOMPUTE_NONE)
            continue;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++)
            save_layer(graph, &graph->layers[l], plan, device, cost[l].fwd_ns, stage);
    }
}
