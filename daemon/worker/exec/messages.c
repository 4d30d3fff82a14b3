/* Messages between stages on different ranks: the place of their rows, and on devices with streams
 * the message itself. On hosts the communication thread moves them (transfers.c). */
#include "worker/exec/messages.h"

#include "worker/exec/marks.h"

#include <stdlib.h>

#include "worker/slot/split.h"

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

int32_t cs_exec_opposites(const struct cs_exec *exec, const struct cs_action *action, int32_t *step)
{
    const struct cs_plan *plan = exec->config.plan;
    const int32_t there = cs_plan_rank_shape(plan, action->peer).tp, at = exec->config.tp;
    *step = cs_plan_rank_shape(plan, exec->config.rank).tp;
    if (action->op != CS_OP_SEND || there == *step)
        return 1;
    return at < there ? (there - at + *step - 1) / *step : 0;
}

/* ---- devices with streams ---- */

/* Ranks of the shape `cp` that rows of a slot are split over. */
static int32_t parts_of(const struct cs_plan *plan, int32_t rank)
{
    return cs_plan_rank_shape(plan, rank).cp;
}

/* Rows of an encoder that go to the ranks of a context, or their gradients, on either side of the
 * message: runs by rank. NULL: all of the message is one rank's. */
static const struct cs_row_runs *runs_between(const struct cs_exec *exec,
                                              const struct cs_action *action)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const struct cs_input *input = &exec->inputs[action->slot];
    if (input->split == NULL || parts_of(plan, action->peer) == parts_of(plan, exec->config.rank))
        return NULL;
    return &input->split
                ->fill[exec->config.graph->branches[plan->stages[edge->from].branch].encoder];
}

/* the same on the encoder's side: the other one has its own rows only */
static const struct cs_row_runs *runs_of(const struct cs_exec *exec, const struct cs_action *action)
{
    const struct cs_plan *plan = exec->config.plan;
    return parts_of(plan, action->peer) > parts_of(plan, exec->config.rank)
               ? runs_between(exec, action)
               : NULL;
}

/* What goes to a rank, or comes from it: n parts, beside the action's where it has another channel. */
static enum cs_status move_parts(struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_device_move *part, int32_t n, int peer,
                                 struct cs_err *err)
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

/* The runs of a rank, one part each: at their places among all rows, or one behind the other. */
static enum cs_status move_runs(struct cs_exec *exec, const struct cs_action *action,
                                const struct cs_message *m, const struct cs_row_runs *runs,
                                int place, bool is_packed, int peer, struct cs_err *err)
{
    const int32_t first = runs->first[place], n = runs->first[place + 1] - first;
    const size_t row =
        (size_t)exec->config.plan->edges[action->edge].width * exec->config.device->ops->act_bytes;
    char *at = m->data;
    struct cs_device_move *part = calloc((size_t)n + 1, sizeof *part);
    if (part == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the %d pieces of a message", n);
    for (int32_t i = 0; i < n; i++) {
        const struct cs_row_run *r = &runs->run[first + i];
        part[i].data = is_packed ? at : (char *)m->data + (size_t)r->row * row;
        part[i].bytes = (size_t)r->n * row;
        at += part[i].bytes;
    }
    const enum cs_status status = move_parts(exec, action, part, n, peer, err);
    free(part);
    return status;
}

/* Between an encoder and all ranks of a context, or one of each of its parts. */
static enum cs_status move_to_all(struct cs_exec *exec, const struct cs_action *action,
                                  const struct cs_message *m, const struct cs_row_runs *runs,
                                  int peer, struct cs_err *err)
{
    const struct cs_rank_shape there = cs_plan_rank_shape(exec->config.plan, action->peer);
    for (int r = 0; r < there.cp; r++)
        if (runs->rows[r] > 0)
            CS_TRY(move_runs(exec, action, m, runs, r, false, peer + r * there.tp, err));
    return CS_OK;
}

/* All of it, or what the other side has of it. */
static enum cs_status move(struct cs_exec *exec, const struct cs_action *action,
                           const struct cs_message *m, int peer, struct cs_err *err)
{
    const struct cs_row_runs *runs = runs_between(exec, action);
    const struct cs_device_move whole_of = {.data = m->data, .bytes = m->bytes};
    if (runs == NULL)
        return move_parts(exec, action, &whole_of, 1, peer, err);
    return runs_of(exec, action) != NULL
               ? move_to_all(exec, action, m, runs, peer, err)
               : move_runs(exec, action, m, runs, exec->context.place, true, peer, err);
}

enum cs_status cs_exec_enqueue_message(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err)
{
    const struct cs_message m = cs_exec_open_message(exec, action);
    int32_t step;
    const int32_t n = cs_exec_opposites(exec, action, &step);
    for (int32_t k = 0; m.bytes > 0 && k < n; k++)
        CS_TRY(move(exec, action, &m, cs_exec_rank(exec, action->peer) + k * step, err));
    cs_exec_close_message(exec, action);
    return CS_OK;
}
