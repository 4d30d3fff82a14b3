/* Messages between stages on different ranks: the place of their rows, and on devices with streams
 * the message itself. On hosts the communication thread moves them (transfers.c). */
#include "worker/exec/messages/messages.h"

#include <stdlib.h>

#include "worker/exec/state/marks.h"
#include "worker/slot/share.h"

struct cs_message cs_exec_open_message(struct cs_exec *exec, const struct cs_action *action)
{
    const struct cs_edge *edge = &exec->config.plan->edges[action->edge];
    const bool is_send = action->op == CS_OP_SEND;
    const int64_t rows =
        cs_exec_edge_rows(exec, action->edge, action->slot, cs_exec_is_at_producer(action));
    struct cs_message m = {.bytes = (size_t)rows * (size_t)edge->width *
                                    exec->config.device->ops->act_bytes};
    m.data = is_send ? cs_boundary_at(exec->boundary, action->edge, action->slot, action->is_grad)
                     : cs_boundary_take(exec->boundary, action->edge, action->slot, action->is_grad,
                                        rows);
    m.loads = cs_boundary_loads(exec->boundary, action->edge, action->slot, action->is_grad);
    exec->messages_sent += is_send && rows > 0;
    return m;
}

void cs_exec_count_sent(struct cs_exec *exec, const struct cs_xfer *xfer, int n)
{
    for (int i = 0; i < n; i++)
        exec->bytes_sent += xfer[i].is_send ? (int64_t)xfer[i].bytes : 0;
}

void cs_exec_close_message(struct cs_exec *exec, const struct cs_action *action)
{
    if (action->op == CS_OP_SEND)
        cs_boundary_give(exec->boundary, action->edge, action->slot, action->is_grad);
}

/* ---- devices with streams ---- */

/* Parts with one rank on its channel; where that is another one than the action's, beside it. */
static enum cs_status move_with(struct cs_exec *exec, const struct cs_action *action, int peer,
                                const struct cs_device_move *part, int32_t n, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    const struct cs_mark *mark = &exec->mark[action->id];
    const bool is_send = action->op == CS_OP_SEND;
    void *stream = cs_channels_stream(exec->config.channels, peer, is_send);
    if (stream != mark->stream)
        CS_TRY(d->mem->stream_wait(d->handle, stream, mark->begin, err));
    CS_TRY(cs_channels_move(exec->config.channels, peer, is_send, part, n, err));
    if (stream == mark->stream)
        return CS_OK;
    CS_TRY(d->mem->event_record(d->handle, exec->joint, stream, err));
    return d->mem->stream_wait(d->handle, mark->stream, exec->joint, err);
}

/* Rank by rank: those of one rank lie in any order among the transfers. */
static enum cs_status move_all(struct cs_exec *exec, const struct cs_action *action,
                               struct cs_xfer *xfer, int n, struct cs_device_move *part,
                               struct cs_err *err)
{
    for (int i = 0; i < n; i++) {
        int32_t n_parts = 0;
        for (int k = i; k < n; k++) {
            if (xfer[k].is_done || xfer[k].peer != xfer[i].peer)
                continue;
            xfer[k].is_done = 1;
            part[n_parts++] = (struct cs_device_move){.data = xfer[k].data, .bytes = xfer[k].bytes};
        }
        if (n_parts > 0)
            CS_TRY(move_with(exec, action, xfer[i].peer, part, n_parts, err));
    }
    return CS_OK;
}

static enum cs_status move(struct cs_exec *exec, const struct cs_action *action,
                           const struct cs_message *m, struct cs_err *err)
{
    struct cs_xfer *xfer;
    int n;
    CS_TRY(cs_exec_transfers(exec, action, m, &xfer, &n, err));
    cs_exec_count_sent(exec, xfer, n);
    struct cs_device_move *part = calloc((size_t)n + 1, sizeof *part);
    const enum cs_status status =
        part != NULL ? move_all(exec, action, xfer, n, part, err)
                     : cs_fail(err, CS_NO_MEMORY, "no memory for the %d parts of a message", n);
    free(part);
    free(xfer);
    return status;
}

enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err)
{
    const struct cs_message m = cs_exec_open_message(exec, action);
    CS_TRY(move(exec, action, &m, err));
    cs_exec_close_message(exec, action);
    return CS_OK;
}
