/* The ranks of a plan and its replicas; see plan.h. */
#include "core/plan/plan.h"

int32_t cs_plan_replicas(const struct cs_plan *plan)
{
    return plan->dp > 1 ? plan->dp : 1;
}

int32_t cs_plan_world(const struct cs_plan *plan)
{
    return plan->n_ranks * cs_plan_replicas(plan);
}

int cs_plan_own_slots(const struct cs_plan *plan, int n_slots)
{
    const int dp = cs_plan_replicas(plan);
    return (n_slots + dp - 1) / dp;
}
