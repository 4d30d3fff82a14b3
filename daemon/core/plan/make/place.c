/* From cuts to stages on ranks, and which counts of stages a placement allows. */
#include "core/plan/make/place.h"

#include "core/base/buf.h"

int32_t cs_place_depth(const struct cs_graph *graph, const struct cs_cuts *cuts, int32_t branch,
                       int32_t index)
{
    int32_t own = cuts->n_stages[branch] - index - 1;
    return graph->branches[branch].encoder < 0 ? own : own + cuts->n_stages[graph->llm];
}

static enum cs_status refuse_modality(const char *modality, struct cs_err *err)
{
    struct cs_buf list = {0};
    for (int i = 0; i < CS_PLACEMENTS; i++)
        cs_buf_addf(&list, "%s%s", i > 0 ? ", " : "", cs_placement_table[i].modality);
    const enum cs_status status =
        cs_fail(err, CS_PLAN, "plan.modality \"%s\" is not known; accepted: %s", modality,
                cs_buf_str(&list));
    cs_buf_free(&list);
    return status;
}

enum cs_status cs_placing_make(const char *modality, const struct cs_schedule_info *schedule,
                               struct cs_placing *out, struct cs_err *err)
{
    const struct cs_placement_info *placement = cs_placement_of_modality(modality);
    if (placement == NULL)
        return refuse_modality(modality, err);
    *out = (struct cs_placing){.placement = placement,
                               .schedule = schedule,
                               .chunks = schedule->layout == CS_LAYOUT_CHUNKS ? CS_PLAN_CHUNKS : 1,
                               .cp = 1,
                               .ep = 1};
    if ((placement->layouts >> schedule->layout & 1u) == 0)
        return cs_fail(err, CS_PLAN,
                       "schedule %s (%s) does not go with modality %s; choose %s, or schedule "
                       "1f1b, gpipe or zb-h1",
                       schedule->name, schedule->help, modality,
                       cs_placement_table[cs_placement_of_layout(schedule->layout)].modality);
    return CS_OK;
}

bool cs_placing_copies(const struct cs_placing *placing)
{
    return placing->placement->cut == CS_CUT_COPIES ||
           placing->schedule->layout == CS_LAYOUT_COLOCATED;
}

static enum cs_status check_copies(const struct cs_graph *graph, const struct cs_placing *placing,
                                   const struct cs_cuts *cuts, struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (b != graph->llm && cuts->n_stages[b] != 1)
            return cs_fail(err, CS_PLAN,
                           "%s under %s puts a whole copy of %s on each rank of %s, but it has pp "
                           "= %d; set plan.parallel.%s.pp = 1",
                           placing->placement->modality, placing->schedule->name,
                           graph->branches[b].name, graph->branches[graph->llm].name,
                           cuts->n_stages[b], graph->branches[b].name);
    if (graph->n_encoders == 0)
        return cs_fail(err, CS_PLAN,
                       "%s under %s copies encoders to the ranks of the LLM, and the model has "
                       "none; choose encoder-parallel with 1f1b",
                       placing->placement->modality, placing->schedule->name);
    return CS_OK;
}

static enum cs_status check_as_llm(const struct cs_graph *graph,
                                   const struct cs_placement_info *placement,
                                   const struct cs_cuts *cuts, struct cs_err *err)
{
    int32_t llm = graph->llm;
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (cuts->n_stages[b] != cuts->n_stages[llm])
            return cs_fail(err, CS_PLAN,
                           "%s puts stage s of every branch on rank s, but %s has pp "
                           "= %d and %s has pp = %d; give all branches the same pp, or choose "
                           "encoder-parallel",
                           placement->modality, graph->branches[b].name, cuts->n_stages[b],
                           graph->branches[llm].name, cuts->n_stages[llm]);
    return CS_OK;
}

static enum cs_status check_once(const struct cs_graph *graph,
                                 const struct cs_placement_info *placement,
                                 const struct cs_cuts *cuts, struct cs_err *err)
{
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (b != graph->llm && cuts->n_stages[b] != 1)
            return cs_fail(err, CS_PLAN,
                           "%s puts all of %s on the first rank of the LLM, but it has pp "
                           "= %d; set plan.parallel.%s.pp = 1, or choose encoder-parallel",
                           placement->modality, graph->branches[b].name, cuts->n_stages[b],
                           graph->branches[b].name);
    return CS_OK;
}

/* one stage of a branch, its layers first .. first + n */
static struct cs_stage *add_stage(struct cs_plan *plan, const struct cs_graph *graph, int32_t b,
                                  int32_t index, int32_t rank, struct cs_rank_shape shape,
                                  struct cs_arena *arena)
{
    struct cs_stage *stage = &plan->stages[plan->n_stages];
    *stage =
        (struct cs_stage){.name = cs_arena_printf(arena, "%s.%d", graph->branches[b].name, index),
                          .id = plan->n_stages++,
                          .branch = b,
                          .index = index,
                          .rank = rank,
                          .shape = shape};
    if (rank >= plan->n_ranks)
        plan->n_ranks = rank + 1;
    return stage;
}

static struct cs_rank_shape shape_of(const struct cs_placing *placing, int32_t b, int32_t ep)
{
    return (struct cs_rank_shape){
        .tp = placing->tp[b], .cp = placing->branch_cp[b], .ep = ep, .dp = placing->dp[b]};
}

static void place_copies(const struct cs_graph *graph, const struct cs_placing *placing, int32_t b,
                         int32_t copies, struct cs_arena *arena, struct cs_plan *plan)
{
    for (int32_t r = 0; r < copies; r++) {
        struct cs_stage *stage = add_stage(plan, graph, b, r, r, shape_of(placing, b, 1), arena);
        stage->first_layer = graph->branches[b].first_layer;
        stage->n_layers = graph->branches[b].n_layers;
        stage->copies = copies;
    }
}

static void place_cut(const struct cs_graph *graph, const struct cs_placing *placing,
                      const struct cs_cuts *cuts, int32_t b, int32_t base, struct cs_arena *arena,
                      struct cs_plan *plan)
{
    int32_t layer = graph->branches[b].first_layer;
    int32_t ranks = b == graph->llm ? cuts->n_stages[b] / placing->chunks : cuts->n_stages[b];
    const int32_t ep = b == graph->llm ? placing->ep : 1;
    for (int32_t s = 0; s < cuts->n_stages[b]; s++) {
        struct cs_stage *stage =
            add_stage(plan, graph, b, s, base + s % ranks, shape_of(placing, b, ep), arena);
        stage->splits_rows = placing->sp[b];
        stage->first_layer = layer;
        stage->n_layers = cuts->sizes[b][s];
        layer += stage->n_layers;
    }
}

static void place_shares(const struct cs_graph *graph, int32_t copies, struct cs_arena *arena,
                         struct cs_plan *plan)
{
    struct cs_slot_share *share = CS_NEW_ARRAY(arena, struct cs_slot_share, plan->n_stages);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (graph->branches[plan->stages[s].branch].encoder >= 0)
            share[s] = (struct cs_slot_share){copies, plan->stages[s].index};
    plan->share = share;
}

enum cs_status cs_place_stages(const struct cs_graph *graph, const struct cs_placing *placing,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err)
{
    int32_t llm = graph->llm, p = cuts->n_stages[llm] / placing->chunks, n = 0;
    bool has_copies = cs_placing_copies(placing);
    if (has_copies)
        CS_TRY(check_copies(graph, placing, cuts, err));
    else if (placing->placement->cut == CS_CUT_AS_LLM)
        CS_TRY(check_as_llm(graph, placing->placement, cuts, err));
    else if (placing->placement->cut == CS_CUT_ONCE)
        CS_TRY(check_once(graph, placing->placement, cuts, err));
    for (int32_t b = 0; b < graph->n_branches; b++)
        n += has_copies && b != llm ? p : cuts->n_stages[b];
    plan->n_stages = plan->n_ranks = 0;
    plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, n);
    for (int32_t b = 0; b < graph->n_branches; b++) {
        bool is_own = placing->placement->has_own_ranks;
        if (has_copies && b != llm)
            place_copies(graph, placing, b, p, arena, plan);
        else
            place_cut(graph, placing, cuts, b, is_own ? plan->n_ranks : 0, arena, plan);
    }
    if (placing->schedule->layout == CS_LAYOUT_COLOCATED)
        place_shares(graph, p, arena, plan);
    cs_plan_number_ranks(plan, arena);
    return CS_OK;
}
