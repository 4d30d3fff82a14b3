/* Which messages a step has: channels of pairs of ranks, and in them the messages in the order of their sends. */
#include "core/sched/lower/pass.h"

#include <string.h>

size_t cs_pass_edge(const struct cs_pass *p, int32_t edge, int flow, int32_t slot)
{
    return ((size_t)edge * CS_MESSAGE_FLOWS + (size_t)flow) * (size_t)p->pipe->n_slots +
           (size_t)slot;
}

size_t cs_pass_stage(const struct cs_pass *p, int32_t stage, int work, int32_t slot)
{
    return ((size_t)stage * CS_WORKS + (size_t)work) * (size_t)p->pipe->n_slots + (size_t)slot;
}

enum cs_work cs_pass_work(const struct cs_pass *p, const struct cs_order_item *item)
{
    if (item->op == CS_OP_FWD)
        return item->lead ? CS_WORK_LEAD_FORWARD : CS_WORK_FORWARD;
    if (item->op == CS_OP_BWD_WEIGHT && p->pipe->traits[item->stage].has_input_part)
        return CS_WORK_WEIGHT;
    return CS_WORK_GRAD;
}

bool cs_pass_flows(const struct cs_pass *p, int32_t edge, int flow, int32_t slot)
{
    const struct cs_edge *e = &p->plan->edges[edge];
    const struct cs_stage_traits *from = &p->pipe->traits[e->from], *to = &p->pipe->traits[e->to];
    if (!cs_stage_runs(from, slot) || !cs_stage_runs(to, slot))
        return false;
    if (flow == CS_MESSAGE_GRAD)
        return e->has_grad && !p->pipe->is_eval;
    if (flow == CS_MESSAGE_LEAD_ROWS)
        return from->leads && slot < p->options->lead_after;
    return !cs_is_done_before(from, p->options->lead_before, slot);
}

int32_t cs_pass_channel(const struct cs_pass *p, int32_t edge, int flow)
{
    return p->edge_channel[2 * edge + (flow == CS_MESSAGE_GRAD)];
}

static void link_stages(struct cs_pass *p)
{
    p->links = CS_NEW_ARRAY(p->arena, struct cs_stage_links, p->plan->n_stages);
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        p->links[p->plan->edges[e].from].n_out++;
        p->links[p->plan->edges[e].to].n_in++;
    }
    for (int32_t s = 0; s < p->plan->n_stages; s++) {
        struct cs_stage_links *l = &p->links[s];
        l->in = CS_NEW_ARRAY(p->arena, int32_t, l->n_in + 1);
        l->out = CS_NEW_ARRAY(p->arena, int32_t, l->n_out + 1);
        l->n_in = l->n_out = 0;
    }
    for (int32_t e = 0; e < p->plan->n_edges; e++) {
        struct cs_stage_links *from = &p->links[p->plan->edges[e].from];
        struct cs_stage_links *to = &p->links[p->plan->edges[e].to];
        from->out[from->n_out++] = e;
        to->in[to->n_in++] = e;
    }
}

static int32_t channel_of(struct cs_pass *p, int32_t from, int32_t to)
{
    for (int32_t c = p->first_out[from]; c >= 0; c = p->channel[c].next_out)
        if (p->channel[c].to == to)
            return c;
    p->channel[p->n_channels] = (struct cs_message_channel){.from = from,
                                                            .to = to,
                                                            .last_send = CS_NO_ACTION,
                                                            .next_out = p->first_out[from],
                                                            .next_in = p->first_in[to]};
    p->first_out[from] = p->first_in[to] = p->n_channels;
    return p->n_channels++;
}

static uint32_t count_messages(const struct cs_pass *p, int32_t edge, int flow)
{
    uint32_t n = 0;
    for (int32_t slot = 0; slot < p->pipe->n_slots; slot++)
        n += cs_pass_flows(p, edge, flow, slot);
    return n;
}

static void make_channels(struct cs_pass *p)
{
    size_t n = 2 * (size_t)p->plan->n_edges;
    p->channel = CS_NEW_ARRAY(p->arena, struct cs_message_channel, n + 1);
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
        for (int flow = 0; flow < CS_MESSAGE_FLOWS; flow++)
            if (cs_pass_channel(p, e, flow) >= 0)
                p->channel[cs_pass_channel(p, e, flow)].cap += count_messages(p, e, flow);
    for (int32_t c = 0; c < p->n_channels; c++)
        p->channel[c].msg = CS_NEW_ARRAY(p->arena, struct cs_slot_message, p->channel[c].cap + 1);
}

static uint32_t *new_ids(struct cs_pass *p, int32_t n, int kinds)
{
    size_t count = (size_t)n * (size_t)kinds * (size_t)p->pipe->n_slots;
    uint32_t *ids = CS_NEW_ARRAY(p->arena, uint32_t, count + 1);
    memset(ids, 0xff, count * sizeof *ids);
    return ids;
}

void cs_pass_open(struct cs_pass *p)
{
    link_stages(p);
    make_channels(p);
    p->position = new_ids(p, p->plan->n_edges, CS_MESSAGE_FLOWS);
    p->send = new_ids(p, p->plan->n_edges, CS_MESSAGE_FLOWS);
    p->recv = new_ids(p, p->plan->n_edges, CS_MESSAGE_FLOWS);
    p->done = new_ids(p, p->plan->n_stages, CS_WORKS);
}

int32_t cs_pass_edges(const struct cs_pass *p, const struct cs_order_item *item, bool is_out,
                      int32_t **edges, int *flow)
{
    const struct cs_stage_links *l = &p->links[item->stage];
    const enum cs_work work = cs_pass_work(p, item);
    const bool goes_on = is_out == (work != CS_WORK_GRAD); /* gradients go against the edges */
    *flow = work == CS_WORK_FORWARD        ? CS_MESSAGE_ROWS
            : work == CS_WORK_LEAD_FORWARD ? CS_MESSAGE_LEAD_ROWS
                                           : CS_MESSAGE_GRAD;
    *edges = goes_on ? l->out : l->in;
    return work == CS_WORK_WEIGHT ? 0 : goes_on ? l->n_out : l->n_in;
}

void cs_pass_list(struct cs_pass *p, const struct cs_order *order)
{
    for (uint32_t i = 0; i < order->n; i++) {
        const struct cs_order_item *item = &order->item[i];
        int32_t *edges;
        int flow;
        int32_t n = cs_pass_edges(p, item, true, &edges, &flow);
        for (int32_t k = 0; k < n; k++) {
            int32_t c = cs_pass_channel(p, edges[k], flow);
            if (c < 0 || !cs_pass_flows(p, edges[k], flow, item->slot))
                continue;
            struct cs_message_channel *ch = &p->channel[c];
            p->position[cs_pass_edge(p, edges[k], flow, item->slot)] = ch->n;
            ch->msg[ch->n++] =
                (struct cs_slot_message){(int16_t)edges[k], (uint8_t)flow, item->slot};
        }
    }
}
