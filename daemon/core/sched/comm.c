/* Adds messages, dependencies and the end of the step to compute orders.
 *
 * A SEND stands right after its producer. A RECV stands before its first consumer, but the receives
 * from one peer keep the order of that peer's sends, whatever edges and directions they belong to:
 * messages between two ranks in one direction are a FIFO. A RECV depends on nothing: boundary
 * buffers exist for every slot of the step, so it may be posted as early as the transport likes.
 *
 * End of a training step: TIED, NORM over all ranks, STEP, MARK. MARK also waits for the last send
 * to every peer, after which all boundary buffers are free. */
#include "core/sched/comm.h"

#include <string.h>

#define NONE UINT32_MAX

struct message {
    int16_t edge;
    uint8_t is_grad;
    int32_t slot;
};

/* all messages of one pair of ranks in one direction, in the order of the sends */
struct channel {
    int32_t from, to;
    struct message *msg;
    uint32_t n, cap;
    uint32_t n_received; /* emitted so far on the receiving rank */
    uint32_t last_send;  /* action id on the sending rank */
};

struct stage_links {
    int32_t *in, *out; /* edge ids */
    int32_t n_in, n_out;
};

struct pass {
    const struct cs_pipeline *pipe;
    const struct cs_plan *plan;
    struct cs_arena *arena;
    struct stage_links *links;
    struct channel *channel;
    int32_t n_channels;
    int32_t *edge_channel; /* (n_edges, 2) forward, gradient; -1: same rank */
    uint32_t *position;    /* (n_edges, 2, n_slots) in its channel */
    uint32_t *recv;        /* (n_edges, 2, n_slots) action id of the receive */
    uint32_t *done;        /* (n_stages, 2, n_slots) action ids of forward and backward */
    bool has_tied;
    /* the rank being written */
    struct cs_rank_program *out;
    uint32_t cap_actions, cap_deps;
};

static size_t edge_at(const struct pass *p, int32_t edge, int is_grad, int32_t slot)
{
    return ((size_t)edge * 2 + (size_t)is_grad) * (size_t)p->pipe->n_slots + (size_t)slot;
}

static size_t stage_at(const struct pass *p, int32_t stage, int is_bwd, int32_t slot)
{
    return ((size_t)stage * 2 + (size_t)is_bwd) * (size_t)p->pipe->n_slots + (size_t)slot;
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
    for (int32_t c = p->n_channels - 1; c >= 0; c--)
        if (p->channel[c].from == from && p->channel[c].to == to)
            return c;
    p->channel[p->n_channels] = (struct channel){.from = from, .to = to, .last_send = NONE};
    return p->n_channels++;
}

static void make_channels(struct pass *p)
{
    size_t n = 2 * (size_t)p->plan->n_edges;
    p->channel = CS_NEW_ARRAY(p->arena, struct channel, n + 1);
    p->edge_channel = CS_NEW_ARRAY(p->arena, int32_t, n + 1);
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        const struct cs_edge *edge = &p->plan->edges[e];
        int32_t from = p->plan->stages[edge->from].rank, to = p->plan->stages[edge->to].rank;
        bool has_grad = edge->has_grad && !p->pipe->is_eval;
        p->edge_channel[2 * e] = from == to ? -1 : channel_of(p, from, to);
        p->edge_channel[2 * e + 1] = from == to || !has_grad ? -1 : channel_of(p, to, from);
    }
    for (int32_t i = 0; i < 2 * p->plan->n_edges; i++)
        if (p->edge_channel[i] >= 0)
            p->channel[p->edge_channel[i]].cap += (uint32_t)p->pipe->n_slots;
    for (int32_t c = 0; c < p->n_channels; c++)
        p->channel[c].msg = CS_NEW_ARRAY(p->arena, struct message, p->channel[c].cap);
}

/* what the finished item sends, edge by edge: forward to consumers, gradients to producers */
static int32_t outgoing(const struct pass *p, const struct cs_order_item *item, int32_t **edges)
{
    const struct stage_links *l = &p->links[item->stage];
    *edges = item->op == CS_OP_BWD ? l->in : l->out;
    return item->op == CS_OP_BWD ? l->n_in : l->n_out;
}

static void list_messages(struct pass *p, const struct cs_order *order)
{
    for (uint32_t i = 0; i < order->n; i++) {
        int is_grad = order->item[i].op == CS_OP_BWD;
        int32_t *edges, n = outgoing(p, &order->item[i], &edges);
        for (int32_t k = 0; k < n; k++) {
            int32_t c = p->edge_channel[2 * edges[k] + is_grad];
            if (c < 0)
                continue;
            struct channel *ch = &p->channel[c];
            p->position[edge_at(p, edges[k], is_grad, order->item[i].slot)] = ch->n;
            ch->msg[ch->n++] =
                (struct message){(int16_t)edges[k], (uint8_t)is_grad, order->item[i].slot};
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

static uint32_t add_transfer(struct pass *p, enum cs_op op, const struct message *msg, int32_t peer)
{
    const struct cs_edge *edge = &p->plan->edges[msg->edge];
    bool at_producer = (op == CS_OP_SEND) != (msg->is_grad != 0);
    struct cs_action action = blank(op);
    action.is_grad = msg->is_grad;
    action.stage = (int16_t)(at_producer ? edge->from : edge->to);
    action.edge = msg->edge;
    action.peer = (int16_t)peer;
    action.slot = msg->slot;
    return add_action(p, action);
}

/* receives of the channel up to and including the wanted one */
static void receive_up_to(struct pass *p, int32_t edge, int is_grad, int32_t slot)
{
    struct channel *ch = &p->channel[p->edge_channel[2 * edge + is_grad]];
    uint32_t wanted = p->position[edge_at(p, edge, is_grad, slot)];
    for (; ch->n_received <= wanted; ch->n_received++) {
        const struct message *msg = &ch->msg[ch->n_received];
        p->recv[edge_at(p, msg->edge, msg->is_grad, msg->slot)] =
            add_transfer(p, CS_OP_RECV, msg, ch->from);
    }
}

/* what the item consumes: forward from producers, gradients from consumers */
static int32_t incoming(const struct pass *p, const struct cs_order_item *item, int32_t **edges)
{
    const struct stage_links *l = &p->links[item->stage];
    *edges = item->op == CS_OP_BWD ? l->out : l->in;
    return item->op == CS_OP_BWD ? l->n_out : l->n_in;
}

static void add_compute(struct pass *p, const struct cs_order_item *item)
{
    int is_grad = item->op == CS_OP_BWD;
    int32_t *edges, n = incoming(p, item, &edges);
    for (int32_t k = 0; k < n; k++)
        if (p->edge_channel[2 * edges[k] + is_grad] >= 0)
            receive_up_to(p, edges[k], is_grad, item->slot);
    struct cs_action action = blank((enum cs_op)item->op);
    action.stage = item->stage;
    action.slot = item->slot;
    uint32_t id = add_action(p, action);
    p->done[stage_at(p, item->stage, is_grad, item->slot)] = id;
    if (is_grad)
        add_dep(p, p->done[stage_at(p, item->stage, 0, item->slot)]);
    for (int32_t k = 0; k < n; k++) {
        const struct cs_edge *edge = &p->plan->edges[edges[k]];
        if (p->edge_channel[2 * edges[k] + is_grad] >= 0)
            add_dep(p, p->recv[edge_at(p, edges[k], is_grad, item->slot)]);
        else if (!is_grad || edge->has_grad) /* both stages on this rank */
            add_dep(p, p->done[stage_at(p, is_grad ? edge->to : edge->from, is_grad, item->slot)]);
    }
}

static void add_sends(struct pass *p, const struct cs_order_item *item)
{
    int is_grad = item->op == CS_OP_BWD;
    int32_t *edges, n = outgoing(p, item, &edges);
    for (int32_t k = 0; k < n; k++) {
        int32_t c = p->edge_channel[2 * edges[k] + is_grad];
        if (c < 0)
            continue;
        struct message msg = {(int16_t)edges[k], (uint8_t)is_grad, item->slot};
        p->channel[c].last_send = add_transfer(p, CS_OP_SEND, &msg, p->channel[c].to);
        add_dep(p, p->done[stage_at(p, item->stage, is_grad, item->slot)]);
    }
}

static uint32_t last_backward(const struct pass *p, int32_t stage)
{
    return p->done[stage_at(p, stage, 1, p->pipe->n_slots - 1)];
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
    action.comm = CS_COMM_TIED;
    uint32_t id = add_action(p, action);
    if (rank == embed)
        add_dep(p, last_backward(p, p->plan->embed_stage));
    if (rank == head)
        add_dep(p, last_backward(p, p->plan->head_stage));
    return id;
}

static void add_end(struct pass *p, int32_t rank, uint32_t last_compute)
{
    if (!p->pipe->is_eval) {
        uint32_t tied = add_tied(p, rank);
        struct cs_action norm = blank(CS_OP_NORM);
        norm.comm = CS_COMM_WORLD;
        uint32_t norm_id = add_action(p, norm);
        add_dep(p, last_compute);
        add_dep(p, tied);
        last_compute = add_action(p, blank(CS_OP_STEP));
        add_dep(p, norm_id);
    }
    add_action(p, blank(CS_OP_MARK));
    add_dep(p, last_compute);
    for (int32_t c = 0; c < p->n_channels; c++)
        if (p->channel[c].from == rank)
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

static void write_rank(struct pass *p, int32_t rank, const struct cs_order *order,
                       struct cs_rank_program *out)
{
    p->out = out;
    p->cap_actions = p->cap_deps = 0;
    out->rank = rank;
    uint32_t last_compute = NONE;
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *item = &order->item[i];
        add_compute(p, item);
        last_compute = p->done[stage_at(p, item->stage, item->op == CS_OP_BWD, item->slot)];
        add_sends(p, item);
    }
    add_end(p, rank, last_compute);
    fill_fifos(p);
}

static uint32_t *new_ids(struct pass *p, int32_t n)
{
    size_t count = 2 * (size_t)n * (size_t)p->pipe->n_slots;
    uint32_t *ids = CS_NEW_ARRAY(p->arena, uint32_t, count + 1);
    for (size_t i = 0; i < count; i++)
        ids[i] = NONE;
    return ids;
}

void cs_comm_pass(const struct cs_pipeline *pipeline, const struct cs_order *order, bool has_tied,
                  struct cs_arena *arena, struct cs_program *program)
{
    struct pass p = {
        .pipe = pipeline, .plan = pipeline->plan, .arena = arena, .has_tied = has_tied};
    link_stages(&p);
    make_channels(&p);
    p.position = new_ids(&p, p.plan->n_edges);
    p.recv = new_ids(&p, p.plan->n_edges);
    p.done = new_ids(&p, p.plan->n_stages);
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        list_messages(&p, &order[r]);
    program->rank = CS_NEW_ARRAY(arena, struct cs_rank_program, pipeline->n_ranks);
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        write_rank(&p, r, &order[r], &program->rank[r]);
}
