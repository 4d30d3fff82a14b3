/* Bisection over simulated steps: they grow with what a message takes. */
#include "core/sched/sim/waits.h"

#include <stdlib.h>

enum { HALVINGS = 24, WORTH = 200 }; /* a remainder below one WORTH-th of a step is none */

struct fit {
    struct cs_measured *m;
    const struct cs_program *program;
    int32_t cores;
};

/* with hop_ns and rest_ns as they are */
static enum cs_status simulate(const struct fit *f, int64_t *step_ns, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_sim_result result;
    const struct cs_sim_options options = {
        .cost = cs_measured_sim_cost, .user = f->m, .cores = f->cores};
    const enum cs_status status = cs_simulate(f->program, &options, arena, &result, err);
    *step_ns = status == CS_OK ? result.makespan_ns : 0;
    cs_arena_free(arena);
    return status;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t cs_measured_step_ns(const struct cs_measured *m)
{
    int64_t sorted[CS_CALIBRATE_STEPS];
    for (int32_t i = 0; i < m->n_noted; i++)
        sorted[i] = m->noted_ns[i];
    qsort(sorted, (size_t)m->n_noted, sizeof *sorted, by_value);
    return m->n_noted > 0 ? sorted[(m->n_noted - 1) / 4]
                          : 0; /* while the feeder fills its slots they are longer */
}

/* that part of what actions of shared stages did not compute */
static void wait_inside(const struct fit *f, double part)
{
    const struct cs_plan *plan = f->program->plan;
    for (int32_t s = 0; s < f->m->n_stages; s++)
        for (int op = 0; op < CS_OP_COUNT; op++) {
            struct cs_measured_cost *cost = &f->m->row[s][op];
            const int64_t most = cost->wall_us - cost->cpu_us;
            const bool is_shared = cs_plan_width(plan, plan->stages[s].rank) > 1;
            cost->inside_us = is_shared && most > 0 ? (int64_t)(part * (double)most) : 0;
        }
}

/* The most of it that does not make the step longer than it is: so much that nothing is left (is_all: false), or all of
 * it. */
static enum cs_status fit_inside(const struct fit *f, int64_t target, int64_t *step_ns,
                                 bool *is_all, struct cs_err *err)
{
    double low = 0, high = 1;
    wait_inside(f, 1);
    CS_TRY(simulate(f, step_ns, err));
    *is_all = *step_ns <= target;
    if (*is_all)
        return CS_OK;
    for (int i = 0; i < HALVINGS; i++) {
        const double part = (low + high) / 2;
        wait_inside(f, part);
        CS_TRY(simulate(f, step_ns, err));
        *(*step_ns <= target ? &low : &high) = part;
    }
    wait_inside(f, low);
    return simulate(f, step_ns, err);
}

/* the most that a message may take without making the step longer than it is */
static enum cs_status fit_hops(const struct fit *f, int64_t target, int64_t *step_ns,
                               struct cs_err *err)
{
    int64_t low = 0, high = target;
    for (int i = 0; i < HALVINGS; i++) {
        f->m->hop_ns = low + (high - low) / 2;
        CS_TRY(simulate(f, step_ns, err));
        *(*step_ns <= target ? &low : &high) = f->m->hop_ns;
    }
    f->m->hop_ns = low;
    return simulate(f, step_ns, err);
}

enum cs_status cs_measured_fit_waits(struct cs_measured *m, const struct cs_program *program,
                                     int32_t cores, struct cs_err *err)
{
    const struct fit f = {.m = m, .program = program, .cores = cores};
    const int64_t target = cs_measured_step_ns(m);
    int64_t step_ns = 0, with_hops;
    bool is_all;
    m->hop_ns = m->rest_ns = 0;
    wait_inside(&f, 0);
    CS_TRY(simulate(&f, &step_ns, err));
    if (step_ns >= target)
        return CS_OK;
    CS_TRY(fit_inside(&f, target, &step_ns, &is_all, err));
    if (!is_all)
        return CS_OK;
    m->hop_ns = target;
    CS_TRY(simulate(&f, &with_hops, err));
    if (with_hops > step_ns)
        CS_TRY(fit_hops(&f, target, &step_ns, err));
    else
        m->hop_ns = 0; /* there are no messages */
    if (target - step_ns > target / WORTH)
        m->rest_ns = target - step_ns;
    return CS_OK;
}
