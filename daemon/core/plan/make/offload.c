/* Takes from the layout whose activations wait in the host's memory, and refuses what does not run. */
#include "core/plan/make/offload.h"

#include <string.h>

#include "core/plan/cost/basis/bytes.h"

bool cs_branch_offloads(const struct cs_spec *spec, const struct cs_graph *graph, int32_t branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, graph->branches[branch].name);
    return given != NULL && given->offload != NULL && strcmp(given->offload, "host") == 0;
}

static enum cs_status check_branch(const char *name, const struct cs_device_class *device,
                                   const struct cs_placing *placing, struct cs_err *err)
{
    if (cs_device_element_bytes(device) == 4)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.offload = \"host\": activations of CPU ranks are in the "
                       "host's memory as they are; leave offload away, or plan for GPUs",
                       name);
    if (placing->schedule->splits_backward)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.offload = \"host\": schedule %s splits backwards, between "
                       "whose halves activations stay; choose 1f1b, gpipe or interleaved, or leave "
                       "offload away",
                       name, placing->schedule->name);
    if (cs_placing_has_copies(placing))
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.offload = \"host\": encoders are copied to the ranks of "
                       "the LLM; choose modality encoder-parallel, or leave offload away",
                       name);
    return CS_OK;
}

enum cs_status cs_offload_stages(const struct cs_spec *spec, const struct cs_graph *graph,
                                 const struct cs_device_class *device,
                                 const struct cs_placing *placing, struct cs_plan *plan,
                                 struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++) {
        bool keeps = false;
        if (!cs_branch_offloads(spec, graph, b))
            continue;
        CS_TRY(check_branch(graph->branches[b].name, device, placing, err));
        for (int32_t s = 0; s < plan->n_stages; s++) {
            struct cs_stage *stage = &plan->stages[s];
            stage->offloads = stage->offloads || (stage->branch == b && stage->has_backward);
            keeps = keeps || (stage->branch == b && stage->has_backward);
        }
        if (!keeps)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.offload = \"host\": nothing of %s has a backward, so "
                           "no activations are kept; leave offload away",
                           graph->branches[b].name, graph->branches[b].name);
    }
    return CS_OK;
}
