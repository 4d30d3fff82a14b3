/* The ranks of a plan: how they are numbered over replicas and over the shape of a stage. */
#include "core/plan/plan.h"

int32_t cs_plan_llm_replicas(const struct cs_plan *plan)
{
    return plan->dp > 1 ? plan->dp : 1;
}

int32_t cs_plan_replicas(const struct cs_plan *plan)
{
    return plan->repeats > 0 ? plan->repeats : cs_plan_llm_replicas(plan);
}

int32_t cs_plan_lanes(const struct cs_plan *plan, int32_t stage)
{
    return cs_plan_shape(plan, stage).dp / cs_plan_replicas(plan);
}

int32_t cs_plan_side_by_side(const struct cs_plan *plan)
{
    return cs_plan_llm_replicas(plan) / cs_plan_replicas(plan);
}

int32_t cs_plan_slot(const struct cs_plan *plan, int32_t index, int32_t replica, int32_t lane)
{
    return index * cs_plan_llm_replicas(plan) + replica * cs_plan_side_by_side(plan) + lane;
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
    const int dp = cs_plan_llm_replicas(plan);
    return (n_slots + dp - 1) / dp;
}

int32_t cs_common_divisor(int32_t a, int32_t b)
{
    while (b != 0) {
        const int32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void cs_plan_count_repeats(struct cs_plan *plan)
{
    plan->repeats = cs_plan_llm_replicas(plan);
    for (int32_t s = 0; s < plan->n_stages; s++)
        plan->repeats = cs_common_divisor(plan->repeats, cs_plan_shape(plan, s).dp);
}

void cs_plan_number_ranks(struct cs_plan *plan, struct cs_arena *arena)
{
    bool is_wide = false;
    plan->first = NULL;
    cs_plan_count_repeats(plan);
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
    const int32_t replicas = cs_plan_replicas(plan), replica = cs_plan_replica(plan, rank);
    const int32_t own = cs_plan_rank_shape(plan, cs_plan_rank_in_replica(plan, rank)).dp / replicas;
    const int32_t lane = at.dp % own % (there.dp / replicas);
    return cs_plan_rank_of(plan, replica, rank_in_replica) +
           (lane * there.cp + at.cp % there.cp) * there.tp + at.tp % there.tp;
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

/* where the place of a rank is in a shape */
static struct cs_rank_at at_place(const struct cs_plan *plan, const struct cs_rank_shape *s,
                                  int32_t rank)
{
    const int32_t place = cs_plan_place(plan, rank), lanes = s->dp / cs_plan_replicas(plan);
    struct cs_rank_at at = {.dp = cs_plan_replica(plan, rank) * lanes + place / (s->cp * s->tp),
                            .cp = place / s->tp % s->cp,
                            .tp = place % s->tp};
    at.ep = (at.dp * s->cp + at.cp) % s->ep;
    return at;
}

struct cs_rank_at cs_plan_at(const struct cs_plan *plan, int32_t rank)
{
    const struct cs_rank_shape s = cs_plan_rank_shape(plan, cs_plan_rank_in_replica(plan, rank));
    return at_place(plan, &s, rank);
}

int32_t cs_plan_holders(const struct cs_plan *plan, int32_t rank_in_replica)
{
    const struct cs_rank_shape shape = cs_plan_rank_shape(plan, rank_in_replica);
    return shape.dp * shape.cp;
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

bool cs_plan_is_guest(const struct cs_plan *plan, int32_t stage)
{
    const struct cs_rank_shape own = cs_plan_shape(plan, stage);
    return own.tp != cs_plan_rank_shape(plan, plan->stages[stage].rank).tp;
}

bool cs_plan_shares_all(const struct cs_plan *plan, int32_t stage)
{
    const int32_t llm = plan->stages[plan->head_stage].branch;
    bool is_beside = false;
    for (int32_t s = 0; s < plan->n_stages; s++)
        is_beside = is_beside || (plan->stages[s].branch == llm &&
                                  plan->stages[s].rank == plan->stages[stage].rank);
    return cs_plan_is_guest(plan, stage) ||
           (is_beside && plan->stages[stage].branch != llm && cs_plan_lanes(plan, stage) > 1);
}

bool cs_plan_widths_differ(const struct cs_plan *plan, int32_t edge)
{
    const int32_t from = plan->edges[edge].from, to = plan->edges[edge].to;
    return cs_plan_shape(plan, from).tp != cs_plan_shape(plan, to).tp ||
           cs_plan_lanes(plan, from) != cs_plan_lanes(plan, to);
}

bool cs_plan_is_uneven(const struct cs_plan *plan, int32_t edge)
{
    const int32_t branch = plan->stages[plan->edges[edge].from].branch;
    for (int32_t i = 0; i < plan->n_edges; i++)
        if (plan->stages[plan->edges[i].from].branch == branch && cs_plan_widths_differ(plan, i))
            return true;
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
                                  .dp = s->dp > 0 ? s->dp : cs_plan_llm_replicas(plan)};
}

int32_t cs_plan_stage_ranks(const struct cs_plan *plan, int32_t stage)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    return cs_plan_lanes(plan, stage) * s.tp * s.cp;
}

/* Parts are cut at items and as even as that allows: one may be larger by the items of one slot. */
int32_t cs_item_slots(int32_t slots, int32_t parts)
{
    const int32_t most = (slots + parts - 1) / parts + 1;
    return most < slots ? most : slots;
}

int32_t cs_plan_item_slots(const struct cs_plan *plan, int32_t stage)
{
    const int32_t parts = cs_plan_lanes(plan, stage) * cs_plan_shape(plan, stage).cp;
    const bool is_llm = plan->stages[stage].branch == plan->stages[plan->head_stage].branch;
    return is_llm ? 1 : cs_item_slots(cs_plan_side_by_side(plan), parts);
}

int32_t cs_plan_rank(const struct cs_plan *plan, int32_t stage, struct cs_rank_at at)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    const int32_t lanes = cs_plan_lanes(plan, stage);
    const int32_t place = (at.dp % lanes * s.cp + at.cp) * s.tp + at.tp;
    return cs_plan_rank_of(plan, at.dp / lanes, plan->stages[stage].rank) + place;
}

bool cs_plan_rank_at(const struct cs_plan *plan, int32_t stage, int32_t rank,
                     struct cs_rank_at *out)
{
    const struct cs_rank_shape s = cs_plan_shape(plan, stage);
    if (cs_plan_rank_in_replica(plan, rank) != plan->stages[stage].rank)
        return false;
    *out = at_place(plan, &s, rank);
    return true;
}
