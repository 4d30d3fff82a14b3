/* Steps of ragged batches: the order of a plan replayed with what every slot of every replica
 * really holds; see samples.h. A step ends with its slowest replica. */
#include <stdlib.h>

#include "core/search/trial.h"

struct dealt {
    struct dealt *next;
    enum cs_search_planner planner;
    int32_t replicas, slots, enc_stages, llm_stages;
    struct cs_search_loads *loads; /* (n_batches) */
};

struct cs_sampler {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    struct cs_search_batches batches;
    struct cs_arena *arena;
    struct dealt *first;
};

enum cs_status cs_sampler_make(const struct cs_search_problem *problem,
                               const struct cs_search_options *options, struct cs_arena *arena,
                               struct cs_sampler **out, struct cs_err *err)
{
    struct cs_sampler *s = CS_NEW(arena, struct cs_sampler);
    *s = (struct cs_sampler){.problem = problem, .options = options, .arena = arena};
    *out = s;
    return cs_samples_draw(problem, options->samples, options->batch_slots, arena, &s->batches,
                           err);
}

const struct cs_search_batches *cs_sampler_batches(const struct cs_sampler *sampler)
{
    return &sampler->batches;
}

static enum cs_status find_loads(struct cs_sampler *s, const struct cs_trial *t,
                                 const struct dealt **out, struct cs_err *err)
{
    const struct cs_planner_rules *rules = &cs_planner_rules[t->c->planner];
    bool orders = rules->how == CS_ASSIGN_DISTTRAIN; /* the only policy that looks at stages */
    int32_t enc = 1, llm = orders ? t->c->pp[t->llm] : 1;
    for (int32_t b = 0; orders && b < t->llm; b++)
        enc = t->c->pp[b] > enc ? t->c->pp[b] : enc;
    for (const struct dealt *d = s->first; d; d = d->next)
        if (d->planner == (enum cs_search_planner)t->c->planner && d->replicas == t->c->dp &&
            d->slots == t->slots && d->enc_stages == enc && d->llm_stages == llm) {
            *out = d;
            return CS_OK;
        }
    struct dealt *d = CS_NEW(s->arena, struct dealt);
    *d = (struct dealt){.planner = (enum cs_search_planner)t->c->planner,
                        .replicas = t->c->dp,
                        .slots = t->slots,
                        .enc_stages = enc,
                        .llm_stages = llm};
    d->loads = CS_NEW_ARRAY(s->arena, struct cs_search_loads, s->batches.n_batches);
    for (int32_t k = 0; k < s->batches.n_batches; k++)
        CS_TRY(cs_samples_deal(s->problem, &s->batches, k, rules, d->replicas, d->slots, enc, llm,
                               s->arena, &d->loads[k], err));
    d->next = s->first;
    s->first = d;
    *out = d;
    return CS_OK;
}

static void fill_costs(const struct cs_trial *t, const struct cs_replay *r,
                       const struct cs_search_loads *loads, int32_t replica, int64_t *cost)
{
    int32_t n = t->problem->n_branches;
    int64_t base = (int64_t)replica * loads->slots;
    for (int32_t i = 0; i < r->n_items; i++) {
        const struct cs_replay_item *x = &r->item[i];
        const enum cs_op op = (enum cs_op)x->op;
        double ns = 0.5;
        for (int32_t b = 0; b < n; b++) {
            const struct cs_trial_part *p = &t->part[x->stage * n + b];
            double fwd = loads->fwd[b][base + x->slot], bwd = loads->bwd[b][base + x->slot];
            if (cs_op_does(op, CS_PART_FORWARD))
                ns += fwd * (double)p->fwd_ns;
            if (cs_op_does(op, CS_PART_INPUT))
                ns += bwd * (double)p->bwd_input_ns;
            if (cs_op_does(op, CS_PART_WEIGHT))
                ns += bwd * (double)p->bwd_weight_ns;
        }
        cost[i] = (int64_t)ns;
    }
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum cs_status sample(struct cs_sampler *s, struct cs_trial *t, struct cs_err *err)
{
    const struct dealt *dealt = NULL;
    struct cs_replay *replay = NULL;
    struct cs_search_plan *plan = t->found->plan;
    int32_t n = s->batches.n_batches;
    int64_t *step = CS_NEW_ARRAY(t->scratch, int64_t, n), sum = 0;
    CS_TRY(find_loads(s, t, &dealt, err));
    CS_TRY(cs_trial_replay(t, t->slots, &replay, err));
    int64_t *cost = CS_NEW_ARRAY(t->scratch, int64_t, replay->n_items + 1);
    int64_t *end = CS_NEW_ARRAY(t->scratch, int64_t, cs_replay_scratch(replay));
    for (int32_t k = 0; k < n; k++) {
        for (int32_t replica = 0; replica < t->c->dp; replica++) {
            fill_costs(t, replay, &dealt->loads[k], replica, cost);
            int64_t ns = cs_replay_run(replay, cost, t->hop, end);
            step[k] = ns > step[k] ? ns : step[k];
        }
        step[k] += plan->sync_ns + plan->optim_ns;
        sum += step[k];
    }
    qsort(step, (size_t)n, sizeof step[0], ascending);
    plan->mean_ns = (sum + n / 2) / n;
    plan->p95_ns = step[(95 * n + 99) / 100 - 1];
    return CS_OK;
}

enum cs_status cs_search_sample(struct cs_sampler *sampler, struct cs_found *found,
                                struct cs_err *err)
{
    struct cs_trial t;
    struct cs_arena *scratch = cs_arena_new(0);
    cs_trial_start(&t, sampler->problem, sampler->options, found, scratch);
    cs_trial_lower(&t);
    enum cs_status status = sample(sampler, &t, err);
    cs_arena_free(scratch);
    return status;
}
