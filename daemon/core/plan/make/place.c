/* From cuts to stages on ranks, and which counts of stages a placement allows. */
#include "core/plan/make/place.h"

#include <string.h>

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

static enum cs_status refuse_schedule(const struct cs_schedule_info *schedule,
                                      const struct cs_placement_info *place, const char *branch,
                                      struct cs_err *err)
{
    const struct cs_placement_info *only =
        &cs_placement_table[cs_placement_of_layout(schedule->layout)];
    if (branch != NULL)
        return cs_fail(err, CS_PLAN,
                       "schedule %s (%s) does not go with plan.parallel.%s.place \"%s\"; choose "
                       "\"%s\", or schedule 1f1b, gpipe or zb-h1",
                       schedule->name, schedule->help, branch, place->name, only->name);
    return cs_fail(err, CS_PLAN,
                   "schedule %s (%s) does not go with modality %s; choose %s, or schedule "
                   "1f1b, gpipe or zb-h1",
                   schedule->name, schedule->help, place->modality, only->modality);
}

static bool goes_with(const struct cs_placement_info *place,
                      const struct cs_schedule_info *schedule)
{
    return (place->layouts >> schedule->layout & 1u) != 0;
}

static int32_t depth_of(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    return given != NULL ? given->pp : 1;
}

/* A whole encoder on the ranks of several stages of the LLM has a copy on each, as under schedules of copies. */
static enum cs_status place_branch(const struct cs_spec *spec, const struct cs_graph *graph,
                                   int32_t b, struct cs_placing *out, struct cs_err *err)
{
    const char *name = graph->branches[b].name, *llm = graph->branches[graph->llm].name;
    const struct cs_placement_info *place = cs_spec_placement(spec, name);
    out->place[b] = &cs_placement_table[CS_PLACE_OWN];
    if (b == graph->llm && place != out->usual && place->id != CS_PLACE_OWN)
        return cs_fail(err, CS_PLAN,
                       "plan.parallel.%s.place: the LLM has ranks of its own; place encoders", llm);
    if (b == graph->llm)
        return CS_OK;
    out->place[b] = place;
    if (!goes_with(place, out->schedule))
        return refuse_schedule(out->schedule, place, name, err);
    out->shares[b] =
        place->cut == CS_CUT_AS_LLM && (out->schedule->layout == CS_LAYOUT_COLOCATED ||
                                        (depth_of(spec, name) == 1 && depth_of(spec, llm) > 1));
    out->copies[b] = out->shares[b] || place->cut == CS_CUT_COPIES;
    return CS_OK;
}

static enum cs_status choose_chunks(const struct cs_spec *spec, const struct cs_graph *graph,
                                    struct cs_placing *out, struct cs_err *err)
{
    const bool is_cut = out->schedule->layout == CS_LAYOUT_CHUNKS;
    out->chunks = is_cut ? CS_PLAN_CHUNKS : 1;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const char *name = graph->branches[b].name;
        const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, name);
        const int32_t vpp = given != NULL ? given->vpp : 0;
        if (vpp > 1 && b != graph->llm)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.vpp = %d: only stages of %s are cut in chunks; leave "
                           "vpp away",
                           name, vpp, graph->branches[graph->llm].name);
        if (vpp > 0 && b == graph->llm && (vpp > 1) != is_cut)
            return cs_fail(err, CS_PLAN,
                           "plan.parallel.%s.vpp = %d: schedule %s has %s; choose schedule %s, or "
                           "leave vpp away",
                           name, vpp, out->schedule->name,
                           is_cut ? "2 chunks of a stage or more" : "no chunks",
                           is_cut ? "1f1b" : "interleaved");
        if (vpp > 1)
            out->chunks = vpp;
    }
    return CS_OK;
}

/* Where every encoder says its own place, nothing is placed by plan.modality. */
static bool follows_modality(const struct cs_spec *spec, const struct cs_graph *graph)
{
    bool follows = graph->n_encoders == 0;
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, graph->branches[b].name);
        follows = follows || (b != graph->llm && (given == NULL || given->place == NULL ||
                                                  strcmp(given->place, CS_PLACE_DEFAULT) == 0));
    }
    return follows;
}

enum cs_status cs_placing_make(const struct cs_spec *spec, const struct cs_graph *graph,
                               struct cs_placing *out, struct cs_err *err)
{
    *out = (struct cs_placing){.usual = cs_placement_of_modality(spec->modality),
                               .n_branches = graph->n_branches,
                               .llm = graph->llm,
                               .cp = 1,
                               .ep = 1};
    CS_TRY(cs_plan_schedule_find(spec->schedule, &out->schedule, err));
    if (out->usual == NULL)
        return refuse_modality(spec->modality, err);
    if (follows_modality(spec, graph) && !goes_with(out->usual, out->schedule))
        return refuse_schedule(out->schedule, out->usual, NULL, err);
    for (int32_t b = 0; b < graph->n_branches; b++)
        CS_TRY(place_branch(spec, graph, b, out, err));
    return choose_chunks(spec, graph, out, err);
}

struct cs_placing_words cs_placing_words(const struct cs_placing *placing, int32_t branch)
{
    const struct cs_placement_info *place = placing->place[branch],
                                   *own = &cs_placement_table[CS_PLACE_OWN];
    return place == placing->usual
               ? (struct cs_placing_words){"modality", place->modality, own->modality}
               : (struct cs_placing_words){"place", place->name, own->name};
}

bool cs_placing_has_copies(const struct cs_placing *placing)
{
    for (int32_t b = 0; b < placing->n_branches; b++)
        if (placing->copies[b])
            return true;
    return false;
}

static enum cs_status check_copies(const struct cs_graph *graph, const struct cs_placing *placing,
                                   const struct cs_cuts *cuts, int32_t b, struct cs_err *err)
{
    if (cuts->n_stages[b] == 1)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "%s under %s puts a whole copy of %s on each rank of %s, but it has pp "
                   "= %d; set plan.parallel.%s.pp = 1",
                   placing->place[b]->modality, placing->schedule->name, graph->branches[b].name,
                   graph->branches[graph->llm].name, cuts->n_stages[b], graph->branches[b].name);
}

static enum cs_status check_as_llm(const struct cs_graph *graph, const struct cs_placing *placing,
                                   const struct cs_cuts *cuts, int32_t b, struct cs_err *err)
{
    const int32_t llm = graph->llm;
    if (cuts->n_stages[b] == cuts->n_stages[llm])
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "%s puts stage s of every branch on rank s, but %s has pp "
                   "= %d and %s has pp = %d; give all branches the same pp, or %s 1 for a whole "
                   "copy on every rank, or choose encoder-parallel",
                   placing->place[b]->modality, graph->branches[b].name, cuts->n_stages[b],
                   graph->branches[llm].name, cuts->n_stages[llm], graph->branches[b].name);
}

static enum cs_status check_once(const struct cs_graph *graph, const struct cs_placing *placing,
                                 const struct cs_cuts *cuts, int32_t b, struct cs_err *err)
{
    if (cuts->n_stages[b] == 1)
        return CS_OK;
    return cs_fail(err, CS_PLAN,
                   "%s puts all of %s on the first rank of the LLM, but it has pp "
                   "= %d; set plan.parallel.%s.pp = 1, or choose encoder-parallel",
                   placing->place[b]->modality, graph->branches[b].name, cuts->n_stages[b],
                   graph->branches[b].name);
}

static enum cs_status check_counts(const struct cs_graph *graph, const struct cs_placing *placing,
                                   const struct cs_cuts *cuts, struct cs_err *err)
{
    if (graph->n_encoders == 0 &&
        (placing->usual->cut == CS_CUT_COPIES || placing->schedule->layout == CS_LAYOUT_COLOCATED))
        return cs_fail(err, CS_PLAN,
                       "%s under %s copies encoders to the ranks of the LLM, and the model has "
                       "none; choose encoder-parallel with 1f1b",
                       placing->usual->modality, placing->schedule->name);
    for (int32_t b = 0; b < graph->n_branches; b++) {
        if (placing->copies[b])
            CS_TRY(check_copies(graph, placing, cuts, b, err));
        else if (placing->place[b]->cut == CS_CUT_AS_LLM)
            CS_TRY(check_as_llm(graph, placing, cuts, b, err));
        else if (placing->place[b]->cut == CS_CUT_ONCE)
            CS_TRY(check_once(graph, placing, cuts, b, err));
    }
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
                         int32_t base, int32_t copies, struct cs_arena *arena, struct cs_plan *plan)
{
    for (int32_t r = 0; r < copies; r++) {
        struct cs_stage *stage =
            add_stage(plan, graph, b, r, base + r, shape_of(placing, b, 1), arena);
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

static void place_shares(const struct cs_placing *placing, int32_t copies, struct cs_arena *arena,
                         struct cs_plan *plan)
{
    struct cs_slot_share *share = CS_NEW_ARRAY(arena, struct cs_slot_share, plan->n_stages);
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (placing->shares[plan->stages[s].branch]) {
            share[s] = (struct cs_slot_share){copies, plan->stages[s].index};
            plan->share = share;
        }
}

/* Encoders with ranks of their own have the first ones, the LLM those behind them. */
enum cs_status cs_place_stages(const struct cs_graph *graph, const struct cs_placing *placing,
                               const struct cs_cuts *cuts, struct cs_arena *arena,
                               struct cs_plan *plan, struct cs_err *err)
{
    const int32_t llm = graph->llm, p = cuts->n_stages[llm] / placing->chunks;
    int32_t n = 0, of_llm = 0, next = 0;
    CS_TRY(check_counts(graph, placing, cuts, err));
    for (int32_t b = 0; b < graph->n_branches; b++) {
        n += placing->copies[b] ? p : cuts->n_stages[b];
        of_llm += b != llm && placing->place[b]->has_own_ranks ? cuts->n_stages[b] : 0;
    }
    plan->n_stages = plan->n_ranks = 0;
    plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, n);
    for (int32_t b = 0; b < graph->n_branches; b++) {
        const bool is_own = b != llm && placing->place[b]->has_own_ranks;
        if (placing->copies[b])
            place_copies(graph, placing, b, of_llm, p, arena, plan);
        else
            place_cut(graph, placing, cuts, b, is_own ? next : of_llm, arena, plan);
        next += is_own ? cuts->n_stages[b] : 0;
    }
    place_shares(placing, p, arena, plan);
    cs_plan_number_ranks(plan, arena);
    return CS_OK;
}
