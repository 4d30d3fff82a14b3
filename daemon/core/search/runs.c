/* Whether jobs run a found plan: what a job's document can say of its layout, and what planner and
 * workers say to that. */
#include "core/base/units.h"
#include "core/data/slot.h"
#include "core/plan/make/planner.h"
#include "core/sched/sim/forecast.h"
#include "core/search/search.h"

enum { MOST_CELLS = 1 << 16 /* stages times slots that are simulated for the figures of a row */ };

/* What jobs have no key for; the rest is refused by whoever plans it. */
static enum cs_status check_layout(const struct cs_search_plan *plan, struct cs_err *err)
{
    const struct cs_layout *l = &plan->layout;
    if (l->n_branches > CS_MAX_ENCODERS + 1)
        return cs_fail(err, CS_UNSUPPORTED, "it has %d branches, a job at most %d", l->n_branches,
                       CS_MAX_ENCODERS + 1);
    return CS_OK;
}

/* rows that the spec gives an encoder */
static int64_t rows_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL ? given->encoder_rows : 0;
}

/* Where nobody has the same weights nothing is divided. */
static int32_t zero_of(const struct cs_layout *l, int32_t branch)
{
    return cs_layout_dp(l, branch) * l->branch[branch].cp > 1 ? cs_layout_zero(l, branch) : 1;
}

static const char *cut_name(const struct cs_search_plan *plan)
{
    if (cs_planner_rules[plan->planner].cut == CS_CUT_LAYERS)
        return "equal-layers";
    return plan->is_blind_cut ? "frozen-blind" : "frozen-aware";
}

/* On the ranks of the LLM an encoder has as many parts as there are. */
static int32_t cp_of(const struct cs_layout *l, int32_t branch)
{
    const struct cs_branch_layout *x = &l->branch[branch];
    return cs_placement_table[x->place].has_own_ranks ? x->cp : 0;
}

struct cs_spec cs_search_spec(const struct cs_layout *l, int32_t context_rows,
                              const struct cs_spec *spec)
{
    struct cs_spec out = *spec;
    out.n_parallel = l->n_branches;
    for (int32_t b = 0; b < l->n_branches; b++)
        out.parallel[b] = (struct cs_spec_parallel){
            .branch = l->branch[b].name,
            .pp = l->branch[b].pp,
            .vpp = l->branch[b].vpp > 1 ? l->branch[b].vpp : 0,
            .tp = l->branch[b].tp,
            .sp = l->branch[b].sp,
            .cp = cp_of(l, b),
            .ep = l->branch[b].ep,
            .zero = zero_of(l, b),
            .dp = l->branch[b].place == CS_PLACE_OWN ? cs_layout_dp(l, b) : l->dp,
            .encoder_rows = rows_of(spec, l->branch[b].name),
            .recompute = cs_recompute_name(l->branch[b].recompute)};
    out.dp = l->dp;
    if (l->branch[l->llm].cp == 1)
        out.context_rows = 0;
    else if (context_rows > 0)
        out.context_rows = context_rows;
    if (l->branch[l->llm].cp == 1 && cs_spec_moves_heads(spec))
        out.context_exchange = "keys";
    return out;
}

void cs_search_place(const struct cs_layout *l, int32_t modality, struct cs_spec *spec)
{
    const bool is_mixed = modality == CS_SEARCH_MIXED;
    spec->modality = is_mixed ? CS_MODALITY_DEFAULT : cs_search_modality_name(modality);
    for (int32_t b = 0; b < l->n_branches; b++)
        spec->parallel[b].place = is_mixed && b != l->llm
                                      ? cs_placement_table[l->branch[b].place].name
                                      : CS_PLACE_DEFAULT;
}

/* The settings of the spec that are not of the plan, with those of the plan. */
static struct cs_spec spec_of(const struct cs_search_plan *plan, const struct cs_spec *spec)
{
    struct cs_spec out = cs_search_spec(&plan->layout, plan->context_rows, spec);
    cs_search_place(&plan->layout, plan->modality, &out);
    out.schedule = plan->schedule;
    out.stages = cut_name(plan);
    out.slots = plan->slots * plan->layout.dp;
    return out;
}

static enum cs_status foretell(const struct cs_plan *plan, const struct cs_graph *graph,
                               const struct cs_cluster *cluster, struct cs_arena *arena,
                               struct cs_forecast_figures *out, struct cs_err *err)
{
    const struct cs_forecast_options options = {.slots = 0};
    struct cs_forecast forecast;
    *out = (struct cs_forecast_figures){.step_ns = plan->predicted_step_ns};
    if ((int64_t)plan->n_stages * cs_plan_own_slots(plan, plan->slots) > MOST_CELLS)
        return CS_OK; /* the figures would take as long as the search */
    CS_TRY(cs_forecast_plan(plan, graph, cluster, &options, arena, &forecast, err));
    *out = cs_forecast_figures(&forecast, plan, arena);
    return CS_OK;
}

enum cs_status cs_search_check_runs(const struct cs_search_plan *plan, const struct cs_spec *spec,
                                    const struct cs_graph *graph, const struct cs_cluster *cluster,
                                    struct cs_forecast_figures *figures, struct cs_err *err)
{
    CS_TRY(check_layout(plan, err));
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_plan *made = NULL;
    const struct cs_spec tried = spec_of(plan, spec);
    enum cs_status status = cs_plan_try(&tried, graph, cluster, arena, &made, err);
    if (status == CS_OK)
        status = cs_plan_check_runs(made, err);
    if (status == CS_OK && figures)
        status = foretell(made, graph, cluster, arena, figures, err);
    if (status == CS_OK && tried.slots > CS_STEP_PACK_SLOTS)
        status = cs_fail(err, CS_UNSUPPORTED, "it has %d slots a step, a job at most %d",
                         tried.slots, CS_STEP_PACK_SLOTS);
    cs_arena_free(arena);
    return status;
}

/* Whether jobs run one branch with so many ranks that split its tensors or its rows, or share its
 * experts, or so many replicas of it; 0: as many as all have. */
static bool may_have(const struct cs_spec *spec, const struct cs_graph *graph,
                     const struct cs_cluster *cluster, int32_t branch, struct cs_rank_shape shape)
{
    struct cs_cluster large = *cluster;
    struct cs_search_plan plan = {.schedule = "1f1b", .slots = 1};
    struct cs_layout *l = &plan.layout;
    *l = (struct cs_layout){.n_branches = graph->n_branches, .llm = graph->llm, .dp = shape.ep};
    for (int32_t b = 0; b < graph->n_branches; b++)
        l->branch[b] = (struct cs_branch_layout){.name = graph->branches[b].name,
                                                 .tp = b == branch ? shape.tp : 1,
                                                 .cp = b == branch ? shape.cp : 1,
                                                 .ep = b == branch ? shape.ep : 1,
                                                 .dp = b == branch ? shape.dp : 0,
                                                 .pp = 1,
                                                 .place = CS_PLACE_OWN};
    struct cs_device_class endless = *cluster->device; /* memory is not asked for, nor devices */
    if (endless.mem_bytes > 0)
        endless.mem_bytes = INT64_MAX / 4;
    large.device = &endless;
    large.n_nodes = 65536;
    return cs_search_check_runs(&plan, spec, graph, &large, NULL, NULL) == CS_OK;
}

void cs_search_restrict(const struct cs_spec *spec, const struct cs_graph *graph,
                        const struct cs_cluster *cluster, struct cs_search_options *options)
{
    options->has_one_dp = true; /* until an encoder may have its own */
    for (int32_t b = 0; b < graph->n_branches && b < CS_SEARCH_MAX_BRANCHES; b++) {
        if (options->fix[b].tp == 0 &&
            !may_have(spec, graph, cluster, b, (struct cs_rank_shape){2, 1, 1, 0}))
            options->fix[b].tp = 1;
        if (options->fix[b].cp == 0 &&
            !may_have(spec, graph, cluster, b, (struct cs_rank_shape){1, 2, 1, 0}))
            options->fix[b].cp = 1;
        if (options->fix[b].ep == 0 &&
            !may_have(spec, graph, cluster, b, (struct cs_rank_shape){1, 1, 2, 0}))
            options->fix[b].ep = 1;
        if (b != graph->llm &&
            may_have(spec, graph, cluster, b, (struct cs_rank_shape){1, 1, 1, 2}))
            options->has_one_dp = false;
    }
}
