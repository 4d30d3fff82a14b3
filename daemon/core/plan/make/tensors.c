/* Refuses layouts with tp that do not run, before anything starts. */
#include "core/plan/make/tensors.h"

#include "core/model/tensor_parallel.h"

static int32_t asked_for(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->tp > 1 ? given->tp : 1;
}

static enum cs_status take_sp(const struct cs_spec *spec, const char *branch, int32_t tp, bool *sp,
                              struct cs_err *err)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    *sp = given != NULL && given->sp;
    if (*sp && tp == 1)
        return cs_fail(
            err, CS_PLAN,
            "plan.parallel.%s.sp: ranks that share matrices split rows between them, and "
            "tp is 1; set plan.parallel.%s.tp, or leave sp away",
            branch, branch);
    return CS_OK;
}

/* Encoders on ranks of the LLM that share its matrices: they share theirs as well, or all of them share the
 * items. */
static enum cs_status share_ranks(const struct cs_graph *graph, struct cs_placing *placing,
                                  struct cs_err *err)
{
    const int32_t of_llm = placing->tp[graph->llm];
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const char *name = graph->branches[b].name, *llm = graph->branches[graph->llm].name;
        if (placing->place[b]->has_own_ranks || placing->tp[b] == of_llm)
            continue;
        const struct cs_placing_words words = cs_placing_words(placing, b);
        if (placing->tp[b] != 1)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.tp is %d, that of %s %d: with %s %s they are on "
                           "the same ranks; set one tp for both, or leave it away to share the "
                           "items of %s, or choose %s %s",
                           name, placing->tp[b], llm, of_llm, words.key, words.word, name,
                           words.key, words.own);
        placing->branch_cp[b] *= of_llm;
    }
    return CS_OK;
}

enum cs_status cs_tensor_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *placing, struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const char *name = graph->branches[b].name;
        placing->tp[b] = asked_for(spec, name);
        CS_TRY(take_sp(spec, name, placing->tp[b], &placing->sp[b], err));
    }
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (placing->tp[b] > 1)
            CS_TRY(cs_tp_check(graph, b, placing->tp[b], err));
    return share_ranks(graph, placing, err);
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
        tp[b] = (struct cs_tp){.ranks = placing->tp[b],
                               .at = placing->tp[b] - 1,
                               .ep = ep,
                               .ep_at = ep - 1,
                               .splits_rows = placing->sp[b]};
        is_shared = is_shared || placing->tp[b] > 1 || ep > 1;
    }
    if (!is_shared)
        return graph;
    cs_tp_view_make(graph, tp, arena, &view);
    return view.graph;
}
