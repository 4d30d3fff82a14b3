/* Variants of a plan request into plans; see variant.h. */
#include "console/variant.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/plan/costs.h"
#include "core/sched/predict.h"

enum layout { AS_ASKED, CHUNKS, SHARED };

enum { N_CHUNKS = 2 };

/* Cutting takes stages * layers^2: what is looked at must not keep a screen waiting. */
static const double most_cutting = 3e8;

static const struct {
    const char *name;
    enum layout layout;
} schedules[] = {
    {"1f1b",        AS_ASKED},
    {"gpipe",       AS_ASKED},
    {"zb-h1",       AS_ASKED},
    {"zb-h2",       AS_ASKED},
    {"interleaved", CHUNKS  },
    {"three-phase", SHARED  },
    {"anchors",     SHARED  },
};

const char *cs_variant_schedule(int i)
{
    return i >= 0 && i < (int)CS_ARRAY_LEN(schedules) ? schedules[i].name : NULL;
}

static enum layout layout_of(const char *schedule)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(schedules); i++)
        if (strcmp(schedules[i].name, schedule) == 0)
            return schedules[i].layout;
    return AS_ASKED;
}

bool cs_variant_shares(const struct cs_variant *variant)
{
    return layout_of(variant->schedule) == SHARED;
}

static bool is_colocated(const struct cs_variant *variant)
{
    return strcmp(variant->modality, "encoder-colocated") == 0;
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

struct cs_variant cs_variant_own(const struct cs_variant_base *base)
{
    struct cs_variant v = {.is_blind = strcmp(base->spec->stages, "frozen-blind") == 0,
                           .slots = base->plan->slots};
    cs_str_copy(v.schedule, sizeof v.schedule, base->plan->schedule);
    cs_str_copy(v.modality, sizeof v.modality, base->spec->modality);
    for (int32_t b = 0; b < base->graph->n_branches; b++)
        v.pp[b] = ranks_of(base->plan, b);
    return v;
}

bool cs_variant_is_equal(const struct cs_variant *a, const struct cs_variant *b,
                         const struct cs_graph *graph)
{
    bool is_equal = strcmp(a->schedule, b->schedule) == 0 && a->is_blind == b->is_blind &&
                    a->slots == b->slots &&
                    (cs_variant_shares(a) || strcmp(a->modality, b->modality) == 0);
    for (int32_t i = cs_variant_shares(a) ? graph->n_branches - 1 : 0; i < graph->n_branches; i++)
        is_equal = is_equal && a->pp[i] == b->pp[i];
    return is_equal;
}

int32_t cs_variant_ranks(const struct cs_variant *variant, const struct cs_graph *graph)
{
    int32_t n = variant->pp[graph->n_branches - 1];
    if (cs_variant_shares(variant) || is_colocated(variant))
        return n;
    for (int32_t b = 0; b + 1 < graph->n_branches; b++)
        n += variant->pp[b];
    return n;
}

void cs_variant_set_schedule(const struct cs_variant_base *base, const char *schedule,
                             struct cs_variant *variant)
{
    int32_t llm = base->graph->n_branches - 1;
    bool was_shared = cs_variant_shares(variant);
    int32_t ranks = cs_variant_ranks(variant, base->graph);
    cs_str_copy(variant->schedule, sizeof variant->schedule, schedule);
    if (cs_variant_shares(variant)) {
        variant->pp[llm] = ranks;
    } else if (was_shared) {
        struct cs_variant own = cs_variant_own(base);
        memcpy(variant->pp, own.pp, sizeof variant->pp);
    }
}

void cs_variant_layout_text(const struct cs_variant *variant, const struct cs_graph *graph,
                            char *out, size_t cap)
{
    int32_t llm = graph->n_branches - 1;
    size_t at = 0;
    if (graph->n_branches > 1 && (cs_variant_shares(variant) || is_colocated(variant))) {
        snprintf(out, cap, "%s %d", cs_variant_shares(variant) ? "shared" : "colocated",
                 variant->pp[llm]);
        return;
    }
    for (int32_t b = 0; b <= llm && at < cap; b++) {
        int n = snprintf(out + at, cap - at, "%s%s %d", b ? " + " : "", graph->branches[b].name,
                         variant->pp[b]);
        at += n > 0 ? (size_t)n : 0;
    }
}

/* --- planning ----------------------------------------------------------------------------------
 */

static void set_parallel(struct cs_spec *spec, const char *branch, int32_t pp)
{
    for (int32_t i = 0; i < spec->n_parallel; i++)
        if (strcmp(spec->parallel[i].branch, branch) == 0) {
            spec->parallel[i].pp = pp;
            return;
        }
    if (spec->n_parallel < (int32_t)CS_ARRAY_LEN(spec->parallel))
        spec->parallel[spec->n_parallel++] = (struct cs_spec_parallel){branch, pp, 0};
}

/* The plan request, with the stages that the schedule's layout is made from. */
static struct cs_spec request_of(const struct cs_variant_base *base, const struct cs_variant *v)
{
    enum layout layout = layout_of(v->schedule);
    struct cs_spec spec = *base->spec;
    int32_t llm = base->graph->n_branches - 1;
    spec.schedule = strcmp(v->schedule, "gpipe") == 0 ? "gpipe" : "1f1b";
    spec.modality = layout == AS_ASKED ? v->modality : "encoder-parallel";
    spec.stages = v->is_blind ? "frozen-blind" : "frozen-aware";
    spec.slots = v->slots;
    for (int32_t b = 0; b <= llm; b++) {
        int32_t pp = layout == SHARED && b < llm ? 1 : v->pp[b];
        set_parallel(&spec, base->graph->branches[b].name,
                     layout == CHUNKS && b == llm ? N_CHUNKS * pp : pp);
    }
    return spec;
}

/* stage i of the LLM on its rank i % p */
static void place_chunks(const struct cs_variant *v, int32_t llm, struct cs_plan *plan)
{
    int32_t first = plan->n_stages - N_CHUNKS * v->pp[llm];
    for (int32_t s = first; s < plan->n_stages; s++)
        plan->stages[s].rank = first + (s - first) % v->pp[llm];
    plan->n_ranks = first + v->pp[llm];
}

static int32_t new_id(const struct cs_plan *from, int32_t n_encoders, int32_t p, int32_t id)
{
    bool is_encoder = id < n_encoders;
    (void)from;
    return is_encoder ? id * p : n_encoders * p + id - n_encoders;
}

/* one stage per encoder and the LLM's p: p copies of every encoder */
static const struct cs_slot_share *place_copies(const struct cs_variant *v, int32_t llm,
                                                struct cs_arena *arena, struct cs_plan *plan)
{
    int32_t p = v->pp[llm], n = llm * p + p, n_edges = 0;
    struct cs_stage *stages = CS_NEW_ARRAY(arena, struct cs_stage, n);
    struct cs_edge *edges = CS_NEW_ARRAY(arena, struct cs_edge, n);
    struct cs_slot_share *share = CS_NEW_ARRAY(arena, struct cs_slot_share, n);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        int32_t copies = s < llm ? p : 1, first = new_id(plan, llm, p, s);
        for (int32_t r = 0; r < copies; r++) {
            struct cs_stage *to = &stages[first + r];
            *to = plan->stages[s];
            to->id = first + r;
            to->rank = s < llm ? r : s - llm;
            to->index = s < llm ? r : to->index;
            if (s < llm)
                to->name = cs_arena_printf(arena, "%s/%d", plan->stages[s].name, r);
            share[first + r] = s < llm ? (struct cs_slot_share){p, r} : (struct cs_slot_share){0};
        }
    }
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const struct cs_edge *from = &plan->edges[e];
        for (int32_t r = 0; r < (from->from < llm ? p : 1); r++, n_edges++) {
            edges[n_edges] = *from;
            edges[n_edges].id = n_edges;
            edges[n_edges].from = new_id(plan, llm, p, from->from) + r;
            edges[n_edges].to = new_id(plan, llm, p, from->to);
        }
    }
    plan->embed_stage = new_id(plan, llm, p, plan->embed_stage);
    plan->head_stage = new_id(plan, llm, p, plan->head_stage);
    plan->stages = stages;
    plan->edges = edges;
    plan->n_stages = n;
    plan->n_edges = n_edges;
    plan->n_ranks = p;
    return share;
}

static void stretch_stages(const struct cs_layer_cost *cost, struct cs_plan *plan)
{
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_stage *stage = &plan->stages[s];
        stage->fwd_ns = stage->bwd_input_ns = stage->bwd_weight_ns = 0;
        for (int32_t l = stage->first_layer; l < stage->first_layer + stage->n_layers; l++) {
            stage->fwd_ns += cost[l].fwd_ns;
            stage->bwd_input_ns += cost[l].bwd_input_ns;
            stage->bwd_weight_ns += cost[l].bwd_weight_ns;
        }
    }
}

/* The job's own stages under another schedule or with other slots: nothing is cut. */
static bool has_own_cut(const struct cs_variant *v, const struct cs_variant *own,
                        const struct cs_graph *graph)
{
    struct cs_variant same = *v;
    cs_str_copy(same.schedule, sizeof same.schedule, own->schedule);
    same.slots = own->slots;
    return layout_of(v->schedule) == AS_ASKED && layout_of(own->schedule) == AS_ASKED &&
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
        work += layers * layers * v->pp[b];
    }
    if (work <= most_cutting)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "cutting %d layers for %d ranks takes too long here; cornstarch-console plan "
                   "does it",
                   base->graph->n_layers, cs_variant_ranks(v, base->graph));
}

enum cs_status cs_variant_make(const struct cs_variant_base *base, const struct cs_variant *variant,
                               struct cs_arena *arena, struct cs_variant_plan *out,
                               struct cs_err *err)
{
    struct cs_variant own = cs_variant_own(base);
    struct cs_cluster cluster = *base->cluster;
    struct cs_plan *plan = NULL;
    *out = (struct cs_variant_plan){.plan = base->plan, .is_own = true};
    if (cs_variant_is_equal(variant, &own, base->graph))
        return CS_OK;
    int32_t llm = base->graph->n_branches - 1;
    if (cs_variant_shares(variant) && llm == 0)
        return cs_fail(err, CS_PLAN, "%s shares encoders, and the model has none",
                       variant->schedule);
    if (variant->pp[llm] > INT16_MAX / N_CHUNKS)
        return cs_fail(err, CS_PLAN, "%d ranks are too many", variant->pp[llm]);
    if (has_own_cut(variant, &own, base->graph)) {
        plan = copy_plan(base->plan, arena);
        plan->slots = variant->slots;
    } else {
        struct cs_spec spec = request_of(base, variant);
        CS_TRY(check_cutting(base, variant, err));
        cluster.n_nodes = 100000; /* chunks are no ranks, and looking is free */
        CS_TRY(cs_plan_make(&spec, base->graph, &cluster, arena, &plan, err));
    }
    plan->schedule = cs_arena_strdup(arena, variant->schedule);
    if (base->measured_cost)
        stretch_stages(base->measured_cost, plan);
    *out = (struct cs_variant_plan){.plan = plan};
    if (layout_of(variant->schedule) == CHUNKS)
        place_chunks(variant, llm, plan);
    if (layout_of(variant->schedule) == SHARED)
        out->share = place_copies(variant, llm, arena, plan);
    return CS_OK;
}

/* --- costs -------------------------------------------------------------------------------------
 */

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
    return action->op == CS_OP_STEP ? (int64_t)((double)ns * base->step_stretch) : ns;
}

/* measured over predicted; 1 where nothing was measured or predicted */
static double stretch_of(const struct cs_measured *m, int32_t stage, int32_t rank, enum cs_op op,
                         int64_t roofline_ns)
{
    int64_t ns = cs_measured_mean_ns(m, stage, rank, op);
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
    struct cs_layer_cost *cost = CS_NEW_ARRAY(arena, struct cs_layer_cost, base->graph->n_layers);
    cs_layer_costs(base->graph, &plan->budget, base->cluster->device, cost);
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
    base->measured_cost = cost;
    base->step_stretch = stretch_of_steps(base, &program);
}
