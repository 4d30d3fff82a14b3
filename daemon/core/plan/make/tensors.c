/* Refuses layouts with tp that do not run, before anything starts. */
#include "core/plan/make/tensors.h"

#include "core/model/tensor_parallel.h"

static int32_t asked_for(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->tp > 1 ? given->tp : 1;
}

/* Encoders on ranks of the LLM: one shape for all stages of a rank. */
static enum cs_status check_same(const struct cs_graph *graph, const struct cs_placing *placing,
                                 struct cs_err *err)
{
    const int32_t of_llm = placing->tp[graph->llm];
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const char *name = graph->branches[b].name, *llm = graph->branches[graph->llm].name;
        if (placing->placement->has_own_ranks || placing->tp[b] == of_llm)
            continue;
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.tp is %d, that of %s %d: with modality %s they are on the "
                       "same ranks; set one tp for both, or choose modality encoder-parallel",
                       name, placing->tp[b], llm, of_llm, placing->placement->modality);
    }
    return CS_OK;
}

static enum cs_status check_branch(const struct cs_graph *graph, int32_t b,
                                   const struct cs_placing *placing, struct cs_err *err)
{
    const char *name = graph->branches[b].name;
    const int32_t tp = placing->tp[b];
    for (int32_t k = 0; k < graph->n_branches; k++)
        if (k != graph->llm && placing->branch_cp[k] > 1)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.tp = %d: %d ranks share the items of %s; ranks share "
                           "matrices, or items, not both yet; set its cp to 1, or this tp",
                           name, tp, placing->branch_cp[k], graph->branches[k].name);
    if (cs_placing_copies(placing))
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.tp = %d: encoders are copied to the ranks of the LLM, "
                       "which cannot be shared then; choose modality encoder-parallel, or tp = 1",
                       name, tp);
    return cs_tp_check(graph, b, tp, err);
}

enum cs_status cs_tensor_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *placing, struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++)
        placing->tp[b] = asked_for(spec, graph->branches[b].name);
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (placing->tp[b] > 1)
            CS_TRY(check_branch(graph, b, placing, err));
    return check_same(graph, placing, err);
}

const struct cs_graph *cs_tensor_graph(const struct cs_graph *graph,
                                       const struct cs_placing *placing, struct cs_arena *arena)
{
    struct cs_tp tp[CS_MAX_BRANCHES];
    struct cs_tp_view view;
    bool is_shared = false;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t ep = b == graph->llm ? placing->ep : 1;
        /* the last has what is left */
        tp[b] = (struct cs_tp){placing->tp[b], placing->tp[b] - 1, ep, ep - 1};
        is_shared = is_shared || placing->tp[b] > 1 || ep > 1;
    }
    if (!is_shared)
        return graph;
    cs_tp_view_make(graph, tp, arena, &view);
    return view.graph;
}
