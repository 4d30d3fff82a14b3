/* See search.h. */
#include "core/search/search.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/search/candidate.h"

static const char *const modality_names[CS_SEARCH_MODALITIES] = {
    "encoder-parallel", "encoder-colocated", "encoder-replicated"};

const char *cs_search_modality_name(enum cs_search_modality modality)
{
    return modality_names[modality];
}

bool cs_search_modality_from_name(const char *name, enum cs_search_modality *out)
{
    for (int i = 0; i < CS_SEARCH_MODALITIES; i++)
        if (strcmp(modality_names[i], name) == 0) {
            *out = (enum cs_search_modality)i;
            return true;
        }
    return false;
}

bool cs_search_schedule_from_name(const char *name, int *schedule)
{
    for (int i = 0; i < CS_SEARCH_SCHEDULES; i++)
        if (strcmp(cs_search_schedules[i].name, name) == 0) {
            *schedule = i;
            return true;
        }
    return false;
}

struct cs_search_options cs_search_defaults(const struct cs_search_options *options)
{
    struct cs_search_options o = *options;
    static const char *const usual[] = {"1f1b", "zb-h1", "interleaved", "anchors"};
    int at = 0;
    if (o.modalities == 0)
        o.modalities = 1u << CS_SEARCH_PARALLEL | 1u << CS_SEARCH_COLOCATED;
    for (size_t i = 0; options->schedules == 0 && i < CS_ARRAY_LEN(usual); i++)
        if (cs_search_schedule_from_name(usual[i], &at))
            o.schedules |= 1u << at;
    o.recomputes = o.recomputes ? o.recomputes : (1u << CS_RECOMPUTES) - 1;
    o.max_pp = o.max_pp ? o.max_pp : 64;
    o.top = o.top ? o.top : 16;
    o.n_simulate = o.n_simulate ? o.n_simulate : 24;
    o.max_scored = o.max_scored ? o.max_scored : 20000000;
    return o;
}

enum {
    TRIES = 64, /* layouts cut for every one that is wanted */
    ALIKE = 3   /* of those, layouts that differ in the encoders' ranks alone */
};

struct searcher {
    const struct cs_search_problem *problem;
    struct cs_search_options options;
    struct cs_arena *arena;
    struct cs_search_result *out;
    struct cs_search_plan **found;
    int32_t n_found, room;
    int64_t nearest; /* bytes of the plan that failed by least */
    struct cs_err why_not;
};

static bool orders(const struct searcher *s, int schedule, const struct cs_candidate *c)
{
    return (s->options.schedules >> schedule & 1) != 0 &&
           (cs_search_schedules[schedule].modalities >> c->modality & 1) != 0;
}

/* under every schedule; whether one of them works */
static bool try_layout(struct searcher *s, const struct cs_candidate *candidate)
{
    bool works = false, is_big = false;
    for (int i = 0; i < CS_SEARCH_SCHEDULES && s->n_found < s->room; i++) {
        struct cs_search_plan *plan = NULL;
        struct cs_err err = {.text = ""};
        int64_t nearest = 0;
        if (!orders(s, i, candidate))
            continue;
        if (cs_search_evaluate(s->problem, &s->options, candidate, i, s->arena, &plan, &nearest,
                               &err) == CS_OK) {
            s->found[s->n_found++] = plan;
            works = true;
            continue;
        }
        is_big = true;
        if (s->why_not.text[0] == '\0' ||
            (nearest > 0 && (s->nearest == 0 || nearest < s->nearest)))
            s->why_not = err;
        if (nearest > 0 && (s->nearest == 0 || nearest < s->nearest))
            s->nearest = nearest;
    }
    s->out->n_too_big += is_big && !works;
    return works;
}

static bool has_same_llm(const struct searcher *s, const struct cs_candidate *a,
                         const struct cs_candidate *b)
{
    int32_t llm = s->problem->n_branches - 1;
    return a->dp == b->dp && a->modality == b->modality && a->option[llm] == b->option[llm] &&
           a->pp[llm] == b->pp[llm];
}

/* enough of its kind before it; all are tried where there are few */
static bool is_repeated(const struct searcher *s, const struct cs_enumeration *all, int32_t i,
                        int32_t wanted)
{
    int32_t alike = 0;
    for (int32_t k = 0; k < i && all->n > wanted; k++)
        alike += has_same_llm(s, &all->best[k], &all->best[i]);
    return alike >= ALIKE;
}

static int by_time(const void *a, const void *b)
{
    const struct cs_search_plan *x = *(struct cs_search_plan *const *)a,
                                *y = *(struct cs_search_plan *const *)b;
    if (x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? -1 : 1;
    if (x->n_ranks != y->n_ranks)
        return x->n_ranks < y->n_ranks ? -1 : 1;
    return (x->score_ns > y->score_ns) - (x->score_ns < y->score_ns);
}

static void refuse_all(struct searcher *s, const struct cs_enumeration *all)
{
    char need[CS_UNITS_CAP], have[CS_UNITS_CAP];
    cs_bytes_print(need, sizeof(need), (uint64_t)all->least_bytes);
    cs_bytes_print(have, sizeof(have), (uint64_t)s->problem->mem_bytes);
    if (all->least_bytes > 0)
        cs_fail(&s->why_not, CS_PLAN,
                "does not fit: %s alone needs %s on each of %d ranks with one slot in flight, the "
                "best of %lld layouts, and a rank has %s; use more or larger devices, fewer "
                "seq_tokens, or freeze more",
                s->problem->branch[all->least_branch].name, need, all->least_ranks,
                (long long)all->n_pruned, have);
    else
        cs_fail(&s->why_not, CS_PLAN,
                "no layout of all branches has room on %d ranks as asked; use more devices or "
                "smaller dp, tp, cp, pp",
                s->problem->n_ranks);
}

static enum cs_status take_best(struct searcher *s, bool is_blind, int32_t wanted,
                                struct cs_err *err)
{
    struct cs_enumeration all;
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status =
        cs_search_enumerate(s->problem, &s->options, is_blind, wanted * TRIES, scratch, &all, err);
    int32_t n = 0;
    s->room = s->n_found + wanted * CS_SEARCH_SCHEDULES;
    for (int32_t i = 0; status == CS_OK && i < all.n && n < wanted; i++)
        if (!is_repeated(s, &all, i, wanted))
            n += try_layout(s, &all.best[i]);
    if (status == CS_OK) {
        s->out->n_scored += all.n_scored;
        s->out->n_pruned += all.n_pruned;
        s->out->n_simulated += n;
        if (all.n == 0 && s->why_not.text[0] == '\0')
            refuse_all(s, &all);
    }
    cs_arena_free(scratch);
    return status;
}

static void mark_pareto(struct cs_search_plan *plan, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        plan[i].is_pareto = true;
        for (int32_t k = 0; k < i; k++) /* ascending in time */
            if (plan[k].peak_bytes <= plan[i].peak_bytes)
                plan[i].is_pareto = false;
    }
}

/* what the frozen-blind planner takes: the first by its own score that fits, at true costs, under
 * the schedule that serves it best */
static enum cs_status find_blind(struct searcher *s, struct cs_err *err)
{
    int32_t first = s->n_found;
    CS_TRY(take_best(s, true, 1, err));
    if (s->n_found == first)
        return CS_OK;
    qsort(s->found + first, (size_t)(s->n_found - first), sizeof(s->found[0]), by_time);
    s->out->blind = s->found[first];
    return CS_OK;
}

static void add_comparison(struct searcher *s, struct cs_search_plan *plan)
{
    const struct cs_search_plan *blind = s->out->blind;
    if (!blind || plan == blind)
        return;
    char step[CS_UNITS_CAP];
    cs_duration_print(step, sizeof(step), (uint64_t)blind->step_ns);
    plan->why = cs_arena_printf(s->arena, "%s; a frozen-blind planner would take %s (%.2fx)",
                                plan->why, step, (double)blind->step_ns / (double)plan->step_ns);
}

enum cs_status cs_search_run(const struct cs_search_problem *problem,
                             const struct cs_search_options *options, struct cs_arena *arena,
                             struct cs_search_result *out, struct cs_err *err)
{
    struct searcher s = {
        .problem = problem, .options = cs_search_defaults(options), .arena = arena, .out = out};
    *out = (struct cs_search_result){0};
    if (options->batch_slots < 1 || options->batch_slots > 1 << 20)
        return cs_fail(err, CS_PLAN, "batch_slots is %d: 1 to %d", options->batch_slots, 1 << 20);
    if (s.options.dp > options->batch_slots)
        return cs_fail(err, CS_PLAN, "dp = %d replicas, but a step has %d slots; lower dp",
                       s.options.dp, options->batch_slots);
    s.found = CS_NEW_ARRAY(arena, struct cs_search_plan *,
                           (s.options.n_simulate + 1) * CS_SEARCH_SCHEDULES);
    if (!options->skip_blind && !options->is_blind_only)
        CS_TRY(find_blind(&s, err));
    CS_TRY(take_best(&s, options->is_blind_only, s.options.n_simulate, err));
    if (s.n_found == 0)
        return cs_fail(err, CS_PLAN, "%s",
                       s.why_not.text[0] ? s.why_not.text
                                         : "no schedule that was asked for orders such a plan");
    qsort(s.found, (size_t)s.n_found, sizeof(s.found[0]), by_time);
    out->plan = CS_NEW_ARRAY(arena, struct cs_search_plan, s.n_found);
    for (int32_t i = 0; i < s.n_found; i++) {
        if (out->n_plans < s.options.top)
            add_comparison(&s, s.found[i]);
        out->plan[i] = *s.found[i];
    }
    mark_pareto(out->plan, s.n_found);
    out->n_plans = s.n_found < s.options.top ? s.n_found : s.options.top;
    return CS_OK;
}

enum cs_status cs_search(const struct cs_spec *spec, const struct cs_graph *graph,
                         const struct cs_cluster *cluster, const struct cs_profile *profile,
                         const struct cs_search_options *options, struct cs_arena *arena,
                         struct cs_search_result *out, struct cs_err *err)
{
    struct cs_search_options own = *options;
    struct cs_search_problem *problem = NULL;
    own.batch_slots = own.batch_slots > 0 ? own.batch_slots : spec->slots;
    CS_TRY(cs_search_problem_make(spec, graph, cluster, profile, arena, &problem, err));
    return cs_search_run(problem, &own, arena, out, err);
}
