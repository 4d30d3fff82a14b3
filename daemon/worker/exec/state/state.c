/* What the parts of the interpreter share while a step runs: which actions are done and who waits
 * for them, the first failure, what is shown of the work. Calls no other file of the
 * interpreter. */
#include "worker/exec/state/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/clock.h"

bool cs_exec_is_ready(const struct cs_exec *exec, const struct cs_action *action)
{
    for (uint32_t d = 0; d < action->n_deps; d++)
        if (!atomic_load_explicit(&exec->done[exec->mine->deps[action->first_dep + d]],
                                  memory_order_acquire))
            return false;
    return true;
}

void cs_exec_wake_comm(const struct cs_exec *exec)
{
    const uint64_t one = 1;
    if (exec->wake_fd < 0)
        return;
    while (write(exec->wake_fd, &one, sizeof one) == -1 && errno == EINTR)
        ;
}

void cs_exec_finish(struct cs_exec *exec, uint32_t action)
{
    const bool is_comm = cs_op_stream((enum cs_op)exec->mine->actions[action].op) == CS_STREAM_COMM;
    if (!is_comm || exec->wake_fd < 0) {
        atomic_store_explicit(&exec->done[action], 1, memory_order_release);
        if (exec->wakes_comm[action])
            cs_exec_wake_comm(exec);
        return;
    }
    pthread_mutex_lock(&exec->lock);
    atomic_store_explicit(&exec->done[action], 1, memory_order_release);
    pthread_cond_signal(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
}

bool cs_exec_has_failed(const struct cs_exec *exec)
{
    return atomic_load_explicit(&exec->is_failed, memory_order_acquire) != 0;
}

void cs_exec_fail(struct cs_exec *exec, const struct cs_err *err)
{
    pthread_mutex_lock(&exec->lock);
    if (!cs_exec_has_failed(exec)) {
        exec->failure = *err;
        atomic_store_explicit(&exec->is_failed, 1, memory_order_release);
    }
    pthread_cond_signal(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
    cs_exec_wake_comm(exec);
    /* peers that wait for us must not wait for ever; also ends a collective of our own */
    if (exec->config.comm != NULL)
        exec->config.comm->table->abort(exec->config.comm);
}

void cs_exec_event(struct cs_exec *exec, enum cs_event_kind kind, uint32_t action, int64_t start_ns,
                   int64_t end_ns, int64_t value)
{
    if (exec->config.ring == NULL)
        return;
    const struct cs_event event = {
        .start_ns = (uint64_t)start_ns,
        .end_ns = (uint64_t)end_ns,
        .step = (uint32_t)exec->manifest->step,
        .action = action,
        .value = value > INT32_MAX ? INT32_MAX : (int32_t)value,
        .kind = (uint16_t)kind,
        .flags = exec->program->is_eval ? CS_EVENT_EVAL : 0,
    };
    pthread_mutex_lock(&exec->ring_lock); /* the ring has one producer, this process two threads */
    cs_ring_put(exec->config.ring, &event);
    pthread_mutex_unlock(&exec->ring_lock);
}

void cs_exec_show(struct cs_exec *exec, int is_comm, int32_t action)
{
    if (exec->config.ring == NULL)
        return;
    struct cs_ring_head *head = exec->config.ring->head;
    atomic_store_explicit(is_comm ? &head->comm_action : &head->action, action,
                          memory_order_relaxed);
    atomic_store_explicit(&head->progress_ns, (uint64_t)cs_now_ns(), memory_order_relaxed);
}

int64_t cs_exec_edge_rows(const struct cs_exec *exec, int32_t edge, int32_t slot, bool at_producer)
{
    const struct cs_plan *plan = exec->config.plan;
    const int32_t branch = plan->stages[plan->edges[edge].from].branch;
    const int32_t encoder = exec->config.graph->branches[branch].encoder;
    const struct cs_input *input = &exec->inputs[slot];
    if (encoder < 0)
        return input->llm_rows;
    if (plan->edges[edge].feed >= 0)
        return at_producer ? input->n_leaving[encoder] : input->n_fills[encoder];
    return plan->edges[edge].is_inner ? input->rows[encoder].n : input->n_rows[encoder];
}
