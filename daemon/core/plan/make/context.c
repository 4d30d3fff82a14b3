/* Refuses layouts with cp that do not run, before anything starts. */
#include "core/plan/make/context.h"

#include <string.h>

#include "core/plan/cost/bytes.h"

/* Recurrent layers pass states from rank to rank, experts are balanced over all rows of a slot. */
static enum cs_status check_layers(const struct cs_graph *graph,
                                   const struct cs_device_class *device, struct cs_err *err)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    for (int32_t i = llm->first_layer; i < llm->first_layer + llm->n_layers; i++) {
        const struct cs_layer *layer = &graph->layers[i];
        if (layer->kind != CS_LAYER_BLOCK)
            continue;
        if (layer->mixer == CS_MIXER_DELTA && cs_device_element_bytes(device) != 4)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.cp: %s is a recurrent layer, whose rows can be split "
                           "over CPU ranks only yet, not on a %s; set cp = 1",
                           llm->name, layer->path, device->name);
        if (layer->ffn == CS_FFN_EXPERTS && cs_layer_arch(graph, layer)->experts.balance > 0 &&
            cs_device_element_bytes(device) != 4)
            return cs_fail(
                err, CS_PLAN,
                "plan.parallel.%s.cp: %s has experts with a loss of their balance over "
                "all rows of a slot, which can be split over CPU ranks only yet, not on a "
                "%s; set cp = 1, or output_router_logits = false in its config",
                llm->name, layer->path, device->name);
    }
    return CS_OK;
}

static enum cs_status check_llm(const struct cs_graph *graph, const struct cs_device_class *device,
                                const struct cs_placing *placing, struct cs_err *err)
{
    const char *llm = graph->branches[graph->llm].name;
    if (graph->n_encoders > 0 && !placing->placement->has_own_ranks)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.cp = %d: with modality %s encoders are on ranks of %s, "
                       "whose rows are split; choose modality encoder-parallel, or cp = 1",
                       llm, placing->cp, placing->placement->modality, llm);
    return check_layers(graph, device, err);
}

enum cs_status cs_context_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                                const struct cs_device_class *device, struct cs_placing *placing,
                                struct cs_err *err)
{
    const char *llm = graph->branches[graph->llm].name;
    placing->cp = 1;
    for (int32_t i = 0; i < spec->n_parallel; i++) {
        const struct cs_spec_parallel *given = &spec->parallel[i];
        if (given->cp <= 1)
            continue;
        if (strcmp(given->branch, llm) != 0)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.cp = %d: rows of encoders cannot be split over ranks "
                           "yet, those of %s can; set cp = 1",
                           given->branch, given->cp, llm);
        placing->cp = given->cp;
    }
    return placing->cp > 1 ? check_llm(graph, device, placing, err) : CS_OK;
}
