/* The ranks of a plan: how they are numbered over replicas and over the shape of a stage. */
#include "core/plan/plan.h"

int32_t cs_plan_replicas(const struct cs_plan *plan)
{
    return plan->dp > 1 ? plan->dp : 1;
}

int32_t cs_plan_replica_ranks(const struct cs_plan *plan)
{
    return plan->first != NULL ? plan->first[plan->n_ranks] : plan->n_ranks;
}

int32_t cs_plan_world(const struct cs_plan *plan)
{
    return cs_plan_replica_ranks(plan) * cs_plan_replicas(plan);
}

int cs_plan_own_slots(const struct cs_plan *plan, int n_slots)
{
    const int dp = cs_plan_replicas(plan);
    return (n_slots + dp - 1) / dp;
}

void cs_plan_number_ranks(struct cs_plan *plan, struct cs_arena *arena)
{
    bool is_wide = false;
    plan->first = NULL;
    plan->spreads_experts = false;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        is_wide = is_wide || cs_plan_stage_ranks(plan, s) > 1;
        plan->spreads_experts = plan->spreads_experts || cs_plan_shape(plan, s).ep > 1;
    }
    if (!is_wide)
        return;
    int32_t *first = CS_NEW_ARRAY(arena, int32_t, plan->n_ranks + 1);
    for (int32_t s = 0; s < plan->n_stages; s++)
        first[plan->stages[s].rank + 1] = cs_plan_stage_ranks(plan, s);
    for (int32_t r = 0; r < plan->n_ranks; r++)
        first[r + 1] += first[r];
    plan->first = first;
}

int32_t cs_plan_width(const struct cs_plan *plan, int32_t rank_in_replica)
{
    return plan->first != NULL ? plan->first[rank_in_replica + 1] - plan->first[rank_in_replica]
                               : 1;
}

int32_t cs_plan_rank_of(const struct cs_plan *plan, int32_t replica, int32_t rank_in_replica)
{
    const int32_t at = plan->first != NULL ? plan->first[rank_in_replica] : rank_in_replica;
    return replica * cs_plan_replica_ranks(plan) + at;
}

int32_t cs_plan_replica(const struct cs_plan *plan, int32_t rank)
{
    return rank / cs_plan_replica_ranks(plan);
}

int32_t cs_plan_rank_in_replica(const struct cs_plan *plan, int32_t rank)
{
    const int32_t at = rank % cs_plan_replica_ranks(plan);
    int32_t low = 0, high = plan->n_ranks;
    if (plan->first == NULL)
        return at;
    while (high - low > 1) { /* first[low] <= at < first[high] */
        const int32_t middle = low + (high - low) / 2;
        if (plan->first[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int32_t cs_plan_place(const struct cs_plan *plan, int32_t rank)
{
    return rank -
           cs_plan_rank_of(plan, cs_plan_replica(plan, rank), cs_plan_rank_in_replica(plan, rank));
}

int32_t cs_plan_peer(const struct cs_plan *plan, int32_t rank, int32_t rank_in_replica)
{
    const struct cs_rank_shape there = cs_plan_rank_shape(plan, rank_in_replica);
    const struct cs_rank_at at = cs_plan_at(plan, rank);
    return cs_plan_rank_of(plan, at.dp, rank_in_replica) + at.cp % there.cp * there.tp +
           at.tp % there.tp;
}

struct cs_rank_shape cs_plan_rank_shape(const struct cs_plan *plan, int32_t rank_in_replica)
{
    struct cs_rank_shape shape = {1, 1, 1, cs_plan_replicas(plan)};
    const bool is_plain = plan->first == NULL && !plan->spreads_experts;
    for (int32_t s = 0; !is_plain && s < plan->n_stages; s++) {
        if (plan->stages[s].rank != rank_in_replica)
            continue;
        const int32_t ep = shape.ep; /* encoders on ranks of the LLM have no experts */
        shape = cs_plan_shape(plan, s);
        shape.ep = ep > shape.ep ? ep : shape.ep;
    }
    return shape;
}

/* of a rank of a replica, by its place among those that run its program */
static struct cs_rank_at stands(const struct cs_rank_shape *s, int32_t replica, int32_t place)
{
    const int32_t cp = place / s->tp;
    return (struct cs_rank_at){
        .dp = replica, .ep = (replica * s->cp + cp) % s->ep, .cp = cp, .tp = place % s->tp};
}

struct cs_rank_at cs_plan_at(const struct cs_plan *plan, int32_t rank)
{
    const struct cs_rank_shape s = cs_plan_rank_shape(plan, cs_plan_rank_in_replica(plan, rank));
    return stands(&s, cs_plan_replica(plan, rank), cs_plan_place(plan, rank));
}

int32_t cs_plan_holders(const struct cs_plan *plan, int32_t rank_in_replica)
{
    return cs_plan_replicas(plan) * cs_plan_rank_shape(plan, rank_in_replica).cp;
}

int32_t cs_plan_holder(const struct cs_plan *plan, int32_t rank)
{
    const struct cs_rank_at at = cs_plan_at(plan, rank);
    return at.dp * cs_plan_rank_shape(plan, cs_plan_rank_in_replica(plan, rank)).cp + at.cp;
}

int32_t cs_plan_expert_holders(const struct cs_plan *plan, int32_t rank_in_replica)
{
    return cs_plan_holders(plan, rank_in_replica) / cs_plan_rank_shape(plan, rank_in_replica).ep;
}

bool cs_plan_is_uneven(const struct cs_plan *plan, int32_t edge)
{
    const int32_t branch = plan->stages[plan->edges[edge].from].branch;
    for (int32_t i = 0; i < plan->n_edges; i++) {
        const struct cs_edge *e = &plan->edges[i];
        if (plan->stages[e->from].branch == branch &&
            cs_plan_shape(plan, e->from).tp != cs_plan_shape(plan, e->to).tp)
            return true;
    }
    return false;
}

int32_t cs_plan_repeated(const struct cs_plan *plan, int32_t copy, int32_t rank_in_replica)
{
    return copy * plan->n_ranks + rank_in_replica;
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
    return s.tp * s.cp;
}

int32_t cs_plan_rank(const struct cs_plan *plan, int32_t stage, struct cs_rank_at at)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    return cs_plan_rank_of(plan, at.dp, plan->stages[stage].rank) + at.cp * s.tp + at.tp;
}

bool cs_plan_rank_at(const struct cs_plan *plan, int32_t stage, int32_t rank,
                     struct cs_rank_at *out)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    const int32_t place = cs_plan_place(plan, rank);
    if (cs_plan_rank_in_replica(plan, rank) != plan->stages[stage].rank ||
        cs_plan_replica(plan, rank) >= s.dp)
        return false;
    *out = stands(&s, cs_plan_replica(plan, rank), place);
    return true;
}
