/* Puts the plan of a job together from a trial, and counts what lies between its stages. */
#include "core/search/job.h"

#include "core/plan/cost/links/windows.h"
#include "core/plan/derive.h"
#include "core/plan/groups.h"

struct maker {
    const struct cs_trial *t;
    struct cs_trial_job job;
    struct cs_slot_share *share; /* (n_stages) */
    int32_t *id;                 /* (stages of the trial) */
};

static bool is_in_llm(const struct cs_trial *t, int32_t b)
{
    return t->c->place[b] == CS_PLACE_REPLICATED;
}

static struct cs_rank_shape shape_of(const struct cs_trial *t, int32_t b)
{
    return (struct cs_rank_shape){.tp = t->option[b]->tp,
                                  .cp = cs_trial_parts(t, b) / cs_trial_lanes(t, b),
                                  .ep = t->option[b]->ep > 1 ? t->option[b]->ep : 1,
                                  .dp = cs_trial_lanes(t, b)};
}

static struct cs_stage *add_stage(struct maker *m, const struct cs_stage *from, int32_t b)
{
    struct cs_plan *plan = m->job.plan;
    struct cs_stage *s = &plan->stages[plan->n_stages];
    *s = *from;
    s->id = plan->n_stages++;
    s->branch = b;
    s->shape = shape_of(m->t, b);
    s->splits_rows = m->t->option[b]->sp;
    return s;
}

/* what halves a backward has follows from them */
static void take_times(struct cs_stage *s, const struct cs_trial_part *part)
{
    s->fwd_ns = part->fwd_ns;
    s->bwd_input_ns = part->bwd_input_ns;
    s->bwd_weight_ns = part->bwd_weight_ns;
    s->has_backward = part->bwd_input_ns + part->bwd_weight_ns > 0;
}

/* Of the trial's stage without what encoders in it have. */
static void take_stage(struct maker *m, int32_t stage)
{
    const struct cs_trial *t = m->t;
    const struct cs_stage *from = &t->plan->stages[stage];
    struct cs_stage *s = add_stage(m, from, from->branch);
    const struct cs_trial_part *part = cs_trial_part_of(t, stage, from->branch);
    const bool is_guest = t->c->place[from->branch] == CS_PLACE_COLOCATED;
    m->id[stage] = s->id;
    m->share[s->id] = t->share[stage];
    take_times(s, part);
    s->copies = is_guest ? t->c->pp[t->llm] : 0;
    s->saved_bytes = t->kept[stage].saved;
    m->job.held[s->id] = t->kept[stage].held;
    for (int32_t b = 0; b < t->llm && from->branch == t->llm; b++)
        for (int32_t i = 0; is_in_llm(t, b) && i < t->problem->branch[b].n_layers; i++) {
            s->saved_bytes -= t->layer[b][i].saved_bytes;
            m->job.held[s->id] -= t->layer[b][i].held_bytes;
        }
}

static void add_copy(struct maker *m, int32_t b, int32_t index)
{
    const struct cs_trial *t = m->t;
    const struct cs_stage *host = &t->plan->stages[t->first_stage[t->llm] + index];
    const struct cs_trial_part *part = cs_trial_part_of(t, host->id, b);
    struct cs_stage *s = add_stage(m, host, b);
    s->index = index;
    s->copies = t->c->pp[t->llm];
    take_times(s, part);
    s->needs_input_grad = false;
    s->saved_bytes = 0;
    for (int32_t i = 0; i < t->problem->branch[b].n_layers; i++) {
        s->saved_bytes += t->layer[b][i].saved_bytes;
        m->job.held[s->id] += t->layer[b][i].held_bytes;
    }
    m->job.has_own_orders = true;
}

static void add_stages(struct maker *m)
{
    const struct cs_trial *t = m->t;
    for (int32_t b = 0; b <= t->llm; b++) {
        for (int32_t s = 0; s < t->plan->n_stages; s++)
            if (t->plan->stages[s].branch == b)
                take_stage(m, s);
        for (int32_t i = 0; is_in_llm(t, b) && i < t->c->pp[t->llm]; i++)
            add_copy(m, b, i);
    }
}

static void add_edge(struct maker *m, struct cs_edge edge, int64_t bytes)
{
    struct cs_plan *plan = m->job.plan;
    edge.id = plan->n_edges++;
    edge.feed = plan->stages[edge.from].branch != plan->stages[edge.to].branch ? 0 : -1;
    plan->edges[edge.id] = edge;
    m->job.edge_bytes[edge.id] = bytes;
}

/* Every copy feeds the stage beside it. */
static void add_own_feeds(struct maker *m, int32_t b)
{
    const struct cs_trial *t = m->t;
    const struct cs_plan *plan = m->job.plan;
    const int32_t n = t->problem->branch[b].n_feeds > 0 ? t->problem->branch[b].n_feeds : 1;
    for (int32_t s = 0; s < plan->n_stages; s++)
        for (int32_t f = 0; plan->stages[s].branch == b && f < n; f++) {
            const int32_t to = m->id[t->first_stage[t->llm] + plan->stages[s].index];
            const struct cs_edge edge = {
                .from = s, .to = to, .has_grad = plan->stages[s].has_backward};
            add_edge(m, edge, cs_trial_edge_bytes(t, b, 0, true));
        }
}

static void add_edges(struct maker *m)
{
    const struct cs_trial *t = m->t;
    for (int32_t e = 0; e < t->plan->n_edges; e++) {
        struct cs_edge edge = t->plan->edges[e];
        const int32_t b = t->plan->stages[edge.from].branch, to = t->plan->stages[edge.to].branch;
        edge.from = m->id[edge.from];
        edge.to = m->id[edge.to];
        for (int f = 0; f < CS_FLOWS; f++)
            edge.is_striped[f] = t->is_striped[CS_FLOWS * e + f];
        add_edge(m, edge, cs_trial_edge_bytes(t, b, t->behind[e], to != b));
    }
    for (int32_t b = 0; b < t->llm; b++)
        if (is_in_llm(t, b))
            add_own_feeds(m, b);
}

struct cs_trial_job cs_trial_job_make(const struct cs_trial *t)
{
    const int32_t n_stages = t->plan->n_stages + t->llm * t->c->pp[t->llm],
                  n_edges = cs_trial_most_edges(t) + cs_trial_most_edges(t) * t->c->pp[t->llm];
    struct maker m = {.t = t, .id = CS_NEW_ARRAY(t->scratch, int32_t, t->plan->n_stages + 1)};
    struct cs_plan *plan = m.job.plan = CS_NEW(t->scratch, struct cs_plan);
    *plan = *t->plan;
    plan->n_stages = plan->n_edges = 0;
    plan->dp = t->c->dp / t->repeats;
    plan->stages = CS_NEW_ARRAY(t->scratch, struct cs_stage, n_stages + 1);
    plan->edges = CS_NEW_ARRAY(t->scratch, struct cs_edge, n_edges + 1);
    plan->share = m.share = CS_NEW_ARRAY(t->scratch, struct cs_slot_share, n_stages + 1);
    m.job.held = CS_NEW_ARRAY(t->scratch, int64_t, n_stages + 1);
    m.job.edge_bytes = CS_NEW_ARRAY(t->scratch, int64_t, n_edges + 1);
    add_stages(&m);
    add_edges(&m);
    plan->head_stage = plan->n_stages - 1;
    plan->embed_stage = m.id[t->first_stage[t->llm]];
    cs_plan_make_channels(plan, t->scratch);
    return m.job;
}

int64_t *cs_trial_job_windows(const struct cs_trial *t, const struct cs_trial_job *job)
{
    const struct cs_plan *plan = job->plan;
    int32_t *windows = CS_NEW_ARRAY(t->scratch, int32_t, cs_plan_world(plan) + 1);
    int64_t *bytes = CS_NEW_ARRAY(t->scratch, int64_t, plan->n_ranks + 1);
    if (!t->problem->has_windows)
        return bytes;
    cs_channel_windows(plan, t->problem->ranks_per_node, t->scratch, windows);
    for (int32_t r = 0; r < plan->n_ranks; r++)
        bytes[r] = windows[cs_plan_rank_of(plan, 0, r)] * CS_WINDOW_LANE_BYTES;
    return bytes;
}

/* where embedding and head are on different ranks */
static int64_t tied_bytes(const struct cs_trial *t)
{
    const struct cs_search_layer *table = &t->option[t->llm]->shared;
    if (t->c->pp[t->llm] == 1 || table->n_trained == 0)
        return 0;
    const int64_t element = table->grad_bytes > 0 ? table->grad_bytes / table->n_trained : 4;
    return cs_tied_part(table->n_trained, cs_trial_shards(t, t->llm)) * element;
}

int64_t *cs_trial_job_boundary(const struct cs_trial *t, const struct cs_trial_job *job,
                               const int32_t *n_buffers)
{
    const struct cs_plan *plan = job->plan;
    int64_t *bytes = CS_NEW_ARRAY(t->scratch, int64_t, plan->n_ranks + 1);
    bytes[plan->stages[plan->embed_stage].rank] = bytes[plan->stages[plan->head_stage].rank] =
        tied_bytes(t);
    for (int32_t e = 0; e < plan->n_edges; e++) {
        const int32_t from = plan->stages[plan->edges[e].from].rank,
                      to = plan->stages[plan->edges[e].to].rank;
        bytes[from] += n_buffers[2 * e] * job->edge_bytes[e];
        if (to != from)
            bytes[to] += n_buffers[2 * e + 1] * job->edge_bytes[e];
    }
    return bytes;
}
