/* Where branches are cut: costs and memory of layers as a rank has them. */
#include "core/plan/make/planning.h"

#include <string.h>

#include "core/plan/context.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/stage/recompute.h"
#include "core/plan/cost/stage/zero.h"
#include "core/plan/make/split.h"
#include "core/plan/make/zero.h"

static double true_cost(const struct cs_layer_cost *c)
{
    return (double)(c->fwd_ns + c->bwd_input_ns + c->bwd_weight_ns);
}

/* slots' worth of items that a rank of an encoder may have at once */
static int32_t most_slots(const struct cs_planner *p, int32_t branch)
{
    struct cs_stage ends[2] = {
        {.branch = branch,
         .shape = {.cp = p->placing.branch_cp[branch], .dp = p->placing.dp[branch]}},
        {.branch = p->graph->llm, .shape = {.dp = p->placing.dp[p->graph->llm]}    }
    };
    struct cs_plan two = {.stages = ends, .n_stages = 2, .head_stage = 1, .dp = p->plan->dp};
    cs_plan_count_repeats(&two);
    return cs_plan_item_slots(&two, 0);
}

/* the part of a slot's rows that a rank has at most */
static double part_of_rows(const struct cs_planner *p, int32_t branch)
{
    const int32_t seq = p->plan->budget.seq_tokens;
    if (branch != p->graph->llm)
        return most_slots(p, branch);
    return (double)cs_context_room(seq, p->placing.cp, p->plan->context_rows) / seq;
}

static struct cs_recompute_effect recompute_effect(const struct cs_planner *p, int32_t layer,
                                                   int64_t fwd_ns)
{
    const struct cs_layer *l = &p->graph->layers[layer];
    const int32_t branch = p->graph->modules[l->module].branch;
    const double rows = (double)cs_layer_work(p->graph, l, &p->plan->budget).tokens;
    return cs_layer_recompute(p->graph, l, (int64_t)(rows * part_of_rows(p, branch)),
                              cs_recompute_asked(p->spec, p->graph->branches[branch].name),
                              p->cluster->device, fwd_ns);
}

/* frozen-blind: every layer as if it trained, 3 F; what is made again counts in both */
double *cs_planner_costs(struct cs_planner *p, int32_t b, bool is_blind)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    double *cost = CS_NEW_ARRAY(p->arena, double, branch->n_layers);
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const int32_t layer = branch->first_layer + i;
        const struct cs_layer_cost *c = &p->cost[layer];
        cost[i] = is_blind ? 3.0 * (double)c->fwd_ns : true_cost(c);
        cost[i] += (double)recompute_effect(p, layer, c->fwd_ns).redo_ns;
    }
    return cost;
}

/* ranks with the same weights */
int32_t cs_planner_holders(const struct cs_planner *p, int32_t branch)
{
    const int32_t cp =
        p->placing.place[branch]->has_own_ranks ? p->placing.branch_cp[branch] : p->placing.cp;
    return p->placing.dp[branch] * cp;
}

/* Of one rank: weights with gradients and state, activations of a slot. */
struct rank_bytes {
    double weight, saved;
};

static struct rank_bytes rank_bytes(const struct cs_planner *p, int32_t layer)
{
    const int32_t branch = p->graph->modules[p->graph->layers[layer].module].branch;
    const struct cs_layer_bytes bytes =
        cs_replica_bytes(p->graph, &p->graph->layers[layer], &p->plan->budget, p->cluster->device,
                         cs_zero_level(p->spec, p->graph, branch), cs_planner_holders(p, branch),
                         branch == p->graph->llm ? p->placing.ep : 1);
    return (struct rank_bytes){.weight = (double)(bytes.weight + bytes.state),
                               .saved = part_of_rows(p, branch) * (double)bytes.saved -
                                        (double)recompute_effect(p, layer, 0).bytes};
}

/* what copies of encoders leave of a rank */
static double cap_of(const struct cs_planner *p, int32_t b)
{
    double cap = (double)p->cluster->device->mem_bytes;
    for (int32_t e = 0; cap > 0 && b == p->graph->llm && e < p->graph->n_branches; e++)
        for (int32_t i = 0; p->placing.copies[e] && i < p->graph->branches[e].n_layers; i++) {
            const struct rank_bytes bytes = rank_bytes(p, p->graph->branches[e].first_layer + i);
            cap -= bytes.weight + cs_planner_alive(p, e, 0) * bytes.saved;
        }
    return cap < 1 && p->cluster->device->mem_bytes > 0 ? 1 : cap;
}

/* A whole encoder on ranks of the LLM, which the LLM's cut counts. */
static bool is_with_llm(const struct cs_planner *p, int32_t b)
{
    return p->placing.copies[b] || (b != p->graph->llm && p->placing.place[b]->cut == CS_CUT_ONCE);
}

/* encoders on the LLM's first rank: its first layer carries what they take there */
static void add_encoders(struct cs_planner *p, bool is_blind, double *cost, double *weight,
                         double *saved)
{
    for (int32_t e = 0; e < p->graph->n_branches; e++) {
        if (p->placing.place[e]->cut != CS_CUT_ONCE)
            continue;
        const double *own = cs_planner_costs(p, e, is_blind);
        for (int32_t i = 0; i < p->graph->branches[e].n_layers; i++) {
            const int32_t layer = p->graph->branches[e].first_layer + i;
            const struct rank_bytes bytes = rank_bytes(p, layer);
            cost[0] += own[i];
            weight[0] += bytes.weight;
            saved[0] += bytes.saved;
        }
    }
}

struct branch_load { /* of its layers */
    double *cost, *weight, *saved;
};

static struct branch_load load_of(struct cs_planner *p, int32_t b, bool is_blind)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    struct branch_load load = {cs_planner_costs(p, b, is_blind),
                               CS_NEW_ARRAY(p->arena, double, branch->n_layers),
                               CS_NEW_ARRAY(p->arena, double, branch->n_layers)};
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const struct rank_bytes bytes = rank_bytes(p, branch->first_layer + i);
        load.weight[i] = bytes.weight;
        load.saved[i] = bytes.saved;
    }
    if (b == p->graph->llm)
        add_encoders(p, is_blind, load.cost, load.weight, load.saved);
    for (int32_t i = 0; cs_planner_counts_layers(p) && i < branch->n_layers; i++)
        load.cost[i] = 1;
    return load;
}

bool cs_planner_counts_layers(const struct cs_planner *p)
{
    return strcmp(p->spec->stages, "equal-layers") == 0;
}

/* into as many stages as p->cuts says */
static enum cs_status cut_load(struct cs_planner *p, int32_t b, const struct branch_load *load,
                               int *sizes, struct cs_err *err)
{
    int stages = p->cuts.n_stages[b];
    double *alive = CS_NEW_ARRAY(p->arena, double, stages);
    for (int s = 0; s < stages; s++)
        alive[s] = cs_planner_alive(p, b, s);
    struct cs_split_memory memory = {load->weight, load->saved, alive, p->beside[b], cap_of(p, b)};
    return cs_split_capped(load->cost, p->graph->branches[b].n_layers, stages, &memory, sizes, NULL,
                           err);
}

/* what a cut counts of its stages: (stages of the branch) */
static double *count_stages(struct cs_planner *p, int32_t b)
{
    const struct branch_load load = load_of(p, b, false);
    double *bytes = CS_NEW_ARRAY(p->arena, double, p->cuts.n_stages[b]);
    for (int32_t s = 0, i = 0; s < p->cuts.n_stages[b]; s++)
        for (int32_t end = i + p->cuts.sizes[b][s]; i < end; i++)
            bytes[s] += load.weight[i] + cs_planner_alive(p, b, s) * load.saved[i];
    return bytes;
}

/* Stages that are cut have ranks to themselves but for others like them: each takes its part of the rest. */
void cs_planner_learn(struct cs_planner *p, const int64_t *needs)
{
    double *rest = CS_NEW_ARRAY(p->arena, double, p->plan->n_ranks + 1);
    int32_t *n = CS_NEW_ARRAY(p->arena, int32_t, p->plan->n_ranks + 1);
    double *bytes[CS_MAX_BRANCHES];
    const double full = (double)p->cluster->device->mem_bytes;
    for (int32_t r = 0; r < p->plan->n_ranks; r++)
        rest[r] = (double)needs[r];
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        bytes[b] = count_stages(p, b);
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        const struct cs_stage *stage = &p->plan->stages[s];
        if (is_with_llm(p, stage->branch))
            continue;
        rest[stage->rank] -= bytes[stage->branch][stage->index];
        rest[stage->rank] -= n[stage->rank]++ == 0 ? full - cap_of(p, stage->branch) : 0;
    }
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        p->beside[b] = CS_NEW_ARRAY(p->arena, double, p->cuts.n_stages[b]);
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        const struct cs_stage *stage = &p->plan->stages[s];
        if (!is_with_llm(p, stage->branch))
            p->beside[stage->branch][stage->index] = rest[stage->rank] / n[stage->rank];
    }
}

enum cs_status cs_planner_cut_branch(struct cs_planner *p, int32_t b, bool is_blind, int *sizes,
                                     struct cs_err *err)
{
    const struct branch_load load = load_of(p, b, is_blind);
    enum cs_status status = cut_load(p, b, &load, sizes, err);
    if (status == CS_OK)
        return CS_OK;
    *p->full = b;
    return cs_wrap(err, status, "branch %s on %s", p->graph->branches[b].name,
                   p->cluster->device->name);
}

enum cs_status cs_planner_cut(struct cs_planner *p, struct cs_err *err)
{
    bool is_blind = strcmp(p->spec->stages, "frozen-blind") == 0;
    if (!is_blind && !cs_planner_counts_layers(p) && strcmp(p->spec->stages, "frozen-aware") != 0)
        return cs_fail(err, CS_PLAN,
                       "plan.stages \"%s\" is not known; accepted: frozen-aware, frozen-blind, "
                       "equal-layers",
                       p->spec->stages);
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        CS_TRY(cs_planner_cut_branch(p, b, is_blind, p->cuts.sizes[b], err));
    return CS_OK;
}
