/* The end of a rank's step.
 *
 * Of a training step: COPIES, TENSORS, REDUCE, TIED, NORM over all ranks, STEP, GATHER, MARK (REDUCE and
 * GATHER with replicas only). TIED stands behind REDUCE: the two ranks of a tied embedding each sum
 * their own gradient over their replicas, and exchange only the part that they update. MARK also
 * waits for the last send to every peer, after which all boundary buffers are free. */
#include "core/sched/lower/pass.h"

/* the gradients of the stage's weights are complete */
static uint32_t last_backward(const struct cs_pass *p, int32_t stage)
{
    int32_t slot = cs_last_slot(&p->pipe->traits[stage], p->pipe->n_slots);
    if (slot < 0)
        return CS_NO_ACTION;
    uint32_t weight = p->done[cs_pass_stage(p, stage, CS_WORK_WEIGHT, slot)];
    return weight != CS_NO_ACTION ? weight : p->done[cs_pass_stage(p, stage, CS_WORK_GRAD, slot)];
}

/* the two ranks of the exchange; one rank that has both stages adds locally (peer -1) */
static uint32_t add_tied(struct cs_pass *p, int32_t rank)
{
    int32_t embed = p->plan->stages[p->plan->embed_stage].rank;
    int32_t head = p->plan->stages[p->plan->head_stage].rank;
    if (!p->has_tied || (rank != embed && rank != head))
        return CS_NO_ACTION;
    struct cs_action action = cs_pass_blank(CS_OP_TIED);
    action.stage = (int16_t)(rank == head ? p->plan->head_stage : p->plan->embed_stage);
    action.peer = (int16_t)(embed == head ? -1 : rank == head ? embed : head);
    action.comm = cs_pass_group(p, CS_GROUP_TIED, -1, rank);
    uint32_t id = cs_pass_add(p, action);
    if (rank == embed)
        cs_pass_add_dep(p, last_backward(p, p->plan->embed_stage));
    if (rank == head)
        cs_pass_add_dep(p, last_backward(p, p->plan->head_stage));
    return id;
}

/* Sums over copies, branch by branch on every rank: one order for all. Returns the first, *n how
 * many follow each other. */
static uint32_t add_copies(struct cs_pass *p, int32_t rank, uint32_t *n)
{
    const struct cs_rank_node *node = &p->pipe->node[rank];
    uint32_t first = p->out->n_actions;
    for (int32_t i = 0; i < node->n_stages; i++) {
        int32_t stage = node->stages[i];
        if (!cs_sums_over_copies(p->plan, p->pipe->traits, stage))
            continue;
        struct cs_action action = cs_pass_blank(CS_OP_COPIES);
        action.stage = (int16_t)stage;
        action.comm = cs_pass_group(p, CS_GROUP_COPIES, p->plan->stages[stage].branch, rank);
        cs_pass_add(p, action);
        cs_pass_add_dep(p, last_backward(p, stage));
    }
    *n = p->out->n_actions - first;
    return first;
}

/* a collective of the ranks that run this program, or of their replicas, where there are any */
static uint32_t add_among(struct cs_pass *p, int32_t rank, enum cs_op op)
{
    struct cs_action action = cs_pass_blank(op);
    action.comm = cs_pass_group(p, (enum cs_group_kind)cs_op_table[op].group, -1, rank);
    return action.comm >= 0 ? cs_pass_add(p, action) : CS_NO_ACTION;
}

/* Rows that arrive for the next step. They stand before the end of this one. */
static uint32_t add_lead_receives(struct cs_pass *p, int32_t rank)
{
    uint32_t last = CS_NO_ACTION;
    for (int32_t c = p->first_in[rank]; c >= 0; c = p->channel[c].next_in)
        for (struct cs_message_channel *ch = &p->channel[c]; ch->n_received < ch->n;
             ch->n_received++) {
            cs_pass_add_recv(p, ch, &ch->msg[ch->n_received]);
            last = p->out->n_actions - 1;
        }
    return last;
}

void cs_pass_add_end(struct cs_pass *p, int32_t rank, uint32_t last_compute)
{
    uint32_t first_lead = p->out->n_actions;
    uint32_t last_lead = add_lead_receives(p, rank), gathered = CS_NO_ACTION;
    if (!p->pipe->is_eval) {
        uint32_t n_sums, sums = add_copies(p, rank, &n_sums);
        uint32_t tensors = add_among(p, rank, CS_OP_TENSORS);
        if (tensors != CS_NO_ACTION)
            cs_pass_add_dep(p, last_compute);
        uint32_t reduce = add_among(p, rank, CS_OP_REDUCE);
        if (reduce != CS_NO_ACTION) {
            cs_pass_add_dep(p, last_compute);
            cs_pass_add_dep(p, tensors);
        }
        for (uint32_t i = 0; reduce != CS_NO_ACTION && i < n_sums; i++)
            cs_pass_add_dep(p, sums + i);
        uint32_t tied = add_tied(p, rank);
        if (tied != CS_NO_ACTION)
            cs_pass_add_dep(p, reduce);
        struct cs_action norm = cs_pass_blank(CS_OP_NORM);
        norm.comm = cs_pass_group(p, CS_GROUP_WORLD, -1, rank);
        uint32_t norm_id = cs_pass_add(p, norm);
        cs_pass_add_dep(p, last_compute);
        cs_pass_add_dep(p, tied);
        cs_pass_add_dep(p, tensors);
        for (uint32_t i = 0; i < n_sums; i++)
            cs_pass_add_dep(p, sums + i);
        cs_pass_add_dep(p, reduce);
        last_compute = cs_pass_add(p, cs_pass_blank(CS_OP_STEP));
        cs_pass_add_dep(p, norm_id);
        uint32_t gather = add_among(p, rank, CS_OP_GATHER);
        if (gather != CS_NO_ACTION)
            cs_pass_add_dep(p, last_compute);
        gathered = gather;
    }
    cs_pass_add(p, cs_pass_blank(CS_OP_MARK));
    cs_pass_add_dep(p, last_compute);
    cs_pass_add_dep(p, gathered);
    for (uint32_t id = first_lead; last_lead != CS_NO_ACTION && id <= last_lead; id++)
        cs_pass_add_dep(p, id);
    for (int32_t c = p->first_out[rank]; c >= 0; c = p->channel[c].next_out)
        cs_pass_add_dep(p, p->channel[c].last_send);
}
