/* Makes plans and programs from the numbers of an experiment. */
#include "core/sched/sim/lab.h"

#include <math.h>
#include <string.h>

#include "core/plan/plan_schedule.h"
#include "core/sched/lower/lower.h"

enum { MAX_STAGES = 16384, MAX_CELLS = 1 << 23, DEFAULT_CHUNKS = CS_PLAN_CHUNKS };

struct maker {
    const struct cs_lab_module *modules;
    int n;
    struct cs_arena *arena;
    const struct cs_schedule_info *schedule;
    int32_t *feeds; /* index of the consumer, -1: none */
    int32_t *order; /* modules in dataflow order */
    int32_t last;   /* the last of them */
    int32_t chunks; /* of the last one's stages */
    int32_t *begin; /* (n + 1) first plan stage of the module, by place in the order */
    int32_t *place; /* (n) place of the module in the order */
    struct cs_lab *lab;
    struct cs_plan *plan;
    double *fwd, *bwd, *wgrad;    /* by plan stage */
    int32_t *stage_of, *chunk_of; /* by plan stage */
    struct cs_slot_share *share;  /* by plan stage */
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
            return cs_fail(err, CS_INVALID, "the modules feed each other in a cycle");
        wanted[next] = -1;
        m->order[n++] = next;
        if (m->feeds[next] >= 0)
            wanted[m->feeds[next]]--;
    }
    return CS_OK;
}

/* copies on the ranks of the last module, each with its share of the slots */
static bool is_copied(const struct maker *m, int32_t module)
{
    return m->schedule->layout == CS_LAYOUT_COLOCATED && module != m->last;
}

static int32_t count_of(const struct maker *m, int32_t module)
{
    return m->modules[is_copied(m, module) ? m->last : module].n_stages;
}

static int32_t chunks_of(const struct maker *m, int32_t module)
{
    return module == m->last ? m->chunks : 1;
}

static enum cs_status count_stages(struct maker *m, struct cs_err *err)
{
    struct cs_lab *lab = m->lab;
    int64_t total = 0;
    lab->n_modules = m->n;
    lab->first = CS_NEW_ARRAY(m->arena, int32_t, m->n);
    m->begin = CS_NEW_ARRAY(m->arena, int32_t, m->n + 1);
    m->place = CS_NEW_ARRAY(m->arena, int32_t, m->n + 1);
    for (int i = 0; i < m->n; i++) {
        total += (int64_t)count_of(m, i) * chunks_of(m, i);
        if (total > MAX_STAGES)
            return cs_fail(err, CS_INVALID, "more than %d stages", MAX_STAGES);
        lab->first[i] = lab->n_stages;
        lab->n_stages += count_of(m, i);
    }
    for (int i = 0; i < m->n; i++) {
        int32_t module = m->order[i];
        m->place[module] = i;
        m->begin[i + 1] = m->begin[i] + count_of(m, module) * chunks_of(m, module);
    }
    return CS_OK;
}

/* The planner's nanoseconds only say which parts there are; the times of the lab are fractional. */
static struct cs_stage stage_with(const struct maker *m, int32_t id, int32_t module, int32_t index)
{
    int32_t stage = m->stage_of[id];
    const char *name = m->lab->stage_name[stage];
    if (m->chunk_of[id] >= 0)
        name = cs_arena_printf(m->arena, "%s.%d", name, m->chunk_of[id]);
    return (struct cs_stage){.name = name,
                             .id = id,
                             .branch = module,
                             .index = index,
                             .rank = m->lab->rank[stage],
                             .n_layers = 1,
                             .bwd_input_ns = m->bwd[id] > 0,
                             .bwd_weight_ns = m->wgrad[id] > 0,
                             .has_backward = m->bwd[id] > 0 || m->wgrad[id] > 0};
}

static double sum_of(const double *value, int32_t n)
{
    double sum = 0;
    for (int32_t i = 0; value && i < n; i++)
        sum += value[i];
    return sum;
}

static void add_copies(struct maker *m, int32_t module)
{
    const struct cs_lab_module *mod = &m->modules[module];
    int32_t p = count_of(m, module), id = m->begin[m->place[module]];
    for (int32_t r = 0; r < p; r++, id++) {
        int32_t stage = m->lab->first[module] + r;
        m->fwd[id] = sum_of(mod->fwd, mod->n_stages);
        m->bwd[id] = sum_of(mod->bwd, mod->n_stages);
        m->wgrad[id] = sum_of(mod->wgrad, mod->n_stages);
        m->stage_of[id] = stage;
        m->chunk_of[id] = -1;
        m->share[id] = (struct cs_slot_share){p, r};
        m->lab->plan_stage[stage] = id;
        m->plan->stages[id] = stage_with(m, id, module, r);
        m->plan->stages[id].copies = p;
    }
}

static void add_stages(struct maker *m, int32_t module)
{
    const struct cs_lab_module *mod = &m->modules[module];
    int32_t id = m->begin[m->place[module]], v = chunks_of(m, module);
    for (int32_t i = 0; i < v * mod->n_stages; i++, id++) {
        int32_t s = i % mod->n_stages, stage = m->lab->first[module] + s;
        m->fwd[id] = mod->fwd[s] / v;
        m->bwd[id] = mod->bwd[s] / v;
        m->wgrad[id] = mod->wgrad ? mod->wgrad[s] / v : 0;
        m->stage_of[id] = stage;
        m->chunk_of[id] = v > 1 ? i / mod->n_stages : -1;
        if (i < mod->n_stages)
            m->lab->plan_stage[stage] = id;
        m->plan->stages[id] = stage_with(m, id, module, i);
    }
}

static void place_stages(struct maker *m)
{
    bool is_colocated = m->schedule->layout == CS_LAYOUT_COLOCATED;
    for (int i = 0; i < m->n; i++) {
        int32_t module = m->order[i];
        for (int32_t s = 0; s < count_of(m, module); s++) {
            int32_t stage = m->lab->first[module] + s;
            m->lab->stage_name[stage] =
                cs_arena_printf(m->arena, "%s.%d", m->modules[module].name, s);
            m->lab->rank[stage] = is_colocated ? s : m->plan->n_ranks++;
        }
    }
    if (is_colocated)
        m->plan->n_ranks = count_of(m, m->last);
    for (int i = 0; i < m->n; i++) {
        if (is_copied(m, m->order[i]))
            add_copies(m, m->order[i]);
        else
            add_stages(m, m->order[i]);
    }
}

static void add_edge(struct maker *m, int32_t from, int32_t to)
{
    struct cs_plan *plan = m->plan;
    bool has_grad = plan->stages[from].has_backward && plan->stages[to].has_backward;
    plan->edges[plan->n_edges] = (struct cs_edge){
        .id = plan->n_edges, .feed = -1, .from = from, .to = to, .has_grad = has_grad};
    plan->stages[to].needs_input_grad = plan->stages[to].needs_input_grad || has_grad;
    plan->n_edges++;
}

static void add_edges(struct maker *m)
{
    for (int i = 0; i < m->n; i++) {
        int32_t module = m->order[i], begin = m->begin[i], end = m->begin[i + 1];
        int32_t to = m->feeds[module] < 0 ? -1 : m->begin[m->place[m->feeds[module]]];
        for (int32_t id = begin; id + 1 < end && !is_copied(m, module); id++)
            add_edge(m, id, id + 1);
        for (int32_t id = begin; id < end && is_copied(m, module); id++)
            add_edge(m, id, to + (is_copied(m, m->feeds[module]) ? id - begin : 0));
        if (to >= 0 && !is_copied(m, module))
            add_edge(m, end - 1, to);
    }
}

static enum cs_status check_input(const struct maker *m, const struct cs_lab_options *options,
                                  const struct cs_lab_tuning *tuning, struct cs_err *err)
{
    if (!is_time(options->hop))
        return cs_fail(err, CS_INVALID, "hop is %g: times are finite and not negative",
                       options->hop);
    if (tuning->chunks < 0 || tuning->chunks > MAX_STAGES)
        return cs_fail(err, CS_INVALID, "%d chunks: 1 to %d", tuning->chunks, MAX_STAGES);
    if (m->n < 1 || m->n > MAX_STAGES)
        return cs_fail(err, CS_INVALID, "%d modules: 1 to %d", m->n, MAX_STAGES);
    for (int i = 0; i < m->n; i++)
        CS_TRY(check_module(m, i, err));
    return CS_OK;
}

/* interleaved and colocated schedules turn around the one module that feeds none */
static enum cs_status find_last(struct maker *m, const struct cs_lab_tuning *tuning,
                                struct cs_err *err)
{
    int32_t chunks = tuning->chunks;
    m->last = m->order[m->n - 1];
    for (int i = 0; i < m->n && m->schedule->layout != CS_LAYOUT_STAGES; i++)
        if (m->feeds[i] < 0 && i != m->last)
            return cs_fail(err, CS_INVALID,
                           "schedule %s: modules %s and %s both feed none: it needs a single one "
                           "that all others feed",
                           m->schedule->name, m->modules[i].name, m->modules[m->last].name);
    m->chunks = m->schedule->layout == CS_LAYOUT_CHUNKS ? (chunks ? chunks : DEFAULT_CHUNKS)
                : m->schedule->encodes_all && chunks    ? chunks
                                                        : 1;
    return CS_OK;
}

static void make_plan(struct maker *m, const struct cs_lab_options *options)
{
    int32_t n = m->begin[m->n];
    m->lab->module_name = CS_NEW_ARRAY(m->arena, const char *, m->n);
    m->lab->is_copied = CS_NEW_ARRAY(m->arena, bool, m->n);
    for (int i = 0; i < m->n; i++) {
        m->lab->module_name[i] = m->modules[i].name;
        m->lab->is_copied[i] = is_copied(m, i);
    }
    m->lab->stage_name = CS_NEW_ARRAY(m->arena, const char *, m->lab->n_stages);
    m->lab->plan_stage = CS_NEW_ARRAY(m->arena, int32_t, m->lab->n_stages);
    m->lab->rank = CS_NEW_ARRAY(m->arena, int32_t, m->lab->n_stages);
    m->lab->hop = options->hop;
    m->lab->fwd = m->fwd = CS_NEW_ARRAY(m->arena, double, n);
    m->lab->bwd = m->bwd = CS_NEW_ARRAY(m->arena, double, n);
    m->lab->wgrad = m->wgrad = CS_NEW_ARRAY(m->arena, double, n);
    m->lab->stage_of = m->stage_of = CS_NEW_ARRAY(m->arena, int32_t, n);
    m->lab->chunk_of = m->chunk_of = CS_NEW_ARRAY(m->arena, int32_t, n);
    m->share = CS_NEW_ARRAY(m->arena, struct cs_slot_share, n);
    m->plan = CS_NEW(m->arena, struct cs_plan);
    *m->plan = (struct cs_plan){.n_stages = n,
                                .schedule = m->schedule->name,
                                .slots = options->slots,
                                .head_stage = n - 1,
                                .embed_stage = n - 1};
    m->plan->stages = CS_NEW_ARRAY(m->arena, struct cs_stage, n);
    m->plan->edges = CS_NEW_ARRAY(m->arena, struct cs_edge, n);
    place_stages(m);
    add_edges(m);
}

enum cs_status cs_lab_make_tuned(const struct cs_lab_module *modules, int n_modules,
                                 const struct cs_lab_options *options,
                                 const struct cs_lab_tuning *tuning, struct cs_arena *arena,
                                 struct cs_lab **out, struct cs_err *err)
{
    struct maker m = {.modules = modules, .n = n_modules, .arena = arena};
    struct cs_program *program = NULL;
    m.lab = CS_NEW(arena, struct cs_lab);
    CS_TRY(cs_plan_schedule_find(options->schedule, &m.schedule, err));
    CS_TRY(check_input(&m, options, tuning, err));
    CS_TRY(link_modules(&m, err));
    CS_TRY(sort_modules(&m, err));
    CS_TRY(find_last(&m, tuning, err));
    CS_TRY(count_stages(&m, err));
    if ((int64_t)m.begin[m.n] * options->slots > MAX_CELLS)
        return cs_fail(err, CS_INVALID, "%d slots on %d stages are too many", options->slots,
                       m.begin[m.n]);
    make_plan(&m, options);
    struct cs_program_options how = {.n_slots = options->slots,
                                     .ahead = tuning->ahead,
                                     .lead_before = tuning->lead_before,
                                     .lead_after = tuning->lead_after,
                                     .window = tuning->window,
                                     .share = m.share};
    CS_TRY(cs_program_make_with(m.plan, NULL, &how, arena, &program, err));
    m.lab->program = program;
    *out = m.lab;
    return CS_OK;
}

enum cs_status cs_lab_make(const struct cs_lab_module *modules, int n_modules,
                           const struct cs_lab_options *options, struct cs_arena *arena,
                           struct cs_lab **out, struct cs_err *err)
{
    return cs_lab_make_tuned(modules, n_modules, options, &(struct cs_lab_tuning){0}, arena, out,
                             err);
}

void cs_lab_text(const struct cs_lab *lab, int stage, struct cs_buf *out)
{
    const struct cs_rank_program *rank = &lab->program->rank[lab->rank[stage]];
    bool is_first = true;
    for (uint32_t i = 0; i < rank->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &rank->actions[rank->fifo[CS_STREAM_COMPUTE][i]];
        if (a->stage < 0 || lab->stage_of[a->stage] != stage)
            continue;
        cs_buf_addf(out, "%s%s%d", is_first ? "" : " ", cs_program_letter((enum cs_op)a->op),
                    a->slot);
        if (lab->chunk_of[a->stage] >= 0)
            cs_buf_addf(out, ".%d", lab->chunk_of[a->stage]);
        if (a->lead)
            cs_buf_addc(out, '\'');
        is_first = false;
    }
}
