/* Steps of ragged batches: the order of a plan replayed with what every slot of every replica
 * really holds; see samples.h. A step ends with its slowest replica. */
#include <stdlib.h>

#include "core/base/units.h"
#include "core/search/degrees.h"

struct dealt {
    struct dealt *next;
    enum cs_search_planner planner;
    int32_t replicas, slots, enc_stages, llm_stages;
    struct cs_search_loads *loads; /* (n_batches) */
};

struct cs_sampler {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    struct cs_known_buffers *known;
    struct cs_search_batches batches;
    struct cs_arena *arena;
    struct dealt *first;
};

enum cs_status cs_sampler_make(const struct cs_search_problem *problem,
                               const struct cs_search_options *options,
                               struct cs_known_buffers *known, struct cs_arena *arena,
                               struct cs_sampler **out, struct cs_err *err)
{
    struct cs_sampler *s = CS_NEW(arena, struct cs_sampler);
    *s =
        (struct cs_sampler){.problem = problem, .options = options, .known = known, .arena = arena};
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

/* One replica's slots of a batch. groups NULL: all ranks of the LLM have all of them. */
struct replica {
    const struct cs_search_loads *loads;
    int64_t base; /* of its slots among the loads */
    const struct cs_degrees *degrees;
    const struct cs_context_group *groups;
};

/* Exchanges and states take what they take in a slot of any length, the rest its share of a full one. */
static double share_of(double load, int64_t all, int64_t fixed)
{
    return load > 0 ? (double)fixed + load * (double)(all - fixed) : 0;
}

static struct cs_trial_part part_of(const struct cs_trial *t, const struct replica *r,
                                    const struct cs_replay_item *x, int32_t b)
{
    const struct cs_trial_part *part = cs_trial_part_of(t, x->stage, b);
    if (r->groups == NULL || b != t->llm || t->plan->stages[x->stage].branch != b)
        return *part;
    return cs_degrees_part(r->degrees, x->stage, r->groups[x->slot].n);
}

static void fill_costs(const struct cs_trial *t, const struct cs_replay *replay,
                       const struct replica *r, int64_t *cost)
{
    for (int32_t i = 0; i < replay->n_items; i++) {
        const struct cs_replay_item *x = &replay->item[i];
        const enum cs_op op = (enum cs_op)x->op;
        double ns = 0.5;
        for (int32_t b = 0; b < t->problem->n_branches; b++) {
            const struct cs_trial_part p = part_of(t, r, x, b);
            const double fwd = r->loads->fwd[b][r->base + x->slot];
            const double bwd = r->loads->bwd[b][r->base + x->slot];
            if (cs_op_does(op, CS_PART_FORWARD))
                ns += share_of(fwd, p.fwd_ns, p.fwd_fixed_ns);
            if (cs_op_does(op, CS_PART_INPUT))
                ns += share_of(bwd, p.bwd_input_ns, p.bwd_fixed_ns);
            if (cs_op_does(op, CS_PART_WEIGHT))
                ns += share_of(bwd, p.bwd_weight_ns, p.weight_fixed_ns);
        }
        cost[i] = (int64_t)ns;
    }
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* stages whose slots may have fewer ranks */
static const bool *split_stages(const struct cs_trial *t)
{
    bool *is_split = CS_NEW_ARRAY(t->scratch, bool, t->plan->n_stages + 1);
    for (int32_t s = 0; s < t->plan->n_stages; s++)
        is_split[s] = t->plan->stages[s].branch == t->llm;
    return is_split;
}

static int64_t replay_batch(const struct cs_trial *t, const struct cs_replay *replay,
                            const struct cs_search_loads *loads, const struct cs_degrees *degrees)
{
    const int32_t cp = t->option[t->llm]->cp;
    const bool has_groups = t->c->context_rows > 0;
    struct cs_context_group *groups = CS_NEW_ARRAY(t->scratch, struct cs_context_group, t->slots);
    int64_t *cost = CS_NEW_ARRAY(t->scratch, int64_t, replay->n_items + 1);
    int64_t *end = CS_NEW_ARRAY(t->scratch, int64_t, cs_replay_scratch(replay, cp)), most = 0;
    const struct cs_replay_lanes lanes = {cp, split_stages(t), groups};
    for (int32_t i = 0; i < t->c->dp; i++) {
        const struct replica r = {.loads = loads,
                                  .base = (int64_t)i * loads->slots,
                                  .degrees = degrees,
                                  .groups = has_groups ? groups : NULL};
        if (has_groups)
            cs_degrees_groups(t, loads->rows + r.base, groups);
        fill_costs(t, replay, &r, cost);
        const int64_t ns = cs_replay_run(replay, cost, t->hop, has_groups ? &lanes : NULL, end);
        most = ns > most ? ns : most;
    }
    return most;
}

static enum cs_status sample(struct cs_sampler *s, struct cs_trial *t, const struct dealt *dealt,
                             struct cs_err *err)
{
    struct cs_replay *replay = NULL;
    struct cs_degrees degrees;
    struct cs_search_plan *plan = t->found->plan;
    const int32_t n = s->batches.n_batches;
    int64_t *step = CS_NEW_ARRAY(t->scratch, int64_t, n), sum = 0;
    CS_TRY(cs_trial_replay(t, t->slots, &replay, err));
    if (t->c->context_rows > 0)
        CS_ASSERT(cs_degrees_make(t, &degrees));
    for (int32_t k = 0; k < n; k++) {
        step[k] =
            replay_batch(t, replay, &dealt->loads[k], &degrees) + plan->sync_ns + plan->optim_ns;
        sum += step[k];
    }
    qsort(step, (size_t)n, sizeof step[0], ascending);
    plan->mean_ns = (sum + n / 2) / n;
    plan->p95_ns = step[(95 * n + 99) / 100 - 1];
    return CS_OK;
}

/* found with another number of rows, with its memory; false: it does not fit */
static bool sample_rows(struct cs_sampler *s, const struct dealt *dealt, int32_t rows,
                        struct cs_arena *arena, struct cs_found *found)
{
    struct cs_trial t;
    struct cs_err err;
    int64_t nearest;
    found->candidate.context_rows = rows;
    if (cs_search_evaluate(s->problem, s->options, s->known, found, arena, &nearest, &err) != CS_OK)
        return false;
    struct cs_arena *scratch = cs_arena_new(0);
    cs_trial_start(&t, s->problem, s->options, found, scratch);
    cs_trial_lower(&t);
    const enum cs_status status = sample(s, &t, dealt, &err);
    cs_arena_free(scratch);
    return status == CS_OK;
}

static void say_rows(struct cs_search_plan *plan, int64_t without_ns, struct cs_arena *arena)
{
    char step[CS_UNITS_CAP];
    cs_duration_print(step, sizeof step, (uint64_t)without_ns);
    plan->why =
        cs_arena_printf(arena, "%s; slots of up to %d rows stay on one rank, else a step takes %s",
                        plan->why, plan->context_rows, step);
}

/* What is worth less than a hundredth is left alone; other planners have no such slots. */
static void try_rows(struct cs_sampler *s, const struct cs_trial *t, const struct dealt *dealt,
                     struct cs_arena *arena, struct cs_found *found)
{
    struct cs_degrees degrees;
    int32_t tries[CS_DEGREE_TRIES];
    const int64_t without_ns = found->plan->mean_ns;
    int64_t best_ns = without_ns - without_ns / 100;
    if (found->candidate.planner != CS_PLANNER_CORNSTARCH || !cs_degrees_make(t, &degrees))
        return;
    const int32_t n = cs_degrees_tries(t, dealt->loads, s->batches.n_batches, t->scratch, tries);
    struct cs_found best = *found;
    for (int32_t i = 0; i < n; i++) {
        struct cs_found tried = *found;
        if (!sample_rows(s, dealt, tries[i], arena, &tried) || tried.plan->mean_ns >= best_ns)
            continue;
        best = tried;
        best_ns = tried.plan->mean_ns;
    }
    *found = best;
    if (best.candidate.context_rows > 0)
        say_rows(best.plan, without_ns, arena);
}

enum cs_status cs_search_sample(struct cs_sampler *sampler, struct cs_arena *arena,
                                struct cs_found *found, struct cs_err *err)
{
    struct cs_trial t;
    const struct dealt *dealt = NULL;
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_found own = *found;
    cs_trial_start(&t, sampler->problem, sampler->options, &own, scratch);
    cs_trial_lower(&t);
    enum cs_status status = find_loads(sampler, &t, &dealt, err);
    if (status == CS_OK)
        status = sample(sampler, &t, dealt, err);
    if (status == CS_OK)
        try_rows(sampler, &t, dealt, arena, found);
    cs_arena_free(scratch);
    return status;
}
