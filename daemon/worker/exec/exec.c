/* Makes and frees the interpreter and runs a step: on a host the compute stream, one rank alone or
 * beside the communication thread. */
#include "worker/exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "worker/exec/actions.h"
#include "worker/exec/arena.h"
#include "worker/exec/communicate.h"
#include "worker/exec/enqueue.h"
#include "worker/exec/messages/context.h"
#include "worker/exec/state/marks.h"
#include "worker/exec/state/offload.h"
#include "worker/exec/state/saved.h"

static enum cs_wait wait_of(const struct cs_exec *exec, const struct cs_action *action)
{
    for (uint32_t d = 0; d < action->n_deps; d++) {
        const uint32_t id = exec->mine->deps[action->first_dep + d];
        if (atomic_load_explicit(&exec->done[id], memory_order_acquire))
            continue;
        const enum cs_op op = (enum cs_op)exec->mine->actions[id].op;
        if (op == CS_OP_RECV)
            return CS_WAIT_RECV;
        if (op == CS_OP_SEND)
            return CS_WAIT_SEND;
        if (exec->mine->actions[id].comm >= 0)
            return CS_WAIT_COLLECTIVE;
    }
    return CS_WAIT_DEPENDENCY;
}

/* Compute thread: until the dependencies are done or something failed. */
static void wait_ready(struct cs_exec *exec, const struct cs_action *action)
{
    if (cs_exec_is_ready(exec, action))
        return;
    const int64_t start = cs_now_ns();
    const enum cs_wait what = wait_of(exec, action);
    pthread_mutex_lock(&exec->lock);
    while (!cs_exec_is_ready(exec, action) && !cs_exec_has_failed(exec))
        pthread_cond_wait(&exec->changed, &exec->lock);
    pthread_mutex_unlock(&exec->lock);
    cs_exec_event(exec, CS_EVENT_WAIT, action->id, start, cs_now_ns(), (int64_t)what);
}

static void show_samples(struct cs_exec *exec, const struct cs_action *a)
{
    if (exec->config.ring == NULL || a->slot < 0)
        return;
    const struct cs_slot *slot = &exec->inputs[a->slot].slot;
    for (int i = 0; i < 4; i++)
        atomic_store_explicit(&exec->config.ring->head->last_samples[i],
                              i < slot->head->n_samples ? slot->sample_ids[i] + 1 : 0,
                              memory_order_relaxed);
}

static enum cs_status run_action(struct cs_exec *exec, const struct cs_action *a,
                                 struct cs_err *err)
{
    cs_exec_place_slot(exec, a);
    const int64_t start = cs_now_ns(), cpu = cs_thread_cpu_ns();
    cs_exec_show(exec, 0, (int32_t)a->id);
    show_samples(exec, a);
    CS_TRY(cs_exec_act(exec, a, err));
    cs_exec_event(exec, CS_EVENT_ACTION, a->id, start, cs_now_ns(),
                  (cs_thread_cpu_ns() - cpu) / 1000);
    cs_exec_show(exec, 0, -1);
    cs_exec_finish(exec, a->id);
    return CS_OK;
}

static enum cs_status run_compute(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_rank_program *p = exec->mine;
    for (uint32_t i = 0; i < p->n_fifo[CS_STREAM_COMPUTE]; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMPUTE][i]];
        exec->current = a;
        wait_ready(exec, a);
        if (cs_exec_has_failed(exec))
            return CS_OK; /* the failure is reported after both threads have ended */
        CS_TRY(run_action(exec, a, err));
    }
    return CS_OK;
}

/* One rank: both streams in turn, the compute stream first. */
static enum cs_status run_alone(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_rank_program *p = exec->mine;
    uint32_t at[CS_STREAM_COUNT] = {0};
    while (at[0] < p->n_fifo[0] || at[1] < p->n_fifo[1]) {
        bool has_run = false;
        for (int s = 0; s < CS_STREAM_COUNT && !has_run; s++) {
            if (at[s] == p->n_fifo[s])
                continue;
            const struct cs_action *a = &p->actions[p->fifo[s][at[s]]];
            if (!cs_exec_is_ready(exec, a))
                continue;
            exec->current = a;
            CS_TRY(run_action(exec, a, err));
            at[s]++;
            has_run = true;
        }
        if (!has_run)
            return cs_fail(err, CS_INTERNAL, "the program of rank %d cannot go on", p->rank);
    }
    return CS_OK;
}

static enum cs_status run_both(struct cs_exec *exec, struct cs_err *err)
{
    pthread_t thread;
    struct cs_err own = {0};
    if (pthread_create(&thread, NULL, cs_exec_communicate, exec) != 0)
        return cs_fail(err, CS_NO_MEMORY, "the communication thread cannot be started");
    if (run_compute(exec, &own) != CS_OK)
        cs_exec_fail(exec, &own);
    pthread_join(thread, NULL);
    if (!cs_exec_has_failed(exec))
        return CS_OK;
    if (err != NULL)
        *err = exec->failure;
    return exec->failure.status;
}

/* ---- a step ---- */

static enum cs_status reserve_actions(struct cs_exec *exec, struct cs_err *err)
{
    const struct cs_rank_program *p = exec->mine;
    if (p->n_actions > exec->action_room) {
        free(exec->done);
        free(exec->wakes_comm);
        exec->done = calloc(p->n_actions, sizeof *exec->done);
        exec->wakes_comm = calloc(p->n_actions, sizeof *exec->wakes_comm);
        exec->action_room = 0;
        if (exec->done == NULL || exec->wakes_comm == NULL)
            return cs_fail(err, CS_NO_MEMORY, "no memory for %u actions", p->n_actions);
        exec->action_room = p->n_actions;
    }
    for (uint32_t i = 0; i < p->n_actions; i++) {
        atomic_store_explicit(&exec->done[i], 0, memory_order_relaxed);
        exec->wakes_comm[i] = 0;
    }
    for (uint32_t i = 0; i < p->n_fifo[CS_STREAM_COMM]; i++) {
        const struct cs_action *a = &p->actions[p->fifo[CS_STREAM_COMM][i]];
        for (uint32_t d = 0; d < a->n_deps; d++)
            exec->wakes_comm[p->deps[a->first_dep + d]] = 1;
    }
    return CS_OK;
}

static void begin_update(struct cs_exec *exec)
{
    cs_optim_begin(exec->config.optim);
    cs_replicas_begin(exec->config.replicas);
}

enum cs_status cs_exec_run(struct cs_exec *exec, const struct cs_program *program,
                           const struct cs_manifest *manifest, struct cs_input *inputs,
                           struct cs_exec_counts *counts, struct cs_err *err)
{
    exec->program = program;
    exec->mine = &program->rank[exec->config.rank];
    exec->manifest = manifest;
    exec->inputs = inputs;
    exec->messages_sent = exec->bytes_sent = 0;
    exec->saved_bytes = exec->saved_peak = 0;
    if (!program->is_eval && exec->config.optim == NULL)
        return cs_fail(err, CS_STATE, "a training program without an optimizer");
    if (cs_exec_has_failed(exec))
        return cs_fail(err, CS_STATE, "this worker has failed before");
    CS_TRY(reserve_actions(exec, err));
    CS_TRY(cs_exec_reserve_saved(exec, program->n_slots, err));
    CS_TRY(cs_boundary_begin(exec->boundary, program->n_slots, err));
    CS_TRY(cs_exec_use_memory(exec, program, inputs[0].tables, err));
    if (!program->is_eval)
        begin_update(exec);
    CS_TRY(cs_exec_offload_begin(exec, err));
    cs_exec_begin_exchanges(exec);
    CS_TRY(cs_exec_meet_experts(exec, err));
    CS_TRY(exec->config.device->mem != NULL ? cs_exec_enqueue(exec, err)
           : exec->config.comm == NULL      ? run_alone(exec, err)
                                            : run_both(exec, err));
    const struct cs_exec_exchange *x = &exec->exchange;
    *counts =
        (struct cs_exec_counts){exec->messages_sent + x->messages_sent,
                                exec->bytes_sent + x->bytes_sent, exec->saved_peak, x->wait_ns};
    return CS_OK;
}

/* ---- life ---- */

static enum cs_status make_stages(struct cs_exec *e, struct cs_err *err)
{
    const struct cs_plan *plan = e->config.plan;
    for (int32_t s = 0; s < plan->n_stages; s++) {
        if (plan->stages[s].rank != e->config.rank)
            continue;
        CS_TRY(cs_stage_new(e->config.graph, plan, e->config.params, s, &e->stage[s], err));
        if (e->stage[s]->has_backward != plan->stages[s].has_backward)
            return cs_fail(err, CS_PLAN, "stage %s %s backward, the plan says otherwise",
                           plan->stages[s].name, e->stage[s]->has_backward ? "has a" : "has no");
    }
    return CS_OK;
}

enum cs_status cs_exec_new(const struct cs_exec_config *config, struct cs_exec **out,
                           struct cs_err *err)
{
    const size_t n = (size_t)config->plan->n_stages;
    struct cs_exec *e = calloc(1, sizeof *e);
    *out = NULL;
    if (e == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the interpreter");
    e->config = *config;
    e->scratch.device = config->device;
    e->wake_fd = -1;
    pthread_mutex_init(&e->lock, NULL);
    pthread_mutex_init(&e->ring_lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    e->stage = calloc(n, sizeof *e->stage);
    e->spare = calloc(n, sizeof *e->spare);
    e->n_spare = calloc(n, sizeof *e->n_spare);
    enum cs_status status = cs_exec_open_context(e, err);
    if (e->stage == NULL || e->spare == NULL || e->n_spare == NULL)
        status = cs_fail(err, CS_NO_MEMORY, "no memory for the interpreter");
    if (status == CS_OK && config->comm != NULL &&
        (e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) == -1)
        status = cs_fail_errno(err, "making an event descriptor");
    if (status == CS_OK)
        status = cs_device_alloc(config->device, 1, &e->byte, err);
    if (status == CS_OK)
        status = make_stages(e, err);
    if (status == CS_OK)
        status = cs_boundary_new(config->plan, config->device, &e->boundary, err);
    if (status != CS_OK) {
        cs_exec_free(e);
        return status;
    }
    *out = e;
    return CS_OK;
}

void cs_exec_free(struct cs_exec *exec)
{
    if (exec == NULL)
        return;
    for (int32_t s = 0; exec->stage != NULL && s < exec->config.plan->n_stages; s++)
        cs_stage_free(exec->stage[s]);
    cs_exec_offload_free(exec);
    cs_exec_free_saved(exec);
    cs_boundary_free(exec->boundary);
    cs_scratch_free(&exec->scratch);
    cs_exec_free_memory(exec);
    cs_exec_free_graphs(exec);
    cs_exec_free_marks(exec);
    cs_exec_close_context(exec);
    cs_device_free(exec->config.device, exec->byte, 1);
    free(exec->stage);
    free(exec->done);
    free(exec->wakes_comm);
    if (exec->wake_fd >= 0)
        close(exec->wake_fd);
    pthread_mutex_destroy(&exec->lock);
    pthread_mutex_destroy(&exec->ring_lock);
    pthread_cond_destroy(&exec->changed);
    free(exec);
}

void cs_exec_where(const struct cs_exec *exec, char *out, size_t cap)
{
    const struct cs_action *a = exec->current;
    if (a == NULL)
        snprintf(out, cap, "%s", "");
    else if (a->stage >= 0 && a->slot >= 0)
        snprintf(out, cap, "%s %s slot %d", cs_op_letter((enum cs_op)a->op),
                 exec->config.plan->stages[a->stage].name, a->slot);
    else
        snprintf(out, cap, "%s", cs_op_letter((enum cs_op)a->op));
}

const struct cs_stage_model *cs_exec_stage(const struct cs_exec *exec, int32_t stage)
{
    return exec->stage[stage];
}
