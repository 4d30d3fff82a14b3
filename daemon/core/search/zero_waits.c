/* Levels 2 and 3 of ZeRO in the slots of a trial: every rank of the pipeline runs its stages with their exchanges, by
 * the function that plans use (core/plan/cost/stage/zero.h). */
#include "core/plan/cost/stage/zero.h"
#include "core/search/trial.h"

/* One rank; layers of all branches, one after the other. */
struct rank {
    struct cs_trial *t;
    int32_t base[CS_SEARCH_MAX_BRANCHES]; /* a branch's first layer */
    struct cs_layer_cost *cost;           /* (n_layers) */
    struct cs_zero_layer *layer;          /* (n_layers) */
    struct cs_zero_part *part;
    struct cs_stage *stage;         /* (n_parts) as in a plan: replicated encoders have their own */
    struct cs_trial_part **charged; /* (n_parts) */
    struct cs_stage **in;           /* (n_parts) of the trial's plan */
    int32_t n_layers, n_parts, host;
};

static void take_costs(struct rank *x)
{
    for (int32_t b = 0; b <= x->t->llm; b++)
        for (int32_t i = 0; i < x->t->problem->branch[b].n_layers; i++) {
            const struct cs_search_layer *l = &x->t->layer[b][i];
            x->cost[x->base[b] + i] =
                (struct cs_layer_cost){l->fwd_ns, l->bwd_input_ns, l->bwd_weight_ns};
        }
}

static void clear_layers(struct rank *x)
{
    x->n_parts = 0;
    for (int32_t b = 0; b <= x->t->llm; b++)
        for (int32_t i = 0; i < x->t->problem->branch[b].n_layers; i++) {
            const struct cs_search_layer *l = &x->t->layer[b][i];
            x->layer[x->base[b] + i] = (struct cs_zero_layer){
                .has_backward = l->bwd_input_ns + l->bwd_weight_ns > 0, .is_head = l->is_head};
        }
}

/* layers first .. first + n of a branch, whose times are a part of those of a stage */
static void add_part(struct rank *x, int32_t b, int32_t first, int32_t n, struct cs_stage *in)
{
    struct cs_trial *t = x->t;
    const bool is_split = cs_plan_schedule((int)t->found->schedule)->splits_backward,
               is_own = in->branch == b;
    struct cs_trial_part *part = cs_trial_part_of(t, in->id, b);
    struct cs_stage *s = &x->stage[x->n_parts];
    *s = (struct cs_stage){.first_layer = x->base[b] + first,
                           .n_layers = n,
                           .fwd_ns = part->fwd_ns,
                           .bwd_input_ns = part->bwd_input_ns,
                           .bwd_weight_ns = part->bwd_weight_ns,
                           .needs_input_grad = is_own && in->needs_input_grad,
                           .has_backward = part->bwd_input_ns + part->bwd_weight_ns > 0};
    const bool has_halves = is_split && s->needs_input_grad;
    for (int32_t i = 0; i < n; i++) {
        const struct cs_search_layer *l = &t->layer[b][first + i];
        struct cs_zero_layer *out = &x->layer[s->first_layer + i];
        out->weights = t->c->zero[b] >= 3 ? cs_search_divided_weights(l) : 0;
        out->grads = t->c->zero[b] >= 2 ? cs_search_divided_grads(l) : 0;
    }
    cs_zero_take_times(x->cost, s, has_halves, x->layer);
    x->part[x->n_parts] =
        (struct cs_zero_part){s->first_layer, s->n_layers, s->has_backward, has_halves};
    x->charged[x->n_parts] = part;
    x->in[x->n_parts++] = in;
}

/* Stages of the rank and encoders in them, in the order of their branches. false: nobody divides anything. */
static bool take_rank(struct rank *x, int32_t rank)
{
    struct cs_trial *t = x->t;
    bool divides = false;
    clear_layers(x);
    for (int32_t b = 0; b <= t->llm; b++) {
        int32_t first = 0, n_before = x->n_parts;
        for (int32_t i = 0; i < t->plan->n_stages; i++) {
            struct cs_stage *s = &t->plan->stages[i];
            const bool is_guest = t->c->place[b] == CS_PLACE_REPLICATED && s->branch == t->llm &&
                                  s->index < t->c->pp[t->llm];
            const bool is_whole = t->c->place[b] != CS_PLACE_OWN;
            const int32_t n = is_whole ? t->problem->branch[b].n_layers : s->n_layers;
            if (s->branch != b && !is_guest)
                continue;
            if (s->rank == rank)
                add_part(x, b, is_whole ? 0 : first, n, s);
            first += s->n_layers;
        }
        if (x->n_parts == n_before)
            continue;
        x->host = t->c->place[b] == CS_PLACE_OWN ? b : t->llm;
        divides = divides || t->c->zero[b] >= 2;
    }
    return divides && cs_trial_shards(t, x->host) > 1;
}

static void charge(const struct rank *x, const struct cs_zero_more *more)
{
    for (int32_t i = 0; i < x->n_parts; i++) {
        const struct cs_stage before = x->stage[i];
        struct cs_stage *s = &x->stage[i], *in = x->in[i];
        cs_zero_charge(more, s);
        x->charged[i]->fwd_ns = s->fwd_ns;
        x->charged[i]->bwd_input_ns = s->bwd_input_ns;
        x->charged[i]->bwd_weight_ns = s->bwd_weight_ns;
        in->fwd_ns += s->fwd_ns - before.fwd_ns;
        in->bwd_input_ns += s->bwd_input_ns - before.bwd_input_ns;
        in->bwd_weight_ns += s->bwd_weight_ns - before.bwd_weight_ns;
    }
}

static void time_rank(struct rank *x, int32_t rank)
{
    const struct cs_trial *t = x->t;
    struct cs_zero_more more;
    if (!take_rank(x, rank))
        return;
    const int32_t holders = cs_trial_shards(t, x->host);
    const struct cs_device_class link =
        cs_search_replica_link(t->problem, holders, t->option[x->host]->tp);
    const struct cs_zero_rank of = {.device = &link,
                                    .layer = x->layer,
                                    .part = x->part,
                                    .n_layers = x->n_layers,
                                    .n_parts = x->n_parts,
                                    .holders = holders,
                                    .turns =
                                        t->problem->zero_turns > 0 ? t->problem->zero_turns : 1,
                                    .slots = t->slots};
    cs_zero_rank_times(&of, t->scratch, &more);
    charge(x, &more);
}

void cs_trial_add_zero(struct cs_trial *t)
{
    struct rank x = {.t = t};
    bool divides = false;
    for (int32_t b = 0; b <= t->llm; b++) {
        x.base[b] = x.n_layers;
        x.n_layers += t->problem->branch[b].n_layers;
        divides = divides || t->c->zero[b] >= 2;
    }
    if (!divides)
        return;
    const int32_t n = t->plan->n_stages + t->llm;
    x.cost = CS_NEW_ARRAY(t->scratch, struct cs_layer_cost, x.n_layers + 1);
    x.layer = CS_NEW_ARRAY(t->scratch, struct cs_zero_layer, x.n_layers + 1);
    x.part = CS_NEW_ARRAY(t->scratch, struct cs_zero_part, n + 1);
    x.stage = CS_NEW_ARRAY(t->scratch, struct cs_stage, n + 1);
    x.charged = CS_NEW_ARRAY(t->scratch, struct cs_trial_part *, n + 1);
    x.in = CS_NEW_ARRAY(t->scratch, struct cs_stage *, n + 1);
    take_costs(&x);
    for (int32_t rank = 0; rank < t->plan->n_ranks; rank++)
        time_rank(&x, rank);
}
