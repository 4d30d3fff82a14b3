/* The ranks of a plan: how they are numbered over replicas and over the shape of a stage. */
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

int32_t cs_plan_rank_of(const struct cs_plan *plan, int32_t replica, int32_t rank_in_replica)
{
    return replica * plan->n_ranks + rank_in_replica;
}

int32_t cs_plan_replica(const struct cs_plan *plan, int32_t rank)
{
    return rank / plan->n_ranks;
}

int32_t cs_plan_rank_in_replica(const struct cs_plan *plan, int32_t rank)
{
    return rank % plan->n_ranks;
}

static int32_t at_least_one(int32_t n)
{
    return n > 1 ? n : 1;
}

struct cs_rank_shape cs_plan_shape(const struct cs_plan *plan, int32_t stage)
{
    const struct cs_rank_shape *s = &plan->stages[stage].shape;
    return (struct cs_rank_shape){.tp = at_least_one(s->tp),
                                  .cp = at_least_one(s->cp),
                                  .ep = at_least_one(s->ep),
                                  .dp = s->dp > 0 ? s->dp : cs_plan_replicas(plan)};
}

int32_t cs_plan_stage_ranks(const struct cs_plan *plan, int32_t stage)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    return s.tp * s.cp * s.ep;
}

int32_t cs_plan_rank(const struct cs_plan *plan, int32_t stage, struct cs_rank_at at)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    const int32_t place = (at.ep * s.cp + at.cp) * s.tp + at.tp;
    return cs_plan_rank_of(plan, at.dp, plan->stages[stage].rank + place);
}

bool cs_plan_rank_at(const struct cs_plan *plan, int32_t stage, int32_t rank,
                     struct cs_rank_at *out)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    const int32_t place = cs_plan_rank_in_replica(plan, rank) - plan->stages[stage].rank;
    if (place < 0 || place >= s.tp * s.cp * s.ep || cs_plan_replica(plan, rank) >= s.dp)
        return false;
    *out = (struct cs_rank_at){.dp = cs_plan_replica(plan, rank),
                               .ep = place / (s.cp * s.tp),
                               .cp = place / s.tp % s.cp,
                               .tp = place % s.tp};
    return true;
}
