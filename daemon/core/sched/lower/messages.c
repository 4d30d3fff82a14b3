/* Adds messages, dependencies and the end of the step to compute orders.
 *
 * A SEND stands right after its producer. A RECV stands before its first consumer, but the receives
 * from one peer keep the order of that peer's sends, whatever edges and directions they belong to:
 * messages between two ranks in one direction are a FIFO. A RECV depends on nothing: boundary
 * buffers exist for every slot of the step, so it may be posted as early as the transport likes.
 *
 * Rows of the next step (lead) have no consumer in this program: their RECVs stand before the end
 * of the step, and each waits until the consumer has no more use for the rows of the same slot.
 * With a bound on running ahead, a forward-only stage waits for its send of slot i - ahead, and
 * rows of slot i are received once their consumer has computed slot i - 2.
 *
 * End of a training step: COPIES, TENSORS, REDUCE, TIED, NORM over all ranks, STEP, GATHER, MARK (REDUCE and
 * GATHER with replicas only). TIED stands behind REDUCE: the two ranks of a tied embedding each sum
 * their own gradient over their replicas, and exchange only the part that they update. MARK also
 * waits for the last send to every peer, after which all boundary buffers are free. */
#include "core/sched/lower/messages.h"

#include <string.h>

#include "core/plan/groups.h"

#define NONE UINT32_MAX

/* what flows over an edge for a slot */
enum flow { ROWS, GRAD, LEAD_ROWS, N_FLOWS };

/* what a stage computes for a slot; GRAD_WORK: the backward that receives the gradient */
enum work { FORWARD, GRAD_WORK, WEIGHT_WORK, LEAD_FORWARD, N_WORKS };

enum { CONSUMER_BUFFERS = 2 };

struct message {
    int16_t edge;
    uint8_t flow;
    int32_t slot;
};

/* all messages of one pair of ranks in one direction, in the order of the sends */
struct channel {
    int32_t from, to;
    struct message *msg;
    uint32_t n, cap;
    uint32_t n_received;       /* emitted so far on the receiving rank */
    uint32_t last_send;        /* action id on the sending rank */
    int32_t next_out, next_in; /* other channels that begin, end at the same rank; -1: the last */
};

struct stage_links {
    int32_t *in, *out; /* edge ids */
    int32_t n_in, n_out;
};

struct pass {
    const struct cs_pipeline *pipe;
    const struct cs_plan *plan;
    const struct cs_program_options *options;
    struct cs_arena *arena;
    struct stage_links *links;
    struct channel *channel;
    int32_t n_channels;
    int32_t *first_out, *first_in; /* (n_ranks) channels, -1: none */
    int32_t *edge_channel;         /* (n_edges, 2) rows, gradient; -1: same rank */
    uint32_t *position;            /* (n_edges, N_FLOWS, n_slots) in its channel */
    uint32_t *send, *recv;         /* (n_edges, N_FLOWS, n_slots) action ids */
    uint32_t *done;                /* (n_stages, N_WORKS, n_slots) action ids */
    bool has_tied;
    /* the rank being written */
    struct cs_rank_program *out;
    uint32_t cap_actions, cap_deps;
};

static size_t edge_at(const struct pass *p, int32_t edge, int flow, int32_t slot)
{
    return ((size_t)edge * N_FLOWS + (size_t)flow) * (size_t)p->pipe->n_slots + (size_t)slot;
}

static size_t stage_at(const struct pass *p, int32_t stage, int work, int32_t slot)
{
    return ((size_t)stage * N_WORKS + (size_t)work) * (size_t)p->pipe->n_slots + (size_t)slot;
}

static enum work work_of(const struct pass *p, const struct cs_order_item *item)
{
    if (item->op == CS_OP_FWD)
        return item->lead ? LEAD_FORWARD : FORWARD;
    if (item->op == CS_OP_BWD_WEIGHT && p->pipe->traits[item->stage].has_input_part)
        return WEIGHT_WORK;
    return GRAD_WORK;
}

/* the edge carries the flow for the slot */
static bool flows(const struct pass *p, int32_t edge, int flow, int32_t slot)
{
    const struct cs_edge *e = &p->plan->edges[edge];
    const struct cs_stage_traits *from = &p->pipe->traits[e->from], *to = &p->pipe->traits[e->to];
    if (!cs_stage_runs(from, slot) || !cs_stage_runs(to, slot))
        return false;
    if (flow == GRAD)
        return e->has_grad && !p->pipe->is_eval;
    if (flow == LEAD_ROWS)
        return from->leads && slot < p->options->lead_after;
    return !cs_is_done_before(from, p->options->lead_before, slot);
}

static int32_t channel_at(const struct pass *p, int32_t edge, int flow)
{
    return p->edge_channel[2 * edge + (flow == GRAD)];
}

static void link_stages(struct pass *p)
{
    p->links = CS_NEW_ARRAY(p->arena, struct stage_links, p->plan->n_stages);
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        p->links[p->plan->edges[e].from].n_out++;
        p->links[p->plan->edges[e].to].n_in++;
    }
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        struct stage_links *l = &p->links[s];
        l->in = CS_NEW_ARRAY(p->arena, int32_t, l->n_in + 1);
        l->out = CS_NEW_ARRAY(p->arena, int32_t, l->n_out + 1);
        l->n_in = l->n_out = 0;
    }
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        struct stage_links *from = &p->links[p->plan->edges[e].from];
        struct stage_links *to = &p->links[p->plan->edges[e].to];
        from->out[from->n_out++] = e;
        to->in[to->n_in++] = e;
    }
}

static int32_t channel_of(struct pass *p, int32_t from, int32_t to)
{
    for (int32_t c = p->first_out[from]; c >= 0; c = p->channel[c].next_out)
        if (p->channel[c].to == to)
            return c;
    p->channel[p->n_channels] = (struct channel){.from = from,
                                                 .to = to,
                                                 .last_send = NONE,
                                                 .next_out = p->first_out[from],
                                                 .next_in = p->first_in[to]};
    p->first_out[from] = p->first_in[to] = p->n_channels;
    return p->n_channels++;
}

static uint32_t count_messages(const struct pass *p, int32_t edge, int flow)
{
    uint32_t n = 0;
    for (int32_t slot = 0; slot < p->pipe->n_slots; slot++)
        n += flows(p, edge, flow, slot);
    return n;
}

static void make_channels(struct pass *p)
{
    size_t n = 2 * (size_t)p->plan->n_edges;
    p->channel = CS_NEW_ARRAY(p->arena, struct channel, n + 1);
    p->edge_channel = CS_NEW_ARRAY(p->arena, int32_t, n + 1);
    p->first_out = CS_NEW_ARRAY(p->arena, int32_t, p->pipe->n_ranks + 1);
    p->first_in = CS_NEW_ARRAY(p->arena, int32_t, p->pipe->n_ranks + 1);
    for (int32_t r = 0; r < p->pipe->n_ranks; r++)
        p->first_out[r] = p->first_in[r] = -1;
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        const struct cs_edge *edge = &p->plan->edges[e];
        int32_t from = p->plan->stages[edge->from].rank, to = p->plan->stages[edge->to].rank;
        bool has_grad = edge->has_grad && !p->pipe->is_eval;
        p->edge_channel[2 * e] = from == to ? -1 : channel_of(p, from, to);
        p->edge_channel[2 * e + 1] = from == to || !has_grad ? -1 : channel_of(p, to, from);
    }
    for (int32_t e = 0; e < p->plan->n_edges; e++)
        for (int flow = 0; flow < N_FLOWS; flow++)
            if (channel_at(p, e, flow) >= 0)
                p->channel[channel_at(p, e, flow)].cap += count_messages(p, e, flow);
    for (int32_t c = 0; c < p->n_channels; c++)
        p->channel[c].msg = CS_NEW_ARRAY(p->arena, struct message, p->channel[c].cap + 1);
}

/* what the finished item sends, edge by edge: rows to consumers, gradients to producers */
static int32_t outgoing(const struct pass *p, const struct cs_order_item *item, int32_t **edges,
                        int *flow)
{
    const struct stage_links *l = &p->links[item->stage];
    enum work work = work_of(p, item);
    *flow = work == FORWARD ? ROWS : work == LEAD_FORWARD ? LEAD_ROWS : GRAD;
    *edges = work == GRAD_WORK ? l->in : l->out;
    return work == WEIGHT_WORK ? 0 : work == GRAD_WORK ? l->n_in : l->n_out;
}

static void list_messages(struct pass *p, const struct cs_order *order)
{
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *item = &order->item[i];
        int32_t *edges;
        int flow;
        int32_t n = outgoing(p, item, &edges, &flow);
        for (int32_t k = 0; k < n; k++) {
            int32_t c = channel_at(p, edges[k], flow);
            if (c < 0 || !flows(p, edges[k], flow, item->slot))
                continue;
            struct channel *ch = &p->channel[c];
            p->position[edge_at(p, edges[k], flow, item->slot)] = ch->n;
            ch->msg[ch->n++] = (struct message){(int16_t)edges[k], (uint8_t)flow, item->slot};
        }
    }
}

static uint32_t add_action(struct pass *p, struct cs_action action)
{
    struct cs_rank_program *out = p->out;
    if (out->n_actions == p->cap_actions) {
        p->cap_actions = p->cap_actions ? 2 * p->cap_actions : 64;
        struct cs_action *grown = CS_NEW_ARRAY(p->arena, struct cs_action, p->cap_actions);
        if (out->n_actions)
            memcpy(grown, out->actions, out->n_actions * sizeof *grown);
        out->actions = grown;
    }
    action.id = out->n_actions;
    action.first_dep = out->n_deps;
    out->actions[out->n_actions++] = action;
    return action.id;
}

/* only for the action added last */
static void add_dep(struct pass *p, uint32_t on)
{
    struct cs_rank_program *out = p->out;
    if (on == NONE)
        return;
    if (out->n_deps == p->cap_deps) {
        p->cap_deps = p->cap_deps ? 2 * p->cap_deps : 64;
        uint32_t *grown = CS_NEW_ARRAY(p->arena, uint32_t, p->cap_deps);
        if (out->n_deps)
            memcpy(grown, out->deps, out->n_deps * sizeof *grown);
        out->deps = grown;
    }
    out->deps[out->n_deps++] = on;
    out->actions[out->n_actions - 1].n_deps++;
}

static struct cs_action blank(enum cs_op op)
{
    return (struct cs_action){
        .op = (uint8_t)op, .stage = -1, .edge = -1, .peer = -1, .comm = -1, .slot = -1};
}

static int16_t group_of(const struct pass *p, enum cs_group_kind kind, int32_t of, int32_t rank)
{
    return (int16_t)cs_plan_group(p->plan, kind, of, cs_plan_rank_of(p->plan, 0, rank));
}

static uint32_t add_transfer(struct pass *p, enum cs_op op, const struct message *msg, int32_t peer)
{
    const struct cs_edge *edge = &p->plan->edges[msg->edge];
    bool at_producer = (op == CS_OP_SEND) != (msg->flow == GRAD);
    struct cs_action action = blank(op);
    action.is_grad = msg->flow == GRAD;
    action.lead = msg->flow == LEAD_ROWS;
    action.stage = (int16_t)(at_producer ? edge->from : edge->to);
    action.edge = msg->edge;
    action.peer = (int16_t)peer;
    action.slot = msg->slot;
    return add_action(p, action);
}

/* the action after which the stage needs the rows of the slot no more */
static uint32_t last_use(const struct pass *p, int32_t stage, int32_t slot)
{
    const struct cs_stage_traits *t = &p->pipe->traits[stage];
    uint32_t weight = p->done[stage_at(p, stage, WEIGHT_WORK, slot)];
    int work = t->has_backward ? GRAD_WORK : FORWARD;
    return weight != NONE ? weight : p->done[stage_at(p, stage, work, slot)];
}

static void add_recv(struct pass *p, const struct channel *ch, const struct message *msg)
{
    const struct cs_edge *edge = &p->plan->edges[msg->edge];
    bool is_bounded = p->options->ahead > 0 && !p->pipe->traits[edge->from].has_backward;
    p->recv[edge_at(p, msg->edge, msg->flow, msg->slot)] =
        add_transfer(p, CS_OP_RECV, msg, ch->from);
    if (msg->flow == LEAD_ROWS && !p->pipe->traits[edge->to].leads)
        add_dep(p, last_use(p, edge->to, msg->slot));
    else if (msg->flow == ROWS && is_bounded && msg->slot >= CONSUMER_BUFFERS)
        add_dep(p, p->done[stage_at(p, edge->to, FORWARD, msg->slot - CONSUMER_BUFFERS)]);
}

/* receives of the channel up to and including the wanted one */
static void receive_up_to(struct pass *p, int32_t edge, int flow, int32_t slot)
{
    struct channel *ch = &p->channel[channel_at(p, edge, flow)];
    uint32_t wanted = p->position[edge_at(p, edge, flow, slot)];
    for (; wanted != NONE && ch->n_received <= wanted; ch->n_received++)
        add_recv(p, ch, &ch->msg[ch->n_received]);
}

/* what the item consumes: rows from producers, gradients from consumers */
static int32_t incoming(const struct pass *p, const struct cs_order_item *item, int32_t **edges,
                        int *flow)
{
    const struct stage_links *l = &p->links[item->stage];
    enum work work = work_of(p, item);
    *flow = work == FORWARD ? ROWS : work == LEAD_FORWARD ? LEAD_ROWS : GRAD;
    *edges = work == GRAD_WORK ? l->out : l->in;
    return work == WEIGHT_WORK ? 0 : work == GRAD_WORK ? l->n_out : l->n_in;
}

/* the stage's own earlier work on the slot */
static void depend_on_self(struct pass *p, const struct cs_order_item *item, enum work work)
{
    if (work == GRAD_WORK)
        add_dep(p, p->done[stage_at(p, item->stage, FORWARD, item->slot)]);
    if (work == WEIGHT_WORK)
        add_dep(p, p->done[stage_at(p, item->stage, GRAD_WORK, item->slot)]);
}

/* a stage that may not be further ahead of its messages */
static void hold_back(struct pass *p, const struct cs_order_item *item)
{
    const struct stage_links *l = &p->links[item->stage];
    int32_t slot = item->slot - p->options->ahead;
    if (p->options->ahead <= 0 || slot < 0 || item->op != CS_OP_FWD ||
        p->pipe->traits[item->stage].has_backward)
        return;
    for (int32_t k = 0; k < l->n_out; k++)
        add_dep(p, p->send[edge_at(p, l->out[k], item->lead ? LEAD_ROWS : ROWS, slot)]);
}

static void add_compute(struct pass *p, const struct cs_order_item *item)
{
    enum work work = work_of(p, item);
    int32_t *edges;
    int flow;
    int32_t n = incoming(p, item, &edges, &flow);
    for (int32_t k = 0; k < n; k++)
        if (channel_at(p, edges[k], flow) >= 0 && flows(p, edges[k], flow, item->slot))
            receive_up_to(p, edges[k], flow, item->slot);
    struct cs_action action = blank((enum cs_op)item->op);
    action.stage = item->stage;
    action.slot = item->slot;
    action.lead = item->lead;
    p->done[stage_at(p, item->stage, work, item->slot)] = add_action(p, action);
    depend_on_self(p, item, work);
    for (int32_t k = 0; k < n; k++) {
        const struct cs_edge *edge = &p->plan->edges[edges[k]];
        int32_t other = flow == GRAD ? edge->to : edge->from;
        if (!flows(p, edges[k], flow, item->slot))
            continue;
        if (channel_at(p, edges[k], flow) >= 0)
            add_dep(p, p->recv[edge_at(p, edges[k], flow, item->slot)]);
        else /* both stages on this rank */
            add_dep(p, p->done[stage_at(p, other, work, item->slot)]);
    }
    hold_back(p, item);
}

static void add_sends(struct pass *p, const struct cs_order_item *item)
{
    int32_t *edges;
    int flow;
    int32_t n = outgoing(p, item, &edges, &flow);
    for (int32_t k = 0; k < n; k++) {
        int32_t c = channel_at(p, edges[k], flow);
        if (c < 0 || !flows(p, edges[k], flow, item->slot))
            continue;
        struct message msg = {(int16_t)edges[k], (uint8_t)flow, item->slot};
        uint32_t id = add_transfer(p, CS_OP_SEND, &msg, p->channel[c].to);
        p->channel[c].last_send = p->send[edge_at(p, edges[k], flow, item->slot)] = id;
        add_dep(p, p->done[stage_at(p, item->stage, work_of(p, item), item->slot)]);
    }
}

/* the gradients of the stage's weights are complete */
static uint32_t last_backward(const struct pass *p, int32_t stage)
{
    int32_t slot = cs_last_slot(&p->pipe->traits[stage], p->pipe->n_slots);
    if (slot < 0)
        return NONE;
    uint32_t weight = p->done[stage_at(p, stage, WEIGHT_WORK, slot)];
    return weight != NONE ? weight : p->done[stage_at(p, stage, GRAD_WORK, slot)];
}

/* the two ranks of the exchange; one rank that has both stages adds locally (peer -1) */
static uint32_t add_tied(struct pass *p, int32_t rank)
{
    int32_t embed = p->plan->stages[p->plan->embed_stage].rank;
    int32_t head = p->plan->stages[p->plan->head_stage].rank;
    if (!p->has_tied || (rank != embed && rank != head))
        return NONE;
    struct cs_action action = blank(CS_OP_TIED);
    action.stage = (int16_t)(rank == head ? p->plan->head_stage : p->plan->embed_stage);
    action.peer = (int16_t)(embed == head ? -1 : rank == head ? embed : head);
    action.comm = group_of(p, CS_GROUP_TIED, -1, rank);
    uint32_t id = add_action(p, action);
    if (rank == embed)
        add_dep(p, last_backward(p, p->plan->embed_stage));
    if (rank == head)
        add_dep(p, last_backward(p, p->plan->head_stage));
    return id;
}

/* Sums over copies, branch by branch on every rank: one order for all. Returns the first, *n how
 * many follow each other. */
static uint32_t add_copies(struct pass *p, int32_t rank, uint32_t *n)
{
    const struct cs_rank_node *node = &p->pipe->node[rank];
    uint32_t first = p->out->n_actions;
    for (int32_t i = 0; i < node->n_stages; i++) {
        int32_t stage = node->stages[i];
        if (!cs_sums_over_copies(p->plan, p->pipe->traits, stage))
            continue;
        struct cs_action action = blank(CS_OP_COPIES);
        action.stage = (int16_t)stage;
        action.comm = group_of(p, CS_GROUP_COPIES, p->plan->stages[stage].branch, rank);
        add_action(p, action);
        add_dep(p, last_backward(p, stage));
    }
    *n = p->out->n_actions - first;
    return first;
}

/* a collective of the ranks that run this program, or of their replicas, where there are any */
static uint32_t add_among(struct pass *p, int32_t rank, enum cs_op op)
{
    struct cs_action action = blank(op);
    action.comm = group_of(p, (enum cs_group_kind)cs_op_table[op].group, -1, rank);
    return action.comm >= 0 ? add_action(p, action) : NONE;
}

/* Rows that arrive for the next step. They stand before the end of this one. */
static uint32_t add_lead_receives(struct pass *p, int32_t rank)
{
    uint32_t last = NONE;
    for (int32_t c = p->first_in[rank]; c >= 0; c = p->channel[c].next_in)
        for (struct channel *ch = &p->channel[c]; ch->n_received < ch->n; ch->n_received++) {
            add_recv(p, ch, &ch->msg[ch->n_received]);
            last = p->out->n_actions - 1;
        }
    return last;
}

static void add_end(struct pass *p, int32_t rank, uint32_t last_compute)
{
    uint32_t first_lead = p->out->n_actions;
    uint32_t last_lead = add_lead_receives(p, rank), gathered = NONE;
    if (!p->pipe->is_eval) {
        uint32_t n_sums, sums = add_copies(p, rank, &n_sums);
        uint32_t tensors = add_among(p, rank, CS_OP_TENSORS);
        if (tensors != NONE)
            add_dep(p, last_compute);
        uint32_t reduce = add_among(p, rank, CS_OP_REDUCE);
        if (reduce != NONE)
            add_dep(p, last_compute);
        if (reduce != NONE)
            add_dep(p, tensors);
        for (uint32_t i = 0; reduce != NONE && i < n_sums; i++)
            add_dep(p, sums + i);
        uint32_t tied = add_tied(p, rank);
        if (tied != NONE)
            add_dep(p, reduce);
        struct cs_action norm = blank(CS_OP_NORM);
        norm.comm = group_of(p, CS_GROUP_WORLD, -1, rank);
        uint32_t norm_id = add_action(p, norm);
        add_dep(p, last_compute);
        add_dep(p, tied);
        add_dep(p, tensors);
        for (uint32_t i = 0; i < n_sums; i++)
            add_dep(p, sums + i);
        add_dep(p, reduce);
        last_compute = add_action(p, blank(CS_OP_STEP));
        add_dep(p, norm_id);
        uint32_t gather = add_among(p, rank, CS_OP_GATHER);
        if (gather != NONE)
            add_dep(p, last_compute);
        gathered = gather;
    }
    add_action(p, blank(CS_OP_MARK));
    add_dep(p, last_compute);
    add_dep(p, gathered);
    for (uint32_t id = first_lead; last_lead != NONE && id <= last_lead; id++)
        add_dep(p, id);
    for (int32_t c = p->first_out[rank]; c >= 0; c = p->channel[c].next_out)
        add_dep(p, p->channel[c].last_send);
}

static void fill_fifos(struct pass *p)
{
    struct cs_rank_program *out = p->out;
    for (int s = 0; s < CS_STREAM_COUNT; s++)
        out->fifo[s] = CS_NEW_ARRAY(p->arena, uint32_t, out->n_actions);
    for (uint32_t i = 0; i < out->n_actions; i++) {
        enum cs_stream stream = cs_op_stream((enum cs_op)out->actions[i].op);
        out->fifo[stream][out->n_fifo[stream]++] = i;
    }
}

/* Room for what the rank can have: its compute, its messages, the end of the step. */
static void reserve(struct pass *p, int32_t rank, const struct cs_order *order)
{
    size_t actions = order->n + 7;
    for (int32_t c = p->first_out[rank]; c >= 0; c = p->channel[c].next_out)
        actions += p->channel[c].n;
    for (int32_t c = p->first_in[rank]; c >= 0; c = p->channel[c].next_in)
        actions += p->channel[c].n;
    p->cap_actions = (uint32_t)actions;
    p->cap_deps = (uint32_t)(actions + order->n + 64);
    p->out->actions = CS_NEW_ARRAY(p->arena, struct cs_action, p->cap_actions);
    p->out->deps = CS_NEW_ARRAY(p->arena, uint32_t, p->cap_deps);
}

static void write_rank(struct pass *p, int32_t rank, const struct cs_order *order,
                       struct cs_rank_program *out)
{
    p->out = out;
    out->rank = rank;
    reserve(p, rank, order);
    uint32_t last_compute = NONE;
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *item = &order->item[i];
        add_compute(p, item);
        last_compute = p->done[stage_at(p, item->stage, work_of(p, item), item->slot)];
        add_sends(p, item);
    }
    add_end(p, rank, last_compute);
    fill_fifos(p);
}

static uint32_t *new_ids(struct pass *p, int32_t n, int kinds)
{
    size_t count = (size_t)n * (size_t)kinds * (size_t)p->pipe->n_slots;
    uint32_t *ids = CS_NEW_ARRAY(p->arena, uint32_t, count + 1);
    memset(ids, 0xff, count * sizeof *ids);
    return ids;
}

void cs_messages_add(const struct cs_pipeline *pipeline, const struct cs_order *order,
                     bool has_tied, struct cs_arena *arena, struct cs_program *program)
{
    /* tables that only the pass needs do not stay in the program's arena */
    struct pass p = {.pipe = pipeline,
                     .plan = pipeline->plan,
                     .options = pipeline->options,
                     .arena = cs_arena_new(0),
                     .has_tied = has_tied};
    struct cs_arena *scratch = p.arena;
    link_stages(&p);
    make_channels(&p);
    p.position = new_ids(&p, p.plan->n_edges, N_FLOWS);
    p.send = new_ids(&p, p.plan->n_edges, N_FLOWS);
    p.recv = new_ids(&p, p.plan->n_edges, N_FLOWS);
    p.done = new_ids(&p, p.plan->n_stages, N_WORKS);
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        list_messages(&p, &order[r]);
    program->rank = CS_NEW_ARRAY(arena, struct cs_rank_program, pipeline->n_ranks);
    p.arena = arena;
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        write_rank(&p, r, &order[r], &program->rank[r]);
    cs_arena_free(scratch);
}
