/* From a candidate and its cut to stages, edges, times and bytes. */
#include "core/search/trial.h"

static void add_part(struct cs_trial *t, int32_t stage, int32_t b, const struct cs_search_layer *l,
                     int32_t n)
{
    struct cs_trial_part *part = cs_trial_part_of(t, stage, b);
    struct cs_stage *st = &t->plan->stages[stage];
    cs_trial_add_layers(part, l, n);
    for (int32_t i = 0; i < n; i++) {
        t->kept[stage].saved += l[i].saved_bytes;
        t->kept[stage].held += l[i].held_bytes;
    }
    st->fwd_ns += part->fwd_ns;
    st->bwd_input_ns += part->bwd_input_ns;
    st->bwd_weight_ns += part->bwd_weight_ns;
    st->has_backward = st->bwd_input_ns + st->bwd_weight_ns > 0;
}

static void add_stage(struct cs_trial *t, int32_t b, int32_t index, int32_t rank,
                      const struct cs_search_layer *layer, int32_t n)
{
    int32_t id = t->plan->n_stages++;
    t->plan->stages[id] = (struct cs_stage){.name = t->problem->branch[b].name,
                                            .id = id,
                                            .branch = b,
                                            .index = index,
                                            .rank = rank,
                                            .n_layers = n};
    t->group[id] = id;
    add_part(t, id, b, layer, n);
}

static void add_own(struct cs_trial *t, int32_t b)
{
    int32_t n = cs_trial_stages(t, b), ranks = t->c->pp[b], layer = 0;
    t->first_stage[b] = t->plan->n_stages;
    for (int32_t s = 0; s < n; s++) {
        int32_t id = t->plan->n_stages;
        add_stage(t, b, s, t->first_rank[b] + s % ranks, t->layer[b] + layer,
                  t->found->sizes[b][s]);
        t->group[id] = t->first_stage[b] + s % ranks;
        layer += t->found->sizes[b][s];
    }
    t->plan->n_ranks += ranks;
}

/* whole encoders: a copy on every rank of the LLM, each with every p-th slot; or in every stage */
static void add_on_llm(struct cs_trial *t, int32_t b, int32_t first_rank)
{
    int32_t p = t->c->pp[t->llm], n = t->problem->branch[b].n_layers;
    t->first_stage[b] = t->plan->n_stages;
    for (int32_t r = 0; r < p; r++) {
        t->share[t->plan->n_stages] = (struct cs_slot_share){p, r};
        add_stage(t, b, r, first_rank + r, t->layer[b], n);
    }
}

static int32_t most_stages(const struct cs_trial *t)
{
    int32_t n = 0;
    for (int32_t b = 0; b <= t->llm; b++)
        n += t->c->place[b] == CS_PLACE_OWN ? cs_trial_stages(t, b) : t->c->pp[t->llm];
    return n;
}

void cs_trial_lower(struct cs_trial *t)
{
    const int32_t n = most_stages(t), edges = cs_trial_most_edges(t);
    int32_t llm_rank = 0;
    t->plan = CS_NEW(t->scratch, struct cs_plan);
    t->plan->stages = CS_NEW_ARRAY(t->scratch, struct cs_stage, n + 1);
    t->plan->edges = CS_NEW_ARRAY(t->scratch, struct cs_edge, edges + 1);
    t->share = CS_NEW_ARRAY(t->scratch, struct cs_slot_share, n + 1);
    t->group = CS_NEW_ARRAY(t->scratch, int32_t, n + 1);
    t->part = CS_NEW_ARRAY(t->scratch, struct cs_trial_part, (n + 1) * t->problem->n_branches);
    t->kept = CS_NEW_ARRAY(t->scratch, struct cs_replay_kept, n + 1);
    t->behind = CS_NEW_ARRAY(t->scratch, int32_t, edges + 1);
    t->hop = CS_NEW_ARRAY(t->scratch, int64_t, CS_FLOWS * (edges + 1));
    t->is_striped = CS_NEW_ARRAY(t->scratch, bool, CS_FLOWS *(edges + 1));
    for (int32_t b = 0; b < t->llm; b++)
        llm_rank += t->c->place[b] == CS_PLACE_OWN ? t->c->pp[b] : 0;
    for (int32_t b = 0; b <= t->llm; b++) {
        if (t->c->place[b] == CS_PLACE_OWN)
            add_own(t, b);
        else if (t->c->place[b] == CS_PLACE_COLOCATED)
            add_on_llm(t, b, llm_rank);
    }
    for (int32_t b = 0; b < t->llm; b++)
        for (int32_t s = 0; t->c->place[b] == CS_PLACE_REPLICATED && s < t->c->pp[t->llm]; s++)
            add_part(t, t->first_stage[t->llm] + s, b, t->layer[b], t->problem->branch[b].n_layers);
    t->plan->schedule = cs_plan_schedule((int)t->found->schedule)->name;
    t->plan->slots = t->slots;
    t->plan->head_stage = t->plan->embed_stage = t->plan->n_stages - 1;
    cs_trial_add_edges(t);
    cs_trial_add_zero(t);
    cs_trial_time_edges(t);
}
