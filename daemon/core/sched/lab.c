/* Plans from numbers; see lab.h. */
#include "core/sched/lab.h"

#include <math.h>
#include <string.h>

#include "core/sched/engine.h"

enum { MAX_STAGES = 16384 };

struct maker {
    const struct cs_lab_module *modules;
    int n;
    struct cs_arena *arena;
    int32_t *feeds; /* index of the consumer, -1: none */
    int32_t *order; /* modules in dataflow order */
    struct cs_lab *lab;
    struct cs_plan *plan;
    double *fwd, *bwd;
};

static bool is_time(double value)
{
    return value >= 0 && !isinf(value);
}

static enum cs_status check_module(const struct maker *m, int i, struct cs_err *err)
{
    const struct cs_lab_module *mod = &m->modules[i];
    if (!mod->name || !mod->name[0])
        return cs_fail(err, CS_INVALID, "module %d has no name", i);
    for (int k = 0; k < i; k++)
        if (strcmp(m->modules[k].name, mod->name) == 0)
            return cs_fail(err, CS_INVALID, "module %s is there twice", mod->name);
    if (mod->n_stages < 1 || mod->n_stages > MAX_STAGES)
        return cs_fail(err, CS_INVALID, "module %s has %d stages: 1 to %d", mod->name,
                       mod->n_stages, MAX_STAGES);
    for (int32_t s = 0; s < mod->n_stages; s++)
        if (!is_time(mod->fwd[s]) || !is_time(mod->bwd[s]) ||
            (mod->wgrad && !is_time(mod->wgrad[s])))
            return cs_fail(err, CS_INVALID, "%s.%d: times are finite and not negative", mod->name,
                           s);
    return CS_OK;
}

static enum cs_status link_modules(struct maker *m, struct cs_err *err)
{
    m->feeds = CS_NEW_ARRAY(m->arena, int32_t, m->n);
    for (int i = 0; i < m->n; i++) {
        const char *feeds = m->modules[i].feeds;
        m->feeds[i] = -1;
        if (!feeds || !feeds[0])
            continue;
        for (int k = 0; k < m->n; k++)
            if (strcmp(m->modules[k].name, feeds) == 0)
                m->feeds[i] = k;
        if (m->feeds[i] < 0)
            return cs_fail(err, CS_INVALID, "module %s feeds %s, which is not a module",
                           m->modules[i].name, feeds);
    }
    return CS_OK;
}

/* producers before consumers, otherwise as given */
static enum cs_status sort_modules(struct maker *m, struct cs_err *err)
{
    int32_t *wanted = CS_NEW_ARRAY(m->arena, int32_t, m->n), n = 0;
    m->order = CS_NEW_ARRAY(m->arena, int32_t, m->n);
    for (int i = 0; i < m->n; i++)
        if (m->feeds[i] >= 0)
            wanted[m->feeds[i]]++;
    while (n < m->n) {
        int next = 0;
        while (next < m->n && wanted[next] != 0)
            next++;
        if (next == m->n)
            return cs_fail(err, CS_INVALID, "the modules feed each other in a circle");
        wanted[next] = -1;
        m->order[n++] = next;
        if (m->feeds[next] >= 0)
            wanted[m->feeds[next]]--;
    }
    return CS_OK;
}

static void add_stages(struct maker *m)
{
    int32_t id = 0;
    for (int i = 0; i < m->n; i++) {
        int32_t module = m->order[i];
        const struct cs_lab_module *mod = &m->modules[module];
        for (int32_t s = 0; s < mod->n_stages; s++, id++) {
            int32_t given = m->lab->first[module] + s;
            m->fwd[id] = mod->fwd[s];
            m->bwd[id] = mod->bwd[s] + (mod->wgrad ? mod->wgrad[s] : 0);
            m->lab->plan_stage[given] = id;
            m->lab->stage_name[given] = cs_arena_printf(m->arena, "%s.%d", mod->name, s);
            m->plan->stages[id] = (struct cs_stage){.name = m->lab->stage_name[given],
                                                    .id = id,
                                                    .branch = module,
                                                    .index = s,
                                                    .rank = id,
                                                    .n_layers = 1,
                                                    .has_backward = m->bwd[id] > 0};
        }
    }
}

static void add_edge(struct maker *m, int32_t from, int32_t to)
{
    struct cs_plan *plan = m->plan;
    bool has_grad = plan->stages[from].has_backward && plan->stages[to].has_backward;
    plan->edges[plan->n_edges] =
        (struct cs_edge){.id = plan->n_edges, .from = from, .to = to, .has_grad = has_grad};
    plan->stages[to].needs_input_grad = plan->stages[to].needs_input_grad || has_grad;
    plan->n_edges++;
}

static void add_edges(struct maker *m)
{
    for (int i = 0; i < m->n; i++) {
        int32_t module = m->order[i], last = m->modules[module].n_stages - 1;
        const int32_t *id = &m->lab->plan_stage[m->lab->first[module]];
        for (int32_t s = 0; s < last; s++)
            add_edge(m, id[s], id[s + 1]);
        if (m->feeds[module] >= 0)
            add_edge(m, id[last], m->lab->plan_stage[m->lab->first[m->feeds[module]]]);
    }
}

static enum cs_status count_stages(struct maker *m, struct cs_err *err)
{
    struct cs_lab *lab = m->lab;
    if (m->n < 1 || m->n > MAX_STAGES)
        return cs_fail(err, CS_INVALID, "%d modules: 1 to %d", m->n, MAX_STAGES);
    lab->n_modules = m->n;
    lab->first = CS_NEW_ARRAY(m->arena, int32_t, m->n);
    for (int i = 0; i < m->n; i++) {
        CS_TRY(check_module(m, i, err));
        lab->first[i] = lab->n_stages;
        lab->n_stages += m->modules[i].n_stages;
        if (lab->n_stages > MAX_STAGES)
            return cs_fail(err, CS_INVALID, "more than %d stages", MAX_STAGES);
    }
    return CS_OK;
}

enum cs_status cs_lab_make(const struct cs_lab_module *modules, int n_modules,
                           const struct cs_lab_options *options, struct cs_arena *arena,
                           struct cs_lab **out, struct cs_err *err)
{
    struct maker m = {.modules = modules, .n = n_modules, .arena = arena};
    struct cs_program *program = NULL;
    m.lab = CS_NEW(arena, struct cs_lab);
    if (!is_time(options->hop))
        return cs_fail(err, CS_INVALID, "hop is %g: times are finite and not negative",
                       options->hop);
    CS_TRY(count_stages(&m, err));
    CS_TRY(link_modules(&m, err));
    CS_TRY(sort_modules(&m, err));
    int32_t n = m.lab->n_stages;
    m.lab->stage_name = CS_NEW_ARRAY(arena, const char *, n);
    m.lab->plan_stage = CS_NEW_ARRAY(arena, int32_t, n);
    m.lab->hop = options->hop;
    m.lab->fwd = m.fwd = CS_NEW_ARRAY(arena, double, n);
    m.lab->bwd = m.bwd = CS_NEW_ARRAY(arena, double, n);
    m.plan = CS_NEW(arena, struct cs_plan);
    *m.plan = (struct cs_plan){.n_stages = n,
                               .n_ranks = n,
                               .schedule = options->schedule,
                               .slots = options->slots,
                               .head_stage = n - 1,
                               .embed_stage = n - 1};
    m.plan->stages = CS_NEW_ARRAY(arena, struct cs_stage, n);
    m.plan->edges = CS_NEW_ARRAY(arena, struct cs_edge, n);
    add_stages(&m);
    add_edges(&m);
    CS_TRY(cs_program_make(m.plan, NULL, options->slots, false, arena, &program, err));
    m.lab->program = program;
    *out = m.lab;
    return CS_OK;
}

void cs_lab_text(const struct cs_lab *lab, int stage, struct cs_buf *out)
{
    cs_program_text(lab->program, lab->plan_stage[stage], out);
}

static double lab_cost(void *user, const struct cs_program *program, int rank,
                       const struct cs_action *action)
{
    const struct cs_lab *lab = user;
    (void)program;
    (void)rank;
    return action->op == CS_OP_FWD    ? lab->fwd[action->stage]
           : action->op == CS_OP_BWD  ? lab->bwd[action->stage]
           : action->op == CS_OP_SEND ? lab->hop
                                      : 0;
}

static const char *critical_text(const struct cs_lab *lab, const struct cs_engine_step *step,
                                 struct cs_arena *arena)
{
    const struct cs_plan *plan = lab->program->plan;
    const struct cs_action *a = &lab->program->rank[step->rank].actions[step->action];
    const char *letter = cs_op_letter((enum cs_op)a->op);
    if (a->edge < 0)
        return cs_arena_printf(arena, "%s%d %s", letter, a->slot, plan->stages[a->stage].name);
    const struct cs_edge *edge = &plan->edges[a->edge];
    return cs_arena_printf(arena, "%s%d %s -> %s", letter, a->slot,
                           plan->stages[a->is_grad ? edge->to : edge->from].name,
                           plan->stages[a->is_grad ? edge->from : edge->to].name);
}

enum cs_status cs_lab_simulate(const struct cs_lab *lab, struct cs_arena *arena,
                               struct cs_lab_result *out, struct cs_err *err)
{
    struct cs_net net;
    struct cs_engine_result run;
    struct cs_lab mutable_lab = *lab; /* the engine's user pointer is not const */
    cs_net_build(lab->program, arena, &net);
    CS_TRY(cs_engine_run(&net, lab_cost, &mutable_lab, 0, arena, &run, err));
    *out = (struct cs_lab_result){.makespan = run.makespan, .n_critical = run.n_critical};
    out->bubble = CS_NEW_ARRAY(arena, double, lab->n_stages);
    out->busy = CS_NEW_ARRAY(arena, double, lab->n_stages);
    out->peak = CS_NEW_ARRAY(arena, int32_t, lab->n_stages);
    for (int32_t s = 0; s < lab->n_stages; s++) {
        int32_t id = lab->plan_stage[s];
        out->busy[s] = run.busy[id];
        out->peak[s] = run.peak[id];
        out->bubble[s] = run.makespan > 0 ? 1 - run.busy[id] / run.makespan : 0;
    }
    out->critical = CS_NEW_ARRAY(arena, const char *, run.n_critical + 1);
    for (int32_t i = 0; i < run.n_critical; i++)
        out->critical[i] = critical_text(lab, &run.critical[i], arena);
    return CS_OK;
}
