/* Simulates experiments. Sums and products stand in statements of their own, so that
 * no compiler fuses them. */
#include <math.h>
#include <string.h>

#include "core/base/philox.h"
#include "core/sched/sim/count.h"
#include "core/sched/sim/lab.h"
#include "core/sched/sim/repeat.h"
#include "core/sched/traits.h"

struct simulation {
    const struct cs_lab *lab;
    const struct cs_lab_inputs *in;
    struct cs_repeat repeat;
    struct cs_precedence graph;
    struct cs_engine_result run;
    struct cs_arena *scratch, *arena;
    struct cs_lab_result *out;
};

static double plain_cost(const struct cs_lab *lab, const struct cs_action *a)
{
    const enum cs_op op = (enum cs_op)a->op;
    double cost = op == CS_OP_SEND ? lab->hop : 0;
    if (cs_op_does(op, CS_PART_FORWARD))
        cost = lab->fwd[a->stage];
    if (cs_op_does(op, CS_PART_INPUT))
        cost += lab->bwd[a->stage];
    if (cs_op_does(op, CS_PART_WEIGHT))
        cost += lab->wgrad[a->stage];
    return cost;
}

static double lab_cost(void *user, const struct cs_program *program, int rank,
                       const struct cs_action *action)
{
    const struct simulation *s = user;
    const struct cs_lab_inputs *in = s->in;
    struct cs_repeat_origin at = cs_repeat_origin(&s->repeat, rank, action->id);
    int32_t world = cs_plan_repeated(s->repeat.original->plan, at.copy, at.rank);
    double cost = plain_cost(s->lab, at.action);
    (void)program;
    if (at.action->stage >= 0 && at.action->op != CS_OP_SEND) {
        cost *= in->rank_factor ? in->rank_factor[world] : 1;
        cost *= in->stage_factor ? in->stage_factor[s->lab->stage_of[at.action->stage]] : 1;
    }
    if (in->jitter > 0) {
        double drawn = 2 * cs_philox_uniform(in->seed, (uint64_t)world, at.action->id);
        double part = drawn - 1;
        double change = in->jitter * part;
        double factor = 1 + change;
        cost *= factor;
    }
    return cost;
}

static double lab_latency(void *user, const struct cs_program *program, int rank,
                          const struct cs_action *action)
{
    const struct simulation *s = user;
    (void)program;
    (void)rank;
    (void)action;
    return s->in->latency;
}

static bool are_alike(void *user, int32_t a, int32_t b)
{
    const struct simulation *s = user;
    const double *factor = s->in->rank_factor;
    int32_t n = s->lab->program->n_ranks;
    for (int32_t r = 0; factor && r < n; r++)
        if (factor[a * n + r] < factor[b * n + r] || factor[a * n + r] > factor[b * n + r])
            return false;
    return true;
}

static bool is_factor(double value)
{
    return value >= 0 && value <= CS_LAB_FACTOR;
}

static enum cs_status check(const struct cs_lab *lab, const struct cs_lab_inputs *in,
                            int32_t copies, struct cs_err *err)
{
    int64_t n = (int64_t)copies * lab->program->n_ranks;
    if (copies < 1 || n > INT32_MAX / 2)
        return cs_fail(err, CS_INVALID, "%d copies of %d ranks: 1 copy to %d ranks", copies,
                       lab->program->n_ranks, INT32_MAX / 2);
    if (!(in->jitter >= 0 && in->jitter <= 1))
        return cs_fail(err, CS_INVALID, "jitter is %g: 0 to 1", in->jitter);
    if (!(in->latency >= 0 && in->latency <= lab->hop))
        return cs_fail(err, CS_INVALID, "latency is %g: 0 to the hop, %g", in->latency, lab->hop);
    if (in->ranks_per_node < 0 || in->ranks_per_nic < 0)
        return cs_fail(err, CS_INVALID, "ranks of a node and of a NIC are not negative");
    for (int64_t r = 0; in->rank_factor && r < n; r++)
        if (!is_factor(in->rank_factor[r]))
            return cs_fail(err, CS_INVALID, "factor of rank %lld is %g: 0 to 1e12", (long long)r,
                           in->rank_factor[r]);
    for (int32_t s = 0; in->stage_factor && s < lab->n_stages; s++)
        if (!is_factor(in->stage_factor[s]))
            return cs_fail(err, CS_INVALID, "factor of %s is %g: 0 to 1e12", lab->stage_name[s],
                           in->stage_factor[s]);
    for (int32_t s = 0; in->bytes && s < lab->n_stages; s++)
        if (!(in->bytes[s] >= 0) || isinf(in->bytes[s]))
            return cs_fail(err, CS_INVALID, "%s keeps %g bytes: finite and not negative",
                           lab->stage_name[s], in->bytes[s]);
    return CS_OK;
}

static const char *critical_text(const struct simulation *s, const struct cs_engine_step *step)
{
    const struct cs_plan *plan = s->lab->program->plan;
    struct cs_repeat_origin at = cs_repeat_origin(&s->repeat, step->rank, step->action);
    const struct cs_action *a = at.action;
    const char *letter = cs_program_letter((enum cs_op)a->op), *copy = "";
    if (s->repeat.n_classes > 1)
        copy = cs_arena_printf(s->arena, " (copy %d)", at.copy);
    if (a->edge < 0)
        return cs_arena_printf(s->arena, "%s%d %s%s", letter, a->slot, plan->stages[a->stage].name,
                               copy);
    const struct cs_edge *edge = &plan->edges[a->edge];
    return cs_arena_printf(s->arena, "%s%d %s -> %s%s", letter, a->slot,
                           plan->stages[a->is_grad ? edge->to : edge->from].name,
                           plan->stages[a->is_grad ? edge->from : edge->to].name, copy);
}

/* (n_classes * n plan stages) the lab's stage, counted through the classes */
static int32_t *groups(const struct simulation *s)
{
    int32_t n = s->lab->program->plan->n_stages, all = s->repeat.program->plan->n_stages;
    int32_t *group = CS_NEW_ARRAY(s->scratch, int32_t, all + 1);
    for (int32_t i = 0; i < all; i++)
        group[i] = i / n * s->lab->n_stages + s->lab->stage_of[i % n];
    return group;
}

static void new_results(const struct simulation *s, int32_t n)
{
    struct cs_lab_result *out = s->out;
    out->bubble = CS_NEW_ARRAY(s->arena, double, n);
    out->busy = CS_NEW_ARRAY(s->arena, double, n);
    out->peak = CS_NEW_ARRAY(s->arena, int32_t, n);
    out->left = CS_NEW_ARRAY(s->arena, int32_t, n);
    out->span_idle = CS_NEW_ARRAY(s->arena, double, n);
    out->exposed = CS_NEW_ARRAY(s->arena, double, n);
    out->stage_exposed = CS_NEW_ARRAY(s->arena, double, n);
    out->span_bubble = CS_NEW_ARRAY(s->arena, double, n);
}

static void count(const struct simulation *s)
{
    const struct cs_lab *lab = s->lab;
    int32_t n = lab->n_stages * s->repeat.n_classes, n_modules;
    struct cs_lab_result *out = s->out;
    struct cs_engine_count *stage = CS_NEW_ARRAY(s->scratch, struct cs_engine_count, n);
    struct cs_engine_rank *rank =
        CS_NEW_ARRAY(s->scratch, struct cs_engine_rank, s->repeat.program->n_ranks);
    cs_engine_count(&s->graph, &s->run, groups(s), n, s->scratch, stage);
    cs_engine_ranks(&s->graph, &s->run, s->scratch, rank);
    new_results(s, n);
    for (int32_t i = 0; i < n; i++) {
        int32_t copy = i / lab->n_stages;
        const struct cs_engine_rank *r =
            &rank[cs_plan_repeated(lab->program->plan, copy, lab->rank[i % lab->n_stages])];
        double span = r->last - r->first;
        out->busy[i] = stage[i].busy;
        out->peak[i] = stage[i].peak;
        out->left[i] = stage[i].left;
        out->bubble[i] = s->run.makespan > 0 ? 1 - r->busy / s->run.makespan : 0;
        out->span_idle[i] = r->span_idle;
        out->span_bubble[i] = span > 0 ? r->span_idle / span : 0;
        out->exposed[i] = r->exposed;
        out->stage_exposed[i] = stage[i].exposed;
    }
    out->module_bubble =
        cs_engine_modules(s->repeat.program->plan, rank, s->run.makespan, s->arena, &n_modules);
}

/* live slots of one stage over time; actions of a rank's compute stream follow each other */
static void draw_curve(const struct simulation *s, const struct cs_stage_traits *traits,
                       const int32_t *group, int32_t rank, int32_t stage)
{
    const struct cs_rank_program *rp = &s->repeat.program->rank[rank];
    double bytes = s->in->bytes[stage % s->lab->n_stages];
    struct cs_lab_point *point = CS_NEW_ARRAY(s->arena, struct cs_lab_point, rp->n_actions + 1);
    int32_t n = 1, live = 0;
    for (uint32_t i = 0; i < rp->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rp->actions[rp->fifo[CS_STREAM_COMPUTE][i]];
        int32_t change =
            a->stage >= 0 && group[a->stage] == stage ? cs_live_change(&traits[a->stage], a) : 0;
        uint32_t node = s->graph.base[rank] + a->id;
        double at = change > 0 ? s->run.start[node] : s->run.end[node];
        if (change == 0)
            continue;
        live += change;
        if (at > point[n - 1].at)
            n++;
        point[n - 1] = (struct cs_lab_point){at, live * bytes};
    }
    s->out->curve[stage] = point;
    s->out->n_points[stage] = n;
}

static void draw_curves(const struct simulation *s)
{
    const struct cs_program *program = s->repeat.program;
    int32_t n = s->lab->n_stages * s->repeat.n_classes;
    if (!s->in->bytes)
        return;
    const int32_t *group = groups(s);
    const struct cs_stage_traits *traits =
        cs_traits_make(program->plan, program->is_eval, program->share, s->scratch);
    s->out->curve = CS_NEW_ARRAY(s->arena, struct cs_lab_point *, n);
    s->out->n_points = CS_NEW_ARRAY(s->arena, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        draw_curve(s, traits, group,
                   cs_plan_repeated(s->lab->program->plan, i / s->lab->n_stages,
                                    s->lab->rank[i % s->lab->n_stages]),
                   i);
}

static void copy_classes(const struct simulation *s)
{
    size_t copies = (size_t)s->repeat.n_copies, classes = (size_t)s->repeat.n_classes;
    s->out->n_classes = s->repeat.n_classes;
    s->out->class_of = CS_NEW_ARRAY(s->arena, int32_t, copies);
    s->out->first = CS_NEW_ARRAY(s->arena, int32_t, classes);
    memcpy(s->out->class_of, s->repeat.class_of, copies * sizeof(int32_t));
    memcpy(s->out->first, s->repeat.first, classes * sizeof(int32_t));
}

static enum cs_status run(struct simulation *s, struct cs_err *err)
{
    const struct cs_lab_inputs *in = s->in;
    int32_t copies = in->copies == 0 ? 1 : in->copies, *node = NULL, *nic = NULL;
    bool is_each = in->is_full || in->jitter > 0 || in->ranks_per_node > 0;
    CS_TRY(check(s->lab, in, copies, err));
    s->repeat.original = s->lab->program;
    CS_TRY(cs_repeat_make(s->lab->program, copies, is_each ? NULL : are_alike, s, s->scratch,
                          &s->repeat, err));
    cs_precedence_build(s->repeat.program, s->scratch, &s->graph);
    if (in->ranks_per_node > 0) {
        int32_t n = s->repeat.program->n_ranks;
        node = CS_NEW_ARRAY(s->scratch, int32_t, n);
        nic = CS_NEW_ARRAY(s->scratch, int32_t, n);
        for (int32_t r = 0; r < n; r++) {
            node[r] = r / in->ranks_per_node;
            nic[r] = r / (in->ranks_per_nic > 0 ? in->ranks_per_nic : 1);
        }
    }
    struct cs_engine_input input = {
        .cost = lab_cost, .latency = lab_latency, .user = s, .node = node, .nic = nic};
    return cs_engine_run(&s->graph, &input, s->scratch, &s->run, err);
}

enum cs_status cs_lab_simulate_with(const struct cs_lab *lab, const struct cs_lab_inputs *inputs,
                                    struct cs_arena *arena, struct cs_lab_result *out,
                                    struct cs_err *err)
{
    struct simulation s = {
        .lab = lab, .in = inputs, .scratch = cs_arena_new(0), .arena = arena, .out = out};
    enum cs_status status = run(&s, err);
    if (status == CS_OK) {
        *out = (struct cs_lab_result){.makespan = s.run.makespan, .n_critical = s.run.n_critical};
        count(&s);
        draw_curves(&s);
        copy_classes(&s);
        out->critical = CS_NEW_ARRAY(arena, const char *, s.run.n_critical + 1);
        for (int32_t i = 0; i < s.run.n_critical; i++)
            out->critical[i] = critical_text(&s, &s.run.critical[i]);
    }
    cs_arena_free(s.scratch);
    return status;
}

enum cs_status cs_lab_simulate(const struct cs_lab *lab, struct cs_arena *arena,
                               struct cs_lab_result *out, struct cs_err *err)
{
    return cs_lab_simulate_with(lab, &(struct cs_lab_inputs){0}, arena, out, err);
}
