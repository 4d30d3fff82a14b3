/* Finds which parts the backwards of stages have and which stages may run ahead. */
#include "core/sched/traits.h"

static void find_parts(const struct cs_plan *plan, struct cs_stage_traits *t)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        t[s].has_weight_part = t[s].has_backward && stage->bwd_weight_ns > 0;
        t[s].has_input_part =
            t[s].has_backward &&
            (stage->needs_input_grad || stage->bwd_input_ns > 0 || !t[s].has_weight_part);
    }
    for (int32_t e = 0; e < plan->n_edges; e++)
        if (plan->edges[e].has_grad && t[plan->edges[e].to].has_backward)
            t[plan->edges[e].to].has_input_part = true;
}

/* Everything may lead until something on its rank or upstream of it may not. */
static void find_leading(const struct cs_plan *plan, struct cs_arena *arena,
                         struct cs_stage_traits *t)
{
    bool *rank_leads = CS_NEW_ARRAY(arena, bool, plan->n_ranks + 1), changed = true;
    for (int32_t r = 0; r < plan->n_ranks; r++)
        rank_leads[r] = true;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (t[s].has_backward || t[s].share.n > 0 || s == plan->head_stage)
            rank_leads[plan->stages[s].rank] = false;
    while (changed) {
        changed = false;
        for (int32_t e = 0; e < plan->n_edges; e++) {
            bool from = rank_leads[plan->stages[plan->edges[e].from].rank];
            bool *to = &rank_leads[plan->stages[plan->edges[e].to].rank];
            changed = changed || (*to && !from);
            *to = *to && from;
        }
    }
    for (int32_t s = 0; s < plan->n_stages; s++)
        t[s].leads = rank_leads[plan->stages[s].rank];
}

struct cs_stage_traits *cs_traits_make(const struct cs_plan *plan, bool is_eval,
                                       const struct cs_slot_share *share, struct cs_arena *arena)
{
    struct cs_stage_traits *t = CS_NEW_ARRAY(arena, struct cs_stage_traits, plan->n_stages + 1);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        t[s].has_backward = plan->stages[s].has_backward && !is_eval;
        t[s].share = share ? share[s] : (struct cs_slot_share){0, 0};
    }
    find_parts(plan, t);
    if (!is_eval)
        find_leading(plan, arena, t);
    return t;
}
