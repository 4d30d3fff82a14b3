/* Weaves the orders of all ranks into one list of items with what each waits for, and runs it. */
#include "core/search/replay.h"

#include <string.h>

#include "core/sched/orders/generator.h"

struct edges { /* edge ids that enter or leave a stage */
    int32_t *first, *id;
};

struct maker {
    const struct cs_plan *plan;
    const struct cs_stage_traits *traits;
    struct cs_pipeline pipeline;
    struct cs_order *order; /* (n_ranks) */
    struct edges in, out;
    int32_t n_slots;
    int32_t *fwd_at, *back_at; /* (n_stages, n_slots) items, -1: not yet */
    int32_t *sent;             /* (n_edges, 2, n_slots) messages of rows and gradients */
    int32_t *channel;          /* (n_ranks, n_ranks) -1: none yet */
    int32_t *last;             /* (n_ranks) item, -1 */
    uint32_t *next;            /* (n_ranks) of the order */
    struct cs_replay *replay;
    int32_t n_waits;
};

static enum cs_status make_orders(struct maker *m, const struct cs_program_options *options,
                                  struct cs_arena *scratch, struct cs_err *err)
{
    m->traits = cs_traits_make(m->plan, false, options->share, scratch);
    cs_pipeline_init(m->plan, options, m->traits, scratch, &m->pipeline);
    CS_TRY(cs_orders_make(&m->pipeline, scratch, &m->order, err));
    for (int32_t r = 0; r < m->plan->n_ranks; r++)
        m->replay->n_items += (int32_t)m->order[r].n;
    return CS_OK;
}

static void list_edges(const struct maker *m, bool is_out, struct cs_arena *scratch,
                       struct edges *e)
{
    const struct cs_plan *plan = m->plan;
    e->first = CS_NEW_ARRAY(scratch, int32_t, plan->n_stages + 2);
    e->id = CS_NEW_ARRAY(scratch, int32_t, plan->n_edges + 1);
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < plan->n_edges; i++) {
            int32_t stage = is_out ? plan->edges[i].from : plan->edges[i].to;
            if (pass == 0)
                e->first[stage + 2]++;
            else
                e->id[e->first[stage + 1]++] = i;
        }
        for (int32_t s = 0; pass == 0 && s < plan->n_stages; s++)
            e->first[s + 2] += e->first[s + 1];
    }
}

static int32_t *cell(const struct maker *m, int32_t *table, int32_t stage, int32_t slot)
{
    return &table[(int64_t)stage * m->n_slots + slot];
}

static int32_t *message_at(const struct maker *m, int32_t edge, bool is_grad, int32_t slot)
{
    return cell(m, m->sent, 2 * edge + is_grad, slot);
}

static bool is_local(const struct maker *m, const struct cs_edge *edge)
{
    return m->plan->stages[edge->from].rank == m->plan->stages[edge->to].rank;
}

/* What the next item of a rank waits for beside its rank; false: some of it is not there. */
static bool find_waits(struct maker *m, const struct cs_order_item *x)
{
    const struct cs_stage_traits *t = &m->traits[x->stage];
    bool is_fwd = x->op == CS_OP_FWD;
    const struct edges *e = is_fwd ? &m->in : &m->out;
    int32_t n = m->n_waits;
    if (!is_fwd && !cs_takes_gradient(t, (enum cs_op)x->op))
        return true; /* weight half: after the input half of its rank */
    for (int32_t i = e->first[x->stage]; i < e->first[x->stage + 1]; i++) {
        const struct cs_edge *edge = &m->plan->edges[e->id[i]];
        int32_t other = is_fwd ? edge->from : edge->to;
        if (!cs_stage_runs(&m->traits[other], x->slot) || (!is_fwd && !edge->has_grad))
            continue;
        bool is_own = is_local(m, edge);
        int32_t at = is_own ? *cell(m, is_fwd ? m->fwd_at : m->back_at, other, x->slot)
                            : *message_at(m, edge->id, !is_fwd, x->slot);
        if (at < 0)
            return false;
        m->replay->wait[n++] = is_own ? at : -1 - at;
    }
    m->n_waits = n;
    return true;
}

/* rows after a forward, gradients after the item that makes them, in the order of the edges */
static void send(struct maker *m, const struct cs_order_item *x)
{
    struct cs_replay *r = m->replay;
    bool is_fwd = x->op == CS_OP_FWD;
    const struct edges *e = is_fwd ? &m->out : &m->in;
    for (int32_t i = e->first[x->stage]; i < e->first[x->stage + 1]; i++) {
        const struct cs_edge *edge = &m->plan->edges[e->id[i]];
        int32_t other = is_fwd ? edge->to : edge->from;
        if (is_local(m, edge) || (!is_fwd && !edge->has_grad) ||
            !cs_stage_runs(&m->traits[other], x->slot))
            continue;
        int32_t from = m->plan->stages[x->stage].rank, to = m->plan->stages[other].rank;
        int32_t *channel = &m->channel[from * m->plan->n_ranks + to];
        if (*channel < 0)
            *channel = r->n_channels++;
        *message_at(m, edge->id, !is_fwd, x->slot) = r->n_messages;
        r->message[r->n_messages++] = (struct cs_replay_message){
            edge->id, *channel, is_fwd ? CS_FLOW_ROWS : CS_FLOW_GRADIENTS};
    }
}

static void emit(struct maker *m, int32_t rank, const struct cs_order_item *x, int32_t at)
{
    struct cs_replay *r = m->replay;
    const struct cs_stage_traits *t = &m->traits[x->stage];
    if (m->last[rank] >= 0)
        r->wait[m->n_waits++] = m->last[rank];
    r->item[at] = (struct cs_replay_item){.stage = x->stage,
                                          .slot = x->slot,
                                          .rank = (int16_t)rank,
                                          .op = x->op,
                                          .releases = cs_ends_backward(t, (enum cs_op)x->op)};
    r->first_wait[at + 1] = m->n_waits;
    if (x->op == CS_OP_FWD)
        *cell(m, m->fwd_at, x->stage, x->slot) = at;
    else if (cs_takes_gradient(t, (enum cs_op)x->op))
        *cell(m, m->back_at, x->stage, x->slot) = at;
    m->last[rank] = at;
    if (x->op == CS_OP_FWD || cs_takes_gradient(t, (enum cs_op)x->op))
        send(m, x);
    r->first_message[at + 1] = r->n_messages;
}

/* every rank as far as it can, again and again */
static enum cs_status weave(struct maker *m, struct cs_err *err)
{
    int32_t at = 0, before = -1;
    while (at < m->replay->n_items && at > before) {
        before = at;
        for (int32_t r = 0; r < m->plan->n_ranks; r++)
            while (m->next[r] < m->order[r].n && find_waits(m, &m->order[r].item[m->next[r]])) {
                emit(m, r, &m->order[r].item[m->next[r]], at++);
                m->next[r]++;
            }
    }
    if (at < m->replay->n_items)
        return cs_fail(err, CS_PLAN, "schedule %s dead-locks on such a plan", m->plan->schedule);
    return CS_OK;
}

static int32_t *table_of(struct cs_arena *scratch, int64_t n)
{
    int32_t *table = CS_NEW_ARRAY(scratch, int32_t, n + 1);
    for (int64_t i = 0; i < n; i++)
        table[i] = -1;
    return table;
}

static enum cs_status make(struct maker *m, const struct cs_program_options *options,
                           struct cs_arena *scratch, struct cs_arena *arena, struct cs_err *err)
{
    struct cs_replay *r = m->replay;
    CS_TRY(make_orders(m, options, scratch, err));
    list_edges(m, false, scratch, &m->in);
    list_edges(m, true, scratch, &m->out);
    r->item = CS_NEW_ARRAY(arena, struct cs_replay_item, r->n_items + 1);
    r->first_wait = CS_NEW_ARRAY(arena, int32_t, r->n_items + 2);
    /* its rank, every edge once forward and once backward, and what is noted too early */
    int64_t waits = r->n_items + ((int64_t)m->n_slots + 1) * 2 * m->plan->n_edges;
    r->wait = CS_NEW_ARRAY(arena, int32_t, waits + 1);
    r->first_message = CS_NEW_ARRAY(arena, int32_t, r->n_items + 2);
    r->message = CS_NEW_ARRAY(arena, struct cs_replay_message,
                              (int64_t)m->n_slots * 2 * m->plan->n_edges + 1);
    m->fwd_at = table_of(scratch, (int64_t)m->plan->n_stages * m->n_slots);
    m->back_at = table_of(scratch, (int64_t)m->plan->n_stages * m->n_slots);
    m->sent = table_of(scratch, (int64_t)m->plan->n_edges * 2 * m->n_slots);
    m->channel = table_of(scratch, (int64_t)m->plan->n_ranks * m->plan->n_ranks);
    m->last = table_of(scratch, m->plan->n_ranks);
    m->next = CS_NEW_ARRAY(scratch, uint32_t, m->plan->n_ranks + 1);
    return weave(m, err);
}

enum cs_status cs_replay_make(const struct cs_plan *plan, const struct cs_slot_share *share,
                              int32_t n_slots, struct cs_arena *arena, struct cs_replay **out,
                              struct cs_err *err)
{
    struct cs_program_options options = {.n_slots = n_slots, .share = share};
    struct maker m = {.plan = plan, .n_slots = n_slots};
    struct cs_arena *scratch = cs_arena_new(0);
    m.replay = CS_NEW(arena, struct cs_replay);
    *m.replay = (struct cs_replay){.plan = plan, .n_slots = n_slots};
    enum cs_status status = make(&m, &options, scratch, arena, err);
    cs_arena_free(scratch);
    *out = m.replay;
    return status;
}

int64_t cs_replay_scratch(const struct cs_replay *r, int32_t lanes)
{
    return (int64_t)r->n_items + r->n_messages + r->n_channels + (int64_t)r->plan->n_ranks * lanes;
}

struct runner {
    const struct cs_replay *r;
    const struct cs_replay_lanes *lanes;
    int64_t *end, *arrival, *free_at; /* of items, messages and channels */
    int64_t *busy;                    /* (n_ranks, lanes) until then */
};

static struct cs_context_group group_of(const struct runner *m, const struct cs_replay_item *x)
{
    return m->lanes->is_split[x->stage] ? m->lanes->slot[x->slot]
                                        : (struct cs_context_group){0, m->lanes->n};
}

/* Of a rank's own items those of the same slot count; how long its lanes have others they say. */
static bool waits_for(const struct runner *m, const struct cs_replay_item *x, int32_t item)
{
    return m->lanes == NULL || m->r->item[item].slot == x->slot;
}

static int64_t start_of(const struct runner *m, int32_t i)
{
    const struct cs_replay *r = m->r;
    int64_t start = 0;
    for (int32_t w = r->first_wait[i]; w < r->first_wait[i + 1]; w++) {
        const int32_t on = r->wait[w];
        if (on >= 0 && !waits_for(m, &r->item[i], on))
            continue;
        const int64_t at = on >= 0 ? m->end[on] : m->arrival[-1 - on];
        start = at > start ? at : start;
    }
    if (m->lanes == NULL)
        return start;
    const struct cs_context_group g = group_of(m, &r->item[i]);
    const int64_t *busy = m->busy + (int64_t)r->item[i].rank * m->lanes->n;
    for (int32_t l = g.first; l < g.first + g.n; l++)
        start = busy[l] > start ? busy[l] : start;
    return start;
}

static void occupy(const struct runner *m, int32_t i)
{
    if (m->lanes == NULL)
        return;
    const struct cs_context_group g = group_of(m, &m->r->item[i]);
    int64_t *busy = m->busy + (int64_t)m->r->item[i].rank * m->lanes->n;
    for (int32_t l = g.first; l < g.first + g.n; l++)
        busy[l] = m->end[i];
}

int64_t cs_replay_run(const struct cs_replay *r, const int64_t *cost, const int64_t *hop,
                      const struct cs_replay_lanes *lanes, int64_t *scratch)
{
    struct runner m = {.r = r, .lanes = lanes, .end = scratch};
    int64_t makespan = 0;
    m.arrival = m.end + r->n_items;
    m.free_at = m.arrival + r->n_messages;
    m.busy = m.free_at + r->n_channels;
    const int64_t n_busy = lanes != NULL ? (int64_t)r->plan->n_ranks * lanes->n : 0;
    memset(m.free_at, 0, (size_t)(r->n_channels + n_busy) * sizeof *m.free_at);
    for (int32_t i = 0; i < r->n_items; i++) {
        m.end[i] = start_of(&m, i) + cost[i];
        occupy(&m, i);
        makespan = m.end[i] > makespan ? m.end[i] : makespan;
        for (int32_t k = r->first_message[i]; k < r->first_message[i + 1]; k++) {
            const struct cs_replay_message *x = &r->message[k];
            int64_t *channel = &m.free_at[x->channel];
            *channel =
                (*channel > m.end[i] ? *channel : m.end[i]) + hop[CS_FLOWS * x->edge + x->flow];
            m.arrival[k] = *channel;
        }
    }
    return makespan;
}

void cs_replay_peaks(const struct cs_replay *r, const int32_t *group,
                     const struct cs_replay_kept *kept, int32_t *slots, int64_t *bytes,
                     struct cs_arena *scratch)
{
    int32_t *live = CS_NEW_ARRAY(scratch, int32_t, r->plan->n_stages + 1);
    int32_t *halves = CS_NEW_ARRAY(scratch, int32_t, r->plan->n_stages + 1); /* between them */
    int64_t *now = CS_NEW_ARRAY(scratch, int64_t, r->plan->n_ranks + 1);
    for (int32_t s = 0; s < r->plan->n_stages; s++)
        slots[s] = 1;
    for (int32_t k = 0; k < r->plan->n_ranks; k++)
        bytes[k] = 0;
    for (int32_t i = 0; i < r->n_items; i++) {
        const struct cs_replay_item *x = &r->item[i];
        bool keeps = r->plan->stages[x->stage].has_backward;
        int32_t g = group[x->stage];
        if (x->op == CS_OP_FWD && keeps) {
            live[g]++;
            now[x->rank] += kept[x->stage].saved;
        } else if (x->op == CS_OP_BWD_INPUT && !x->releases && keeps) {
            halves[x->stage]++;
            now[x->rank] += kept[x->stage].held;
        } else if (x->releases && keeps) {
            live[g]--;
            now[x->rank] -= kept[x->stage].saved;
            now[x->rank] -= halves[x->stage] > 0 ? kept[x->stage].held : 0;
            halves[x->stage] -= halves[x->stage] > 0;
        }
        slots[g] = live[g] > slots[g] ? live[g] : slots[g];
        bytes[x->rank] = now[x->rank] > bytes[x->rank] ? now[x->rank] : bytes[x->rank];
    }
}
