/* The interpreter on a device with streams: every action of a step is enqueued in program order by
 * one thread, which waits for nothing. Streams of the device wait for each other through events;
 * the list is in topological order, so what an action waits for is on its way when it is enqueued.
 *
 * Slots are placed as they are needed: the host copies one into page-locked memory, and sends it,
 * while the device works on the slots before.
 *
 * Compute, collectives and the exchange of a tied embedding's gradient run on the device's compute
 * stream, each channel (peer and direction) of the messages on a stream of its own. Begin and end of
 * every action are events; they become times when the step is over.
 *
 * Compute actions that launching holds up are launched as graphs (worker/exec/graphs.h). For tests and
 * comparisons the environment says otherwise: CORNSTARCH_GRAPHS=off, =always, or =auto as without
 * it; where it is set, what came of it is said at the end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/sched/proof/limits.h"
#include "worker/exec/state.h"

enum { SPIN_NS = 200 * 1000, NAP_NS = 50 * 1000, CHECK_NS = 100 * 1000 * 1000 };

struct cs_mark {
    void *begin, *end; /* events with times */
};

static const struct cs_device_ops *mem_of(const struct cs_exec *exec)
{
    return exec->config.device->mem;
}

static bool is_message(const struct cs_action *a)
{
    return a->op == CS_OP_SEND || a->op == CS_OP_RECV;
}

static void *stream_of(const struct cs_exec *exec, const struct cs_action *a)
{
    return is_message(a) ? cs_channels_stream(exec->config.channels, a->peer, a->op == CS_OP_SEND)
           : a->op == CS_OP_GATHER ? cs_replicas_stream(exec->config.replicas)
                                   : exec->config.device->stream;
}

/* The step is over when its weights are updated. They may still be on their way to the replicas:
 * each layer of the next step waits for its own. */
static bool is_awaited(const struct cs_action *dep)
{
    return dep->op != CS_OP_GATHER;
}

static enum cs_status make_graphs(struct cs_exec *exec, struct cs_err *err)
{
    const char *name = getenv("CORNSTARCH_GRAPHS");
    enum cs_graphs_mode mode;
    if (!cs_graphs_mode_named(name, &mode))
        return cs_fail(err, CS_INVALID, "CORNSTARCH_GRAPHS is \"%s\": auto, off or always", name);
    return cs_graphs_new(exec->config.device, exec->config.graph, mode, &exec->graphs, err);
}

static void say_graphs(const struct cs_graphs *graphs)
{
    const struct cs_graphs_counts c = cs_graphs_counts(graphs);
    if (graphs != NULL && getenv("CORNSTARCH_GRAPHS") != NULL)
        fprintf(stderr,
                "graphs: %" PRId64 " of %" PRId64 " pieces and %" PRId64 " of %" PRId64
                " calls replayed, %" PRId64 " pieces known; %" PRId64 " captures, %" PRId64
                " failed, %" PRId64 " dropped\n",
                c.replays, c.pieces, c.replayed_calls, c.calls, c.known, c.captures, c.failures,
                c.dropped);
}

struct cs_graphs_counts cs_exec_graphs(const struct cs_exec *exec)
{
    return cs_graphs_counts(exec->graphs);
}

static enum cs_status reserve_marks(struct cs_exec *exec, struct cs_err *err)
{
    const uint32_t n = exec->mine->n_actions;
    void *handle = exec->config.device->handle;
    if (exec->base == NULL) {
        CS_TRY(make_graphs(exec, err));
        CS_TRY(mem_of(exec)->event_create(handle, &exec->base, err));
    }
    if (n <= exec->n_marks)
        return CS_OK;
    struct cs_mark *grown = realloc(exec->mark, n * sizeof *grown);
    if (grown == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the times of %u actions", n);
    exec->mark = grown;
    for (; exec->n_marks < n; exec->n_marks++) {
        struct cs_mark *m = &exec->mark[exec->n_marks];
        m->begin = m->end = NULL;
        CS_TRY(mem_of(exec)->event_create(handle, &m->begin, err));
        CS_TRY(mem_of(exec)->event_create(handle, &m->end, err));
    }
    return CS_OK;
}

void cs_exec_free_marks(struct cs_exec *exec)
{
    say_graphs(exec->graphs);
    cs_graphs_free(exec->graphs);
    if (exec->base == NULL)
        return;
    void *handle = exec->config.device->handle;
    for (uint32_t i = 0; i < exec->n_marks; i++) {
        mem_of(exec)->event_destroy(handle, exec->mark[i].begin);
        mem_of(exec)->event_destroy(handle, exec->mark[i].end);
    }
    mem_of(exec)->event_destroy(handle, exec->base);
    mem_of(exec)->event_destroy(handle, exec->reached);
    free(exec->mark);
}

/* What the device is at, by stream: the first action that has not ended on each. */
static void first_open(const struct cs_exec *exec, char *out, size_t cap)
{
    const struct cs_device *d = exec->config.device;
    const void *seen[2 * CS_MAX_CHANNELS + 1];
    int n_seen = 0;
    struct cs_buf text = {0};
    for (uint32_t i = 0; i <= exec->current->id && n_seen < (int)CS_ARRAY_LEN(seen); i++) {
        const void *stream = stream_of(exec, &exec->mine->actions[i]);
        bool is_seen = d->mem->event_query(d->handle, exec->mark[i].end, NULL) == CS_OK;
        for (int k = 0; k < n_seen; k++)
            is_seen = is_seen || seen[k] == stream;
        if (is_seen)
            continue;
        seen[n_seen++] = stream;
        cs_buf_adds(&text, text.len > 0 ? "; " : "");
        cs_action_text(exec->program, exec->config.rank, i, &text);
    }
    snprintf(out, cap, "%s", cs_buf_str(&text));
    cs_buf_free(&text);
}

static enum cs_status check_time(const struct cs_exec *exec, int64_t start, struct cs_err *err)
{
    const int64_t limit_ms = exec->config.deadline_ms;
    if (exec->config.channels != NULL)
        CS_TRY(cs_channels_check(exec->config.channels, err));
    CS_TRY(cs_replicas_check(exec->config.replicas, err));
    if (limit_ms <= 0 || cs_now_ns() - start < limit_ms * 1000000)
        return CS_OK;
    char where[256];
    first_open(exec, where, sizeof where);
    return cs_fail(err, CS_TIMEOUT, "rank %d: the device did not finish within %lld ms; open: %s",
                   exec->config.first_rank + exec->config.rank, (long long)limit_ms, where);
}

/* Until everything enqueued on the compute stream is done. A peer that died would make it wait for
 * ever: the channels are asked now and then. */
static enum cs_status await(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const int64_t start = cs_now_ns();
    int64_t checked = start;
    if (exec->reached == NULL)
        CS_TRY(d->mem->event_create(d->handle, &exec->reached, err));
    CS_TRY(d->mem->event_record(d->handle, exec->reached, d->stream, err));
    for (;;) {
        const enum cs_status status = d->mem->event_query(d->handle, exec->reached, err);
        if (status != CS_STATE)
            return status;
        const int64_t now = cs_now_ns();
        if (now - start > SPIN_NS)
            nanosleep(&nap, NULL);
        if (now - checked < CHECK_NS)
            continue;
        checked = now;
        CS_TRY(check_time(exec, start, err));
    }
}

static enum cs_status message(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    const struct cs_edge *edge = &exec->config.plan->edges[a->edge];
    const int64_t rows = cs_exec_edge_rows(exec, a->edge, a->slot);
    const size_t bytes = (size_t)rows * (size_t)edge->width * exec->config.device->ops->act_bytes;
    const bool is_send = a->op == CS_OP_SEND;
    void *data = is_send ? cs_boundary_at(exec->boundary, a->edge, a->slot, a->is_grad)
                         : cs_boundary_take(exec->boundary, a->edge, a->slot, a->is_grad, rows);
    if (rows == 0)
        return CS_OK;
    CS_TRY(cs_channels_move(exec->config.channels, a->peer, is_send, data, bytes, err));
    if (!is_send)
        return CS_OK;
    exec->messages_sent++;
    exec->bytes_sent += (int64_t)bytes;
    cs_boundary_give(exec->boundary, a->edge, a->slot, a->is_grad);
    return CS_OK;
}

/* Both stages' gradients of a tied embedding: exchanged and added on the compute stream, for which
 * nothing else is left to run meanwhile. */
static enum cs_status tied(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    struct cs_tied_exchange x;
    if (!cs_optim_tied_begin(exec->config.optim, &x))
        return CS_OK;
    if (x.peer >= 0)
        CS_TRY(cs_channels_exchange(exec->config.channels, x.peer, x.mine, x.theirs, x.bytes,
                                    d->stream, err));
    cs_optim_tied_end(exec->config.optim, &x);
    return CS_OK;
}

static enum cs_status run_op(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    if (is_message(a))
        return message(exec, a, err);
    if (a->op == CS_OP_TIED)
        return tied(exec, err);
    if (a->op != CS_OP_NORM)
        return a->comm >= 0 ? cs_exec_collective(exec, a, err) : cs_exec_compute(exec, a, err);
    CS_TRY(await(exec, err)); /* the norm waits anyway, without an eye on the peers */
    for (int32_t s = 0; s < exec->program->n_slots; s++)
        CS_TRY(cs_input_check(&exec->inputs[s], err)); /* before anything is updated */
    return cs_exec_collective(exec, a, err);
}

static enum cs_status enqueue(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    const struct cs_rank_program *p = exec->mine;
    void *stream = stream_of(exec, a);
    cs_exec_show(exec, is_message(a), (int32_t)a->id);
    cs_exec_place_slot(exec, a); /* before the stream waits for others */
    for (uint32_t i = 0; i < a->n_deps; i++) {
        const struct cs_action *dep = &p->actions[p->deps[a->first_dep + i]];
        if (is_awaited(dep) && stream_of(exec, dep) != stream)
            CS_TRY(d->mem->stream_wait(d->handle, stream, exec->mark[dep->id].end, err));
    }
    CS_TRY(d->mem->event_record(d->handle, exec->mark[a->id].begin, stream, err));
    CS_TRY(run_op(exec, a, err));
    return d->mem->event_record(d->handle, exec->mark[a->id].end, stream, err);
}

/* Times of all actions: the base event was recorded at base_ns on an idle stream. */
static enum cs_status report(struct cs_exec *exec, int64_t base_ns, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    if (exec->config.ring == NULL)
        return CS_OK;
    for (uint32_t i = 0; i < exec->mine->n_actions; i++) {
        double begin, end;
        if (!is_awaited(&exec->mine->actions[i]) &&
            d->mem->event_query(d->handle, exec->mark[i].end, NULL) != CS_OK)
            continue; /* its end is not known yet */
        CS_TRY(d->mem->event_elapsed(d->handle, exec->base, exec->mark[i].begin, &begin, err));
        CS_TRY(d->mem->event_elapsed(d->handle, exec->base, exec->mark[i].end, &end, err));
        cs_exec_event(exec, CS_EVENT_ACTION, i, base_ns + (int64_t)(begin * 1e6),
                      base_ns + (int64_t)(end * 1e6), 0);
    }
    return CS_OK;
}

/* Does launching hold them up? */
static enum cs_status judge_graphs(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    for (uint32_t n = 0, action; (action = cs_graphs_asks(exec->graphs, n)) != UINT32_MAX; n++) {
        const struct cs_mark *m = &exec->mark[action];
        double ms;
        CS_TRY(d->mem->event_elapsed(d->handle, m->begin, m->end, &ms, err));
        cs_graphs_tell(exec->graphs, n, (int64_t)(ms * 1e6));
    }
    return CS_OK;
}

enum cs_status cs_exec_enqueue(struct cs_exec *exec, struct cs_err *err)
{
    struct cs_device *d = exec->config.device;
    CS_TRY(reserve_marks(exec, err));
    CS_TRY(cs_device_measure(d, err)); /* it waits: never in the middle of a step */
    cs_graphs_begin(exec->graphs);
    CS_TRY(d->mem->event_record(d->handle, exec->base, d->stream, err));
    const int64_t base_ns = cs_now_ns();
    for (uint32_t i = 0; i < exec->mine->n_actions; i++) {
        exec->current = &exec->mine->actions[i];
        CS_TRY(enqueue(exec, exec->current, err));
    }
    CS_TRY(await(exec, err));
    if (exec->config.channels != NULL)
        CS_TRY(cs_channels_await(exec->config.channels, err));
    CS_TRY(cs_device_sync(d, err));
    cs_exec_show(exec, 0, -1);
    cs_exec_show(exec, 1, -1);
    CS_TRY(judge_graphs(exec, err));
    return report(exec, base_ns, err);
}
