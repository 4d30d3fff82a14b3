/* The communication thread of a host: posts messages when their turn comes, in the order that exec.h states, and runs
 * collectives between them. */
#include "worker/exec/communicate.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "worker/exec/actions.h"
#include "worker/exec/messages/messages.h"

enum { ROUND_MS = 500, CHANNEL_AHEAD = 4 };

enum state { WAITING, POSTED, DONE };

struct comm_run {
    struct cs_exec *exec;
    uint32_t n, first_open; /* actions of the stream; all before first_open are done */
    uint8_t *state;         /* (n) */
    struct cs_xfer **xfer;  /* (n) of posted messages */
    int *n_xfers;           /* (n) */
    int64_t *start_ns;      /* (n) */
    uint8_t *in_channel; /* (n_ranks, 2) posted and not done; CHANNEL_AHEAD also closes a channel */
    int64_t moved_ns;    /* when something last completed or was posted */
};

static const struct cs_action *action_at(const struct comm_run *c, uint32_t i)
{
    const struct cs_rank_program *p = c->exec->mine;
    return &p->actions[p->fifo[CS_STREAM_COMM][i]];
}

static bool is_collective(const struct cs_action *a)
{
    return a->comm >= 0;
}

static void complete(struct comm_run *c, uint32_t i)
{
    const struct cs_action *a = action_at(c, i);
    struct cs_exec *exec = c->exec;
    c->state[i] = DONE;
    c->moved_ns = cs_now_ns();
    free(c->xfer[i]);
    c->xfer[i] = NULL;
    if (!is_collective(a))
        cs_exec_close_message(exec, a);
    cs_exec_event(exec, CS_EVENT_ACTION, a->id, c->start_ns[i], c->moved_ns, 0);
    cs_exec_finish(exec, a->id);
}

static uint8_t *channel_of(struct comm_run *c, const struct cs_action *a)
{
    return &c->in_channel[2 * a->peer + (a->op == CS_OP_SEND)];
}

static enum cs_status post(struct comm_run *c, uint32_t i, struct cs_err *err)
{
    const struct cs_action *a = action_at(c, i);
    struct cs_exec *exec = c->exec;
    c->start_ns[i] = c->moved_ns = cs_now_ns();
    cs_exec_show(exec, 1, (int32_t)a->id);
    const struct cs_message message = cs_exec_open_message(exec, a);
    CS_TRY(cs_exec_transfers(exec, a, &message, &c->xfer[i], &c->n_xfers[i], err));
    cs_exec_count_sent(exec, c->xfer[i], c->n_xfers[i]);
    if (c->n_xfers[i] == 0) {
        complete(c, i);
        return CS_OK;
    }
    c->state[i] = POSTED;
    ++*channel_of(c, a);
    for (int k = 0; k < c->n_xfers[i]; k++)
        CS_TRY(exec->config.comm->table->post(exec->config.comm, &c->xfer[i][k], err));
    return CS_OK;
}

static bool is_moved(const struct comm_run *c, uint32_t i)
{
    for (int k = 0; k < c->n_xfers[i]; k++)
        if (!c->xfer[i][k].is_done)
            return false;
    return true;
}

static enum cs_status collect(struct comm_run *c, uint32_t i, struct cs_err *err)
{
    const struct cs_action *a = action_at(c, i);
    c->start_ns[i] = cs_now_ns();
    cs_exec_show(c->exec, 1, (int32_t)a->id);
    CS_TRY(cs_exec_act(c->exec, a, err));
    complete(c, i);
    return CS_OK;
}

/* Mark transfers that have completed. Returns how many. */
static int reap(struct comm_run *c)
{
    int n = 0;
    for (uint32_t i = c->first_open; i < c->n; i++) {
        if (c->state[i] != POSTED || !is_moved(c, i))
            continue;
        --*channel_of(c, action_at(c, i));
        complete(c, i);
        n++;
    }
    while (c->first_open < c->n && c->state[c->first_open] == DONE)
        c->first_open++;
    return n;
}

/* Start what may start. The first action that cannot closes its channel; a collective closes
 * all. */
static enum cs_status advance(struct comm_run *c, bool *has_moved, struct cs_err *err)
{
    uint8_t *closed = c->in_channel + 2 * (size_t)c->exec->config.plan->n_ranks;
    memset(closed, 0, 2 * (size_t)c->exec->config.plan->n_ranks);
    *has_moved = false;
    for (uint32_t i = c->first_open; i < c->n; i++) {
        if (c->state[i] != WAITING)
            continue;
        const struct cs_action *a = action_at(c, i);
        if (is_collective(a)) {
            if (i != c->first_open || !cs_exec_is_ready(c->exec, a))
                return CS_OK;
            CS_TRY(collect(c, i, err));
            c->first_open++;
            *has_moved = true;
            continue;
        }
        uint8_t *shut = &closed[channel_of(c, a) - c->in_channel];
        if (*shut || *channel_of(c, a) >= CHANNEL_AHEAD || !cs_exec_is_ready(c->exec, a)) {
            *shut = 1;
            continue;
        }
        CS_TRY(post(c, i, err));
        *has_moved = true;
        while (c->first_open < c->n && c->state[c->first_open] == DONE)
            c->first_open++;
    }
    return CS_OK;
}

static enum cs_status check_deadline(const struct comm_run *c, struct cs_err *err)
{
    const int64_t limit_ms = c->exec->config.deadline_ms,
                  exchanged_ns = atomic_load(&c->exec->exchange.moved_ns),
                  moved_ns = exchanged_ns > c->moved_ns ? exchanged_ns : c->moved_ns;
    if (limit_ms <= 0 || cs_now_ns() - moved_ns < limit_ms * 1000000)
        return CS_OK;
    for (uint32_t i = c->first_open; i < c->n; i++)
        if (c->state[i] == POSTED)
            return cs_fail(err, CS_TIMEOUT,
                           "rank %d: action %u with rank %d did not move for %lld ms",
                           cs_exec_rank(c->exec, c->exec->config.rank), action_at(c, i)->id,
                           cs_exec_rank(c->exec, action_at(c, i)->peer), (long long)limit_ms);
    return CS_OK;
}

static void drain_wake(const struct cs_exec *exec)
{
    uint64_t n;
    while (read(exec->wake_fd, &n, sizeof n) == (ssize_t)sizeof n)
        ;
}

static enum cs_status loop(struct comm_run *c, struct cs_err *err)
{
    struct cs_exec *exec = c->exec;
    struct cs_comm *comm = exec->config.comm;
    bool has_moved;
    c->moved_ns = cs_now_ns();
    while (c->first_open < c->n) {
        if (cs_exec_has_failed(exec))
            return CS_OK;
        drain_wake(exec);
        CS_TRY(advance(c, &has_moved, err));
        if (reap(c) > 0 || has_moved || c->first_open == c->n)
            continue;
        const enum cs_status status = comm->table->progress(comm, exec->wake_fd, ROUND_MS, err);
        if (status != CS_OK && status != CS_TIMEOUT)
            return status;
        if (reap(c) == 0)
            CS_TRY(check_deadline(c, err));
    }
    return CS_OK;
}

void *cs_exec_communicate(void *arg)
{
    struct cs_exec *exec = arg;
    struct cs_err err = {0};
    const size_t n = exec->mine->n_fifo[CS_STREAM_COMM];
    struct comm_run c = {.exec = exec, .n = (uint32_t)n};
    c.state = calloc(n + 1, sizeof *c.state);
    c.xfer = calloc(n + 1, sizeof *c.xfer);
    c.n_xfers = calloc(n + 1, sizeof *c.n_xfers);
    c.start_ns = calloc(n + 1, sizeof *c.start_ns);
    c.in_channel = calloc(4 * (size_t)exec->config.plan->n_ranks, sizeof *c.in_channel);
    enum cs_status status = CS_OK;
    if (c.state == NULL || c.xfer == NULL || c.n_xfers == NULL || c.start_ns == NULL ||
        c.in_channel == NULL)
        status = cs_fail(&err, CS_NO_MEMORY, "no memory for the messages of a step");
    if (status == CS_OK)
        status = loop(&c, &err);
    if (status != CS_OK)
        cs_exec_fail(exec, &err);
    cs_exec_show(exec, 1, -1);
    for (size_t i = 0; c.xfer != NULL && i < n; i++)
        free(c.xfer[i]);
    free(c.state);
    free(c.xfer);
    free(c.n_xfers);
    free(c.start_ns);
    free(c.in_channel);
    return NULL;
}
