/* Why this plan: what its cut balances, what moving a layer would cost, what others lose, and which
 * constraints bind; see search.h. Sentences for people, figures from the same evaluation. */
#include <string.h>

#include "core/base/units.h"
#include "core/search/candidate.h"

enum { MAX_SENTENCES = 24 };

struct writer {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    const struct cs_found *best;
    const struct cs_search_plan *unbound;
    struct cs_arena *arena;
    struct cs_search_result *result;
};

static int64_t slot_ns(const struct cs_search_stage *s)
{
    return s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns;
}

static const char *duration(const struct writer *w, int64_t ns)
{
    char text[CS_UNITS_CAP];
    cs_duration_print(text, sizeof text, (uint64_t)(ns > 0 ? ns : 0));
    return cs_arena_strdup(w->arena, text);
}

static void say(const char **sentence, int32_t *n, const char *text)
{
    if (*n < MAX_SENTENCES)
        sentence[(*n)++] = text;
}

static const struct cs_search_stage *slowest(const struct cs_search_plan *plan)
{
    const struct cs_search_stage *worst = &plan->stage[0];
    for (int32_t i = 1; i < plan->n_stages; i++)
        worst = slot_ns(&plan->stage[i]) > slot_ns(worst) ? &plan->stage[i] : worst;
    return worst;
}

/* "vision 25; llm 5 5 6", equal neighbours as "12 x 7" */
static const char *cut_text(const struct writer *w, const struct cs_search_plan *plan)
{
    struct cs_buf text = {0};
    for (int32_t i = 0; i < plan->n_stages;) {
        const struct cs_search_stage *s = &plan->stage[i];
        int32_t same = 1;
        while (i + same < plan->n_stages && plan->stage[i + same].branch == s->branch &&
               plan->stage[i + same].n_layers == s->n_layers)
            same++;
        if (s->index == 0)
            cs_buf_addf(&text, "%s%s", text.len ? "; " : "", w->problem->branch[s->branch].name);
        cs_buf_addf(&text, same > 1 ? " %d x %d" : " %d", s->n_layers, same);
        i += same;
    }
    const char *out = cs_arena_strdup(w->arena, cs_buf_str(&text));
    cs_buf_free(&text);
    return out;
}

static void say_cut(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_plan *plan = w->best->plan;
    const struct cs_search_stage *worst = slowest(plan);
    int64_t sum = 0;
    for (int32_t i = 0; i < plan->n_stages; i++)
        sum += slot_ns(&plan->stage[i]);
    say(out, n, cs_arena_printf(w->arena, "layers of every stage: %s", cut_text(w, plan)));
    say(out, n,
        cs_arena_printf(w->arena,
                        "the slowest stage, %s, takes %s of a slot (F %s, B %s), the average "
                        "stage %s; with %d slot%s that alone is %s of %s",
                        worst->name, duration(w, slot_ns(worst)), duration(w, worst->fwd_ns),
                        duration(w, worst->bwd_input_ns + worst->bwd_weight_ns),
                        duration(w, sum / plan->n_stages), plan->slots, CS_PLURAL(plan->slots),
                        duration(w, plan->slots * slot_ns(worst)), duration(w, plan->step_ns)));
    say(out, n,
        cs_arena_printf(w->arena,
                        "after the pipeline: gradients %s, optimizer %s; %.1f%% of the "
                        "pipeline is idle",
                        duration(w, plan->sync_ns), duration(w, plan->optim_ns),
                        100 * plan->bubble));
}

static void say_optimizer(const struct writer *w, const char **out, int32_t *n)
{
    static const char *const from[] = {
        [CS_STEP_BYTES] = "its time is that of moving them through memory",
        [CS_STEP_MEASURED] = "its time is the profile's",
        [CS_STEP_SCALED] = "the profile has times with fp32 only, here they are in proportion to "
                           "the bytes that move"};
    const struct cs_search_optimizer *o = &w->problem->optimizer;
    if (o->state)
        say(out, n,
            cs_arena_printf(w->arena, "optimizer: state in %s, %lld bytes a trained parameter; %s",
                            o->state, (long long)o->param_bytes, from[o->source]));
}

static void say_freezing(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_candidate *c = &w->best->candidate;
    for (int32_t b = 0; b < w->problem->n_branches; b++) {
        const struct cs_search_branch *branch = &w->problem->branch[b];
        int32_t none = 0, input_only = 0;
        for (int32_t i = 0; i < branch->n_layers; i++) {
            const struct cs_search_layer *l = &branch->option[c->option[b]].layer[i];
            none += l->bwd_input_ns + l->bwd_weight_ns == 0;
            input_only += l->bwd_input_ns > 0 && l->bwd_weight_ns == 0;
        }
        if (none + input_only > 0)
            say(out, n,
                cs_arena_printf(w->arena,
                                "%s: of %d layers %d have no backward and %d only pass gradients "
                                "on; a frozen-blind planner counts three forwards for each",
                                branch->name, branch->n_layers, none, input_only));
    }
}

/* the same plan with one layer moved across a boundary of the slowest stage */
static void say_move(const struct writer *w, int from, int to, const char **out, int32_t *n)
{
    const struct cs_search_stage *worst = slowest(w->best->plan);
    int32_t b = worst->branch, stages = w->best->candidate.pp[b];
    struct cs_found next = *w->best;
    struct cs_err err;
    int64_t nearest = 0;
    if (w->best->chunks > 1 || from < 0 || to < 0 || from >= stages || to >= stages ||
        w->best->sizes[b][from] < 2)
        return;
    next.sizes[b] = CS_NEW_ARRAY(w->arena, int, stages);
    memcpy(next.sizes[b], w->best->sizes[b], (size_t)stages * sizeof(int));
    next.sizes[b][from]--;
    next.sizes[b][to]++;
    const char *name = w->problem->branch[b].name;
    if (cs_search_evaluate(w->problem, w->options, NULL, &next, w->arena, &nearest, &err) !=
        CS_OK) {
        say(out, n,
            cs_arena_printf(w->arena, "one layer moved from %s.%d to %s.%d: %s", name, from, name,
                            to, err.text));
        return;
    }
    int64_t more = next.plan->step_ns - w->best->plan->step_ns;
    say(out, n,
        cs_arena_printf(w->arena,
                        "one layer moved from %s.%d to %s.%d: the slowest stage takes %s, "
                        "the step %s (%s%s)",
                        name, from, name, to, duration(w, slot_ns(slowest(next.plan))),
                        duration(w, next.plan->step_ns), more < 0 ? "-" : "+",
                        duration(w, more < 0 ? -more : more)));
}

static void say_moves(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_stage *worst = slowest(w->best->plan);
    int s = worst->index;
    if (w->best->candidate.place[worst->branch] != CS_PLACE_OWN)
        return;
    say_move(w, s, s - 1, out, n);
    say_move(w, s, s + 1, out, n);
}

static void say_planners(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_plan *best = w->best->plan;
    struct cs_buf alike = {0}; /* planners that come to the same plan: told once */
    for (int p = 0; p < CS_PLANNERS; p++) {
        const struct cs_search_choice *c = &w->result->choice[p];
        if (p == (int)w->options->planner || (!c->plan && !c->why_not))
            continue;
        if (!c->plan) {
            say(out, n,
                cs_arena_printf(w->arena, "planner %s finds nothing: %s", cs_planner_rules[p].name,
                                c->why_not));
            continue;
        }
        bool is_sampled = best->mean_ns > 0 && c->plan->mean_ns > 0;
        int64_t its = is_sampled ? c->plan->mean_ns : c->plan->step_ns,
                own = is_sampled ? best->mean_ns : best->step_ns;
        if (its == own && strcmp(cut_text(w, c->plan), cut_text(w, best)) == 0) {
            cs_buf_addf(&alike, "%s%s", alike.len ? ", " : "", cs_planner_rules[p].name);
            continue;
        }
        const struct cs_search_stage *worst = slowest(c->plan);
        say(out, n,
            cs_arena_printf(w->arena,
                            "planner %s would cut %s: slowest %s with %s a slot, step %s (%.2fx)",
                            cs_planner_rules[p].name, cut_text(w, c->plan), worst->name,
                            duration(w, slot_ns(worst)), duration(w, its),
                            own > 0 ? (double)its / (double)own : 1));
    }
    if (alike.len)
        say(out, n,
            cs_arena_printf(w->arena, "cut the same by other planners: %s", cs_buf_str(&alike)));
    cs_buf_free(&alike);
}

static void say_memory(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_plan *best = w->best->plan;
    int64_t least = w->result->least_step_ns;
    char cap[CS_UNITS_CAP], need[CS_UNITS_CAP];
    if (w->problem->mem_bytes <= 0)
        return;
    const struct cs_search_plan *plan = w->unbound;
    cs_bytes_print(cap, sizeof cap, (uint64_t)w->problem->mem_bytes);
    if (!plan || plan->step_ns >= least) {
        cs_bytes_print(need, sizeof need, (uint64_t)best->peak_bytes);
        say(out, n,
            cs_arena_printf(w->arena,
                            "memory does not bind: %s of %s used, and without "
                            "the limit no faster plan was found",
                            need, cap));
        return;
    }
    cs_bytes_print(need, sizeof need, (uint64_t)plan->peak_bytes);
    say(out, n,
        cs_arena_printf(w->arena,
                        "memory binds: with more than %s a rank, %s would take %s "
                        "(%.1f%% less), needing %s",
                        cap, plan->schedule, duration(w, plan->step_ns),
                        100 - 100.0 * (double)plan->step_ns / (double)least, need));
}

static void say_ranks(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_plan *best = w->best->plan;
    if (best->n_ranks < w->problem->n_ranks)
        say(out, n,
            cs_arena_printf(
                w->arena,
                "%d of %d ranks stay idle: replicas divide %d slot%s evenly, and of the "
                "layouts as asked none that uses more ranks is faster",
                w->problem->n_ranks - best->n_ranks, w->problem->n_ranks, w->options->batch_slots,
                CS_PLURAL(w->options->batch_slots)));
}

static void say_batch(const struct writer *w, const char **out, int32_t *n)
{
    const struct cs_search_result *r = w->result;
    if (r->n_batches == 0 || !r->choice[CS_PLANNER_ENTRAIN].plan)
        return;
    if (r->least_batch == 0)
        say(out, n,
            "samples: ranks dealt in proportion to the work of a batch never settle; a "
            "split of ranks fixed in advance depends on which samples were looked at");
    else
        say(out, n,
            cs_arena_printf(w->arena,
                            "samples: ranks dealt in proportion to work settle from %d sample%s, a "
                            "step has %d%s",
                            r->least_batch, CS_PLURAL(r->least_batch), r->n_samples,
                            r->n_samples < r->least_batch
                                ? ": single steps want other splits than the plan's"
                                : ""));
}

void cs_search_explain(const struct cs_search_problem *problem,
                       const struct cs_search_options *options, const struct cs_found *best,
                       const struct cs_search_plan *unbound, struct cs_arena *arena,
                       struct cs_search_result *result)
{
    struct writer w = {problem, options, best, unbound, arena, result};
    struct cs_search_explain *e = &result->explain;
    e->cut = CS_NEW_ARRAY(arena, const char *, MAX_SENTENCES);
    e->bind = CS_NEW_ARRAY(arena, const char *, MAX_SENTENCES);
    say_cut(&w, e->cut, &e->n_cut);
    say_optimizer(&w, e->cut, &e->n_cut);
    say_freezing(&w, e->cut, &e->n_cut);
    say_moves(&w, e->cut, &e->n_cut);
    say_planners(&w, e->cut, &e->n_cut);
    say_memory(&w, e->bind, &e->n_bind);
    say_ranks(&w, e->bind, &e->n_bind);
    say_batch(&w, e->bind, &e->n_bind);
}
