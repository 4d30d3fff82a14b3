/* One layout under one schedule: cut, lower, verify, simulate, count memory; see search.h. */
#include <math.h>
#include <string.h>

#include "core/base/units.h"
#include "core/plan/split.h"
#include "core/sched/lab.h"
#include "core/search/candidate.h"

#define ONLY(m) (1u << CS_SEARCH_##m)

const struct cs_schedule_row cs_search_schedules[CS_SEARCH_SCHEDULES] = {
    {"1f1b",        ONLY(PARALLEL) | ONLY(REPLICATED), 1},
    {"gpipe",       ONLY(PARALLEL) | ONLY(REPLICATED), 1},
    {"zb-h1",       ONLY(PARALLEL),                    1},
    {"zb-h2",       ONLY(PARALLEL),                    1},
    {"interleaved", ONLY(PARALLEL),                    2},
    {"three-phase", ONLY(COLOCATED),                   1},
    {"anchors",     ONLY(COLOCATED),                   1},
};

enum { S_1F1B, S_GPIPE, S_ZB_H1, S_ZB_H2, S_INTERLEAVED };

struct trial {
    const struct cs_search_problem *problem;
    const struct cs_search_options *options;
    const struct cs_candidate *candidate;
    int schedule;
    int32_t llm, slots;
    const struct cs_search_option *option[CS_SEARCH_MAX_BRANCHES];
    int *sizes[CS_SEARCH_MAX_BRANCHES];
    struct cs_arena *arena, *scratch; /* of the result, of this trial */
    struct cs_search_plan *plan;
    struct cs_search_stage *stage;
    int32_t first_stage[CS_SEARCH_MAX_BRANCHES];
    int64_t nearest;
};

static int32_t stages_of(const struct trial *t, int32_t b)
{
    bool is_own = t->candidate->modality == CS_SEARCH_PARALLEL || b == t->llm;
    return is_own ? t->candidate->pp[b] : 0;
}

static int32_t shards_of(const struct trial *t, int32_t b)
{
    return t->candidate->dp * t->option[b]->cp;
}

/* upper bound before there is a simulation, for the cut */
static double in_flight(const struct trial *t, int32_t b, int32_t s)
{
    double depth = stages_of(t, b) - 1 - s + (b == t->llm ? 0 : stages_of(t, t->llm));
    double slots = t->slots, alive = depth + 1;
    if (t->schedule == S_GPIPE)
        return slots;
    if (t->schedule == S_ZB_H2)
        alive = 2 * depth + 1;
    if (t->schedule == S_INTERLEAVED) {
        int32_t v = cs_search_schedules[t->schedule].chunks;
        alive = (2 * depth + (v - 1.0) * stages_of(t, t->llm) + 1) / v;
    }
    return alive < slots ? alive : slots;
}

static int64_t passing_bytes(const struct trial *t, int32_t from, bool is_out)
{
    const struct cs_search_branch *branch = &t->problem->branch[from];
    int64_t cut = (int64_t)t->option[from]->tp * t->option[from]->cp;
    return ((is_out ? branch->out_bytes : branch->inner_bytes) + cut - 1) / cut;
}

/* rows a rank holds are cut by cp alone */
static int64_t held_bytes(const struct trial *t, int32_t from, bool is_out, int32_t cp)
{
    const struct cs_search_branch *branch = &t->problem->branch[from];
    return ((is_out ? branch->out_bytes : branch->inner_bytes) + cp - 1) / cp;
}

static int64_t reserve_of(const struct trial *t, int32_t b)
{
    int64_t in = t->problem->branch[b].inner_bytes / t->option[b]->cp, work = 0, out = in;
    for (int32_t e = 0; b == t->llm && e < t->llm && t->candidate->modality == CS_SEARCH_PARALLEL;
         e++)
        in += held_bytes(t, e, true, t->option[b]->cp);
    if (b != t->llm && held_bytes(t, b, true, t->option[b]->cp) > out)
        out = held_bytes(t, b, true, t->option[b]->cp);
    for (int32_t i = 0; i < t->problem->branch[b].n_layers; i++)
        work = t->option[b]->layer[i].work_bytes > work ? t->option[b]->layer[i].work_bytes : work;
    return t->candidate->pp[b] > 1 || t->problem->n_branches > 1 ? 3 * (in + out) + work : work;
}

/* whole encoders on the LLM's ranks: what a stage holds of them beside its layers */
static void add_encoders(const struct trial *t, const int32_t *peak, struct cs_memory *memory)
{
    for (int32_t e = 0; e < t->llm; e++) {
        struct cs_memory_load load = {.zero = t->plan->layout.zero,
                                      .shards = shards_of(t, e),
                                      .in_flight = peak ? peak[e] : 1,
                                      .out_bytes = held_bytes(t, e, true, t->option[e]->cp)};
        cs_memory_add(t->option[e]->layer, t->problem->branch[e].n_layers, &load, memory);
    }
}

static enum cs_status cut_branch(struct trial *t, int32_t b, struct cs_err *err)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    int32_t n = branch->n_layers, stages = t->candidate->pp[b];
    double *cost = CS_NEW_ARRAY(t->scratch, double, n), *held = CS_NEW_ARRAY(t->scratch, double, n);
    double *saved = CS_NEW_ARRAY(t->scratch, double, n);
    double *alive = CS_NEW_ARRAY(t->scratch, double, stages);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_search_layer *l = &t->option[b]->layer[i];
        struct cs_memory bytes = {0};
        struct cs_memory_load load = {.zero = t->plan->layout.zero, .shards = shards_of(t, b)};
        cs_memory_add(l, 1, &load, &bytes);
        cost[i] = (double)cs_search_layer_ns(l, t->candidate->is_blind);
        held[i] = (double)(bytes.weights + bytes.grads + bytes.optimizer);
        saved[i] = (double)l->saved_bytes;
    }
    for (int32_t s = 0; s < stages; s++)
        alive[s] = in_flight(t, b, s);
    int64_t cap = t->problem->mem_bytes;
    if (cap > 0) {
        struct cs_memory others = {0};
        if (t->candidate->modality != CS_SEARCH_PARALLEL)
            add_encoders(t, NULL, &others);
        cap -= reserve_of(t, b) + cs_memory_total(&others);
        cap = cap < 1 ? 1 : cap;
    }
    struct cs_split_memory memory = {held, saved, alive, (double)cap};
    t->sizes[b] = CS_NEW_ARRAY(t->arena, int, stages);
    enum cs_status status = cs_split_capped(cost, n, stages, &memory, t->sizes[b], NULL, err);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", branch->name);
}

static void name_stages(struct trial *t)
{
    const struct cs_search_problem *problem = t->problem;
    int32_t n = 0, base = 0;
    for (int32_t b = 0; b < problem->n_branches; b++)
        n += stages_of(t, b);
    t->stage = CS_NEW_ARRAY(t->arena, struct cs_search_stage, n);
    t->plan->stage = t->stage;
    t->plan->n_stages = n;
    n = 0;
    for (int32_t b = 0; b < problem->n_branches; b++) {
        const struct cs_search_layer *layer = t->option[b]->layer;
        t->first_stage[b] = n;
        for (int32_t s = 0; s < stages_of(t, b); s++, n++) {
            struct cs_search_stage *st = &t->stage[n];
            *st = (struct cs_search_stage){
                .name = cs_arena_printf(t->arena, "%s.%d", problem->branch[b].name, s),
                .branch = b,
                .index = s,
                .rank = base,
                .n_layers = t->sizes[b][s]};
            for (int32_t i = 0; i < st->n_layers; i++, layer++) {
                st->fwd_ns += layer->fwd_ns;
                st->bwd_input_ns += layer->bwd_input_ns + layer->redo_ns;
                st->bwd_weight_ns += layer->bwd_weight_ns;
            }
            base += t->candidate->dp * t->option[b]->tp * t->option[b]->cp;
        }
    }
}

static int64_t message_ns(const struct trial *t, int32_t from, int32_t to, int64_t bytes)
{
    const struct cs_search_problem *p = t->problem;
    bool leaves = t->stage[from].rank / p->ranks_per_node != t->stage[to].rank / p->ranks_per_node;
    int64_t rate = leaves ? p->net_bytes_per_s : p->link_bytes_per_s;
    if (rate <= 0)
        return 0;
    return (leaves ? p->net_latency_ns : p->link_latency_ns) +
           (int64_t)((double)bytes * 1e9 / (double)rate);
}

/* the slowest edge */
static int64_t hop_ns(const struct trial *t)
{
    int64_t worst = 0;
    for (int32_t s = 0; s < t->plan->n_stages; s++) {
        int32_t b = t->stage[s].branch;
        bool is_last = t->stage[s].index == stages_of(t, b) - 1;
        if (is_last && b == t->llm)
            continue;
        int64_t ns = message_ns(t, s, is_last ? t->first_stage[t->llm] : s + 1,
                                passing_bytes(t, b, is_last));
        worst = ns > worst ? ns : worst;
    }
    return worst;
}

/* modules of the lab, in the order of the branches */
static void fill_modules(const struct trial *t, struct cs_lab_module *module)
{
    double all[3] = {0};
    for (int32_t b = 0; b < t->problem->n_branches; b++) {
        bool is_copied = t->candidate->modality != CS_SEARCH_PARALLEL && b != t->llm;
        int32_t n = is_copied ? 1 : t->candidate->pp[b];
        double *fwd = CS_NEW_ARRAY(t->scratch, double, n);
        double *bwd = CS_NEW_ARRAY(t->scratch, double, n);
        double *wgrad = CS_NEW_ARRAY(t->scratch, double, n);
        for (int32_t i = 0; is_copied && i < t->problem->branch[b].n_layers; i++) {
            const struct cs_search_layer *l = &t->option[b]->layer[i];
            fwd[0] += (double)l->fwd_ns;
            bwd[0] += (double)(l->bwd_input_ns + l->redo_ns);
            wgrad[0] += (double)l->bwd_weight_ns;
        }
        for (int32_t s = 0; !is_copied && s < n; s++) {
            const struct cs_search_stage *st = &t->stage[t->first_stage[b] + s];
            fwd[s] = (double)st->fwd_ns + all[0];
            bwd[s] = (double)st->bwd_input_ns + all[1];
            wgrad[s] = (double)st->bwd_weight_ns + all[2];
        }
        if (is_copied && t->candidate->modality == CS_SEARCH_REPLICATED) {
            all[0] += fwd[0];
            all[1] += bwd[0];
            all[2] += wgrad[0];
        }
        module[b] =
            (struct cs_lab_module){.name = t->problem->branch[b].name,
                                   .feeds = b == t->llm ? NULL : t->problem->branch[t->llm].name,
                                   .n_stages = n,
                                   .fwd = fwd,
                                   .bwd = bwd,
                                   .wgrad = wgrad};
    }
}

static enum cs_status simulate_slots(const struct trial *t, const struct cs_lab_module *module,
                                     int32_t n, int32_t slots, struct cs_lab **lab,
                                     struct cs_lab_result *out, struct cs_err *err)
{
    struct cs_lab_options options = {.schedule = cs_search_schedules[t->schedule].name,
                                     .slots = slots,
                                     .hop = (double)hop_ns(t)};
    struct cs_lab_tuning tuning = {
        .chunks = t->schedule == S_INTERLEAVED ? cs_search_schedules[t->schedule].chunks : 0};
    CS_TRY(cs_lab_make_tuned(module, n, &options, &tuning, t->scratch, lab, err));
    return cs_lab_simulate(*lab, t->scratch, out, err);
}

/* Past the warm-up every further slot takes one period: two lengths, then a straight line. */
static enum cs_status simulate(const struct trial *t, struct cs_lab **lab,
                               struct cs_lab_result *out, struct cs_err *err)
{
    struct cs_lab_module all[CS_SEARCH_MAX_BRANCHES];
    struct cs_lab_module *module = all;
    struct cs_lab_result shorter;
    int32_t unit = t->candidate->pp[t->llm], n = t->problem->n_branches;
    fill_modules(t, all);
    if (t->candidate->modality == CS_SEARCH_REPLICATED) {
        module = &all[t->llm];
        n = 1;
    }
    int32_t most = 2 * unit * ((t->plan->n_stages + unit - 1) / unit) + unit;
    if (t->slots <= most + unit || t->schedule == S_GPIPE)
        return simulate_slots(t, module, n, t->slots, lab, out, err);
    CS_TRY(simulate_slots(t, module, n, most, lab, &shorter, err));
    CS_TRY(simulate_slots(t, module, n, most + unit, lab, out, err));
    double period = (out->makespan - shorter.makespan) / unit;
    out->makespan += floor(period * (t->slots - most - unit) + 0.5);
    return CS_OK;
}

static bool trains_before(const struct trial *t, int32_t b, int32_t end)
{
    bool trains = false;
    for (int32_t e = 0; b == t->llm && e < t->llm; e++)
        trains = trains || trains_before(t, e, t->problem->branch[e].n_layers);
    for (int32_t i = 0; i < end; i++)
        trains = trains || t->option[b]->layer[i].is_trained;
    return trains;
}

static void count_memory(struct trial *t, const struct cs_lab *lab, const struct cs_lab_result *run)
{
    int32_t first_layer[CS_SEARCH_MAX_BRANCHES] = {0};
    for (int32_t i = 0; i < t->plan->n_stages; i++) {
        struct cs_search_stage *st = &t->stage[i];
        int32_t b = st->branch, cp = t->option[b]->cp, first = first_layer[b];
        bool is_last = st->index == stages_of(t, b) - 1;
        bool is_parallel = t->candidate->modality == CS_SEARCH_PARALLEL;
        int32_t module = t->candidate->modality == CS_SEARCH_REPLICATED ? 0 : b;
        int32_t at = lab->first[module] + st->index;
        struct cs_memory_load load = {
            .zero = t->plan->layout.zero,
            .shards = shards_of(t, b),
            .in_flight = run->peak[at],
            .chunks = b == t->llm ? cs_search_schedules[t->schedule].chunks : 1,
            .in_bytes = st->index > 0 ? held_bytes(t, b, false, cp) : 0,
            .out_bytes = is_last ? (b == t->llm ? 0 : held_bytes(t, b, true, cp))
                                 : held_bytes(t, b, false, cp),
            .has_in_grad = st->index > 0 && trains_before(t, b, first),
            .has_out_grad = trains_before(t, b, first + st->n_layers)};
        for (int32_t e = 0; is_parallel && b == t->llm && st->index == 0 && e < t->llm; e++) {
            load.in_bytes += held_bytes(t, e, true, cp);
            load.has_in_grad =
                load.has_in_grad || trains_before(t, e, t->problem->branch[e].n_layers);
        }
        st->in_flight = run->peak[at];
        st->bubble = run->bubble[at];
        cs_memory_add(t->option[b]->layer + first, st->n_layers, &load, &st->memory);
        first_layer[b] += st->n_layers;
        if (is_parallel)
            continue;
        int32_t peak[CS_SEARCH_MAX_BRANCHES];
        for (int32_t e = 0; e < t->llm; e++)
            peak[e] = module == 0 && t->candidate->modality == CS_SEARCH_REPLICATED
                          ? run->peak[at]
                          : run->peak[lab->first[e] + st->index];
        add_encoders(t, peak, &st->memory);
    }
}

static enum cs_status check_memory(struct trial *t, struct cs_err *err)
{
    for (int32_t i = 0; i < t->plan->n_stages; i++) {
        const struct cs_search_stage *st = &t->stage[i];
        int64_t bytes = cs_memory_total(&st->memory);
        t->plan->peak_bytes = bytes > t->plan->peak_bytes ? bytes : t->plan->peak_bytes;
    }
    if (t->problem->mem_bytes <= 0 || t->plan->peak_bytes <= t->problem->mem_bytes)
        return CS_OK;
    t->nearest = t->plan->peak_bytes;
    for (int32_t i = 0; i < t->plan->n_stages; i++) {
        const struct cs_search_stage *st = &t->stage[i];
        if (cs_memory_total(&st->memory) != t->plan->peak_bytes)
            continue;
        struct cs_buf text = {0};
        cs_memory_explain(&st->memory, st->rank, st->name, st->in_flight, t->problem->mem_bytes,
                          &text);
        enum cs_status status = cs_fail(err, CS_PLAN, "does not fit: %s", cs_buf_str(&text));
        cs_buf_free(&text);
        return status;
    }
    return CS_OK;
}

/* after the pipeline: gradients of the slowest stage, then the optimizer */
static void finish_step(struct trial *t)
{
    const struct cs_search_problem *p = t->problem;
    for (int32_t i = 0; i < t->plan->n_stages; i++) {
        const struct cs_memory *m = &t->stage[i].memory;
        int32_t b = t->stage[i].branch;
        bool leaves = (int64_t)shards_of(t, b) * t->option[b]->tp > p->ranks_per_node;
        int64_t sync =
            cs_ring_ns(shards_of(t, b), m->grads, leaves ? p->net_bytes_per_s : p->link_bytes_per_s,
                       leaves ? p->net_latency_ns : p->link_latency_ns);
        int64_t optim =
            p->bytes_per_s > 0
                ? (int64_t)(2e9 * (double)(m->grads + m->optimizer) / (double)p->bytes_per_s)
                : 0;
        t->plan->sync_ns = sync > t->plan->sync_ns ? sync : t->plan->sync_ns;
        t->plan->optim_ns = optim > t->plan->optim_ns ? optim : t->plan->optim_ns;
        t->plan->bubble += t->stage[i].bubble / t->plan->n_stages;
    }
    t->plan->step_ns = t->plan->pipeline_ns + t->plan->sync_ns + t->plan->optim_ns;
}

static void say_why(struct trial *t)
{
    const struct cs_search_stage *worst = &t->stage[0];
    for (int32_t i = 1; i < t->plan->n_stages; i++) {
        const struct cs_search_stage *s = &t->stage[i];
        if (s->fwd_ns + s->bwd_input_ns + s->bwd_weight_ns >
            worst->fwd_ns + worst->bwd_input_ns + worst->bwd_weight_ns)
            worst = s;
    }
    char f[CS_UNITS_CAP], b[CS_UNITS_CAP], mem[CS_UNITS_CAP];
    int64_t bwd = worst->bwd_input_ns + worst->bwd_weight_ns;
    cs_duration_print(f, sizeof(f), (uint64_t)worst->fwd_ns);
    cs_duration_print(b, sizeof(b), (uint64_t)bwd);
    cs_bytes_print(mem, sizeof(mem), (uint64_t)t->plan->peak_bytes);
    t->plan->why = cs_arena_printf(t->arena,
                                   "bottleneck %s: %d layers, F %s + B %s a slot, %d slots of a "
                                   "replica; bubble %.1f%%; largest "
                                   "rank %s%s",
                                   worst->name, worst->n_layers, f, bwd > 0 ? b : "nothing",
                                   t->slots, 100 * t->plan->bubble, mem,
                                   t->candidate->is_blind ? "; cut as if everything trained" : "");
}

static void start(struct trial *t)
{
    const struct cs_candidate *c = t->candidate;
    t->llm = t->problem->n_branches - 1;
    t->slots = (t->options->batch_slots + c->dp - 1) / c->dp;
    t->plan = CS_NEW(t->arena, struct cs_search_plan);
    *t->plan = (struct cs_search_plan){.modality = (enum cs_search_modality)c->modality,
                                       .schedule = cs_search_schedules[t->schedule].name,
                                       .is_blind_cut = c->is_blind,
                                       .slots = t->slots,
                                       .n_ranks = c->n_ranks,
                                       .score_ns = c->score_ns};
    struct cs_layout *layout = &t->plan->layout;
    layout->n_branches = t->problem->n_branches;
    layout->dp = c->dp;
    layout->zero = t->options->no_zero ? 0 : 1;
    layout->may_leave_node = t->options->may_leave_node;
    for (int32_t b = 0; b < t->problem->n_branches; b++) {
        const struct cs_search_option *o = &t->problem->branch[b].option[c->option[b]];
        t->option[b] = o;
        layout->branch[b] = (struct cs_branch_layout){.name = t->problem->branch[b].name,
                                                      .tp = o->tp,
                                                      .cp = o->cp,
                                                      .pp = c->pp[b],
                                                      .recompute = o->recompute};
    }
}

static enum cs_status check_nodes(const struct trial *t, struct cs_err *err)
{
    struct cs_layout own = t->plan->layout;
    if (own.may_leave_node)
        return CS_OK;
    if (t->candidate->modality != CS_SEARCH_PARALLEL) { /* only the LLM has ranks */
        own.branch[0] = own.branch[t->llm];
        own.n_branches = 1;
    }
    if (cs_layout_stays_in_nodes(&own, t->problem->ranks_per_node))
        return CS_OK;
    return cs_fail(err, CS_PLAN, "a tp * cp group would reach over nodes of %d ranks",
                   t->problem->ranks_per_node);
}

/* Chunks are taken as equal parts of a stage. */
static enum cs_status check_chunks(const struct trial *t, struct cs_err *err)
{
    int32_t chunks = cs_search_schedules[t->schedule].chunks;
    if (chunks == 1)
        return CS_OK;
    if (t->candidate->pp[t->llm] < 2)
        return cs_fail(err, CS_PLAN, "%s needs two stages of %s or more",
                       cs_search_schedules[t->schedule].name, t->problem->branch[t->llm].name);
    for (int32_t s = 0; s < t->candidate->pp[t->llm]; s++)
        if (t->sizes[t->llm][s] < chunks)
            return cs_fail(err, CS_PLAN, "%s cuts every stage in %d, one has a single layer",
                           cs_search_schedules[t->schedule].name, chunks);
    return CS_OK;
}

static enum cs_status run(struct trial *t, struct cs_err *err)
{
    struct cs_lab *lab = NULL;
    struct cs_lab_result result = {0};
    CS_TRY(check_nodes(t, err));
    for (int32_t b = 0; b < t->problem->n_branches; b++)
        if (stages_of(t, b) > 0)
            CS_TRY(cut_branch(t, b, err));
    CS_TRY(check_chunks(t, err));
    name_stages(t);
    CS_TRY(simulate(t, &lab, &result, err));
    t->plan->pipeline_ns = (int64_t)result.makespan;
    count_memory(t, lab, &result);
    CS_TRY(check_memory(t, err));
    finish_step(t);
    say_why(t);
    return CS_OK;
}

enum cs_status cs_search_evaluate(const struct cs_search_problem *problem,
                                  const struct cs_search_options *options,
                                  const struct cs_candidate *candidate, int schedule,
                                  struct cs_arena *arena, struct cs_search_plan **out,
                                  int64_t *nearest, struct cs_err *err)
{
    struct trial t = {.problem = problem,
                      .options = options,
                      .candidate = candidate,
                      .schedule = schedule,
                      .arena = arena,
                      .scratch = cs_arena_new(0)};
    start(&t);
    enum cs_status status = run(&t, err);
    *nearest = t.nearest;
    *out = t.plan;
    cs_arena_free(t.scratch);
    return status;
}
