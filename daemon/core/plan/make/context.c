/* Refuses layouts with cp that do not run, before anything starts. */
#include "core/plan/make/context.h"

#include <stdio.h>
#include <string.h>

#include "core/base/units.h"
#include "core/plan/context.h"

/* Ranks of an encoder share its items; those of the LLM, where it is on them. */
static enum cs_status check_encoder(const struct cs_graph *graph, const struct cs_placing *placing,
                                    int32_t b, int32_t given, struct cs_err *err)
{
    const char *name = graph->branches[b].name, *llm = graph->branches[graph->llm].name;
    const struct cs_placing_words words = cs_placing_words(placing, b);
    if (!placing->place[b]->has_own_ranks && given > 1 && given != placing->cp)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.cp = %d: with %s %s encoders are on ranks of %s, which "
                       "has cp = %d; set the same, or leave it away",
                       name, given, words.key, words.word, llm, placing->cp);
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

/* "2, 4" */
static void list_degrees(const struct cs_attention *a, int32_t tp, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int32_t n = 2; n <= a->n_heads && used < size; n++)
        if (cs_context_attention_divides(a, tp, n))
            used += (size_t)snprintf(text + used, size - used, "%s%d", used > 0 ? ", " : "", n);
}

static enum cs_status refuse_heads(const struct cs_graph *graph, const struct cs_layer *layer,
                                   int32_t tp, int32_t cp, struct cs_err *err)
{
    const struct cs_attention *a = cs_layer_attention(graph, layer);
    const char *llm = graph->branches[graph->llm].name;
    char degrees[96], tensors[64] = "";
    list_degrees(a, tp, degrees, sizeof degrees);
    if (tp > 1)
        snprintf(tensors, sizeof tensors, " behind plan.parallel.%.24s.tp = %d", llm, tp);
    return cs_fail(
        err, CS_PLAN,
        "plan.context_exchange = \"heads\": %d rank%s (plan.parallel.%s.cp) cannot share "
        "the %d head%s, %d of keys, of %s%s%s%s; or set \"keys\"",
        cp, CS_PLURAL(cp), llm, a->n_heads, CS_PLURAL(a->n_heads), a->n_kv_heads, layer->path,
        tensors, degrees[0] != '\0' ? "; cp can be " : "", degrees);
}

/* Heads that are exchanged divide in every layer that attends; fewer ranks share a slot only where they do so too. */
static enum cs_status check_exchange(const struct cs_spec *spec, const struct cs_graph *graph,
                                     const struct cs_placing *placing, struct cs_err *err)
{
    const struct cs_branch *llm = &graph->branches[graph->llm];
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, llm->name);
    const int32_t tp = given != NULL && given->tp > 1 ? given->tp : 1;
    const struct cs_layer *layer = NULL;
    if (!cs_spec_moves_heads(spec))
        return CS_OK;
    if (placing->cp == 1)
        return cs_fail(err, CS_PLAN,
                       "plan.context_exchange = \"heads\": rows of %s are not split (cp is 1); set "
                       "plan.parallel.%s.cp, or leave context_exchange away",
                       llm->name, llm->name);
    if (!cs_context_heads_divide(graph, tp, placing->cp, &layer))
        return refuse_heads(graph, layer, tp, placing->cp, err);
    return CS_OK;
}

enum cs_status cs_context_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                                struct cs_placing *placing, struct cs_err *err)
{
    const int32_t cp = given_cp(spec, graph->branches[graph->llm].name);
    placing->cp = cp > 1 ? cp : 1;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const int32_t given = given_cp(spec, graph->branches[b].name);
        const bool is_own = placing->place[b]->has_own_ranks && b != graph->llm;
        placing->branch_cp[b] = !is_own ? placing->cp : given > 1 ? given : 1;
        if (b != graph->llm)
            CS_TRY(check_encoder(graph, placing, b, given, err));
    }
    CS_TRY(check_rows(spec, graph, placing, err));
    return check_exchange(spec, graph, placing, err);
}
