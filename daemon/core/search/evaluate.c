/* One layout under one schedule: cut, order, replay, count memory. */
#include <math.h>
#include <string.h>

#include "core/base/units.h"
#include "core/sched/lower/lower.h"
#include "core/search/account.h"

static void describe(const struct cs_trial *t, struct cs_search_plan *plan)
{
    const struct cs_candidate *c = t->c;
    *plan = (struct cs_search_plan){.planner = (enum cs_search_planner)c->planner,
                                    .modality = cs_candidate_modality(t->problem, c),
                                    .schedule = cs_plan_schedule((int)t->found->schedule)->name,
                                    .state = t->problem->optimizer.state,
                                    .is_blind_cut = c->planner == CS_PLANNER_BLIND,
                                    .is_refined = t->found->is_refined,
                                    .slots = t->slots,
                                    .context_rows = c->context_rows,
                                    .n_ranks = c->n_ranks,
                                    .score_ns = c->score_ns};
    struct cs_layout *layout = &plan->layout;
    layout->n_branches = t->problem->n_branches;
    layout->llm = t->problem->llm;
    layout->dp = c->dp;
    layout->zero = c->zero[t->llm];
    layout->may_leave_node = t->options->may_leave_node;
    for (int32_t b = 0; b <= t->llm; b++)
        layout->branch[b] =
            (struct cs_branch_layout){.name = t->problem->branch[b].name,
                                      .tp = t->option[b]->tp,
                                      .cp = t->option[b]->cp,
                                      .pp = c->pp[b],
                                      .sp = t->option[b]->sp,
                                      .recompute = t->option[b]->recompute,
                                      .place = (enum cs_placement)c->place[b],
                                      .dp = c->own_dp[b],
                                      .vpp = b == t->llm ? t->chunks : 1,
                                      .ep = t->option[b]->ep > 1 ? t->option[b]->ep : 1,
                                      .shard = 1 + c->zero[b]};
}

static enum cs_status check_nodes(const struct cs_trial *t, const struct cs_layout *layout,
                                  struct cs_err *err)
{
    if (layout->may_leave_node || cs_layout_stays_in_nodes(layout, t->problem->ranks_per_node))
        return CS_OK;
    return cs_fail(err, CS_PLAN, "a tp * cp group would reach over nodes of %d ranks",
                   t->problem->ranks_per_node);
}

static enum cs_status check_chunks(const struct cs_trial *t, struct cs_err *err)
{
    const struct cs_schedule_info *row = cs_plan_schedule((int)t->found->schedule);
    if (row->layout != CS_LAYOUT_CHUNKS)
        return CS_OK;
    if (t->c->pp[t->llm] < 2)
        return cs_fail(err, CS_PLAN, "%s needs two stages of %s or more", row->name,
                       t->problem->branch[t->llm].name);
    if (cs_trial_stages(t, t->llm) > t->problem->branch[t->llm].n_layers)
        return cs_fail(err, CS_PLAN, "%s cuts %s in %d chunk%s, but it has %d layer%s", row->name,
                       t->problem->branch[t->llm].name, cs_trial_stages(t, t->llm),
                       CS_PLURAL(cs_trial_stages(t, t->llm)), t->problem->branch[t->llm].n_layers,
                       CS_PLURAL(t->problem->branch[t->llm].n_layers));
    return CS_OK;
}

static enum cs_status replay_slots(const struct cs_trial *t, int32_t slots, struct cs_replay **out,
                                   int64_t **cost, int64_t *makespan, struct cs_err *err)
{
    CS_TRY(cs_trial_replay(t, slots, out, err));
    *cost = cs_trial_costs(t, *out);
    int64_t *end = CS_NEW_ARRAY(t->scratch, int64_t, cs_replay_scratch(*out, 0));
    *makespan = cs_replay_run(*out, *cost, t->hop, NULL, end);
    return CS_OK;
}

static bool keeps_all_slots(const struct cs_trial *t)
{
    return cs_plan_schedule((int)t->found->schedule)->live == CS_LIVE_ALL ||
           cs_plan_schedule((int)t->found->schedule)->encodes_all;
}

/* Of slots behind the warm-up of n places, and as many as there are at the end of a group of slots. */
static int32_t warm_slots(const struct cs_trial *t, int32_t n)
{
    const int32_t unit = t->c->pp[t->llm], most = 2 * unit * ((n + unit - 1) / unit);
    return most + (t->slots - most % unit) % unit;
}

/* Past the warm-up every further slot takes one period: two lengths, then a straight line. */
static enum cs_status simulate(struct cs_trial *t, struct cs_known_buffers *known,
                               struct cs_arena *arena, struct cs_search_plan *plan,
                               struct cs_err *err)
{
    int32_t unit = t->c->pp[t->llm], most = warm_slots(t, t->plan->n_stages);
    int64_t *cost = NULL, makespan = 0, shorter = 0;
    struct cs_replay *replay = NULL;
    if (keeps_all_slots(t))
        most = t->slots;
    if (t->slots <= most + unit) {
        CS_TRY(replay_slots(t, t->slots, &replay, &cost, &makespan, err));
        plan->pipeline_ns = makespan;
    } else {
        CS_TRY(replay_slots(t, most, &replay, &cost, &shorter, err));
        CS_TRY(replay_slots(t, most + unit, &replay, &cost, &makespan, err));
        plan->pipeline_ns = makespan + (makespan - shorter) * ((t->slots - most - unit) / unit);
    }
    const int32_t enough =
        keeps_all_slots(t) ? t->slots : warm_slots(t, t->plan->n_ranks + t->c->pp[t->llm]);
    CS_TRY(cs_account_memory(t, replay, known, (struct cs_buffer_slots){t->slots, enough, unit},
                             arena, plan, err));
    cs_account_bubbles(t, replay, cost, (double)makespan, plan);
    return CS_OK;
}

/* With the buffers that its last cut asked for, which are known once there is an order. */
static enum cs_status try_cut(struct cs_trial *t, struct cs_known_buffers *known,
                              struct cs_arena *arena, bool is_cut, struct cs_err *err)
{
    struct cs_search_plan *plan = t->found->plan;
    t->nearest = 0;
    if (!is_cut)
        CS_TRY(cs_trial_cut(t, arena, err));
    cs_trial_lower(t);
    CS_TRY(simulate(t, known, arena, plan, err));
    return cs_account_check(t, plan, err);
}

/* Its last cut has other buffers than it was made for. */
static bool learned(const struct cs_trial *t, const int64_t *assumed)
{
    return t->boundary != assumed &&
           (assumed == NULL ||
            memcmp(t->boundary, assumed, (size_t)t->plan->n_ranks * sizeof *assumed) != 0);
}

static enum cs_status run(struct cs_trial *t, struct cs_known_buffers *known,
                          struct cs_arena *arena, bool is_cut, struct cs_err *err)
{
    enum { CUTS = 3 };

    struct cs_search_plan *plan = t->found->plan;
    describe(t, plan);
    CS_TRY(check_nodes(t, &plan->layout, err));
    CS_TRY(check_chunks(t, err));
    const int64_t *assumed = t->boundary;
    enum cs_status status = try_cut(t, known, arena, is_cut, err);
    for (int i = 1; i < CUTS && status != CS_OK && !is_cut && learned(t, assumed); i++) {
        assumed = t->boundary;
        status = try_cut(t, known, arena, false, err);
    }
    if (status != CS_OK)
        return status;
    cs_account_step(t, plan);
    cs_account_say(t, arena, plan);
    return CS_OK;
}

/* What does not fit is tried again with the next zero level of the branch that does not. */
enum cs_status cs_search_evaluate(const struct cs_search_problem *problem,
                                  const struct cs_search_options *options,
                                  struct cs_known_buffers *known, struct cs_found *found,
                                  struct cs_arena *arena, int64_t *nearest, struct cs_err *err)
{
    bool is_cut = found->sizes[problem->llm] != NULL;
    enum cs_status status = CS_OK;
    const int64_t *boundary = NULL; /* the same at all levels */
    found->plan = CS_NEW(arena, struct cs_search_plan);
    for (;;) {
        struct cs_trial t;
        struct cs_arena *scratch = cs_arena_new(0);
        cs_trial_start(&t, problem, options, found, scratch);
        t.boundary = boundary;
        status = run(&t, known, arena, is_cut, err);
        *nearest = t.nearest;
        if (status != CS_OK && t.boundary != boundary)
            boundary = memcpy(CS_NEW_ARRAY(arena, int64_t, t.plan->n_ranks + 1), t.boundary,
                              (size_t)t.plan->n_ranks * sizeof *boundary);
        cs_arena_free(scratch);
        if (status == CS_OK || t.nearest == 0 || is_cut)
            return status;
        int next = cs_search_next_zero(options->zeros, found->candidate.zero[t.tight_branch]);
        if (next < 0)
            return status;
        found->candidate.zero[t.tight_branch] = (uint8_t)next;
    }
}

enum cs_status cs_search_prove(const struct cs_search_problem *problem,
                               const struct cs_search_options *options,
                               const struct cs_found *found, struct cs_err *err)
{
    struct cs_trial t;
    struct cs_found copy = *found;
    struct cs_program *program = NULL;
    struct cs_arena *scratch = cs_arena_new(0);
    cs_trial_start(&t, problem, options, &copy, scratch);
    cs_trial_lower(&t);
    int32_t most = 2 * t.plan->n_stages + 1;
    struct cs_program_options how = {.n_slots = t.slots < most ? t.slots : most, .share = t.share};
    enum cs_status status = cs_program_make_with(t.plan, NULL, &how, scratch, &program, err);
    cs_arena_free(scratch);
    return status;
}
