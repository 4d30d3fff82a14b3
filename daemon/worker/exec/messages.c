/* Messages between stages on different ranks: the place of their rows, and on devices with streams
 * the message itself. On hosts the communication thread moves them (communicate.c). */
#include "worker/exec/messages.h"

struct cs_message cs_exec_open_message(struct cs_exec *exec, const struct cs_action *action)
{
    const int64_t rows = cs_exec_edge_rows(exec, action->edge, action->slot);
    const struct cs_edge *edge = &exec->config.plan->edges[action->edge];
    const bool is_send = action->op == CS_OP_SEND;
    struct cs_message m = {.bytes = (size_t)rows * (size_t)edge->width *
                                    exec->config.device->ops->act_bytes};
    m.data = is_send ? cs_boundary_at(exec->boundary, action->edge, action->slot, action->is_grad)
                     : cs_boundary_take(exec->boundary, action->edge, action->slot, action->is_grad,
                                        rows);
    if (is_send && rows > 0) {
        exec->messages_sent++;
        exec->bytes_sent += (int64_t)m.bytes;
    }
    return m;
}

void cs_exec_close_message(struct cs_exec *exec, const struct cs_action *action)
{
    if (action->op == CS_OP_SEND)
        cs_boundary_give(exec->boundary, action->edge, action->slot, action->is_grad);
}

enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err)
{
    const struct cs_message m = cs_exec_open_message(exec, action);
    if (m.bytes > 0)
        CS_TRY(cs_channels_move(exec->config.channels, action->peer, action->op == CS_OP_SEND,
                                m.data, m.bytes, err));
    cs_exec_close_message(exec, action);
    return CS_OK;
}
