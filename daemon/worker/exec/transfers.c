/* Messages on hosts, as transfers that the communication thread moves (communicate.c). */
#include "worker/exec/messages.h"

#include <stdlib.h>

#include "worker/slot/share.h"

bool cs_exec_is_at_producer(const struct cs_action *action)
{
    return (action->op == CS_OP_SEND) != (action->is_grad != 0);
}

/* Transfers of one message. A rank of the LLM with rows of an encoder says so with their gradients to all
 * ranks of it, with one byte to those whose items have none: who made nothing of a slot must not be
 * ahead of the others, whose rows still lie where those of a later slot will (worker/memory/plan.h). */
struct pieces {
    struct cs_xfer *xfer;
    int n;
    bool is_grad;
    char *byte;          /* memory for all of these */
    struct cs_xfer like; /* to the first rank of the peer, of the message's first row */
    size_t row;          /* bytes */
};

static enum cs_status take(struct pieces *p, int most, struct cs_err *err)
{
    p->xfer = calloc((size_t)most + 2, sizeof *p->xfer);
    p->byte = (char *)(p->xfer + most + 1);
    return p->xfer != NULL
               ? CS_OK
               : cs_fail(err, CS_NO_MEMORY, "no memory for the %d pieces of a message", most);
}

static void add(struct pieces *p, int place, int32_t row, int32_t n)
{
    if (n == 0)
        return;
    struct cs_xfer *x = &p->xfer[p->n++];
    *x = p->like;
    x->peer += place;
    x->data = (char *)p->like.data + (size_t)row * p->row;
    x->bytes = (size_t)n * p->row;
}

static void add_byte(struct pieces *p, int place)
{
    struct cs_xfer *x = &p->xfer[p->n++];
    *x = p->like;
    x->peer += place;
    x->data = p->byte;
    x->bytes = 1;
}

/* Ranks share the items: from one of them to every rank of the LLM its own. */
static enum cs_status add_shared(struct pieces *p, const struct cs_item_share *share, int ranks,
                                 struct cs_err *err)
{
    const struct cs_row_runs *runs = &share->go;
    CS_TRY(take(p, runs->first[ranks] + ranks, err));
    for (int r = 0; r < ranks; r++) {
        for (int32_t i = runs->first[r]; i < runs->first[r + 1]; i++)
            add(p, r, runs->run[i].row, runs->run[i].n);
        if (p->is_grad && runs->rows[r] == 0 && share->taken[r] > 0)
            add_byte(p, r);
    }
    return CS_OK;
}

/* on a rank of the LLM: from those that make them, one behind the other */
static enum cs_status add_makers(struct pieces *p, const struct cs_item_share *share,
                                 struct cs_err *err)
{
    CS_TRY(take(p, share->ranks, err));
    for (int r = 0; r < share->ranks; r++) {
        add(p, r, share->come[r], share->come[r + 1] - share->come[r]);
        if (p->is_grad && share->come[r + 1] == share->come[r] && share->come[share->ranks] > 0)
            add_byte(p, r);
    }
    return CS_OK;
}

/* All items are here: to every part of the rows of the LLM its own, and there to the opposites. */
static enum cs_status add_split(struct pieces *p, const struct cs_exec *exec,
                                const struct cs_action *action, const struct cs_row_runs *runs,
                                struct cs_err *err)
{
    const struct cs_rank_shape there = cs_plan_rank_shape(exec->config.plan, action->peer);
    int32_t step;
    const int32_t n = cs_exec_opposites(exec, action, &step);
    CS_TRY(take(p, n * runs->first[there.cp], err));
    for (int32_t k = 0; k < n; k++) {
        p->like.peer = cs_exec_rank(exec, action->peer) + k * step;
        for (int r = 0; r < there.cp; r++)
            for (int32_t i = runs->first[r]; i < runs->first[r + 1]; i++)
                add(p, r * there.tp, runs->run[i].row, runs->run[i].n);
    }
    return CS_OK;
}

static enum cs_status add_whole(struct pieces *p, const struct cs_exec *exec,
                                const struct cs_action *action, size_t bytes, struct cs_err *err)
{
    int32_t step;
    const int32_t n = cs_exec_opposites(exec, action, &step);
    CS_TRY(take(p, n, err));
    for (int32_t k = 0; k < n; k++) {
        p->xfer[p->n] = p->like;
        p->xfer[p->n].peer = cs_exec_rank(exec, action->peer) + k * step;
        p->xfer[p->n++].bytes = bytes;
    }
    return CS_OK;
}

static enum cs_status add_all(const struct cs_exec *exec, const struct cs_action *action,
                              const struct cs_message *message, struct pieces *p,
                              struct cs_err *err)
{
    const struct cs_plan *plan = exec->config.plan;
    const struct cs_edge *edge = &plan->edges[action->edge];
    const struct cs_input *input = &exec->inputs[action->slot];
    const int32_t e = exec->config.graph->branches[plan->stages[edge->from].branch].encoder;
    const bool is_feed = edge->feed >= 0, makes = cs_exec_is_at_producer(action);
    const struct cs_item_share *share = is_feed ? input->share[e] : NULL;
    if (share != NULL)
        return makes ? add_shared(p, share, cs_plan_width(plan, action->peer), err)
                     : add_makers(p, share, err);
    if (is_feed && makes && input->split != NULL)
        return add_split(p, exec, action, &input->split->fill[e], err);
    return message->bytes == 0 ? CS_OK : add_whole(p, exec, action, message->bytes, err);
}

enum cs_status cs_exec_transfers(const struct cs_exec *exec, const struct cs_action *action,
                                 const struct cs_message *message, struct cs_xfer **out, int *n,
                                 struct cs_err *err)
{
    const struct cs_plan *plan = exec->config.plan;
    struct pieces p = {
        .is_grad = action->is_grad,
        .like = {.peer = cs_plan_rank_of(plan, exec->config.replica, action->peer),
                 .data = message->data,
                 .is_send = action->op == CS_OP_SEND},
        .row = (size_t)plan->edges[action->edge].width * exec->config.device->ops->act_bytes
    };
    const enum cs_status status = add_all(exec, action, message, &p, err);
    *out = p.xfer;
    *n = p.n;
    return status;
}
