/* Events of a step's actions on a device with streams, and waiting for the device with an eye on
 * the clock and the peers. */
#include "worker/exec/state/marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/system/clock.h"
#include "core/sched/proof/limits.h"

enum { SPIN_NS = 200 * 1000, NAP_NS = 50 * 1000, CHECK_NS = 100 * 1000 * 1000 };

static const struct cs_device_ops *mem_of(const struct cs_exec *exec)
{
    return exec->config.device->mem;
}

enum cs_status cs_exec_reserve_marks(struct cs_exec *exec, uint32_t n, struct cs_err *err)
{
    void *handle = exec->config.device->handle;
    if (exec->base == NULL)
        CS_TRY(mem_of(exec)->event_create(handle, &exec->base, err));
    if (exec->joint == NULL)
        CS_TRY(mem_of(exec)->event_create(handle, &exec->joint, err));
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
    if (exec->base == NULL)
        return;
    void *handle = exec->config.device->handle;
    for (uint32_t i = 0; i < exec->n_marks; i++) {
        mem_of(exec)->event_destroy(handle, exec->mark[i].begin);
        mem_of(exec)->event_destroy(handle, exec->mark[i].end);
    }
    mem_of(exec)->event_destroy(handle, exec->base);
    mem_of(exec)->event_destroy(handle, exec->reached);
    mem_of(exec)->event_destroy(handle, exec->joint);
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
        const void *stream = exec->mark[i].stream;
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
    CS_TRY(cs_context_comm_check(exec->config.context, err));
    CS_TRY(cs_context_comm_check(exec->config.sharers, err));
    CS_TRY(cs_context_comm_check(exec->config.items, err));
    CS_TRY(cs_context_comm_check(exec->config.experts, err));
    CS_TRY(cs_context_comm_check(exec->config.copy_sums, err));
    CS_TRY(cs_replicas_check(exec->config.replicas, err));
    if (limit_ms <= 0 || cs_now_ns() - start < limit_ms * 1000000)
        return CS_OK;
    char where[256];
    first_open(exec, where, sizeof where);
    return cs_fail(err, CS_TIMEOUT, "rank %d: the device did not finish within %lld ms; open: %s",
                   cs_exec_rank(exec, exec->config.rank), (long long)limit_ms, where);
}

/* A peer that died would make the device wait for ever: the channels are asked now and then. */
enum cs_status cs_exec_await_device(struct cs_exec *exec, struct cs_err *err)
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
