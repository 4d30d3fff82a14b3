/* Draws the bytes that a rank holds over time, by class. */
#include "core/sched/sim/memory_curve.h"

#include <stdlib.h>
#include <string.h>

#include "core/sched/proof/kept.h"

struct change {
    int64_t at_ns, bytes;
    int held;
};

struct curve {
    const struct cs_sim_run *run;
    const struct cs_program *program;
    const struct cs_rank_program *rp;
    int32_t rank;
    int element_bytes;
    struct cs_arena *scratch;
    struct cs_kept_of kept;
    int32_t *first_out, *next_out;      /* edges by their producer, -1: the last */
    struct cs_forecast_point *constant; /* (n_ranks) weights and state */
    struct change *change;
    uint32_t n, cap;
};

static void add(struct curve *c, int64_t at_ns, enum cs_held held, int64_t bytes)
{
    if (bytes == 0)
        return;
    if (c->n == c->cap) {
        uint32_t cap = c->cap ? 2 * c->cap : 256;
        struct change *grown = CS_NEW_ARRAY(c->scratch, struct change, cap);
        if (c->n > 0)
            memcpy(grown, c->change, c->n * sizeof *grown);
        c->change = grown;
        c->cap = cap;
    }
    c->change[c->n++] = (struct change){at_ns, bytes, (int)held};
}

static int64_t start_of(const struct curve *c, uint32_t id)
{
    return (int64_t)c->run->result.start[c->run->graph.base[c->rank] + id];
}

static int64_t end_of(const struct curve *c, uint32_t id)
{
    return (int64_t)c->run->result.end[c->run->graph.base[c->rank] + id];
}

static void hold(struct curve *c, enum cs_held held, int64_t bytes, int64_t from, int64_t to)
{
    if (to <= from)
        return;
    add(c, from, held, bytes);
    add(c, to, held, -bytes);
}

static int64_t edge_bytes(const struct curve *c, int32_t edge)
{
    return cs_edge_bytes(&c->program->plan->edges[edge], c->element_bytes);
}

static bool is_compute(const struct cs_action *a)
{
    return cs_op_stream((enum cs_op)a->op) == CS_STREAM_COMPUTE;
}

/* what is kept of live slots */
static void add_activations(struct curve *c)
{
    const uint32_t n = c->rp->n_fifo[CS_STREAM_COMPUTE];
    struct cs_kept_change *change = CS_NEW_ARRAY(c->scratch, struct cs_kept_change, (size_t)n + 1);
    cs_program_kept_bytes(c->program, &c->kept, c->rank, change, c->scratch);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t id = c->rp->fifo[CS_STREAM_COMPUTE][i];
        add(c, start_of(c, id), CS_HELD_ACTIVATIONS, change[i].taken);
        add(c, end_of(c, id), CS_HELD_ACTIVATIONS, -change[i].released);
    }
}

/* an edge between two stages of this rank */
static int32_t edge_between(const struct curve *c, int32_t from, int32_t to)
{
    int32_t e = c->first_out[from];
    while (e >= 0 && c->program->plan->edges[e].to != to)
        e = c->next_out[e];
    return e;
}

/* What an action depends on gives it rows: receives, and stages of the same rank. */
static void add_inputs(struct curve *c, const struct cs_action *a, int64_t *used_at)
{
    for (uint32_t d = 0; d < a->n_deps; d++) {
        uint32_t on = c->rp->deps[a->first_dep + d];
        const struct cs_action *source = &c->rp->actions[on];
        if (source->op == CS_OP_RECV && end_of(c, a->id) > used_at[on])
            used_at[on] = end_of(c, a->id);
        if (a->stage < 0 || source->stage < 0 || !is_compute(source) || source->slot != a->slot)
            continue;
        bool is_grad = a->op != CS_OP_FWD;
        int32_t edge = is_grad ? edge_between(c, a->stage, source->stage)
                               : edge_between(c, source->stage, a->stage);
        if (edge >= 0)
            hold(c, CS_HELD_BOUNDARY, edge_bytes(c, edge), end_of(c, on), end_of(c, a->id));
    }
}

static void add_boundary(struct curve *c)
{
    int64_t *used_at = CS_NEW_ARRAY(c->scratch, int64_t, (size_t)c->rp->n_actions + 1);
    for (uint32_t i = 0; i < c->rp->n_actions; i++)
        if (is_compute(&c->rp->actions[i]))
            add_inputs(c, &c->rp->actions[i], used_at);
    for (uint32_t i = 0; i < c->rp->n_actions; i++) {
        const struct cs_action *a = &c->rp->actions[i];
        int64_t made = start_of(c, i);
        for (uint32_t d = 0; d < a->n_deps && a->op == CS_OP_SEND; d++) {
            int64_t end = end_of(c, c->rp->deps[a->first_dep + d]);
            made = end < made ? end : made;
        }
        if (a->op == CS_OP_SEND)
            hold(c, CS_HELD_BOUNDARY, edge_bytes(c, a->edge), made, end_of(c, i));
        if (a->op == CS_OP_RECV)
            hold(c, CS_HELD_BOUNDARY, edge_bytes(c, a->edge), start_of(c, i), used_at[i]);
    }
}

static int by_time(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    if (a->at_ns != b->at_ns)
        return a->at_ns < b->at_ns ? -1 : 1;
    if (a->held != b->held)
        return a->held - b->held;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static void draw(struct curve *c, struct cs_arena *arena, struct cs_forecast_rank *out)
{
    struct cs_forecast_point now = c->constant[c->rank];
    if (c->n > 0)
        qsort(c->change, c->n, sizeof *c->change, by_time);
    out->memory = CS_NEW_ARRAY(arena, struct cs_forecast_point, (size_t)c->n + 2);
    for (uint32_t i = 0; i < c->n;) {
        if (c->change[i].at_ns > now.at_ns)
            out->memory[out->n_points++] = now;
        now.at_ns = c->change[i].at_ns;
        for (; i < c->n && c->change[i].at_ns == now.at_ns; i++)
            now.bytes[c->change[i].held] += c->change[i].bytes;
    }
    out->memory[out->n_points++] = now;
}

static void prepare(struct curve *c)
{
    const struct cs_plan *plan = c->program->plan;
    c->first_out = CS_NEW_ARRAY(c->scratch, int32_t, (size_t)plan->n_stages + 1);
    c->next_out = CS_NEW_ARRAY(c->scratch, int32_t, (size_t)plan->n_edges + 1);
    c->constant = CS_NEW_ARRAY(c->scratch, struct cs_forecast_point, (size_t)plan->n_ranks + 1);
    for (int32_t s = 0; s < plan->n_stages; s++) {
        struct cs_forecast_point *at = &c->constant[plan->stages[s].rank];
        at->bytes[CS_HELD_WEIGHTS] += plan->stages[s].weight_bytes;
        at->bytes[CS_HELD_STATE] += plan->stages[s].state_bytes;
        c->first_out[s] = -1;
    }
    for (int32_t e = plan->n_edges - 1; e >= 0; e--) {
        c->next_out[e] = c->first_out[plan->edges[e].from];
        c->first_out[plan->edges[e].from] = e;
    }
}

void cs_memory_curves(const struct cs_sim_run *run, const int64_t *held, int element_bytes,
                      struct cs_arena *scratch, struct cs_arena *arena,
                      struct cs_forecast_rank *rank)
{
    struct curve c = {.run = run,
                      .program = run->repeat.program,
                      .element_bytes = element_bytes,
                      .scratch = scratch};
    prepare(&c);
    c.kept = cs_program_kept_of(c.program, held, scratch);
    for (c.rank = 0; c.rank < c.program->n_ranks; c.rank++) {
        c.rp = &c.program->rank[c.rank];
        c.n = 0;
        add_activations(&c);
        add_boundary(&c);
        draw(&c, arena, &rank[c.rank]);
    }
}
