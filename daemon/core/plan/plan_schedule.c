/* The table of schedules, and whether the stages of a plan fit one. */
#include "core/plan/plan_schedule.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/near.h"
#include "core/base/units.h"

static const struct cs_schedule_info schedules[CS_SCHEDULES] = {
#define X(id, name, layout, live, splits, encodes_all, takes, is_usual, help)                      \
    {CS_SCHEDULE_##id, name,     CS_LAYOUT_##layout,                                               \
     CS_LIVE_##live,   splits,   encodes_all,                                                      \
     CS_TAKES_##takes, is_usual, help},
    CS_SCHEDULES_TABLE(X)
#undef X
};

const struct cs_schedule_info *cs_plan_schedule(int i)
{
    return i >= 0 && i < CS_SCHEDULES ? &schedules[i] : NULL;
}

int64_t cs_schedule_live_slots(const struct cs_schedule_info *schedule, int64_t depth, int64_t path,
                               int64_t slots)
{
    const int64_t live[] = {[CS_LIVE_DEPTH] = depth + 1,
                            [CS_LIVE_ALL] = slots,
                            [CS_LIVE_PATH] = path,
                            [CS_LIVE_TWICE] = 2 * depth + 2,
                            [CS_LIVE_TWICE_PATH] = 2 * path - 1};
    return live[schedule->live] < slots ? live[schedule->live] : slots;
}

int64_t cs_schedule_held_slots(const struct cs_schedule_info *schedule, int64_t depth, int64_t path,
                               int64_t slots)
{
    const int64_t held[] = {[CS_LIVE_DEPTH] = 1,
                            [CS_LIVE_ALL] = 1,
                            [CS_LIVE_PATH] = path - depth,
                            [CS_LIVE_TWICE] = 1,
                            [CS_LIVE_TWICE_PATH] = 2 * (path - depth) - 1};
    const int64_t most = schedule->splits_backward ? held[schedule->live] : 0;
    return most < slots ? most : slots;
}

enum cs_status cs_plan_schedule_find(const char *name, const struct cs_schedule_info **out,
                                     struct cs_err *err)
{
    const char *names[CS_ARRAY_LEN(schedules)];
    struct cs_buf list = {0};
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++) {
        names[i] = schedules[i].name;
        cs_buf_addf(&list, "%s%s", i ? ", " : "", names[i]);
        if (strcmp(name, names[i]) == 0) {
            if (out)
                *out = &schedules[i];
            cs_buf_free(&list);
            return CS_OK;
        }
    }
    const char *near = cs_near(name, names, (int)CS_ARRAY_LEN(names));
    enum cs_status status = cs_fail(
        err, CS_PLAN, "schedule \"%s\" is not known; accepted: %s%s%s%s", name, cs_buf_str(&list),
        near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
    cs_buf_free(&list);
    return status;
}

enum cs_status cs_plan_check_schedule(const char *name, struct cs_err *err)
{
    return cs_plan_schedule_find(name, NULL, err);
}

/* Edges are in the order of their producers, which come before their consumers. */
static int32_t longest_chain(const struct cs_plan *plan)
{
    int32_t longest = 0;
    int32_t *after = calloc((size_t)plan->n_stages + 1, sizeof *after);
    for (int32_t e = plan->n_edges - 1; after && e >= 0; e--) {
        const struct cs_edge *edge = &plan->edges[e];
        if (after[edge->from] < after[edge->to] + 1)
            after[edge->from] = after[edge->to] + 1;
    }
    for (int32_t s = 0; after && s < plan->n_stages; s++)
        longest = after[s] > longest ? after[s] : longest;
    free(after);
    return longest + 1;
}

static bool has_encoder(const struct cs_plan *plan)
{
    return plan->stages[0].branch != plan->stages[plan->head_stage].branch;
}

static bool shares(const struct cs_plan *plan, int32_t stage)
{
    return plan->share && plan->share[stage].n > 0;
}

/* the head's branch: stages first .. n_stages - 1, of which p in a row have ranks of their own */
static int32_t first_of_head(const struct cs_plan *plan)
{
    int32_t head = plan->stages[plan->head_stage].branch, first = plan->n_stages - 1;
    while (first > 0 && plan->stages[first - 1].branch == head)
        first--;
    return first;
}

static int32_t ranks_of_head(const struct cs_plan *plan, int32_t first)
{
    int32_t p = 1;
    while (first + p < plan->n_stages && plan->stages[first + p].rank != plan->stages[first].rank)
        p++;
    return p;
}

/* stage i of the head's branch on the i % p-th of its ranks */
static enum cs_status check_chunks(const struct cs_plan *plan, const char *schedule,
                                   struct cs_err *err)
{
    int32_t first = first_of_head(plan), n = plan->n_stages - first, p = ranks_of_head(plan, first);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_stage *stage = &plan->stages[first + i];
        bool is_out = stage->rank != plan->stages[first + i % p].rank;
        for (int32_t k = 0; i < p && k < i; k++)
            is_out = is_out || stage->rank == plan->stages[first + k].rank;
        if (is_out)
            return cs_fail(err, CS_PLAN,
                           "schedule %s: stage %s is on rank %d, out of turn: stage i belongs on "
                           "rank i modulo the ranks of its module; 1f1b takes any ranks",
                           schedule, stage->name, stage->rank);
    }
    if (n % p != 0)
        return cs_fail(err, CS_PLAN,
                       "schedule %s: %d stages do not fill %d ranks evenly; 1f1b takes any number",
                       schedule, n, p);
    return CS_OK;
}

static enum cs_status check_interleaved(const struct cs_plan *plan, struct cs_err *err)
{
    int32_t head = plan->stages[plan->head_stage].branch;
    for (int32_t s = 0; s < plan->n_stages; s++)
        for (int32_t o = 0; plan->stages[s].branch != head && o < plan->n_stages; o++)
            if (o != s && plan->stages[o].rank == plan->stages[s].rank)
                return cs_fail(err, CS_PLAN,
                               "schedule interleaved: stage %s shares rank %d with %s: encoders "
                               "need ranks of their own, modality encoder-parallel; 1f1b takes "
                               "shared ranks",
                               plan->stages[s].name, plan->stages[s].rank, plan->stages[o].name);
    return CS_OK;
}

/* every encoder a copy on each rank of the LLM, copy r with slots i % p == r */
static enum cs_status check_copies(const struct cs_plan *plan, const char *schedule,
                                   struct cs_err *err)
{
    int32_t llm = first_of_head(plan), p = ranks_of_head(plan, llm);
    if (!has_encoder(plan))
        return cs_fail(err, CS_PLAN,
                       "schedule %s shares encoders between the ranks of the LLM, and the model "
                       "has none; 1f1b fits",
                       schedule);
    for (int32_t s = 0; s < llm; s++) {
        const struct cs_stage *stage = &plan->stages[s];
        bool is_copy = shares(plan, s) && plan->share[s].n == p &&
                       plan->share[s].at == stage->index && stage->index < p &&
                       stage->rank == plan->stages[llm + stage->index].rank;
        if (!is_copy)
            return cs_fail(err, CS_PLAN,
                           "schedule %s: %s is not one of %d copies of an encoder on the ranks of "
                           "%s, each with its share of the slots; 1f1b takes stages",
                           schedule, stage->name, p, plan->stages[llm].name);
    }
    return CS_OK;
}

/* Ranks on the longest path of the graph of ranks; where they feed each other in a circle, stages
 * on the longest chain: what warm-ups are counted from. */
static int32_t longest_path(const struct cs_plan *plan)
{
    int32_t *after = calloc((size_t)plan->n_ranks + 1, sizeof *after), longest = 0, pass = 0;
    bool changed = after != NULL;
    for (; changed && pass <= plan->n_ranks; pass++) {
        changed = false;
        for (int32_t e = plan->n_edges - 1; e >= 0; e--) {
            int32_t from = plan->stages[plan->edges[e].from].rank;
            int32_t to = plan->stages[plan->edges[e].to].rank;
            if (from == to || after[from] > after[to])
                continue;
            after[from] = after[to] + 1;
            changed = true;
        }
    }
    for (int32_t r = 0; after && r < plan->n_ranks; r++)
        longest = after[r] > longest ? after[r] : longest;
    free(after);
    return changed ? longest_chain(plan) : longest + 1;
}

static enum cs_status check_zb_h2(const struct cs_plan *plan, struct cs_err *err)
{
    int32_t path = longest_path(plan);
    const int slots = cs_plan_own_slots(plan, plan->slots);
    if (slots < 2 * path - 1)
        return cs_fail(err, CS_PLAN,
                       "schedule %s: %d slots on a path of %d ranks: at least %d slots are needed "
                       "(twice the ranks, less one); zb-h1 takes fewer",
                       plan->schedule, slots, path, 2 * path - 1);
    return CS_OK;
}

enum cs_status cs_plan_check_fits(const struct cs_plan *plan, struct cs_err *err)
{
    const struct cs_schedule_info *info = NULL;
    CS_TRY(cs_plan_schedule_find(plan->schedule, &info, err));
    if (info->layout == CS_LAYOUT_COLOCATED)
        CS_TRY(check_copies(plan, info->name, err));
    if (info->layout != CS_LAYOUT_STAGES)
        CS_TRY(check_chunks(plan, info->name, err));
    if (info->layout == CS_LAYOUT_CHUNKS)
        CS_TRY(check_interleaved(plan, err));
    if (info->live == CS_LIVE_TWICE || info->live == CS_LIVE_TWICE_PATH)
        CS_TRY(check_zb_h2(plan, err));
    return CS_OK;
}

/* Rows, or items, are split alike in all stages of a branch. */
static enum cs_status check_context(const struct cs_plan *plan, int32_t s, struct cs_err *err)
{
    const struct cs_stage *stage = &plan->stages[s];
    for (int32_t i = 0; i < s; i++)
        if (plan->stages[i].branch == stage->branch &&
            cs_plan_shape(plan, i).cp != cs_plan_shape(plan, s).cp)
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s has cp %d, %s has cp %d: all stages of a branch must have one cp",
                           stage->name, cs_plan_shape(plan, s).cp, plan->stages[i].name,
                           cs_plan_shape(plan, i).cp);
    return CS_OK;
}

/* So are replicas: those of the LLM take turns at the slots of a step, those of an encoder share items. */
static enum cs_status check_replicas(const struct cs_plan *plan, int32_t s, struct cs_err *err)
{
    const struct cs_stage *stage = &plan->stages[s];
    const int32_t dp = cs_plan_shape(plan, s).dp, llm = plan->stages[plan->head_stage].branch;
    for (int32_t i = 0; i < s; i++)
        if (plan->stages[i].branch == stage->branch && cs_plan_shape(plan, i).dp != dp)
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s has dp %d, %s has dp %d: all stages of a branch must have one dp",
                           stage->name, dp, plan->stages[i].name, cs_plan_shape(plan, i).dp);
    for (int32_t i = 0; i < s; i++)
        if (plan->stages[i].rank == stage->rank && cs_plan_shape(plan, i).dp != dp)
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s has dp %d, %s on the same rank has dp %d: they must have one",
                           stage->name, dp, plan->stages[i].name, cs_plan_shape(plan, i).dp);
    if (stage->branch == llm && dp != cs_plan_llm_replicas(plan))
        return cs_fail(err, CS_UNSUPPORTED, "%s has dp %d: the plan has %d replica%s of the LLM",
                       stage->name, dp, cs_plan_llm_replicas(plan),
                       CS_PLURAL(cs_plan_llm_replicas(plan)));
    return CS_OK;
}

/* Stages of one rank are shared by the same ranks: those of an encoder share its matrices as those of the LLM
 * do, or its items. */
static enum cs_status check_tensors(const struct cs_plan *plan, int32_t s, struct cs_err *err)
{
    const struct cs_rank_shape shape = cs_plan_shape(plan, s);
    for (int32_t o = 0; o < s; o++)
        if (plan->stages[o].rank == plan->stages[s].rank && cs_plan_shape(plan, o).tp != shape.tp &&
            (cs_plan_shape(plan, o).tp != 1 ||
             cs_plan_stage_ranks(plan, o) != cs_plan_stage_ranks(plan, s)))
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s has tp %d, %s on the same rank has tp %d: they must have one",
                           plan->stages[s].name, shape.tp, plan->stages[o].name,
                           cs_plan_shape(plan, o).tp);
    return CS_OK;
}

/* Experts are on ranks that have all else of a stage alike; ranks that meet in its layers run the same
 * program. */
static enum cs_status check_experts(const struct cs_plan *plan, int32_t s, struct cs_err *err)
{
    const struct cs_rank_shape shape = cs_plan_shape(plan, s);
    if (shape.dp * shape.cp % shape.ep != 0)
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s has the shape tp %d, cp %d, ep %d, dp %d: ep must divide dp * cp",
                       plan->stages[s].name, shape.tp, shape.cp, shape.ep, shape.dp);
    for (int32_t i = 0; i < s; i++)
        if (plan->stages[i].branch == plan->stages[s].branch &&
            cs_plan_shape(plan, i).ep != shape.ep)
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s has ep %d, %s has ep %d: all stages of a branch must have one ep",
                           plan->stages[s].name, shape.ep, plan->stages[i].name,
                           cs_plan_shape(plan, i).ep);
    return CS_OK;
}

enum cs_status cs_plan_check_runs(const struct cs_plan *plan, struct cs_err *err)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        CS_TRY(check_context(plan, s, err));
        CS_TRY(check_tensors(plan, s, err));
        CS_TRY(check_experts(plan, s, err));
        CS_TRY(check_replicas(plan, s, err));
    }
    return CS_OK;
}
