/* Writes actions of a rank, what they wait for, and the ends of messages. */
#include <string.h>

#include "core/sched/lower/pass.h"

enum { CONSUMER_BUFFERS = 2 };

uint32_t cs_pass_add(struct cs_pass *p, struct cs_action action)
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

void cs_pass_add_dep(struct cs_pass *p, uint32_t on)
{
    struct cs_rank_program *out = p->out;
    if (on == CS_NO_ACTION)
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

struct cs_action cs_pass_blank(enum cs_op op)
{
    return (struct cs_action){
        .op = (uint8_t)op, .stage = -1, .edge = -1, .peer = -1, .comm = -1, .slot = -1};
}

int16_t cs_pass_group(const struct cs_pass *p, enum cs_group_kind kind, int32_t of, int32_t rank)
{
    return (int16_t)cs_plan_group(p->plan, kind, of, cs_plan_rank_of(p->plan, 0, rank));
}

uint32_t cs_pass_add_transfer(struct cs_pass *p, enum cs_op op, const struct cs_slot_message *msg,
                              int32_t peer)
{
    const struct cs_edge *edge = &p->plan->edges[msg->edge];
    bool at_producer = (op == CS_OP_SEND) != (msg->flow == CS_MESSAGE_GRAD);
    struct cs_action action = cs_pass_blank(op);
    action.is_grad = msg->flow == CS_MESSAGE_GRAD;
    action.lead = msg->flow == CS_MESSAGE_LEAD_ROWS;
    action.stage = (int16_t)(at_producer ? edge->from : edge->to);
    action.edge = msg->edge;
    action.peer = (int16_t)peer;
    action.slot = msg->slot;
    return cs_pass_add(p, action);
}

/* the action after which the stage needs the rows of the slot no more */
static uint32_t last_use(const struct cs_pass *p, int32_t stage, int32_t slot)
{
    const struct cs_stage_traits *t = &p->pipe->traits[stage];
    uint32_t weight = p->done[cs_pass_stage(p, stage, CS_WORK_WEIGHT, slot)];
    int work = t->has_backward ? CS_WORK_GRAD : CS_WORK_FORWARD;
    return weight != CS_NO_ACTION ? weight : p->done[cs_pass_stage(p, stage, work, slot)];
}

void cs_pass_add_recv(struct cs_pass *p, const struct cs_message_channel *ch,
                      const struct cs_slot_message *msg)
{
    const struct cs_edge *edge = &p->plan->edges[msg->edge];
    bool is_bounded = p->options->ahead > 0 && !p->pipe->traits[edge->from].has_backward;
    p->recv[cs_pass_edge(p, msg->edge, msg->flow, msg->slot)] =
        cs_pass_add_transfer(p, CS_OP_RECV, msg, ch->from);
    if (msg->flow == CS_MESSAGE_LEAD_ROWS && !p->pipe->traits[edge->to].leads)
        cs_pass_add_dep(p, last_use(p, edge->to, msg->slot));
    else if (msg->flow == CS_MESSAGE_ROWS && is_bounded && msg->slot >= CONSUMER_BUFFERS)
        cs_pass_add_dep(
            p, p->done[cs_pass_stage(p, edge->to, CS_WORK_FORWARD, msg->slot - CONSUMER_BUFFERS)]);
}
