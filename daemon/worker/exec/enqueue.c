/* The interpreter on a device with streams: every action of a step is enqueued in program order by
 * one thread, which waits for nothing. Streams of the device wait for each other through events;
 * the list is in topological order, so what an action waits for is on its way when it is enqueued.
 *
 * Slots are placed as they are needed: the host copies one into page-locked memory, and sends it,
 * while the device works on the slots before.
 *
 * Compute, collectives and the exchange of a tied embedding's gradient run on the device's compute
 * stream, each channel (peer and direction) of the messages on a stream of its own. Begin and end
 * of every action are events; they become times when the step is over.
 *
 * Compute actions that launching holds up are launched as graphs (worker/exec/state/graphs.h). For tests
 * and comparisons the environment says otherwise (CS_VAR_GRAPHS); where it is set, what came of it is said at the end. */
#include "worker/exec/enqueue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/system/clock.h"
#include "core/base/system/environment.h"
#include "worker/exec/actions.h"
#include "worker/exec/exec.h"
#include "worker/exec/state/marks.h"

static enum cs_status make_graphs(struct cs_exec *exec, struct cs_err *err)
{
    return cs_graphs_new(exec->config.device, exec->config.graph, cs_graphs_mode_wanted(),
                         &exec->graphs, err);
}

static void say_graphs(const struct cs_graphs *graphs)
{
    const struct cs_graphs_counts c = cs_graphs_counts(graphs);
    if (graphs != NULL && cs_variable_text(CS_VAR_GRAPHS) != NULL)
        fprintf(stderr,
                "graphs: %" PRId64 " of %" PRId64 " pieces and %" PRId64 " of %" PRId64
                " calls replayed, %" PRId64 " pieces known; %" PRId64 " captures, %" PRId64
                " failed, %" PRId64 " dropped\n",
                c.replays, c.pieces, c.replayed_calls, c.calls, c.known, c.captures, c.failures,
                c.dropped);
}

void cs_exec_free_graphs(struct cs_exec *exec)
{
    say_graphs(exec->graphs);
    cs_graphs_free(exec->graphs);
}

struct cs_graphs_counts cs_exec_graphs(const struct cs_exec *exec)
{
    return cs_graphs_counts(exec->graphs);
}

static enum cs_status enqueue(struct cs_exec *exec, const struct cs_action *a, struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    const struct cs_rank_program *p = exec->mine;
    void *stream = exec->mark[a->id].stream = cs_exec_stream_of(exec, a);
    cs_exec_show(exec, cs_exec_ops[a->op].on == CS_ON_CHANNEL, (int32_t)a->id);
    cs_exec_place_slot(exec, a); /* before the stream waits for others */
    for (uint32_t i = 0; i < a->n_deps; i++) {
        const struct cs_action *dep = &p->actions[p->deps[a->first_dep + i]];
        if (!cs_exec_ops[dep->op].outlasts_step && exec->mark[dep->id].stream != stream)
            CS_TRY(d->mem->stream_wait(d->handle, stream, exec->mark[dep->id].end, err));
    }
    CS_TRY(d->mem->event_record(d->handle, exec->mark[a->id].begin, stream, err));
    CS_TRY(cs_exec_act(exec, a, err));
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
        if (cs_exec_ops[exec->mine->actions[i].op].outlasts_step &&
            d->mem->event_query(d->handle, exec->mark[i].end, NULL) != CS_OK)
            continue; /* its end is not known yet */
        CS_TRY(d->mem->event_elapsed(d->handle, exec->base, exec->mark[i].begin, &begin, err));
        CS_TRY(d->mem->event_elapsed(d->handle, exec->base, exec->mark[i].end, &end, err));
        cs_exec_event(exec, CS_EVENT_ACTION, i, base_ns + (int64_t)(begin * 1e6),
                      base_ns + (int64_t)(end * 1e6), (int64_t)((end - begin) * 1e3));
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
    if (exec->base == NULL) /* the first step */
        CS_TRY(make_graphs(exec, err));
    CS_TRY(cs_exec_reserve_marks(exec, exec->mine->n_actions, err));
    if (exec->tensors.n < 2) /* else what all have would be rounded by each in its own way */
        CS_TRY(cs_device_measure(d, err)); /* it waits: never in the middle of a step */
    cs_graphs_begin(exec->graphs);
    CS_TRY(d->mem->event_record(d->handle, exec->base, d->stream, err));
    const int64_t base_ns = cs_now_ns();
    for (uint32_t i = 0; i < exec->mine->n_actions; i++) {
        exec->current = &exec->mine->actions[i];
        CS_TRY(enqueue(exec, exec->current, err));
    }
    CS_TRY(cs_exec_await_device(exec, err));
    if (exec->config.channels != NULL)
        CS_TRY(cs_channels_await(exec->config.channels, err));
    CS_TRY(cs_device_sync(d, err));
    cs_exec_show(exec, 0, -1);
    cs_exec_show(exec, 1, -1);
    CS_TRY(judge_graphs(exec, err));
    return report(exec, base_ns, err);
}
