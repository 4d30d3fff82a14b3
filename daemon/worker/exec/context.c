/* Hands transfers of a context from the compute thread to the communication thread and back. */
#include "worker/exec/context.h"

#include "core/base/clock.h"

static bool has_context(const struct cs_exec *exec)
{
    return exec->context.n > 1;
}

/* cs_context.exchange */
static void ask(void *user, struct cs_xfer *xfer, int n)
{
    struct cs_exec *exec = user;
    struct cs_exec_exchange *x = &exec->exchange;
    const int64_t asked_ns = cs_now_ns();
    pthread_mutex_lock(&exec->lock);
    x->xfer = xfer;
    x->n = n;
    x->state = CS_EXCHANGE_ASKED;
    pthread_mutex_unlock(&exec->lock);
    cs_exec_wake_comm(exec);
    pthread_mutex_lock(&exec->lock);
    while (x->state != CS_EXCHANGE_NONE && !cs_exec_has_failed(exec))
        pthread_cond_wait(&exec->changed, &exec->lock);
    pthread_mutex_unlock(&exec->lock);
    exec->context_wait_ns += cs_now_ns() - asked_ns;
}

void cs_exec_open_context(struct cs_exec *exec)
{
    const struct cs_plan *plan = exec->config.plan;
    exec->context =
        (struct cs_context){.n = cs_plan_width(plan, exec->config.rank),
                            .place = exec->config.place,
                            .first = cs_plan_rank_of(plan, exec->config.replica, exec->config.rank),
                            .exchange = ask,
                            .user = exec};
}

struct cs_context *cs_exec_context(struct cs_exec *exec)
{
    return has_context(exec) ? &exec->context : NULL;
}

void cs_exec_begin_exchanges(struct cs_exec *exec)
{
    exec->exchange = (struct cs_exec_exchange){.is_over = !has_context(exec)};
}

void cs_exec_end_exchanges(struct cs_exec *exec)
{
    pthread_mutex_lock(&exec->lock);
    exec->exchange.is_over = true;
    pthread_mutex_unlock(&exec->lock);
    cs_exec_wake_comm(exec);
}

static bool is_complete(const struct cs_exec_exchange *x)
{
    for (int i = 0; i < x->n; i++)
        if (!x->xfer[i].is_done)
            return false;
    return true;
}

static enum cs_status post(struct cs_exec *exec, const struct cs_exec_exchange *x,
                           struct cs_err *err)
{
    struct cs_comm *comm = exec->config.comm;
    for (int i = 0; i < x->n; i++) {
        exec->messages_sent += x->xfer[i].is_send;
        exec->bytes_sent += x->xfer[i].is_send ? (int64_t)x->xfer[i].bytes : 0;
        CS_TRY(comm->table->post(comm, &x->xfer[i], err));
    }
    return CS_OK;
}

static void set_state(struct cs_exec *exec, enum cs_exchange_state state)
{
    pthread_mutex_lock(&exec->lock);
    exec->exchange.state = state;
    pthread_cond_signal(&exec->changed);
    pthread_mutex_unlock(&exec->lock);
}

bool cs_exec_serve_exchange(struct cs_exec *exec, bool *has_moved, enum cs_status *status,
                            struct cs_err *err)
{
    *has_moved = false;
    *status = CS_OK;
    pthread_mutex_lock(&exec->lock);
    const struct cs_exec_exchange x = exec->exchange;
    pthread_mutex_unlock(&exec->lock);
    if (x.state == CS_EXCHANGE_ASKED) {
        *has_moved = true;
        *status = post(exec, &x, err);
        set_state(exec, CS_EXCHANGE_POSTED);
    } else if (x.state == CS_EXCHANGE_POSTED && is_complete(&x)) {
        *has_moved = true;
        set_state(exec, CS_EXCHANGE_NONE);
    }
    return !x.is_over;
}

bool cs_exec_exchange_is_posted(struct cs_exec *exec)
{
    pthread_mutex_lock(&exec->lock);
    const bool is_posted = exec->exchange.state == CS_EXCHANGE_POSTED;
    pthread_mutex_unlock(&exec->lock);
    return is_posted;
}
