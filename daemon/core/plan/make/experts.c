/* Refuses layouts with ep that do not run, before anything starts. */
#include "core/plan/make/experts.h"

#include "core/base/buf.h"
#include "core/model/tensor_parallel.h"

static int32_t asked_for(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL && given->ep > 1 ? given->ep : 1;
}

/* how experts can be spread over so many ranks with the same rest of a stage */
static enum cs_status refuse(const char *name, int32_t ep, int32_t dp, int32_t cp,
                             struct cs_err *err)
{
    struct cs_buf list = {0};
    for (int32_t n = 1; n <= dp * cp; n++)
        if (dp * cp % n == 0)
            cs_buf_addf(&list, "%s%d", n > 1 ? ", " : "", n);
    const enum cs_status status =
        cs_fail(err, CS_PLAN,
                "plan.parallel.%s.ep = %d does not divide dp * cp = %d * %d, the ranks that have a "
                "stage of %s; numbers that do: %s",
                name, ep, dp, cp, name, cs_buf_str(&list));
    cs_buf_free(&list);
    return status;
}

enum cs_status cs_expert_ranks(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *placing, struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const char *name = graph->branches[b].name;
        const int32_t ep = asked_for(spec, name);
        if (b == graph->llm)
            placing->ep = ep;
        if (ep == 1)
            continue;
        const int32_t dp = placing->dp[b];
        CS_TRY(cs_ep_check(graph, b, ep, err));
        if (dp * placing->branch_cp[b] % ep != 0)
            return refuse(name, ep, dp, placing->branch_cp[b], err);
    }
    return CS_OK;
}
