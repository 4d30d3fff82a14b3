/* Adds messages and dependencies to compute orders, and has the step ended (step_end.c).
 *
 * A SEND stands right after its producer. A RECV stands before its first consumer, but the receives
 * from one peer keep the order of that peer's sends, whatever edges and directions they belong to:
 * messages between two ranks in one direction are a FIFO. A RECV depends on nothing: boundary
 * buffers exist for every slot of the step, so it may be posted as early as the transport likes.
 *
 * Rows of the next step (lead) have no consumer in this program: their RECVs stand before the end
 * of the step, and each waits until the consumer has no more use for the rows of the same slot.
 * With a bound on running ahead, a forward-only stage waits for its send of slot i - ahead, and
 * rows of slot i are received once their consumer has computed slot i - 2. */
#include "core/sched/lower/messages.h"

#include "core/sched/lower/pass.h"

/* receives of the channel up to and including the wanted one */
static void receive_up_to(struct cs_pass *p, int32_t edge, int flow, int32_t slot)
{
    struct cs_message_channel *ch = &p->channel[cs_pass_channel(p, edge, flow)];
    uint32_t wanted = p->position[cs_pass_edge(p, edge, flow, slot)];
    for (; wanted != CS_NO_ACTION && ch->n_received <= wanted; ch->n_received++)
        cs_pass_add_recv(p, ch, &ch->msg[ch->n_received]);
}

/* the stage's own earlier work on the slot */
static void depend_on_self(struct cs_pass *p, const struct cs_order_item *item, enum cs_work work)
{
    if (work == CS_WORK_GRAD)
        cs_pass_add_dep(p, p->done[cs_pass_stage(p, item->stage, CS_WORK_FORWARD, item->slot)]);
    if (work == CS_WORK_WEIGHT)
        cs_pass_add_dep(p, p->done[cs_pass_stage(p, item->stage, CS_WORK_GRAD, item->slot)]);
}

/* a stage that may not be further ahead of its messages */
static void hold_back(struct cs_pass *p, const struct cs_order_item *item)
{
    const struct cs_stage_links *l = &p->links[item->stage];
    int32_t slot = item->slot - p->options->ahead;
    if (p->options->ahead <= 0 || slot < 0 || item->op != CS_OP_FWD ||
        p->pipe->traits[item->stage].has_backward)
        return;
    for (int32_t k = 0; k < l->n_out; k++)
        cs_pass_add_dep(
            p, p->send[cs_pass_edge(p, l->out[k],
                                    item->lead ? CS_MESSAGE_LEAD_ROWS : CS_MESSAGE_ROWS, slot)]);
}

static void add_compute(struct cs_pass *p, const struct cs_order_item *item)
{
    enum cs_work work = cs_pass_work(p, item);
    int32_t *edges;
    int flow;
    int32_t n = cs_pass_edges(p, item, false, &edges, &flow);
    for (int32_t k = 0; k < n; k++)
        if (cs_pass_channel(p, edges[k], flow) >= 0 && cs_pass_flows(p, edges[k], flow, item->slot))
            receive_up_to(p, edges[k], flow, item->slot);
    struct cs_action action = cs_pass_blank((enum cs_op)item->op);
    action.stage = item->stage;
    action.slot = item->slot;
    action.lead = item->lead;
    p->done[cs_pass_stage(p, item->stage, work, item->slot)] = cs_pass_add(p, action);
    depend_on_self(p, item, work);
    for (int32_t k = 0; k < n; k++) {
        const struct cs_edge *edge = &p->plan->edges[edges[k]];
        int32_t other = flow == CS_MESSAGE_GRAD ? edge->to : edge->from;
        if (!cs_pass_flows(p, edges[k], flow, item->slot))
            continue;
        if (cs_pass_channel(p, edges[k], flow) >= 0)
            cs_pass_add_dep(p, p->recv[cs_pass_edge(p, edges[k], flow, item->slot)]);
        else /* both stages on this rank */
            cs_pass_add_dep(p, p->done[cs_pass_stage(p, other, work, item->slot)]);
    }
    hold_back(p, item);
}

static void add_sends(struct cs_pass *p, const struct cs_order_item *item)
{
    int32_t *edges;
    int flow;
    int32_t n = cs_pass_edges(p, item, true, &edges, &flow);
    for (int32_t k = 0; k < n; k++) {
        int32_t c = cs_pass_channel(p, edges[k], flow);
        if (c < 0 || !cs_pass_flows(p, edges[k], flow, item->slot))
            continue;
        struct cs_slot_message msg = {(int16_t)edges[k], (uint8_t)flow, item->slot};
        uint32_t id = cs_pass_add_transfer(p, CS_OP_SEND, &msg, p->channel[c].to);
        p->channel[c].last_send = p->send[cs_pass_edge(p, edges[k], flow, item->slot)] = id;
        cs_pass_add_dep(p,
                        p->done[cs_pass_stage(p, item->stage, cs_pass_work(p, item), item->slot)]);
    }
}

static void fill_fifos(struct cs_pass *p)
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
static void reserve(struct cs_pass *p, int32_t rank, const struct cs_order *order)
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

static void write_rank(struct cs_pass *p, int32_t rank, const struct cs_order *order,
                       struct cs_rank_program *out)
{
    p->out = out;
    out->rank = rank;
    reserve(p, rank, order);
    uint32_t last_compute = CS_NO_ACTION;
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *item = &order->item[i];
        add_compute(p, item);
        last_compute = p->done[cs_pass_stage(p, item->stage, cs_pass_work(p, item), item->slot)];
        add_sends(p, item);
    }
    cs_pass_add_end(p, rank, last_compute);
    fill_fifos(p);
}

void cs_messages_add(const struct cs_pipeline *pipeline, const struct cs_order *order,
                     bool has_tied, struct cs_arena *arena, struct cs_program *program)
{
    /* tables that only the pass needs do not stay in the program's arena */
    struct cs_pass p = {.pipe = pipeline,
                        .plan = pipeline->plan,
                        .options = pipeline->options,
                        .arena = cs_arena_new(0),
                        .has_tied = has_tied};
    struct cs_arena *scratch = p.arena;
    cs_pass_open(&p);
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        cs_pass_list(&p, &order[r]);
    program->rank = CS_NEW_ARRAY(arena, struct cs_rank_program, pipeline->n_ranks);
    p.arena = arena;
    for (int32_t r = 0; r < pipeline->n_ranks; r++)
        write_rank(&p, r, &order[r], &program->rank[r]);
    cs_arena_free(scratch);
}
