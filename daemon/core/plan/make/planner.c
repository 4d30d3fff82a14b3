/* The planner: ranks, budgets, frozen-aware cuts, placement, memory check, reasons. */
#include "core/plan/make/planning.h"

#include <stdio.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/near.h"
#include "core/base/units.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/links/edges.h"
#include "core/plan/cost/stage/buckets.h"
#include "core/plan/cost/stage/needs.h"
#include "core/plan/cost/stage/offload.h"
#include "core/plan/cost/stage/recompute.h"
#include "core/plan/cost/stage/stages.h"
#include "core/plan/cost/stage/zero.h"
#include "core/plan/derive.h"
#include "core/plan/groups.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/context.h"
#include "core/plan/make/experts.h"
#include "core/plan/make/fits.h"
#include "core/plan/make/offload.h"
#include "core/plan/make/tensors.h"
#include "core/plan/make/zero.h"
#include "core/sched/orders/kept.h"

static enum cs_status check_branches(const struct cs_planner *p, struct cs_err *err)
{
    const char *names[CS_MAX_BRANCHES] = {NULL};
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        names[b] = p->graph->branches[b].name;
    for (int32_t i = 0; i < p->spec->n_parallel; i++) {
        const char *given = p->spec->parallel[i].branch;
        bool is_known = false;
        for (int32_t b = 0; b < p->graph->n_branches; b++)
            is_known = is_known || strcmp(names[b], given) == 0;
        if (is_known)
            continue;
        const char *near = cs_near(given, names, p->graph->n_branches);
        return cs_fail(err, CS_PLAN, "plan.parallel.%s: the model has no branch of this name; %s%s",
                       given, near ? "did you mean " : "its last branch is ",
                       near ? near : names[p->graph->llm]);
    }
    return CS_OK;
}

static enum cs_status refuse_count(const struct cs_planner *p, int32_t b, int32_t pp,
                                   int32_t chunks, struct cs_err *err)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    const int32_t n = branch->n_layers;
    const bool has_few = chunks <= n, cuts_less = !has_few && 2 * pp <= n;
    if (chunks > 1)
        return cs_fail(err, CS_PLAN,
                       "schedule %s cuts each of the %d stage%s of %s in %d chunk%s: %d layers are "
                       "needed, it has %d; choose plan.parallel.%s.%s <= %d, or 1f1b",
                       p->plan->schedule, pp, CS_PLURAL(pp), branch->name, chunks,
                       CS_PLURAL(chunks), pp * chunks, n, branch->name, cuts_less ? "vpp" : "pp",
                       cuts_less ? n / pp
                       : has_few ? n / chunks
                                 : n / 2);
    return cs_fail(err, CS_PLAN,
                   "plan.parallel.%s.pp = %d asks for more stages than layers: branch %s "
                   "has %d layer%s; choose pp <= %d",
                   branch->name, pp, branch->name, branch->n_layers, CS_PLURAL(branch->n_layers),
                   branch->n_layers);
}

static enum cs_status choose_counts(struct cs_planner *p, struct cs_err *err)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const struct cs_branch *branch = &p->graph->branches[b];
        const struct cs_spec_parallel *given = cs_planner_parallel(p, b);
        int32_t pp = given ? given->pp : 1;
        int32_t chunks = b == p->graph->llm ? p->placing.chunks : 1;
        if (pp < 1)
            return cs_fail(err, CS_PLAN, "plan.parallel.%s.pp is %d: it starts at 1", branch->name,
                           pp);
        if (pp > branch->n_layers / chunks)
            return refuse_count(p, b, pp, chunks, err);
        p->cuts.n_stages[b] = pp * chunks;
        p->cuts.sizes[b] = CS_NEW_ARRAY(p->arena, int, pp *chunks);
    }
    return CS_OK;
}

/* "pp", "tp or cp": what makes the ranks many */
static const char *list_factors(const struct cs_planner *p)
{
    const struct cs_placing *placing = &p->placing;
    struct cs_buf text = {0};
    bool is_many[4] = {false};
    static const char *const names[] = {"pp", "tp", "cp", "dp"};
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        is_many[0] = is_many[0] || p->cuts.n_stages[b] > 1;
        is_many[1] = is_many[1] || placing->tp[b] > 1;
        is_many[2] = is_many[2] || placing->branch_cp[b] > 1;
        is_many[3] = is_many[3] || placing->dp[b] > 1;
    }
    for (int i = 0; i < 4; i++)
        if (is_many[i])
            cs_buf_addf(&text, "%s%s", text.len > 0 ? " or " : "lower ", names[i]);
    if (text.len == 0)
        cs_buf_addf(&text,
                    "put the encoders on the rank of the LLM (modality = \"encoder-first\")");
    const char *list = cs_arena_strdup(p->arena, cs_buf_str(&text));
    cs_buf_free(&text);
    return list;
}

static enum cs_status check_devices(const struct cs_planner *p, struct cs_err *err)
{
    int64_t devices = (int64_t)p->cluster->n_nodes * p->cluster->devices_per_node;
    if (cs_plan_world(p->plan) > devices)
        return cs_fail(err, CS_PLAN,
                       "the plan needs %d rank%s but the cluster has %lld device%s (%d node%s x %d "
                       "%s); %s, or use a larger cluster",
                       cs_plan_world(p->plan), CS_PLURAL(cs_plan_world(p->plan)),
                       (long long)devices, CS_PLURAL(devices), p->cluster->n_nodes,
                       CS_PLURAL(p->cluster->n_nodes), p->cluster->devices_per_node,
                       p->cluster->device->name, list_factors(p));
    return CS_OK;
}

/* An encoder with a replica on every rank of a stage of the LLM. */
static bool is_of_all_ranks(const struct cs_planner *p, int32_t branch)
{
    const struct cs_spec_parallel *own = cs_planner_parallel(p, branch),
                                  *llm = cs_planner_parallel(p, p->graph->llm);
    const int32_t tp = llm != NULL && llm->tp > 1 ? llm->tp : 1;
    const int32_t cp = llm != NULL && llm->cp > 1 ? llm->cp : 1;
    return !p->placing.place[branch]->has_own_ranks && own != NULL && own->tp <= 1 &&
           own->cp <= 1 && own->dp == p->plan->dp * tp * cp;
}

/* The plan's dp is that of the LLM too: two numbers for it cannot both hold. */
static enum cs_status check_dp_is_one(const struct cs_planner *p, struct cs_err *err)
{
    const struct cs_spec_parallel *llm = cs_planner_parallel(p, p->graph->llm);
    if (p->spec->dp <= 1 || llm == NULL || llm->dp <= 0 || llm->dp == p->spec->dp)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "plan.dp is %d and plan.parallel.llm.dp %d: both are the replicas of llm; give "
                   "one of them",
                   p->spec->dp, llm->dp);
}

/* Of every branch; encoders on the ranks of the LLM have as many as it has, or one on every rank of a stage. */
static enum cs_status choose_replicas(struct cs_planner *p, struct cs_err *err)
{
    const struct cs_graph *graph = p->graph;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_spec_parallel *given = cs_planner_parallel(p, b);
        p->placing.dp[b] = given != NULL && given->dp > 0 ? given->dp : p->spec->dp;
        p->placing.dp[b] = p->placing.dp[b] > 1 ? p->placing.dp[b] : 1;
    }
    p->plan->dp = p->placing.dp[graph->llm];
    CS_TRY(check_dp_is_one(p, err));
    for (int32_t b = 0; b < graph->n_branches; b++) {
        if (is_of_all_ranks(p, b)) /* which is how they share its items */
            p->placing.dp[b] = p->plan->dp;
        if (p->placing.dp[b] == p->plan->dp)
            continue;
        const struct cs_placing_words words = cs_placing_words(&p->placing, b);
        if (!p->placing.place[b]->has_own_ranks)
            return cs_fail(
                err, CS_PLAN,
                "plan.parallel.%s.dp is %d, that of %s %d: with %s %s they are on "
                "the same ranks; set one dp for both, or as many as there are ranks of a "
                "stage, or choose %s %s",
                graph->branches[b].name, p->placing.dp[b], graph->branches[graph->llm].name,
                p->plan->dp, words.key, words.word, words.key, words.own);
    }
    return CS_OK;
}

/* replicas take turns at the slots of a step: each must have as many */
static enum cs_status check_replicas(const struct cs_planner *p, struct cs_err *err)
{
    const int32_t dp = cs_plan_llm_replicas(p->plan);
    const struct cs_spec_parallel *llm = cs_planner_parallel(p, p->graph->llm);
    const char *key = llm != NULL && llm->dp > 0 ? "plan.parallel.llm.dp" : "plan.dp";
    if (dp > 1 && strcmp(p->spec->slot_order, "searched") == 0)
        return cs_fail(err, CS_PLAN,
                       "%s is %d and slot_order \"searched\": the order of the slots is "
                       "searched for one pipeline; choose slot_order = \"kept\"",
                       key, dp);
    if (p->spec->slots % dp == 0)
        return CS_OK;
    return cs_fail(err, CS_PLAN, "%s is %d but plan.slots %d: give slots = %d, a multiple", key, dp,
                   p->spec->slots, (p->spec->slots + dp - 1) / dp * dp);
}

/* "a rank of vision.0 and llm.1" */
static const char *rank_words(const struct cs_planner *p, int32_t rank)
{
    struct cs_buf text = {0};
    cs_buf_adds(&text, "a rank of ");
    for (int32_t s = 0, n = 0; s < p->plan->n_stages; s++)
        if (p->plan->stages[s].rank == rank)
            cs_buf_addf(&text, "%s%s", n++ > 0 ? " and " : "", p->plan->stages[s].name);
    const char *words = cs_arena_strdup(p->arena, cs_buf_str(&text));
    cs_buf_free(&text);
    return words;
}

static enum cs_status refuse_memory(const struct cs_planner *p, int32_t rank, int64_t bytes,
                                    struct cs_err *err)
{
    const int64_t cap = p->cluster->device->mem_bytes;
    char needs[CS_UNITS_CAP], more[CS_UNITS_CAP];
    for (int32_t s = 0; s < p->plan->n_stages; s++)
        if (p->plan->stages[s].rank == rank)
            *p->full = p->plan->stages[s].branch;
    cs_bytes_print(needs, sizeof needs, (uint64_t)bytes);
    cs_bytes_print(more, sizeof more, (uint64_t)(bytes - cap));
    return cs_fail(err, CS_PLAN,
                   "%s needs %s, %s more than a %s has; use more stages or shorter slots",
                   rank_words(p, rank), needs, more, p->cluster->device->name);
}

/* (n_ranks) bytes */
static enum cs_status count_needs(const struct cs_planner *p, int64_t *bytes, struct cs_err *err)
{
    int32_t *n_buffers = CS_NEW_ARRAY(p->arena, int32_t, 2 * p->plan->n_edges + 1);
    const struct cs_needs_of of = {.plan = p->plan,
                                   .graph = p->graph,
                                   .cluster = p->cluster,
                                   .element = cs_device_element_bytes(p->cluster->device),
                                   .n_buffers = n_buffers};
    int64_t *kept = CS_NEW_ARRAY(p->arena, int64_t, p->plan->n_ranks + 1);
    CS_TRY(cs_orders_kept(p->plan, cs_plan_own_slots(p->plan, p->spec->slots),
                          cs_needs_held(&of, p->arena), kept, n_buffers, err));
    for (int32_t r = 0; r < p->plan->n_ranks; r++) {
        const struct cs_rank_needs needs = cs_rank_needs(&of, r, kept[r]);
        bytes[r] = cs_rank_needs_bytes(&needs);
    }
    return CS_OK;
}

/* A cut counts layers alone, so its cap per stage is not the whole check. */
static enum cs_status check_memory(struct cs_planner *p, bool *is_over, struct cs_err *err)
{
    const int64_t cap = p->cluster->device->mem_bytes;
    int64_t *bytes = CS_NEW_ARRAY(p->arena, int64_t, p->plan->n_ranks + 1);
    if (cap <= 0)
        return CS_OK;
    CS_TRY(count_needs(p, bytes, err));
    for (int32_t r = 0; r < p->plan->n_ranks; r++) {
        if (bytes[r] <= cap)
            continue;
        *is_over = true;
        cs_planner_learn(p, bytes);
        return refuse_memory(p, r, bytes[r], err);
    }
    return CS_OK;
}

/* is_over: it was refused for the memory of a rank */
static enum cs_status cut_and_place(struct cs_planner *p, bool *is_over, struct cs_err *err)
{
    const struct cs_spec *spec = p->spec;
    const struct cs_cluster *cluster = p->cluster;
    const struct cs_graph *graph = p->whole;
    struct cs_arena *arena = p->arena;
    CS_TRY(cs_planner_cut(p, err));
    CS_TRY(cs_place_stages(graph, &p->placing, &p->cuts, arena, p->plan, err));
    CS_TRY(check_devices(p, err));
    cs_plan_derive(graph, arena, p->plan);
    cs_plan_choose_primitives(p->plan, cluster, spec->stripes);
    cs_plan_make_groups(p->plan, arena);
    CS_TRY(cs_zero_stages(spec, graph, p->plan, err));
    CS_TRY(cs_offload_stages(spec, graph, cluster->device, &p->placing, p->plan, err));
    cs_stage_costs(p->graph, cluster->device, p->cost, p->plan);
    cs_stage_step_costs(p->graph, cluster, p->source.profile, p->plan);
    cs_stage_recompute(spec, p->graph, cluster->device, p->cost, p->plan);
    cs_zero_times(p->graph, cluster->device, p->cost, p->placing.schedule->splits_backward,
                  p->plan);
    cs_plan_primitive_times(p->plan, cluster);
    for (int32_t s = 0; s < p->plan->n_stages; s++)
        cs_offload_times(&p->plan->stages[s], (int32_t)cs_planner_live(p, p->plan->stages[s].branch,
                                                                       p->plan->stages[s].index));
    cs_stage_buckets(p->graph, arena, p->plan);
    CS_TRY(cs_plan_check_fits(p->plan, err));
    return check_memory(p, is_over, err);
}

/* Where a rank is full it is cut again, with what all ranks needed; what is told is the first cut's. */
static enum cs_status cut_until_it_fits(struct cs_planner *p, struct cs_err *err)
{
    enum { CUTS = 4 };

    const struct cs_plan uncut = *p->plan;
    struct cs_err other;
    bool is_over = false;
    const enum cs_status status = cut_and_place(p, &is_over, err);
    const int32_t full = *p->full;
    for (int i = 1; i < CUTS && is_over; i++) {
        is_over = false;
        *p->plan = uncut;
        *p->full = -1;
        if (cut_and_place(p, &is_over, &other) == CS_OK)
            return CS_OK;
    }
    *p->full = full;
    return status;
}

/* full: the branch that does not fit in memory, -1: none, or it is another error */
static enum cs_status make_once(const struct cs_spec *spec, const struct cs_graph *graph,
                                const struct cs_cluster *cluster, struct cs_arena *arena,
                                struct cs_plan **out, int32_t *full, struct cs_err *err)
{
    struct cs_planner p = {.spec = spec,
                           .graph = graph,
                           .whole = graph,
                           .cluster = cluster,
                           .arena = arena,
                           .full = full};
    *full = -1;
    if (graph->n_branches < 1 || graph->n_branches > CS_MAX_BRANCHES)
        return cs_fail(err, CS_PLAN, "the model has %d %s: 1 to %d can be planned",
                       graph->n_branches, CS_NOUN(graph->n_branches, "branch", "branches"),
                       CS_MAX_BRANCHES);
    CS_TRY(check_branches(&p, err));
    CS_TRY(cs_placing_make(spec, graph, &p.placing, err));
    p.plan = CS_NEW(arena, struct cs_plan);
    p.plan->schedule = cs_arena_strdup(arena, spec->schedule);
    p.plan->slots = spec->slots;
    p.plan->context_rows = spec->context_rows;
    CS_TRY(choose_replicas(&p, err));
    p.plan->keeps_bf16 = graph->keeps_bf16;
    CS_TRY(check_replicas(&p, err));
    CS_TRY(cs_context_ranks(spec, graph, &p.placing, err));
    CS_TRY(cs_tensor_ranks(spec, graph, &p.placing, err));
    CS_TRY(cs_expert_ranks(spec, graph, &p.placing, err));
    p.graph = cs_tensor_graph(graph, &p.placing, arena);
    CS_TRY(cs_planner_budget(&p, err));
    CS_TRY(choose_counts(&p, err));
    p.cost = CS_NEW_ARRAY(arena, struct cs_layer_cost, graph->n_layers);
    CS_TRY(cs_spec_layer_costs(spec, graph, &p.plan->budget, cluster->device, arena, p.cost,
                               &p.source, err));
    p.plan->moves_heads = p.source.context.moves_heads;
    p.plan->keys_own_first = p.source.context.own_first;
    CS_TRY(cut_until_it_fits(&p, err));
    CS_TRY(cs_planner_explain(&p, err));
    CS_TRY(cs_plan_hash(p.plan, graph, p.plan->hash, err));
    *out = p.plan;
    return CS_OK;
}

enum cs_status cs_plan_try(const struct cs_spec *spec, const struct cs_graph *graph,
                           const struct cs_cluster *cluster, struct cs_arena *arena,
                           struct cs_plan **out, struct cs_err *err)
{
    int32_t full;
    return make_once(spec, graph, cluster, arena, out, &full, err);
}

enum cs_status cs_plan_make(const struct cs_spec *spec, const struct cs_graph *graph,
                            const struct cs_cluster *cluster, struct cs_arena *arena,
                            struct cs_plan **out, struct cs_err *err)
{
    int32_t full;
    enum cs_status status = make_once(spec, graph, cluster, arena, out, &full, err);
    if (status != CS_OK && full >= 0 && err) {
        const size_t n = strlen(err->text);
        cs_plan_what_fits(spec, graph, cluster, full, make_once, err->text + n,
                          sizeof err->text - n);
    }
    return status;
}
