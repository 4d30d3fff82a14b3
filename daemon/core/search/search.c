/* Runs a search: enumerate, evaluate under every schedule, refine, prove, hand back. */
#include "core/search/search.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/stop.h"
#include "core/base/units.h"
#include "core/search/buffers.h"
#include "core/search/candidate.h"
#include "core/search/options.h"

enum {
    TRIES = 32, /* layouts cut for every one that is wanted */
    ALIKE = 3   /* of those, layouts that differ in the encoders' ranks alone */
};

struct searcher {
    const struct cs_search_problem *problem;
    struct cs_search_options options;
    struct cs_arena *arena;
    struct cs_search_result *out;
    struct cs_known_buffers *known;
    struct cs_found *found;
    int32_t n_found, room;
    int64_t nearest; /* bytes of the plan that failed by least */
    struct cs_err why_not;
};

static bool has_place(const struct searcher *s, const struct cs_candidate *c,
                      enum cs_placement place)
{
    for (int32_t b = 0; b < s->problem->n_branches; b++)
        if (b != s->problem->llm && c->place[b] == (uint8_t)place)
            return true;
    return false;
}

static bool takes(const struct cs_schedule_info *schedule, enum cs_placement place)
{
    return (schedule->takes >> place & 1) != 0;
}

static bool orders(const struct searcher *s, int schedule, const struct cs_candidate *c)
{
    const struct cs_schedule_info *row = cs_plan_schedule(schedule);
    bool takes_own = takes(row, CS_PLACE_OWN);
    bool has_own = has_place(s, c, CS_PLACE_OWN), has_shared = has_place(s, c, CS_PLACE_COLOCATED);
    if ((s->options.schedules >> schedule & 1) == 0)
        return false;
    if (has_shared && !has_own && takes_own) /* anchors and three-phase are never worse */
        return false;
    if (!takes_own && !has_shared)
        return false;
    return (!has_own || takes_own) && (!has_shared || takes(row, CS_PLACE_COLOCATED)) &&
           (!has_place(s, c, CS_PLACE_REPLICATED) || takes(row, CS_PLACE_REPLICATED));
}

static void note_failure(struct searcher *s, int64_t nearest, const struct cs_err *err)
{
    bool is_nearer = nearest > 0 && (s->nearest == 0 || nearest < s->nearest);
    if (s->why_not.text[0] == '\0' || is_nearer)
        s->why_not = *err;
    if (is_nearer)
        s->nearest = nearest;
}

static bool try_schedule(struct searcher *s, const struct cs_candidate *candidate, int schedule,
                         int32_t chunks)
{
    struct cs_found *found = &s->found[s->n_found];
    struct cs_err err = {.text = ""};
    int64_t nearest = 0;
    *found = (struct cs_found){
        .candidate = *candidate, .schedule = (enum cs_schedule_id)schedule, .chunks = chunks};
    if (cs_search_evaluate(s->problem, &s->options, s->known, found, s->arena, &nearest, &err) ==
        CS_OK) {
        s->n_found++;
        return true;
    }
    note_failure(s, nearest, &err);
    return false;
}

/* under every schedule; whether one of them works */
static bool try_layout(struct searcher *s, const struct cs_candidate *candidate)
{
    bool works = false, is_tried = false;
    int32_t llm = s->problem->llm, fixed = s->options.fix[llm].vpp;
    for (int i = 0; i < CS_SCHEDULES; i++) {
        if (!orders(s, i, candidate))
            continue;
        bool is_cut = cs_plan_schedule(i)->layout == CS_LAYOUT_CHUNKS;
        int32_t first = is_cut ? 2 : 1, last = is_cut ? s->options.max_vpp : 1;
        if (fixed > 0) { /* 1: nothing interleaved; more: nothing else */
            first = first > fixed ? first : fixed;
            last = is_cut || fixed == 1 ? fixed : 0;
        }
        is_tried = is_tried || first <= last;
        for (int32_t v = first; v <= last && s->n_found < s->room && !cs_stop_is_asked(); v++)
            works |= try_schedule(s, candidate, i, v);
    }
    s->out->n_too_big += is_tried && !works;
    return works;
}

static bool has_same_llm(const struct searcher *s, const struct cs_candidate *a,
                         const struct cs_candidate *b)
{
    int32_t llm = s->problem->llm;
    return a->dp == b->dp && a->option[llm] == b->option[llm] && a->pp[llm] == b->pp[llm] &&
           memcmp(a->place, b->place, sizeof a->place) == 0;
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
    const struct cs_search_plan *x = ((const struct cs_found *)a)->plan,
                                *y = ((const struct cs_found *)b)->plan;
    if ((x->mean_ns > 0) != (y->mean_ns > 0))
        return x->mean_ns > 0 ? -1 : 1;
    if (cs_search_time(x) != cs_search_time(y))
        return cs_search_time(x) < cs_search_time(y) ? -1 : 1;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? -1 : 1;
    if (x->n_ranks != y->n_ranks)
        return x->n_ranks < y->n_ranks ? -1 : 1;
    if (x->score_ns != y->score_ns)
        return x->score_ns < y->score_ns ? -1 : 1;
    const struct cs_found *f = a, *g = b; /* a total order: qsort is not stable */
    if (f->candidate.order != g->candidate.order)
        return f->candidate.order < g->candidate.order ? -1 : 1;
    if (f->candidate.planner != g->candidate.planner)
        return f->candidate.planner < g->candidate.planner ? -1 : 1;
    return f->schedule != g->schedule ? (f->schedule > g->schedule) - (f->schedule < g->schedule)
                                      : (f->chunks > g->chunks) - (f->chunks < g->chunks);
}

static void refuse_all(struct searcher *s, const struct cs_enumeration *all)
{
    char need[CS_UNITS_CAP], have[CS_UNITS_CAP];
    cs_bytes_print(need, sizeof need, (uint64_t)all->least_bytes);
    cs_bytes_print(have, sizeof have, (uint64_t)s->problem->mem_bytes);
    if (all->least_bytes > 0)
        cs_fail(
            &s->why_not, CS_PLAN,
            "does not fit: %s alone needs %s on each of %d rank%s with few slots in flight, the "
            "best of %lld layout%s, and a rank has %s; use more or larger devices, fewer "
            "seq_tokens, or freeze more",
            s->problem->branch[all->least_branch].name, need, all->least_ranks,
            CS_PLURAL(all->least_ranks), (long long)all->n_pruned, CS_PLURAL(all->n_pruned), have);
    else
        cs_fail(&s->why_not, CS_PLAN,
                "no layout of all branches has room on %d rank%s as asked; use more devices or "
                "smaller dp, tp, cp, pp",
                s->problem->n_ranks, CS_PLURAL(s->problem->n_ranks));
}

/* by the rules of options.planner */
static enum cs_status take_best(struct searcher *s, int32_t wanted, struct cs_err *err)
{
    struct cs_enumeration all;
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status =
        cs_search_enumerate(s->problem, &s->options, wanted * TRIES, scratch, &all, err);
    int32_t n = 0;
    for (int32_t i = 0; status == CS_OK && i < all.n && n < wanted && !cs_stop_is_asked(); i++)
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

/* What one planner takes: the first by its own formula that fits, at true costs, under the schedule
 * that serves it best. Its formula does not count what higher zero levels cost in every slot, so it
 * gets them only when nothing fits without. */
static void find_choice(struct searcher *s, enum cs_search_planner p)
{
    const struct cs_search_options own = s->options;
    const int zero = cs_search_next_zero(own.zeros, -1);
    struct cs_err err = {.text = ""};
    int32_t first = s->n_found;
    enum cs_status status = CS_OK;
    s->options.planner = p;
    if (cs_planner_rules[p].is_plain_1f1b)
        s->options.schedules = 1;
    s->options.zeros = 1u << zero;
    for (int attempt = 0; attempt < 2 && s->n_found == first; attempt++) {
        s->why_not = (struct cs_err){.text = ""};
        s->nearest = 0;
        status = take_best(s, 1, &err);
        s->options.zeros = own.zeros;
    }
    s->options = own;
    s->out->choice[p].planner = p;
    if (s->n_found == first) {
        const char *why = status == CS_OK ? s->why_not.text : err.text;
        s->out->choice[p].why_not = cs_arena_strdup(
            s->arena, why[0] != '\0' ? why : "no layout as asked goes with its schedule, 1f1b");
        return;
    }
    qsort(s->found + first, (size_t)(s->n_found - first), sizeof s->found[0], by_time);
    s->n_found = first + 1;
    s->out->choice[p].plan = s->found[first].plan;
}

/* of the other planners; they stand among the candidates */
static void find_choices(struct searcher *s)
{
    for (int p = 0; p < CS_PLANNERS; p++)
        if (p != (int)s->options.planner && p != CS_PLANNER_CORNSTARCH)
            find_choice(s, (enum cs_search_planner)p);
    s->why_not = (struct cs_err){.text = ""};
    s->nearest = 0;
    s->out->blind = s->out->choice[CS_PLANNER_BLIND].plan;
}

static void add_comparison(struct searcher *s, struct cs_search_plan *plan)
{
    const struct cs_search_plan *blind = s->out->blind;
    if (!blind || plan == blind)
        return;
    char step[CS_UNITS_CAP];
    cs_duration_print(step, sizeof step, (uint64_t)cs_search_time(blind));
    plan->why =
        cs_arena_printf(s->arena, "%s; a frozen-blind planner would take %s (%.2fx)", plan->why,
                        step, (double)cs_search_time(blind) / (double)cs_search_time(plan));
}

/* the branches' shares in the work of many samples */
static enum cs_status weigh_branches(struct searcher *s, struct cs_err *err)
{
    enum { MANY = 4096 };

    CS_TRY(cs_samples_check(s->problem, s->options.samples, err));
    if (s->options.work[s->problem->llm] <= 0)
        cs_samples_work(s->problem, s->options.samples, 0, MANY, s->options.work);
    return CS_OK;
}

/* the best by full slots, and what the planners chose, on batches */
static enum cs_status sample_best(struct searcher *s, struct cs_err *err)
{
    struct cs_sampler *sampler = NULL;
    struct cs_arena *scratch = cs_arena_new(0);
    enum cs_status status =
        cs_sampler_make(s->problem, &s->options, s->known, scratch, &sampler, err);
    for (int32_t i = 0; status == CS_OK && i < s->n_found; i++) {
        bool is_choice = false;
        for (int p = 0; p < CS_PLANNERS; p++)
            is_choice = is_choice || s->out->choice[p].plan == s->found[i].plan;
        status = cs_stop_check(err);
        if (status == CS_OK && (i < s->options.n_simulate || is_choice))
            status = cs_search_sample(sampler, s->arena, &s->found[i], err);
    }
    if (status == CS_OK) {
        const struct cs_search_plan *dealt = s->out->choice[CS_PLANNER_ENTRAIN].plan;
        s->out->n_batches = cs_sampler_batches(sampler)->n_batches;
        s->out->n_samples = cs_sampler_batches(sampler)->n_samples;
        if (dealt)
            s->out->least_batch = cs_samples_least_batch(s->problem, s->options.samples,
                                                         s->problem->n_ranks / dealt->layout.dp);
    }
    cs_arena_free(scratch);
    return status;
}

static bool is_same(const struct searcher *s, const struct cs_found *a, const struct cs_found *b)
{
    const struct cs_candidate *c = &a->candidate, *d = &b->candidate;
    int32_t n = s->problem->n_branches;
    if (a->schedule != b->schedule || a->chunks != b->chunks || c->dp != d->dp ||
        cs_planner_rules[c->planner].how != cs_planner_rules[d->planner].how)
        return false;
    for (int32_t k = 0; k < n; k++) {
        if (c->option[k] != d->option[k] || c->pp[k] != d->pp[k] || c->own_dp[k] != d->own_dp[k] ||
            c->place[k] != d->place[k] || c->zero[k] != d->zero[k])
            return false;
        size_t stages = (size_t)c->pp[k] * (size_t)(k == n - 1 ? a->chunks : 1);
        if (c->place[k] == CS_PLACE_OWN &&
            memcmp(a->sizes[k], b->sizes[k], stages * sizeof(int)) != 0)
            return false;
    }
    return true;
}

/* a search by the rules of one planner hands back its plans only; else what was asked for: other
 * planners have schedules and placements of their own */
static bool is_asked(const struct searcher *s, const struct cs_found *f)
{
    return s->options.planner == CS_PLANNER_CORNSTARCH &&
           (s->options.schedules >> f->schedule & 1) != 0 &&
           (s->options.modalities >> f->plan->modality & 1) != 0;
}

/* Another planner's choice may be one of ours: equal plans once, as ours. Ascending in time. */
static void drop_repeated(struct searcher *s)
{
    int32_t n = 0;
    for (int32_t i = 0; i < s->n_found; i++) {
        int32_t same = n - 1;
        if (s->found[i].candidate.planner != (uint8_t)s->options.planner &&
            !is_asked(s, &s->found[i]))
            continue;
        while (same >= 0 && !is_same(s, &s->found[same], &s->found[i]))
            same--;
        if (same < 0)
            s->found[n++] = s->found[i];
        else if (s->found[i].candidate.planner == (uint8_t)s->options.planner)
            s->found[same] = s->found[i];
    }
    s->n_found = n;
}

static int by_job_time(const void *a, const void *b)
{
    const double x = cs_search_job_time(((const struct cs_found *)a)->plan),
                 y = cs_search_job_time(((const struct cs_found *)b)->plan);
    return x != y ? (x > y) - (x < y) : by_time(a, b);
}

/* The search counts items that are shared as shared in whole, and sums behind the pipeline: the plans that are handed
 * back are ranked by what jobs make of them, where that is known of all that run. */
static enum cs_status judge(struct searcher *s, struct cs_err *err)
{
    const int32_t n = s->n_found < s->options.top ? s->n_found : s->options.top;
    bool is_known = true;
    for (int32_t i = 0; s->options.judge != NULL && i < n; i++) {
        struct cs_search_plan *plan = s->found[i].plan;
        CS_TRY(cs_stop_check(err));
        s->options.judge(s->options.judge_user, plan, s->arena);
        is_known = is_known && (!plan->runs || plan->job.step_ns > 0);
    }
    if (s->options.judge != NULL && is_known)
        qsort(s->found, (size_t)n, sizeof s->found[0], by_job_time);
    return CS_OK;
}

static enum cs_status rank(struct searcher *s, struct cs_err *err)
{
    qsort(s->found, (size_t)s->n_found, sizeof s->found[0], by_time);
    for (int32_t i = 0, n = 0; i < s->n_found && n < s->options.n_refine; i++) {
        bool is_choice = s->found[i].candidate.planner != (uint8_t)s->options.planner;
        if (is_choice) /* shown as its planner would run it */
            continue;
        cs_search_refine(s->problem, &s->options, s->known, &s->found[i], s->arena);
        n++;
    }
    qsort(s->found, (size_t)s->n_found, sizeof s->found[0], by_time);
    if (s->options.samples) {
        CS_TRY(sample_best(s, err));
        qsort(s->found, (size_t)s->n_found, sizeof s->found[0], by_time);
        while (s->found[s->n_found - 1].plan->mean_ns == 0) /* what was not sampled is last */
            s->n_found--;
    }
    drop_repeated(s);
    return judge(s, err);
}

/* What the best plan takes when memory has no limit, at full slots; NULL: it has none, or there is no
 * plan. */
static const struct cs_search_plan *without_limit(const struct searcher *s)
{
    struct cs_search_problem *free_of = CS_NEW(s->arena, struct cs_search_problem);
    struct cs_search_result *result = CS_NEW(s->arena, struct cs_search_result);
    struct cs_search_options options = s->options;
    struct cs_err err;
    if (s->problem->mem_bytes <= 0)
        return NULL;
    *free_of = *s->problem;
    free_of->mem_bytes = 0;
    options.skip_planners = true;
    options.explains = false;
    options.samples = NULL;
    options.judge = NULL;
    options.n_simulate = 6;
    options.n_refine = 1;
    options.top = 1;
    return cs_search_run(free_of, &options, s->arena, result, &err) == CS_OK ? &result->plan[0]
                                                                             : NULL;
}

static enum cs_status hand_back(struct searcher *s, struct cs_err *err)
{
    struct cs_search_result *out = s->out;
    out->plan = CS_NEW_ARRAY(s->arena, struct cs_search_plan, s->n_found);
    int32_t top = s->n_found < s->options.top ? s->n_found : s->options.top;
    for (int32_t i = 0; i < s->n_found; i++) {
        if (i < top) {
            CS_TRY(cs_search_prove(s->problem, &s->options, &s->found[i], err));
            add_comparison(s, s->found[i].plan);
        }
        out->plan[i] = *s->found[i].plan;
        if (i == 0 || out->plan[i].step_ns < out->least_step_ns)
            out->least_step_ns = out->plan[i].step_ns;
        if (i > 0 && i < top)
            out->plan[i].loses = cs_search_loses(&out->plan[0], &out->plan[i], s->arena);
    }
    mark_pareto(out->plan, s->n_found);
    out->n_plans = top;
    out->choice[s->options.planner] =
        (struct cs_search_choice){.planner = s->options.planner, .plan = &out->plan[0]};
    if (s->options.explains)
        cs_search_explain(s->problem, &s->options, &s->found[0], without_limit(s), s->arena, out);
    return CS_OK;
}

enum cs_status cs_search_run(const struct cs_search_problem *problem,
                             const struct cs_search_options *options, struct cs_arena *arena,
                             struct cs_search_result *out, struct cs_err *err)
{
    struct searcher s = {
        .problem = problem, .options = cs_search_defaults(options), .arena = arena, .out = out};
    *out = (struct cs_search_result){.optimizer = problem->optimizer};
    CS_TRY(cs_search_check_options(problem, &s.options, err));
    s.room = (s.options.n_simulate + CS_PLANNERS) * (CS_SCHEDULES + s.options.max_vpp);
    s.known = cs_known_buffers_new(arena);
    s.found = CS_NEW_ARRAY(arena, struct cs_found, s.room + 1);
    if (cs_planner_rules[s.options.planner].is_plain_1f1b && options->schedules == 0)
        s.options.schedules = 1u << CS_SCHEDULE_1f1b;
    if (s.options.samples) /* checks them, too */
        CS_TRY(weigh_branches(&s, err));
    if (!s.options.skip_planners)
        find_choices(&s);
    CS_TRY(take_best(&s, s.options.n_simulate, err));
    CS_TRY(cs_stop_check(err));
    if (s.n_found > 0)
        CS_TRY(rank(&s, err));
    CS_TRY(cs_stop_check(err));
    if (s.n_found == 0) /* or nothing but plans of other planners that were not asked for */
        return cs_fail(err, CS_PLAN, "%s",
                       s.why_not.text[0] ? s.why_not.text
                                         : "no schedule that was asked for orders such a plan");
    return hand_back(&s, err);
}
