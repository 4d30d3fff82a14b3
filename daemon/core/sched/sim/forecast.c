/* Makes values for views of a simulated step. */
#include "core/sched/sim/forecast.h"

#include <string.h>

#include "core/sched/proof/kept.h"
#include "core/sched/sim/count.h"
#include "core/sched/sim/memory_curve.h"
#include "core/sched/sim/predict.h"
#include "core/sched/sim/run.h"

static const char *const names[] = {

#define X(held, name) name,
    CS_HELD_TABLE(X)
#undef X
};

const char *cs_held_name(enum cs_held held)
{
    return (unsigned)held < CS_HELD_COUNT ? names[held] : "?";
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void list_actions(const struct cs_sim_run *run, int32_t r, struct cs_arena *arena,
                         struct cs_forecast_rank *out)
{
    const struct cs_rank_program *rp = &run->repeat.program->rank[r];
    out->n_actions = rp->n_actions;
    out->action = CS_NEW_ARRAY(arena, struct cs_forecast_action, (size_t)rp->n_actions + 1);
    for (uint32_t i = 0; i < rp->n_actions; i++) {
        const struct cs_action *a = &rp->actions[i];
        uint32_t node = run->graph.base[r] + i;
        out->action[i] = (struct cs_forecast_action){.start_ns = (int64_t)run->result.start[node],
                                                     .end_ns = (int64_t)run->result.end[node],
                                                     .id = i,
                                                     .op = a->op,
                                                     .is_grad = a->is_grad,
                                                     .lead = a->lead,
                                                     .stage = a->stage,
                                                     .edge = a->edge,
                                                     .peer = a->peer,
                                                     .slot = a->slot};
    }
}

/* Copies need what the ranks of the original need. */
static void fill_memory(const struct cs_sim_run *run, const struct cs_needs_of *of,
                        struct cs_arena *arena, struct cs_arena *scratch,
                        struct cs_forecast_rank *rank)
{
    const struct cs_program *one = run->repeat.original;
    const int32_t n_stages = one->plan->n_stages;
    const int64_t *held = cs_needs_held(of, scratch);
    int64_t *of_all = CS_NEW_ARRAY(scratch, int64_t, run->repeat.program->plan->n_stages + 1);
    for (int32_t s = 0; held && s < run->repeat.program->plan->n_stages; s++)
        of_all[s] = held[s % n_stages];
    cs_memory_curves(run, held ? of_all : NULL, of->element, scratch, arena, rank);
    const struct cs_kept_of kept_of = cs_program_kept_of(one, held, scratch);
    struct cs_needs_of all = *of;
    int32_t *n_buffers = CS_NEW_ARRAY(scratch, int32_t, 2 * (size_t)one->plan->n_edges + 1);
    const struct cs_buffers buffers = cs_program_buffers(one, scratch);
    cs_buffers_count(&buffers, n_buffers);
    all.n_buffers = n_buffers;
    for (int32_t r = 0; r < one->n_ranks; r++) {
        const int64_t kept = cs_program_kept_bytes(one, &kept_of, r, NULL, scratch);
        const struct cs_rank_needs needs = cs_rank_needs(&all, r, kept);
        for (int32_t k = r; k < run->repeat.program->n_ranks; k += one->n_ranks)
            rank[k].needs = needs;
    }
}

static void fill_ranks(const struct cs_sim_run *run, const struct cs_needs_of *of,
                       struct cs_arena *arena, struct cs_arena *scratch, struct cs_forecast *out,
                       struct cs_engine_rank *counted)
{
    double makespan = run->result.makespan;
    out->n_ranks = run->repeat.program->n_ranks;
    out->rank = CS_NEW_ARRAY(arena, struct cs_forecast_rank, (size_t)out->n_ranks + 1);
    cs_engine_ranks(&run->graph, &run->result, scratch, counted);
    fill_memory(run, of, arena, scratch, out->rank);
    double busy = 0;
    for (int32_t r = 0; r < out->n_ranks; r++) {
        struct cs_forecast_rank *rank = &out->rank[r];
        list_actions(run, r, arena, rank);
        rank->busy_ns = (int64_t)counted[r].busy;
        rank->first_ns = (int64_t)counted[r].first;
        rank->last_ns = (int64_t)counted[r].last;
        rank->span_idle_ns = (int64_t)counted[r].span_idle;
        rank->exposed_ns = (int64_t)counted[r].exposed;
        rank->bubble = 1 - share(counted[r].busy, makespan);
        rank->span_bubble = share(counted[r].span_idle, counted[r].last - counted[r].first);
        busy += counted[r].busy;
    }
    out->bubble = 1 - share(busy, out->n_ranks * makespan);
}

static void fill_stages(const struct cs_sim_run *run, struct cs_arena *arena,
                        struct cs_arena *scratch, struct cs_forecast *out)
{
    const struct cs_plan *plan = run->repeat.program->plan;
    int32_t n = out->n_stages = plan->n_stages;
    struct cs_engine_count *count = CS_NEW_ARRAY(scratch, struct cs_engine_count, n + 1);
    int32_t *group = CS_NEW_ARRAY(scratch, int32_t, n + 1);
    for (int32_t s = 0; s < n; s++)
        group[s] = s;
    cs_engine_count(&run->graph, &run->result, group, n, scratch, count);
    out->stage = CS_NEW_ARRAY(arena, struct cs_forecast_stage, n + 1);
    for (int32_t s = 0; s < n; s++) {
        const struct cs_engine_count *c = &count[s];
        out->stage[s] = (struct cs_forecast_stage){
            .name = plan->stages[s].name,
            .rank = plan->stages[s].rank,
            .branch = plan->stages[s].branch,
            .fwd_ns = (int64_t)c->fwd,
            .bwd_ns = (int64_t)(c->busy - c->fwd),
            .busy_ns = (int64_t)c->busy,
            .exposed_ns = (int64_t)c->exposed,
            .span_idle_ns = (int64_t)c->span_idle,
            .peak = c->peak,
            .bubble = 1 - share(c->busy, run->result.makespan),
            .span_bubble = share(c->span_idle, c->first < 0 ? 0 : c->last - c->first)};
    }
}

static void fill_modules(const struct cs_sim_run *run, const struct cs_engine_rank *counted,
                         struct cs_arena *arena, struct cs_arena *scratch, struct cs_forecast *out)
{
    const struct cs_plan *plan = run->repeat.program->plan;
    double *bubble =
        cs_engine_modules(plan, counted, run->result.makespan, scratch, &out->n_modules);
    out->module = CS_NEW_ARRAY(arena, struct cs_forecast_module, out->n_modules + 1);
    for (int32_t m = 0; m < out->n_modules; m++) {
        bool *seen = CS_NEW_ARRAY(scratch, bool, plan->n_ranks + 1);
        out->module[m] = (struct cs_forecast_module){.branch = m, .bubble = bubble[m]};
        for (int32_t s = 0; s < plan->n_stages; s++) {
            if (plan->stages[s].branch != m || seen[plan->stages[s].rank])
                continue;
            seen[plan->stages[s].rank] = true;
            out->module[m].n_ranks++;
        }
    }
}

static void fill_critical(const struct cs_sim_run *run, struct cs_arena *arena,
                          struct cs_forecast *out)
{
    out->n_critical = run->result.n_critical;
    out->critical = CS_NEW_ARRAY(arena, struct cs_forecast_step, (size_t)out->n_critical + 1);
    for (int32_t i = 0; i < out->n_critical; i++) {
        const struct cs_engine_step *step = &run->result.critical[i];
        out->critical[i] = (struct cs_forecast_step){step->rank, step->action};
        out->rank[step->rank].action[step->action].is_critical = true;
    }
}

enum cs_status cs_forecast_with_needs(const struct cs_program *program,
                                      const struct cs_sim_options *options,
                                      const struct cs_needs_of *of, struct cs_arena *arena,
                                      struct cs_forecast *out, struct cs_err *err)
{
    struct cs_arena *scratch = cs_arena_new(0);
    struct cs_sim_run run;
    enum cs_status status = cs_sim_run(program, options, scratch, &run, err);
    if (status == CS_OK) {
        struct cs_engine_rank *counted =
            CS_NEW_ARRAY(scratch, struct cs_engine_rank, (size_t)run.repeat.program->n_ranks + 1);
        *out = (struct cs_forecast){.makespan_ns = (int64_t)run.result.makespan,
                                    .n_slots = program->n_slots};
        memcpy(out->program_hash, program->hash, sizeof out->program_hash);
        fill_ranks(&run, of, arena, scratch, out, counted);
        fill_stages(&run, arena, scratch, out);
        fill_modules(&run, counted, arena, scratch, out);
        fill_critical(&run, arena, out);
    }
    cs_arena_free(scratch);
    return status;
}

enum cs_status cs_forecast_program(const struct cs_program *program,
                                   const struct cs_sim_options *options, int element_bytes,
                                   struct cs_arena *arena, struct cs_forecast *out,
                                   struct cs_err *err)
{
    const struct cs_needs_of of = {.plan = program->plan,
                                   .element = element_bytes > 0 ? element_bytes : 4};
    return cs_forecast_with_needs(program, options, &of, arena, out, err);
}

double *cs_forecast_rank_bubbles(const struct cs_forecast *f, struct cs_arena *arena)
{
    double *bubble = CS_NEW_ARRAY(arena, double, f->n_ranks + 1);
    for (int32_t r = 0; r < f->n_ranks; r++)
        bubble[r] = 1;
    for (int32_t s = 0; s < f->n_stages; s++)
        bubble[f->stage[s].rank] -= 1 - f->stage[s].bubble;
    return bubble;
}

double cs_plan_mean_bubble(const struct cs_plan *plan, const double *stage_bubble)
{
    double busy = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        busy += (1 - stage_bubble[s]) * cs_plan_stage_ranks(plan, s);
    return 1 - busy / cs_plan_replica_ranks(plan);
}

double cs_plan_rank_bubble(const struct cs_plan *plan, const double *stage_bubble, int32_t rank)
{
    double bubble = 1;
    for (int32_t s = 0; s < plan->n_stages; s++)
        if (plan->stages[s].rank == rank)
            bubble -= 1 - stage_bubble[s];
    return bubble < 0 ? 0 : bubble;
}

struct cs_forecast_figures cs_forecast_figures(const struct cs_forecast *f,
                                               const struct cs_plan *plan, struct cs_arena *arena)
{
    struct cs_forecast_figures out = {.step_ns = f->makespan_ns};
    double *bubble = CS_NEW_ARRAY(arena, double, f->n_stages + 1);
    for (int32_t s = 0; s < f->n_stages; s++)
        bubble[s] = f->stage[s].bubble;
    out.bubble = cs_plan_mean_bubble(plan, bubble);
    for (int32_t r = 0; r < f->n_ranks; r++) {
        const int64_t bytes = cs_rank_needs_bytes(&f->rank[r].needs);
        if (bytes <= out.peak_bytes)
            continue;
        out.peak_bytes = bytes;
        out.peak_rank = r;
    }
    return out;
}
