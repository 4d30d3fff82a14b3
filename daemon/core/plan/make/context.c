/* Refuses layouts with cp that do not run, before anything starts. */
#include "core/plan/make/context.h"

/* Ranks of an encoder share its items; those of the LLM, where it is on them. */
static enum cs_status check_encoder(const struct cs_graph *graph, const struct cs_placing *placing,
                                    int32_t b, int32_t given, struct cs_err *err)
{
    const char *name = graph->branches[b].name, *llm = graph->branches[graph->llm].name;
    if (!placing->placement->has_own_ranks && given > 1 && given != placing->cp)
        return cs_fail(
            err, CS_PLAN,
            "plan.parallel.%s.cp = %d: with modality %s encoders are on ranks of %s, which "
            "has cp = %d; set the same, or leave it away",
            name, given, placing->placement->modality, llm, placing->cp);
    return CS_OK;
}

/* what the layout says of a branch, 0: nothing; 1 may be no more than the default */
static int32_t given_cp(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL ? given->cp : 0;
}

/* Rows before a slot is split ask for ranks that split it, and for slots that are. */
static enum cs_status check_rows(const struct cs_spec *spec, const struct cs_graph *graph,
                                 const struct cs_placing *placing, struct cs_err *err)
{
    const char *llm = graph->branches[graph->llm].name;
    if (spec->context_rows > 0 && placing->cp == 1)
        return cs_fail(err, CS_PLAN,
                       "plan.context_rows = %d: rows of %s are not split (cp is 1); set "
                       "plan.parallel.%s.cp, or leave context_rows away",
                       spec->context_rows, llm, llm);
    if (spec->context_rows >= spec->seq_tokens)
        return cs_fail(err, CS_PLAN,
                       "plan.context_rows = %d: no slot has more rows (seq_tokens is %d), so that "
                       "none would be split; set fewer, or dp instead of cp",
                       spec->context_rows, spec->seq_tokens);
    return CS_OK;
}

enum cs_status cs_context_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                                struct cs_placing *placing, struct cs_err *err)
{
    const int32_t cp = given_cp(spec, graph->branches[graph->llm].name);
    placing->cp = cp > 1 ? cp : 1;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t given = given_cp(spec, graph->branches[b].name);
        const bool is_own = placing->placement->has_own_ranks && b != graph->llm;
        placing->branch_cp[b] = !is_own ? placing->cp : given > 1 ? given : 1;
        if (b != graph->llm)
            CS_TRY(check_encoder(graph, placing, b, given, err));
    }
    return check_rows(spec, graph, placing, err);
}
