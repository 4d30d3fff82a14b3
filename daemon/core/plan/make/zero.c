/* Takes the level of ZeRO of every branch from the layout, and refuses what does not run. */
#include "core/plan/make/zero.h"

int32_t cs_zero_level(const struct cs_spec *spec, const struct cs_graph *graph, int32_t branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, graph->branches[branch].name);
    return given != NULL && given->zero > 1 ? given->zero : 1;
}

static enum cs_status check_stage(const struct cs_graph *graph, const struct cs_plan *plan,
                                  const struct cs_stage *stage, struct cs_err *err)
{
    const char *name = graph->branches[stage->branch].name;
    if (cs_plan_holders(plan, stage->rank) < 2)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.zero = %d divides %s among ranks that have the same "
                       "weights, but each of %s has them alone; set dp or cp above 1, or leave "
                       "zero away",
                       name, stage->zero, stage->zero == 2 ? "gradients" : "weights", name);
    return CS_OK;
}

enum cs_status cs_zero_stages(const struct cs_spec *spec, const struct cs_graph *graph,
                              struct cs_plan *plan, struct cs_err *err)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        stage->zero = cs_zero_level(spec, graph, stage->branch);
        if (stage->zero > 1)
            CS_TRY(check_stage(graph, plan, stage, err));
    }
    return CS_OK;
}
