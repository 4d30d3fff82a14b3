/* Slots of a step over some of the ranks of a context. */
#include "core/search/degrees.h"

#include <stdlib.h>

#include "core/plan/cost/basis/round.h"

/* of an option like the trial's but for its cp, with the same going between ranks; NULL: the problem has none */
static const struct cs_search_layer *layers_with(const struct cs_trial *t, int32_t cp)
{
    const struct cs_search_branch *branch = &t->problem->branch[t->llm];
    const struct cs_search_option *own = t->option[t->llm];
    for (int32_t i = 0; i < branch->n_options; i++) {
        const struct cs_search_option *o = &branch->option[i];
        if (o->cp == cp && o->tp == own->tp && o->ep == own->ep && o->sp == own->sp &&
            o->recompute == own->recompute)
            return cp == 1 || o->moves_heads == own->moves_heads ? o->layer : o->other;
    }
    return NULL;
}

/* What the stage has beside its layers, collectives of its zero level, stays. */
static struct cs_trial_part with_layers(const struct cs_trial *t, int32_t stage, int32_t first,
                                        const struct cs_search_layer *layer)
{
    const int32_t n = t->plan->stages[stage].n_layers;
    struct cs_trial_part part = *cs_trial_part_of(t, stage, t->llm), own = {0}, with = {0};
    cs_trial_add_layers(&own, t->option[t->llm]->layer + first, n);
    cs_trial_add_layers(&with, layer + first, n);
    part.fwd_ns += with.fwd_ns - own.fwd_ns;
    part.bwd_input_ns += with.bwd_input_ns - own.bwd_input_ns;
    part.bwd_weight_ns += with.bwd_weight_ns - own.bwd_weight_ns;
    part.fwd_fixed_ns += with.fwd_fixed_ns - own.fwd_fixed_ns;
    part.bwd_fixed_ns += with.bwd_fixed_ns - own.bwd_fixed_ns;
    part.weight_fixed_ns += with.weight_fixed_ns - own.weight_fixed_ns;
    return part;
}

bool cs_degrees_make(const struct cs_trial *t, struct cs_degrees *out)
{
    *out = (struct cs_degrees){.cp = t->option[t->llm]->cp, .trial = t};
    for (int32_t i = 0; i < CS_DEGREES && 1 << i <= out->cp; i++) {
        const struct cs_search_layer *layer = layers_with(t, 1 << i);
        struct cs_trial_part *part =
            CS_NEW_ARRAY(t->scratch, struct cs_trial_part, t->plan->n_stages + 1);
        int32_t first = 0;
        if (layer == NULL)
            return false;
        for (int32_t s = 0; s < cs_trial_stages(t, t->llm); s++) {
            const int32_t id = t->first_stage[t->llm] + s;
            part[id] = with_layers(t, id, first, layer);
            first += t->plan->stages[id].n_layers;
        }
        out->of[i] = part;
    }
    return out->cp > 1;
}

struct cs_trial_part cs_degrees_part(const struct cs_degrees *d, int32_t stage, int32_t ranks)
{
    int32_t i = 0;
    if (ranks == d->cp)
        return *cs_trial_part_of(d->trial, stage, d->trial->llm);
    while (i + 1 < CS_DEGREES && d->of[i + 1] != NULL && 2 << i <= ranks)
        i++;
    struct cs_trial_part p = d->of[i][stage];
    const int32_t below = 1 << i;
    p.fwd_ns = cs_share_beyond(p.fwd_ns, p.fwd_fixed_ns, below, ranks);
    p.bwd_input_ns = cs_share_beyond(p.bwd_input_ns, p.bwd_fixed_ns, below, ranks);
    p.bwd_weight_ns = cs_share_beyond(p.bwd_weight_ns, p.weight_fixed_ns, below, ranks);
    return p;
}

/* a row and a pair by what a full slot takes of each */
void cs_degrees_groups(const struct cs_trial *t, const int32_t *rows, struct cs_context_group *out)
{
    const struct cs_search_branch *llm = &t->problem->branch[t->llm];
    const double n = (double)llm->rows;
    double busy[1 << (CS_DEGREES - 1)];
    const struct cs_search_option *o = t->option[t->llm];
    const struct cs_context_rule rule = {
        .degrees = {o->cp, t->c->context_rows, o->can},
        .per_row = (1 - llm->quad_share) / n,
        .per_pair = 2 * llm->quad_share / (n * (n + 1))
    };
    cs_context_groups(&rule, rows, t->slots, out, busy);
}

static int ascending(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

int32_t cs_degrees_tries(const struct cs_trial *t, const struct cs_search_loads *loads, int32_t n,
                         struct cs_arena *scratch, int32_t tries[CS_DEGREE_TRIES])
{
    const int32_t per = loads->replicas * loads->slots, cp = t->option[t->llm]->cp;
    const int64_t seq = t->problem->branch[t->llm].rows;
    int32_t *rows = CS_NEW_ARRAY(scratch, int32_t, (int64_t)n * per + 1), n_rows = 0, n_tries = 0;
    for (int32_t k = 0; k < n; k++)
        for (int32_t i = 0; i < per; i++)
            if (loads[k].rows[i] > 0)
                rows[n_rows++] = loads[k].rows[i];
    qsort(rows, (size_t)n_rows, sizeof rows[0], ascending);
    for (int32_t q = 1; q <= CS_DEGREE_TRIES && n_rows > 0; q++) {
        const int32_t at = rows[(int64_t)(n_rows - 1) * q / CS_DEGREE_TRIES];
        const bool is_new = n_tries == 0 || tries[n_tries - 1] < at;
        if (is_new && at < rows[n_rows - 1] && (int64_t)at * (cp - 1) < seq)
            tries[n_tries++] = at;
    }
    return n_tries;
}
