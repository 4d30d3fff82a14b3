/* The planner: budgets, frozen-aware cuts, placement, memory check, reasons. */
#include "core/plan/make/planner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/near.h"
#include "core/base/units.h"
#include "core/plan/context.h"
#include "core/plan/cost/buckets.h"
#include "core/plan/cost/bytes.h"
#include "core/plan/cost/cost.h"
#include "core/plan/cost/offload.h"
#include "core/plan/cost/recompute.h"
#include "core/plan/cost/scratch.h"
#include "core/plan/cost/stages.h"
#include "core/plan/cost/zero.h"
#include "core/plan/derive.h"
#include "core/plan/groups.h"
#include "core/plan/make/context.h"
#include "core/plan/make/experts.h"
#include "core/plan/make/offload.h"
#include "core/plan/make/place.h"
#include "core/plan/make/split.h"
#include "core/plan/make/tensors.h"
#include "core/plan/make/zero.h"
#include "core/plan/plan_json.h"

enum {
    MAX_ITEMS = 256,
    MAX_MIXED_ITEMS = 4096,
    TEXT_PER_ITEM = 8,
    MAX_WHY = 5 * CS_MAX_BRANCHES + 8
};

struct planner {
    const struct cs_spec *spec;
    const struct cs_graph *graph; /* as a rank has it where ranks share matrices */
    const struct cs_cluster *cluster;
    struct cs_arena *arena;
    struct cs_layer_cost *cost;       /* (graph->n_layers) */
    const struct cs_profile *profile; /* NULL: a roofline */
    struct cs_placing placing;
    struct cs_cuts cuts;
    struct cs_plan *plan;
    int32_t *full; /* where to tell the branch that does not fit in memory */
};

static const struct cs_spec_parallel *parallel_of(const struct planner *p, int32_t branch)
{
    return cs_spec_parallel_of(p->spec, p->graph->branches[branch].name);
}

static enum cs_status check_branches(const struct planner *p, struct cs_err *err)
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

static const struct cs_arch *encoder_arch(const struct cs_graph *graph, int32_t branch)
{
    for (int32_t m = 0; m < graph->n_modules; m++)
        if (graph->modules[m].branch == branch && graph->modules[m].kind == CS_MODULE_ENCODER)
            return &graph->modules[m].arch;
    return NULL;
}

static enum cs_status refuse_rows(const struct cs_branch *branch, int64_t rows, int64_t least,
                                  struct cs_err *err)
{
    if (rows < least)
        return cs_fail(
            err, CS_PLAN,
            "plan.encoder_rows.%s is %lld but one item has %lld rows; give at least that",
            branch->name, (long long)rows, (long long)least);
    return cs_fail(err, CS_PLAN, "plan.encoder_rows.%s is %lld: too many rows", branch->name,
                   (long long)rows);
}

/* All items alike. Default: as many as samples with one item and a few words each fill seq_tokens. */
static enum cs_status budget_like_items(const struct cs_branch *branch, int32_t seq, int64_t given,
                                        struct cs_item_budget *budget, struct cs_err *err)
{
    const int32_t rows = branch->item_rows;
    int64_t items = seq / ((int64_t)rows + TEXT_PER_ITEM);
    if (rows < 1 || rows > seq)
        return cs_fail(err, CS_PLAN,
                       "one item of %s has %d rows but a slot has seq_tokens = %d; raise "
                       "plan.seq_tokens to %d or more",
                       branch->name, rows, seq, rows + TEXT_PER_ITEM);
    items = items < 1 ? 1 : items > MAX_ITEMS ? MAX_ITEMS : items;
    if (given > 0)
        items = given / rows;
    if (items < 1 || items > INT32_MAX / branch->item_patches)
        return refuse_rows(branch, given, rows, err);
    cs_budget_set_items(budget, (int32_t)items);
    return CS_OK;
}

/* part of a whole in proportion, rounded up */
static int64_t in_proportion(int64_t whole, int64_t part, int64_t of)
{
    return (whole * part + of - 1) / of;
}

/* Items of any size: what fits the LLM's rows fits the encoder. An item that is larger than a slot
 * never comes, so the largest is one that fills it. Sources may drop rows: twice as many are room for
 * all but the oddest pictures, which are left out and counted. */
static enum cs_status budget_any_items(const struct cs_branch *branch, int32_t seq, int64_t given,
                                       struct cs_item_budget *budget, struct cs_err *err)
{
    const struct cs_item_budget of = *budget;
    const int64_t derived = of.has_sources ? 2 * (int64_t)seq + of.item_rows : seq;
    const int64_t rows = given > 0 ? given : derived;
    const int64_t item_rows = of.item_rows < rows ? of.item_rows : rows;
    const int64_t patches = in_proportion(of.item_patches, rows, of.item_rows);
    if (rows > INT32_MAX || patches > INT32_MAX)
        return refuse_rows(branch, rows, 1, err);
    budget->rows = (int32_t)rows;
    budget->patches = (int32_t)patches;
    budget->items = rows < MAX_MIXED_ITEMS ? (int32_t)rows : MAX_MIXED_ITEMS;
    budget->bytes = in_proportion(of.item_bytes, rows, of.item_rows);
    budget->item_rows = (int32_t)item_rows;
    budget->item_patches = (int32_t)in_proportion(of.item_patches, item_rows, of.item_rows);
    budget->item_bytes = (int32_t)in_proportion(of.item_bytes, item_rows, of.item_rows);
    return CS_OK;
}

static enum cs_status budget_encoder(struct planner *p, int32_t b, struct cs_err *err)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    const struct cs_spec_parallel *given = parallel_of(p, b);
    const struct cs_arch *arch = encoder_arch(p->graph, b);
    const int64_t rows = given ? given->encoder_rows : 0;
    const int32_t side = arch && branch->has_one_size ? arch->image_size : 0;
    struct cs_item_budget *budget = &p->plan->budget.enc[branch->encoder];
    *budget = (struct cs_item_budget){.item_rows = branch->item_rows,
                                      .item_patches = branch->item_patches,
                                      .item_bytes = branch->item_bytes,
                                      .height = side,
                                      .width = side,
                                      .channels = arch ? arch->channels : 0,
                                      .has_sources = branch->has_sources};
    return branch->has_one_size ? budget_like_items(branch, p->spec->seq_tokens, rows, budget, err)
                                : budget_any_items(branch, p->spec->seq_tokens, rows, budget, err);
}

static enum cs_status make_budget(struct planner *p, struct cs_err *err)
{
    if (p->spec->seq_tokens < 1 || p->spec->slots < 1)
        return cs_fail(err, CS_PLAN, "plan.seq_tokens is %d and plan.slots %d: both start at 1",
                       p->spec->seq_tokens, p->spec->slots);
    p->plan->budget.seq_tokens = p->spec->seq_tokens;
    p->plan->budget.n_encoders = p->graph->n_encoders;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->graph->branches[b].encoder >= 0)
            CS_TRY(budget_encoder(p, b, err));
    return CS_OK;
}

enum cs_status cs_plan_budget(const struct cs_spec *spec, const struct cs_graph *graph,
                              struct cs_slot_budget *out, struct cs_err *err)
{
    struct cs_plan plan = {0};
    struct planner p = {.spec = spec, .graph = graph, .plan = &plan};
    CS_TRY(make_budget(&p, err));
    *out = plan.budget;
    return CS_OK;
}

static enum cs_status refuse_count(const struct planner *p, int32_t b, int32_t pp, int32_t chunks,
                                   struct cs_err *err)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    if (chunks > 1)
        return cs_fail(err, CS_PLAN,
                       "schedule %s cuts each of the %d stages of %s in %d chunks: %d layers are "
                       "needed, it has %d; choose plan.parallel.%s.pp <= %d, or 1f1b",
                       p->plan->schedule, pp, branch->name, chunks, pp * chunks, branch->n_layers,
                       branch->name, branch->n_layers / chunks);
    return cs_fail(err, CS_PLAN,
                   "plan.parallel.%s.pp = %d asks for more stages than layers: branch %s "
                   "has %d layers; choose pp <= %d",
                   branch->name, pp, branch->name, branch->n_layers, branch->n_layers);
}

static enum cs_status choose_counts(struct planner *p, struct cs_err *err)
{
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        const struct cs_branch *branch = &p->graph->branches[b];
        const struct cs_spec_parallel *given = parallel_of(p, b);
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

static double true_cost(const struct cs_layer_cost *c)
{
    return (double)(c->fwd_ns + c->bwd_input_ns + c->bwd_weight_ns);
}

/* slots' worth of items that a rank of an encoder may have at once */
static int32_t most_slots(const struct planner *p, int32_t branch)
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
static double part_of_rows(const struct planner *p, int32_t branch)
{
    const int32_t seq = p->plan->budget.seq_tokens;
    if (branch != p->graph->llm)
        return most_slots(p, branch);
    return (double)cs_context_room(seq, p->placing.cp, p->plan->context_rows) / seq;
}

static struct cs_recompute_effect recompute_effect(const struct planner *p, int32_t layer,
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
static double *branch_costs(struct planner *p, int32_t b, bool is_blind)
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

/* copies of encoders run a share of the slots, whatever the LLM does meanwhile */
static double alive_in_copies(const struct planner *p)
{
    int32_t ranks = p->cuts.n_stages[p->graph->llm] / p->placing.chunks;
    double own = (cs_plan_own_slots(p->plan, p->spec->slots) + ranks - 1) / ranks; /* whole */
    bool is_bounded = !p->placing.schedule->encodes_all;
    return is_bounded && own > CS_ANCHOR_WINDOW + 1 ? CS_ANCHOR_WINDOW + 1 : own;
}

/* slots of a chunk, on average over the v chunks of its rank */
static double alive_in_chunks(const struct planner *p, int32_t v, int32_t stage)
{
    int32_t n = p->cuts.n_stages[p->graph->llm] / p->placing.chunks;
    return (2.0 * (n - 1 - stage % n) + (v - 1.0) * n + 1) / v;
}

/* stages on the longest chain: what all ranks warm up by when they feed each other in a circle */
static int32_t longest_chain(const struct planner *p)
{
    int32_t llm = p->graph->llm, longest = 0;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (b != llm && p->cuts.n_stages[b] > longest)
            longest = p->cuts.n_stages[b];
    return longest + p->cuts.n_stages[llm];
}

/* slots of a stage that are live at once; exact but for chunks and what runs ahead of them */
static double live_slots(const struct planner *p, int32_t b, int32_t stage)
{
    const struct cs_schedule_info *schedule = p->placing.schedule;
    int32_t llm = p->graph->llm, path = longest_chain(p);
    bool is_circle = p->placing.placement->cut == CS_CUT_AS_LLM &&
                     !cs_placing_copies(&p->placing) && p->graph->n_encoders > 0 &&
                     p->cuts.n_stages[llm] > 1;
    double slots = cs_plan_own_slots(p->plan, p->spec->slots),
           depth = cs_place_depth(p->graph, &p->cuts, b, stage), alive;
    if (schedule->layout == CS_LAYOUT_COLOCATED && b != llm)
        return alive_in_copies(p);
    if (p->placing.placement->cut == CS_CUT_ONCE && b != llm)
        depth = p->cuts.n_stages[llm] - 1;
    if (p->placing.placement->cut == CS_CUT_COPIES) /* copies pace with the stage beside them */
        depth = p->cuts.n_stages[llm] - 1 - stage;
    if (is_circle)
        depth = path - 1;
    alive = depth + 1;
    if (p->placing.chunks > 1)
        alive =
            b == llm ? alive_in_chunks(p, p->placing.chunks, stage) : alive + p->cuts.n_stages[llm];
    if (schedule->live != CS_LIVE_DEPTH)
        alive = (double)cs_schedule_live_slots(schedule, (int64_t)depth, path, (int64_t)slots);
    else if (is_circle) /* encoders and LLM are two chunks */
        alive = alive_in_chunks(p, 2, stage);
    return alive < slots ? alive : slots;
}

/* ... whose activations are on the rank's device */
static double alive_slots(const struct planner *p, int32_t b, int32_t stage)
{
    const double live = live_slots(p, b, stage);
    const int32_t sets =
        cs_branch_offloads(p->spec, p->graph, b) ? cs_offload_sets((int32_t)live) : 0;
    return sets > 0 && sets < live ? sets : live;
}

/* ranks with the same weights */
static int32_t holders_of(const struct planner *p, int32_t branch)
{
    const int32_t cp =
        p->placing.placement->has_own_ranks ? p->placing.branch_cp[branch] : p->placing.cp;
    return p->placing.dp[branch] * cp;
}

/* Of one rank: weights with gradients and state, activations of a slot. */
struct rank_bytes {
    double weight, saved;
};

static struct rank_bytes rank_bytes(const struct planner *p, int32_t layer)
{
    const int32_t branch = p->graph->modules[p->graph->layers[layer].module].branch;
    const struct cs_layer_bytes bytes =
        cs_replica_bytes(p->graph, &p->graph->layers[layer], &p->plan->budget, p->cluster->device,
                         cs_zero_level(p->spec, p->graph, branch), holders_of(p, branch),
                         branch == p->graph->llm ? p->placing.ep : 1);
    return (struct rank_bytes){.weight = (double)(bytes.weight + bytes.state),
                               .saved = part_of_rows(p, branch) * (double)bytes.saved -
                                        (double)recompute_effect(p, layer, 0).bytes};
}

/* what copies of encoders leave of a rank */
static double cap_of(const struct planner *p, int32_t b)
{
    double cap = (double)p->cluster->device->mem_bytes;
    bool has_copies = b == p->graph->llm && cs_placing_copies(&p->placing);
    for (int32_t e = 0; cap > 0 && has_copies && e < p->graph->n_branches; e++)
        for (int32_t i = 0; e != b && i < p->graph->branches[e].n_layers; i++) {
            const struct rank_bytes bytes = rank_bytes(p, p->graph->branches[e].first_layer + i);
            cap -= bytes.weight + alive_slots(p, e, 0) * bytes.saved;
        }
    return cap < 1 && p->cluster->device->mem_bytes > 0 ? 1 : cap;
}

/* encoders on the LLM's first rank: its first layer carries what they take there */
static void add_encoders(struct planner *p, bool is_blind, double *cost, double *weight,
                         double *saved)
{
    for (int32_t e = 0; e < p->graph->n_branches; e++) {
        if (e == p->graph->llm)
            continue;
        const double *own = branch_costs(p, e, is_blind);
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

static struct branch_load load_of(struct planner *p, int32_t b, bool is_blind)
{
    const struct cs_branch *branch = &p->graph->branches[b];
    struct branch_load load = {branch_costs(p, b, is_blind),
                               CS_NEW_ARRAY(p->arena, double, branch->n_layers),
                               CS_NEW_ARRAY(p->arena, double, branch->n_layers)};
    for (int32_t i = 0; i < branch->n_layers; i++) {
        const struct rank_bytes bytes = rank_bytes(p, branch->first_layer + i);
        load.weight[i] = bytes.weight;
        load.saved[i] = bytes.saved;
    }
    if (p->placing.placement->cut == CS_CUT_ONCE && b == p->graph->llm)
        add_encoders(p, is_blind, load.cost, load.weight, load.saved);
    return load;
}

/* into as many stages as p->cuts says */
static enum cs_status cut_load(struct planner *p, int32_t b, const struct branch_load *load,
                               int *sizes, struct cs_err *err)
{
    int stages = p->cuts.n_stages[b];
    double *alive = CS_NEW_ARRAY(p->arena, double, stages);
    for (int s = 0; s < stages; s++)
        alive[s] = alive_slots(p, b, s);
    struct cs_split_memory memory = {load->weight, load->saved, alive, cap_of(p, b)};
    return cs_split_capped(load->cost, p->graph->branches[b].n_layers, stages, &memory, sizes, NULL,
                           err);
}

static enum cs_status split_branch(struct planner *p, int32_t b, bool is_blind, int *sizes,
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

static enum cs_status split_all(struct planner *p, struct cs_err *err)
{
    bool is_blind = strcmp(p->spec->stages, "frozen-blind") == 0;
    if (!is_blind && strcmp(p->spec->stages, "frozen-aware") != 0)
        return cs_fail(err, CS_PLAN,
                       "plan.stages \"%s\" is not known; accepted: frozen-aware, frozen-blind",
                       p->spec->stages);
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        CS_TRY(split_branch(p, b, is_blind, p->cuts.sizes[b], err));
    return CS_OK;
}

static enum cs_status check_devices(const struct planner *p, struct cs_err *err)
{
    int64_t devices = (int64_t)p->cluster->n_nodes * p->cluster->devices_per_node;
    if (cs_plan_world(p->plan) > devices)
        return cs_fail(err, CS_PLAN,
                       "the plan needs %d ranks but the cluster has %lld devices (%d nodes x %d "
                       "%s); lower pp%s or use a larger cluster",
                       cs_plan_world(p->plan), (long long)devices, p->cluster->n_nodes,
                       p->cluster->devices_per_node, p->cluster->device->name,
                       cs_plan_world(p->plan) > cs_plan_replica_ranks(p->plan) ||
                               cs_plan_llm_replicas(p->plan) > 1
                           ? " or dp"
                           : "");
    return CS_OK;
}

/* An encoder with a replica on every rank of a stage of the LLM. */
static bool is_of_all_ranks(const struct planner *p, int32_t branch)
{
    const struct cs_spec_parallel *own = parallel_of(p, branch),
                                  *llm = parallel_of(p, p->graph->llm);
    const int32_t tp = llm != NULL && llm->tp > 1 ? llm->tp : 1;
    const int32_t cp = llm != NULL && llm->cp > 1 ? llm->cp : 1;
    return !p->placing.placement->has_own_ranks && branch != p->graph->llm && own != NULL &&
           own->tp <= 1 && own->cp <= 1 && own->dp == p->plan->dp * tp * cp;
}

/* Of every branch; encoders on the ranks of the LLM have as many as it has, or one on every rank of a stage. */
static enum cs_status choose_replicas(struct planner *p, struct cs_err *err)
{
    const struct cs_graph *graph = p->graph;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_spec_parallel *given = parallel_of(p, b);
        p->placing.dp[b] = given != NULL && given->dp > 0 ? given->dp : p->spec->dp;
        p->placing.dp[b] = p->placing.dp[b] > 1 ? p->placing.dp[b] : 1;
    }
    p->plan->dp = p->placing.dp[graph->llm];
    for (int32_t b = 0; b < graph->n_branches; b++) {
        if (is_of_all_ranks(p, b)) /* which is how they share its items */
            p->placing.dp[b] = p->plan->dp;
        if (p->placing.dp[b] == p->plan->dp)
            continue;
        if (!p->placing.placement->has_own_ranks)
            return cs_fail(
                err, CS_PLAN,
                "plan.parallel.%s.dp is %d, that of %s %d: with modality %s they are on "
                "the same ranks; set one dp for both, or as many as there are ranks of a "
                "stage, or choose modality encoder-parallel",
                graph->branches[b].name, p->placing.dp[b], graph->branches[graph->llm].name,
                p->plan->dp, p->placing.placement->modality);
        if (cs_device_element_bytes(p->cluster->device) != 4)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.dp is %d, that of %s %d: encoders have replicas of "
                           "their own number on CPU ranks only yet, not on a %s; set one dp for "
                           "both",
                           graph->branches[b].name, p->placing.dp[b],
                           graph->branches[graph->llm].name, p->plan->dp, p->cluster->device->name);
    }
    return CS_OK;
}

/* replicas take turns at the slots of a step: each must have as many */
static enum cs_status check_replicas(const struct planner *p, struct cs_err *err)
{
    const int32_t dp = cs_plan_llm_replicas(p->plan);
    if (dp > 1 && strcmp(p->spec->slot_order, "searched") == 0)
        return cs_fail(err, CS_PLAN,
                       "plan.dp is %d and slot_order \"searched\": the order of the slots is "
                       "searched for one pipeline; choose slot_order = \"kept\"",
                       dp);
    if (p->spec->slots % dp == 0)
        return CS_OK;
    return cs_fail(err, CS_PLAN, "plan.dp is %d but plan.slots %d: give slots = %d, a multiple", dp,
                   p->spec->slots, (p->spec->slots + dp - 1) / dp * dp);
}

/* several stages may share a rank, so the split's cap per stage is not the whole check */
static enum cs_status check_memory(const struct planner *p, struct cs_err *err)
{
    int64_t cap = p->cluster->device->mem_bytes;
    const int element = cs_device_element_bytes(p->cluster->device);
    const int32_t slots = cs_plan_own_slots(p->plan, p->spec->slots);
    const bool is_split = p->placing.schedule->splits_backward;
    for (int32_t r = 0; cap > 0 && r < p->plan->n_ranks; r++) {
        int64_t bytes = 0, work = 0;
        int32_t last = 0;
        for (int32_t s = 0; s < p->plan->n_stages; s++) {
            const struct cs_stage *st = &p->plan->stages[s];
            if (st->rank != r)
                continue;
            const int64_t own = cs_stage_scratch_bytes(p->graph, p->plan, s, element);
            const int64_t held = is_split ? cs_stage_held_bytes(p->graph, p->plan, s, element) : 0;
            work = own > work ? own : work;
            last = st->branch;
            bytes +=
                st->weight_bytes + st->state_bytes +
                (int64_t)(alive_slots(p, st->branch, st->index) * (double)(st->saved_bytes + held));
        }
        bytes += work + cs_rank_boundary_bytes(p->plan, r, slots, element);
        if (bytes > cap) {
            char needs[CS_UNITS_CAP], more[CS_UNITS_CAP];
            cs_bytes_print(needs, sizeof needs, (uint64_t)bytes);
            cs_bytes_print(more, sizeof more, (uint64_t)(bytes - cap));
            *p->full = last;
            return cs_fail(
                err, CS_PLAN,
                "rank %d needs %s, %s more than a %s has; use more stages or shorter slots", r,
                needs, more, p->cluster->device->name);
        }
    }
    return CS_OK;
}

static void say(struct planner *p, const char *text)
{
    if (p->plan->n_why < MAX_WHY)
        p->plan->why[p->plan->n_why++] = text;
}

static int64_t stage_ns(const struct cs_stage *s)
{
    return s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns;
}

static void explain_branch(struct planner *p, int32_t b)
{
    struct cs_buf text = {0};
    cs_buf_addf(&text, "%s in %d stage%s:", p->graph->branches[b].name, p->cuts.n_stages[b],
                p->cuts.n_stages[b] == 1 ? "" : "s");
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        const struct cs_stage *st = &p->plan->stages[s];
        if (st->branch == b)
            cs_buf_addf(&text, " %s %d layers, F %lld + B %lld us%s;", st->name, st->n_layers,
                        (long long)(st->fwd_ns / 1000),
                        (long long)((st->bwd_input_ns + st->bwd_weight_ns) / 1000),
                        st->has_backward ? "" : " (no backward)");
    }
    text.data[text.len - 1] = '.';
    say(p, cs_arena_strdup(p->arena, cs_buf_str(&text)));
    cs_buf_free(&text);
}

/* what else the first rank of a branch does */
static double beside(const struct planner *p, int32_t b)
{
    double sum = 0;
    const bool has_encoders = p->placing.placement->cut == CS_CUT_ONCE && b == p->graph->llm;
    for (int32_t l = 0; has_encoders && l < p->graph->branches[b].first_layer; l++)
        sum += true_cost(&p->cost[l]);
    return sum;
}

static int64_t bottleneck_of(const struct planner *p, int32_t b, const int *sizes)
{
    double worst = 0;
    int32_t layer = p->graph->branches[b].first_layer;
    for (int32_t s = 0; s < p->cuts.n_stages[b]; s++) {
        double sum = s == 0 ? beside(p, b) : 0;
        for (int i = 0; i < sizes[s]; i++)
            sum += true_cost(&p->cost[layer++]);
        worst = sum > worst ? sum : worst;
    }
    return (int64_t)worst;
}

/* what the other rule would have cut, measured by true costs */
static enum cs_status explain_other_rule(struct planner *p, struct cs_err *err)
{
    bool is_blind = strcmp(p->spec->stages, "frozen-blind") == 0;
    int64_t ours = 0, other = 0;
    for (int32_t b = 0; b < p->graph->n_branches; b++) {
        int *sizes = CS_NEW_ARRAY(p->arena, int, p->cuts.n_stages[b]);
        enum cs_status status = split_branch(p, b, !is_blind, sizes, err);
        if (status == CS_PLAN)
            return CS_OK; /* the other rule does not fit in memory: nothing to compare */
        CS_TRY(status);
        int64_t mine = bottleneck_of(p, b, p->cuts.sizes[b]), its = bottleneck_of(p, b, sizes);
        ours = mine > ours ? mine : ours;
        other = its > other ? its : other;
    }
    const char *rule = is_blind ? "frozen-aware" : "frozen-blind";
    if (other == ours)
        say(p,
            cs_arena_printf(p->arena, "Cut by %s costs; %s costs would give the same bottleneck.",
                            p->spec->stages, rule));
    else
        say(p, cs_arena_printf(p->arena,
                               "Cut by %s costs the bottleneck is %lld us; %s costs would give "
                               "%lld us.",
                               p->spec->stages, (long long)(ours / 1000), rule,
                               (long long)(other / 1000)));
    return CS_OK;
}

/* What a full slot asks of the ranks that share its rows. */
static enum cs_status explain_context(struct planner *p, struct cs_err *err)
{
    struct cs_context_work work;
    if (p->placing.cp == 1)
        return CS_OK;
    CS_TRY(cs_context_work_make(p->graph, &p->plan->budget, p->spec->context, p->placing.cp,
                                p->arena, &work, err));
    say(p, cs_arena_printf(
               p->arena,
               "The rows of a slot are split over %d ranks of every stage of %s (%s): "
               "of a full one at most %lld of %d are on one, whose work is up to %.3f of "
               "the mean, and keys of at most %lld rows come to it or leave it in a "
               "layer. Memory is planned for %d rows.",
               p->placing.cp, p->graph->branches[p->graph->llm].name, p->spec->context,
               (long long)work.most_rows, work.n_rows, work.slack, (long long)work.most_moved,
               cs_context_room(p->plan->budget.seq_tokens, p->placing.cp, p->plan->context_rows)));
    if (p->plan->context_rows > 0)
        say(p, cs_arena_printf(p->arena,
                               "A slot is split only where a rank would have more than %d of its "
                               "rows; ranks work on different short slots.",
                               p->plan->context_rows));
    return CS_OK;
}

static void explain_replicas(struct planner *p)
{
    const int32_t llm = p->graph->llm;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->placing.dp[b] != p->plan->dp)
            say(p, cs_arena_printf(p->arena,
                                   "%d replicas of %s share the items of the slots that %d of %s "
                                   "run side by side.",
                                   p->placing.dp[b], p->graph->branches[b].name, p->plan->dp,
                                   p->graph->branches[llm].name));
}

static enum cs_status explain(struct planner *p, struct cs_err *err)
{
    p->plan->why = CS_NEW_ARRAY(p->arena, const char *, MAX_WHY);
    const struct cs_stage *worst = &p->plan->stages[0];
    struct cs_profile_step step;
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        explain_branch(p, b);
    CS_TRY(explain_context(p, err));
    explain_replicas(p);
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->placing.tp[b] > 1)
            say(p, cs_arena_printf(p->arena,
                                   "The heads%s and the columns of the MLPs of %s are shared by %d "
                                   "ranks of every stage.",
                                   b == p->graph->llm ? ", the words" : "",
                                   p->graph->branches[b].name, p->placing.tp[b]));
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (p->placing.sp[b])
            say(p, cs_arena_printf(p->arena,
                                   "Between the products of a block of %s each of these has a part "
                                   "of the rows.",
                                   p->graph->branches[b].name));
    if (p->placing.ep > 1)
        say(p, cs_arena_printf(p->arena,
                               "The experts of a layer of %s are spread over %d ranks, which each "
                               "row goes to and comes back from.",
                               p->graph->branches[p->graph->llm].name, p->placing.ep));
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (cs_zero_level(p->spec, p->graph, b) > 1)
            say(p, cs_arena_printf(p->arena,
                                   "%s of %s are divided among the %d ranks that have the same.",
                                   cs_zero_level(p->spec, p->graph, b) == 2
                                       ? "Gradients and the optimizer's state"
                                       : "Weights, gradients and the optimizer's state",
                                   p->graph->branches[b].name, holders_of(p, b)));
    for (int32_t b = 0; b < p->graph->n_branches; b++)
        if (cs_branch_offloads(p->spec, p->graph, b))
            say(p, cs_arena_printf(p->arena,
                                   "Activations of %s wait in the host's memory, but for up to %d "
                                   "slots of a stage.",
                                   p->graph->branches[b].name, CS_OFFLOAD_SETS));
    for (int32_t s = 1; s < p->plan->n_stages; s++)
        if (stage_ns(&p->plan->stages[s]) > stage_ns(worst))
            worst = &p->plan->stages[s];
    say(p, cs_arena_printf(p->arena, "The bottleneck is %s with %lld us per slot.", worst->name,
                           (long long)(stage_ns(worst) / 1000)));
    if (p->graph->keeps_bf16)
        say(p,
            cs_arena_printf(p->arena,
                            "Gradients and moments are kept in bf16, without masters: %lld bytes "
                            "of state for a trained parameter.",
                            (long long)cs_state_bytes(true, p->cluster->device).all));
    if (p->profile != NULL)
        say(p, cs_arena_printf(p->arena, "Costs of layers were measured on a %s.",
                               p->cluster->device->name));
    if (cs_profile_step(p->profile, p->graph->keeps_bf16, &step) == CS_STEP_SCALED)
        say(p, "The profile measured the optimizer with state in fp32 only: times with bf16 are in "
               "proportion to the bytes that move.");
    return explain_other_rule(p, err);
}

/* full: the branch that does not fit in memory, -1: none, or it is another error */
static enum cs_status make_once(const struct cs_spec *spec, const struct cs_graph *graph,
                                const struct cs_cluster *cluster, struct cs_arena *arena,
                                struct cs_plan **out, int32_t *full, struct cs_err *err)
{
    struct planner p = {
        .spec = spec, .graph = graph, .cluster = cluster, .arena = arena, .full = full};
    *full = -1;
    if (graph->n_branches < 1 || graph->n_branches > CS_MAX_BRANCHES)
        return cs_fail(err, CS_PLAN, "the model has %d branches: 1 to %d can be planned",
                       graph->n_branches, CS_MAX_BRANCHES);
    CS_TRY(cs_plan_schedule_find(spec->schedule, &p.placing.schedule, err));
    CS_TRY(cs_placing_make(spec->modality, p.placing.schedule, &p.placing, err));
    p.plan = CS_NEW(arena, struct cs_plan);
    p.plan->schedule = cs_arena_strdup(arena, spec->schedule);
    p.plan->slots = spec->slots;
    p.plan->context_rows = spec->context_rows;
    CS_TRY(choose_replicas(&p, err));
    p.plan->keeps_bf16 = graph->keeps_bf16;
    CS_TRY(check_replicas(&p, err));
    CS_TRY(check_branches(&p, err));
    CS_TRY(cs_context_ranks(spec, graph, &p.placing, err));
    CS_TRY(cs_tensor_ranks(spec, graph, cluster->device, &p.placing, err));
    CS_TRY(cs_expert_ranks(spec, graph, cluster->device, &p.placing, err));
    p.graph = cs_tensor_graph(graph, &p.placing, arena);
    CS_TRY(make_budget(&p, err));
    CS_TRY(choose_counts(&p, err));
    p.cost = CS_NEW_ARRAY(arena, struct cs_layer_cost, graph->n_layers);
    CS_TRY(cs_spec_layer_costs(spec, graph, &p.plan->budget, cluster->device, arena, p.cost,
                               &p.profile, err));
    CS_TRY(split_all(&p, err));
    CS_TRY(cs_place_stages(graph, &p.placing, &p.cuts, arena, p.plan, err));
    CS_TRY(check_devices(&p, err));
    cs_plan_derive(graph, arena, p.plan);
    cs_plan_make_groups(p.plan, arena);
    CS_TRY(cs_zero_stages(spec, graph, &p.placing, p.plan, err));
    CS_TRY(cs_offload_stages(spec, graph, cluster->device, &p.placing, p.plan, err));
    cs_stage_costs(p.graph, cluster->device, p.cost, p.plan);
    cs_stage_step_costs(p.graph, cluster->device, p.profile, p.plan);
    cs_stage_recompute(spec, p.graph, cluster->device, p.cost, p.plan);
    cs_zero_times(p.graph, cluster->device, p.cost, p.plan);
    for (int32_t s = 0; s < p.plan->n_stages; s++)
        cs_offload_times(&p.plan->stages[s], (int32_t)live_slots(&p, p.plan->stages[s].branch,
                                                                 p.plan->stages[s].index));
    cs_stage_buckets(p.graph, arena, p.plan);
    CS_TRY(cs_plan_check_fits(p.plan, err));
    CS_TRY(check_memory(&p, err));
    CS_TRY(explain(&p, err));
    CS_TRY(cs_plan_hash(p.plan, graph, p.plan->hash, err));
    *out = p.plan;
    return CS_OK;
}

/* The fewest stages of a branch, more than it has, on which the plan fits; 0: none. */
static int32_t stages_that_fit(const struct cs_spec *spec, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, int32_t branch)
{
    struct cs_spec tried = *spec;
    struct cs_cluster large = *cluster;
    struct cs_spec_parallel *own = NULL;
    int32_t found = 0;
    for (int32_t i = 0; i < tried.n_parallel; i++)
        if (strcmp(tried.parallel[i].branch, graph->branches[branch].name) == 0)
            own = &tried.parallel[i];
    large.n_nodes = 65536; /* memory is asked for, not devices */
    for (int32_t pp = own ? own->pp + 1 : 1;
         own && pp <= graph->branches[branch].n_layers && !found; pp++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_plan *plan;
        int32_t full;
        own->pp = pp;
        if (make_once(&tried, graph, &large, arena, &plan, &full, NULL) == CS_OK)
            found = pp;
        cs_arena_free(arena);
    }
    return found;
}

enum cs_status cs_plan_make(const struct cs_spec *spec, const struct cs_graph *graph,
                            const struct cs_cluster *cluster, struct cs_arena *arena,
                            struct cs_plan **out, struct cs_err *err)
{
    int32_t full;
    enum cs_status status = make_once(spec, graph, cluster, arena, out, &full, err);
    int32_t fits =
        status != CS_OK && full >= 0 && err ? stages_that_fit(spec, graph, cluster, full) : 0;
    if (fits > 0) {
        size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, "; parallel.%s.pp = %d fits",
                 graph->branches[full].name, fits);
    }
    return status;
}
