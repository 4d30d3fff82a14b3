/* Makes plans of variants of a request: changed in place where the cut stays, planned anew else. */
#include "console/whatif/variant_private.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/units.h"
#include "core/plan/cost/cost.h"
#include "core/plan/make/planner.h"
#include "core/plan/plan_schedule.h"
#include "core/sched/sim/predict.h"
#include "core/search/search.h"

/* Cutting takes stages * layers^2: what is looked at must not keep a screen waiting. */
static const double most_cutting = 3e8;

const char *cs_variant_schedule(int i)
{
    const struct cs_schedule_info *info = cs_plan_schedule(i);
    return info ? info->name : NULL;
}

static bool is_placed(const struct cs_variant *variant, enum cs_placement placement)
{
    return strcmp(variant->modality, cs_placement_table[placement].modality) == 0;
}

/* Stages of a branch go round its ranks in turn. */
static int32_t ranks_of(const struct cs_plan *plan, int32_t branch)
{
    int32_t n = 0, first = -1;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].branch != branch)
            continue;
        if (plan->stages[s].rank == first)
            break;
        first = n++ == 0 ? plan->stages[s].rank : first;
    }
    return n;
}

static bool has_copies(const struct cs_plan *plan, int32_t branch)
{
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].branch == branch)
            return plan->stages[s].copies > 1;
    return false;
}

struct cs_variant cs_variant_own(const struct cs_variant_base *base)
{
    struct cs_variant v = {.is_blind = strcmp(base->spec->stages, "frozen-blind") == 0,
                           .slots = base->plan->slots,
                           .layout = cs_variant_spec_layout(base->spec, base->graph)};
    cs_str_copy(v.schedule, sizeof v.schedule, base->plan->schedule);
    cs_str_copy(v.modality, sizeof v.modality, base->spec->modality);
    for (int32_t b = 0; b < base->graph->n_branches; b++) {
        v.pp[b] = has_copies(base->plan, b) ? 1 : ranks_of(base->plan, b);
        if (b != base->graph->llm && cs_variant_place(&v, b) != v.layout.branch[b].place)
            cs_str_copy(v.modality, sizeof v.modality, cs_search_modality_name(CS_SEARCH_MIXED));
    }
    return v;
}

/* as the job has it, when its stages suit a schedule that leaves them where they are */
static bool take_own_stages(const struct cs_variant_base *base, int32_t ranks,
                            struct cs_variant *variant)
{
    struct cs_variant own = cs_variant_own(base);
    if (cs_variant_stages(own.schedule) != CS_LAYOUT_STAGES ||
        cs_variant_width(&own, base->graph) != ranks)
        return false;
    memcpy(variant->pp, own.pp, sizeof variant->pp);
    cs_str_copy(variant->modality, sizeof variant->modality, own.modality);
    return true;
}

static void move_apart(const struct cs_graph *graph, int32_t ranks, struct cs_variant *variant)
{
    int32_t n = graph->n_encoders;
    for (int32_t b = 0; b < graph->n_branches; b++)
        variant->pp[b] = 1;
    variant->pp[graph->llm] = ranks > n ? ranks - n : 1;
    cs_str_copy(variant->modality, sizeof variant->modality,
                cs_placement_table[CS_PLACE_OWN].modality);
}

void cs_variant_set_schedule(const struct cs_variant_base *base, const char *schedule,
                             struct cs_variant *variant)
{
    enum cs_schedule_layout old = cs_variant_stages(variant->schedule),
                            new = cs_variant_stages(schedule);
    int32_t ranks = cs_variant_width(variant, base->graph);
    bool is_apart = is_placed(variant, CS_PLACE_OWN);
    cs_str_copy(variant->schedule, sizeof variant->schedule, schedule);
    if (new == CS_LAYOUT_COLOCATED)
        variant->pp[base->graph->llm] = ranks;
    else if (new == CS_LAYOUT_STAGES && old != new &&take_own_stages(base, ranks, variant))
        return;
    else if (old == CS_LAYOUT_COLOCATED || (new == CS_LAYOUT_CHUNKS && !is_apart))
        move_apart(base->graph, ranks, variant);
}

const char *cs_variant_modality(int i)
{
    return i >= 0 && i < CS_SEARCHED_PLACEMENTS ? cs_placement_table[i].modality : NULL;
}

void cs_variant_set_modality(const struct cs_variant_base *base, const char *modality,
                             struct cs_variant *variant)
{
    struct cs_variant own = cs_variant_own(base);
    int32_t ranks = cs_variant_width(variant, base->graph);
    if (cs_variant_stages(variant->schedule) != CS_LAYOUT_STAGES)
        cs_str_copy(variant->schedule, sizeof variant->schedule, "1f1b");
    cs_str_copy(variant->modality, sizeof variant->modality, modality);
    if (strcmp(modality, own.modality) == 0 && !cs_variant_shares(&own)) {
        memcpy(variant->pp, own.pp, sizeof variant->pp);
        return;
    }
    for (int32_t b = 0; b < base->graph->n_branches; b++)
        variant->pp[b] = ranks;
    if (is_placed(variant, CS_PLACE_OWN))
        move_apart(base->graph, ranks, variant);
}

/* --- planning --------------------------------------------------------------------------------- */

/* the other degrees stay; chunks do where the schedule has any */
static void set_parallel(struct cs_spec *spec, const struct cs_variant *v, const char *branch,
                         int32_t pp, const char *place)
{
    const bool has_chunks = cs_variant_stages(v->schedule) == CS_LAYOUT_CHUNKS;
    int32_t i = 0;
    while (i < spec->n_parallel && strcmp(spec->parallel[i].branch, branch) != 0)
        i++;
    if (i == (int32_t)CS_ARRAY_LEN(spec->parallel))
        return;
    if (i == spec->n_parallel)
        spec->parallel[spec->n_parallel++] = (struct cs_spec_parallel){.branch = branch};
    spec->parallel[i].pp = pp;
    spec->parallel[i].place = place;
    spec->parallel[i].vpp = has_chunks ? spec->parallel[i].vpp : 0;
}

static struct cs_spec request_of(const struct cs_variant_base *base, const struct cs_variant *v)
{
    const enum cs_schedule_layout layout = cs_variant_stages(v->schedule);
    const struct cs_layout of_found = cs_variant_layout(v, base->graph);
    struct cs_spec spec =
        v->is_found ? cs_search_spec(&of_found, v->context_rows, base->spec) : *base->spec;
    int32_t llm = base->graph->llm;
    spec.schedule = v->schedule;
    const bool is_mixed = layout == CS_LAYOUT_STAGES && cs_variant_is_mixed(v);
    spec.modality = is_mixed ? CS_MODALITY_DEFAULT
                    : layout == CS_LAYOUT_STAGES
                        ? v->modality
                        : cs_placement_table[cs_placement_of_layout(layout)].modality;
    spec.stages = v->is_blind ? "frozen-blind" : "frozen-aware";
    spec.slots = v->slots;
    for (int32_t b = 0; b < base->graph->n_branches; b++)
        set_parallel(&spec, v, base->graph->branches[b].name,
                     b != llm && cs_variant_copies(v, b) ? 1 : v->pp[b],
                     is_mixed && b != llm ? cs_placement_table[cs_variant_place(v, b)].name
                                          : CS_PLACE_DEFAULT);
    return spec;
}

/* Planned as the planner does; when it refuses, once more on devices of any size: what does not fit
 * can be looked at. */
static enum cs_status plan_anew(const struct cs_variant_base *base, const struct cs_variant *v,
                                struct cs_arena *arena, struct cs_plan **out, struct cs_err *err)
{
    struct cs_spec spec = request_of(base, v);
    struct cs_cluster cluster = *base->cluster;
    struct cs_device_class endless = *cluster.device;
    cluster.n_nodes = 100000; /* looking is free */
    enum cs_status status = cs_plan_make(&spec, base->graph, &cluster, arena, out, err);
    if (status != CS_PLAN || endless.mem_bytes == 0)
        return status;
    endless.mem_bytes = INT64_MAX / 2;
    cluster.device = &endless;
    return cs_plan_make(&spec, base->graph, &cluster, arena, out, NULL) == CS_OK ? CS_OK : status;
}

struct cost_sum {
    double fwd, bwd_input, bwd_weight;
};

static struct cost_sum sum_of(const struct cs_layer_cost *cost, const struct cs_stage *stage)
{
    struct cost_sum sum = {0};
    for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
        sum.fwd += (double)cost[l].fwd_ns;
        sum.bwd_input += (double)cost[l].bwd_input_ns;
        sum.bwd_weight += (double)cost[l].bwd_weight_ns;
    }
    return sum;
}

static int64_t stretched(int64_t ns, double measured, double roofline)
{
    return roofline > 0 ? (int64_t)((double)ns * (measured / roofline) + 0.5) : ns;
}

/* What the planner counts, which knows of ranks that share a stage, by as much as its layers took
 * longer than a rank of their own would have been planned with. */
static void stretch_stages(const struct cs_variant_base *base, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        const struct cost_sum to = sum_of(base->measured_cost, stage);
        const struct cost_sum from = sum_of(base->roofline_cost, stage);
        stage->fwd_ns = stretched(stage->fwd_ns, to.fwd, from.fwd);
        stage->bwd_input_ns = stretched(stage->bwd_input_ns, to.bwd_input, from.bwd_input);
        stage->bwd_weight_ns = stretched(stage->bwd_weight_ns, to.bwd_weight, from.bwd_weight);
    }
}

/* The job's own stages under another schedule or with other slots: nothing is cut. */
static bool has_own_cut(const struct cs_variant *v, const struct cs_variant *own,
                        const struct cs_graph *graph)
{
    struct cs_variant same = *v;
    cs_str_copy(same.schedule, sizeof same.schedule, own->schedule);
    same.slots = own->slots;
    return cs_variant_stages(v->schedule) == CS_LAYOUT_STAGES &&
           cs_variant_stages(own->schedule) == CS_LAYOUT_STAGES &&
           cs_variant_is_equal(&same, own, graph);
}

static struct cs_plan *copy_plan(const struct cs_plan *from, struct cs_arena *arena)
{
    struct cs_plan *plan = CS_NEW(arena, struct cs_plan);
    *plan = *from;
    plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, from->n_stages);
    memcpy(plan->stages, from->stages, (size_t)from->n_stages * sizeof *plan->stages);
    return plan;
}

static enum cs_status check_cutting(const struct cs_variant_base *base, const struct cs_variant *v,
                                    struct cs_err *err)
{
    double work = 0;
    for (int32_t b = 0; b < base->graph->n_branches; b++) {
        double layers = base->graph->branches[b].n_layers;
        work += layers * layers * v->pp[b] * cs_variant_chunks(v, b);
    }
    if (work <= most_cutting)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "cutting %d layer%s for %d ranks takes too long here; cornstarch-console plan "
                   "does it",
                   base->graph->n_layers, CS_PLURAL(base->graph->n_layers),
                   cs_variant_ranks(v, base->graph));
}

enum cs_status cs_variant_make(const struct cs_variant_base *base, const struct cs_variant *variant,
                               struct cs_arena *arena, struct cs_variant_plan *out,
                               struct cs_err *err)
{
    struct cs_variant own = cs_variant_own(base);
    struct cs_plan *plan = NULL;
    *out = (struct cs_variant_plan){.plan = base->plan, .is_own = true};
    if (cs_variant_is_equal(variant, &own, base->graph))
        return CS_OK;
    if (cs_variant_shares(variant) && base->graph->n_branches == 1)
        return cs_fail(err, CS_PLAN, "%s shares encoders, and the model has none",
                       variant->schedule);
    if (has_own_cut(variant, &own, base->graph)) {
        plan = copy_plan(base->plan, arena);
    } else {
        CS_TRY(check_cutting(base, variant, err));
        CS_TRY(plan_anew(base, variant, arena, &plan, err));
    }
    plan->schedule = cs_arena_strdup(arena, variant->schedule);
    plan->slots = variant->slots;
    if (base->measured_cost)
        stretch_stages(base, plan);
    *out = (struct cs_variant_plan){.plan = plan};
    return CS_OK;
}

/* --- costs ------------------------------------------------------------------------------------ */

int64_t cs_variant_cost(void *user, const struct cs_program *program, int rank,
                        const struct cs_action *action)
{
    const struct cs_variant_costs *costs = user;
    const struct cs_variant_base *base = costs->base;
    struct cs_device_class device = *base->cluster->device;
    if (!base->measured)
        return cs_predict_cost(&device, program, rank, action);
    if (costs->is_own) {
        struct cs_measured measured = *base->measured;
        return cs_measured_sim_cost(&measured, program, rank, action);
    }
    int64_t ns = cs_predict_cost(&device, program, rank, action);
    if (action->op == CS_OP_SEND || action->op == CS_OP_NORM)
        return ns + (action->op == CS_OP_SEND ? base->measured->hop_ns : base->measured->rest_ns);
    return action->op == CS_OP_STEP ? (int64_t)((double)ns * base->step_stretch) : ns;
}

/* measured over predicted; 1 where nothing was measured or predicted */
static double stretch_of(const struct cs_measured *m, int32_t stage, int32_t rank, enum cs_op op,
                         int64_t roofline_ns)
{
    int64_t ns = cs_measured_mean_ns(m, stage, rank, op);
    if (ns < 0 && m->permille != NULL)
        return m->permille[stage] / 1000.0;
    return ns >= 0 && roofline_ns > 0 ? (double)ns / (double)roofline_ns : 1;
}

static double stretch_of_steps(const struct cs_variant_base *base, const struct cs_program *program)
{
    struct cs_device_class device = *base->cluster->device;
    const struct cs_action step = {.op = CS_OP_STEP, .stage = -1};
    double measured_ns = 0, roofline_ns = 0;
    for (int32_t r = 0; r < base->plan->n_ranks; r++) {
        int64_t ns = cs_measured_mean_ns(base->measured, -1, r, CS_OP_STEP);
        measured_ns += ns > 0 ? (double)ns : 0;
        roofline_ns += (double)cs_predict_cost(&device, program, r, &step);
    }
    return measured_ns > 0 && roofline_ns > 0 ? measured_ns / roofline_ns : 1;
}

void cs_variant_stretch(struct cs_variant_base *base, struct cs_arena *arena)
{
    const struct cs_plan *plan = base->plan;
    const struct cs_program program = {.plan = plan, .n_ranks = plan->n_ranks};
    const int32_t n = base->graph->n_layers;
    struct cs_layer_cost *cost = CS_NEW_ARRAY(arena, struct cs_layer_cost, n),
                         *roofline = CS_NEW_ARRAY(arena, struct cs_layer_cost, n);
    if (cs_spec_layer_costs(base->spec, base->graph, &plan->budget, base->cluster->device, arena,
                            cost, NULL, NULL) != CS_OK)
        cs_layer_costs(base->graph, &plan->budget, base->cluster->device, cost);
    memcpy(roofline, cost, (size_t)n * sizeof *cost);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        const struct cs_stage *st = &plan->stages[s];
        double fwd = stretch_of(base->measured, s, st->rank, CS_OP_FWD, st->fwd_ns);
        double bwd = stretch_of(base->measured, s, st->rank, CS_OP_BWD,
                                st->bwd_input_ns + st->bwd_weight_ns);
        for (int32_t l = st->first_layer; l < st->first_layer + st->n_layers; l++) {
            cost[l].fwd_ns = (int64_t)((double)cost[l].fwd_ns * fwd);
            cost[l].bwd_input_ns = (int64_t)((double)cost[l].bwd_input_ns * bwd);
            cost[l].bwd_weight_ns = (int64_t)((double)cost[l].bwd_weight_ns * bwd);
        }
    }
    base->roofline_cost = roofline;
    base->measured_cost = cost;
    base->step_stretch = stretch_of_steps(base, &program);
}
