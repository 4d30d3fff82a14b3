/* Exchanges between the ranks of a stage: on a host one at a time, begun and awaited; on a device enqueued. */
#include "worker/exec/messages/context.h"

#include "core/base/system/clock.h"
#include "core/base/system/environment.h"
#include "core/plan/context.h"
#include "core/plan/groups.h"
#include "worker/layer/tensors.h"

static bool meets(const struct cs_exec *exec)
{
    return exec->all.n > 1 || exec->experts.n > 1 || cs_replicas_divides(exec->config.replicas);
}

static int rank_of(const struct cs_exec_peers *peers, int place)
{
    return peers->rank != NULL ? peers->rank[place] : peers->first + place * peers->step;
}

/* ---- hosts ---- */

/* Ends the exchange with that status: the step fails, unless it had failed before and this is what follows. */
static void end(struct cs_exec *exec, enum cs_status status, const struct cs_err *why)
{
    struct cs_err err = *why;
    exec->exchange.n = 0;
    if (status == CS_TIMEOUT)
        (void)cs_fail(&err, CS_TIMEOUT,
                      "rank %d: rows did not move between the ranks of its stage for %d ms",
                      cs_exec_own_rank(exec), exec->config.deadline_ms);
    if (status != CS_OK)
        cs_exec_fail(exec, &err);
}

/* until what was begun is complete, if anything */
static void await(struct cs_exec *exec)
{
    struct cs_exec_exchange *x = &exec->exchange;
    struct cs_err err = {0};
    enum cs_status status = CS_OK;
    if (x->n == 0)
        return;
    const int64_t begin_ns = cs_now_ns();
    for (int i = 0; i < x->n; i++)
        while (status == CS_OK && !x->xfer[i].is_done)
            status = x->comm->table->progress(x->comm, -1, exec->config.deadline_ms, &err);
    const int64_t now_ns = cs_now_ns();
    x->wait_ns += x->is_counted ? now_ns - begin_ns : 0;
    atomic_store(&x->moved_ns, now_ns);
    end(exec, status, &err);
}

/* (n) transfers that are all complete: the former ones have been awaited */
static void reserve(struct cs_exec_exchange *x, int n)
{
    if (n <= x->room)
        return;
    x->room = 2 * n;
    free(x->xfer);
    x->xfer = calloc((size_t)x->room, sizeof *x->xfer);
    CS_ASSERT(x->xfer != NULL);
}

/* Puts the first n of the list on their way. */
static void begin(struct cs_exec *exec, int n, bool is_counted)
{
    struct cs_exec_exchange *x = &exec->exchange;
    struct cs_err err = {0};
    enum cs_status status = CS_OK;
    if (cs_exec_has_failed(exec))
        return;
    x->n = n;
    x->is_counted = is_counted;
    for (int i = 0; i < n && status == CS_OK; i++) {
        x->messages_sent += is_counted && x->xfer[i].is_send;
        x->bytes_sent += is_counted && x->xfer[i].is_send ? (int64_t)x->xfer[i].bytes : 0;
        status = x->comm->table->post(x->comm, &x->xfer[i], &err);
    }
    if (status == CS_OK)
        status = x->comm->table->push(x->comm, &err);
    if (status != CS_OK)
        end(exec, status, &err);
}

/* cs_context.start: once those before it are complete */
static void start_on_host(void *user, int32_t which, const struct cs_context_exchange *exchange)
{
    const struct cs_exec_peers *peers = user;
    struct cs_exec *exec = peers->exec;
    (void)which;
    await(exec);
    reserve(&exec->exchange, exchange->n);
    for (int i = 0; i < exchange->n; i++) {
        const struct cs_device_move *m = &exchange->move[i];
        exec->exchange.xfer[i] = (struct cs_xfer){.peer = rank_of(peers, m->peer),
                                                  .data = m->data,
                                                  .bytes = m->bytes,
                                                  .is_send = m->is_send};
    }
    begin(exec, exchange->n, true);
}

/* cs_replicas_move_fn, from within a pass */
static void move_within_pass(void *user, struct cs_xfer *xfer, int n)
{
    struct cs_exec *exec = user;
    await(exec);
    reserve(&exec->exchange, n);
    for (int i = 0; i < n; i++)
        exec->exchange.xfer[i] = xfer[i];
    begin(exec, n, false);
    await(exec);
}

/* cs_context.finish: with any that were started before or behind it */
static void finish_on_host(void *user, int32_t which)
{
    const struct cs_exec_peers *peers = user;
    (void)which;
    await(peers->exec);
}

/* ---- devices: enqueued; what goes wrong shows when the device is waited for ---- */

static void note(struct cs_exec *exec, enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK && exec->config.device->error.status == CS_OK)
        exec->config.device->error = *err;
}

/* but what a rank keeps */
static void count_moves(struct cs_exec *exec, const struct cs_exec_peers *peers,
                        const struct cs_context_exchange *x)
{
    for (int i = 0; i < x->n; i++) {
        const struct cs_device_move *m = &x->move[i];
        const bool is_sent = m->is_send && rank_of(peers, m->peer) != cs_exec_own_rank(exec);
        exec->messages_sent += is_sent;
        exec->bytes_sent += is_sent ? (int64_t)m->bytes : 0;
    }
}

/* what a rank sends of its sum on a ring, as hosts do: a share to each, and the sum of its own */
static void count_sum(struct cs_exec *exec, int n, const struct cs_context_exchange *x)
{
    const int64_t others = n - 1, size = x->sum_type == CS_GRAD_BF16 ? 2 : 4;
    exec->messages_sent += 2 * others;
    exec->bytes_sent += 2 * (int64_t)x->sum_n * size * others / n;
}

static void start_on_device(void *user, int32_t which, const struct cs_context_exchange *x)
{
    const struct cs_exec_peers *peers = user;
    struct cs_exec *exec = peers->exec;
    struct cs_err err = {0};
    if (x->sum != NULL) {
        count_sum(exec, peers->n, x);
        note(exec, cs_context_comm_sum(peers->comm, which, x->sum, x->sum_n, x->sum_type, &err),
             &err);
        return;
    }
    count_moves(exec, peers, x);
    note(exec, cs_context_comm_start(peers->comm, which, x->move, x->n, &err), &err);
}

/* The number of it is not asked for: nobody awaits it. */
static void move_on_device(void *user, int32_t which, const struct cs_context_exchange *x)
{
    const struct cs_exec_peers *peers = user;
    struct cs_exec *exec = peers->exec;
    struct cs_err err = {0};
    (void)which;
    if (x->sum != NULL) {
        count_sum(exec, peers->n, x);
        note(exec, cs_context_comm_sum_now(peers->comm, x->sum, x->sum_n, x->sum_type, &err), &err);
        return;
    }
    count_moves(exec, peers, x);
    note(exec, cs_context_comm_move(peers->comm, x->move, x->n, &err), &err);
}

static void finish_on_device(void *user, int32_t which)
{
    const struct cs_exec_peers *peers = user;
    struct cs_err err = {0};
    note(peers->exec, cs_context_comm_finish(peers->comm, which, &err), &err);
}

/* Groups of heads (worker/model/halves/context_groups.h), and of rows that are summed: where they travel beside
 * computing, with as many bytes as fill the links. For tests and comparisons the environment says
 * otherwise: how many, of any size. How many are worth it was measured (tests/bench/RESULTS.md). */
static void set_groups(struct cs_context *context, bool is_host, int32_t most, int64_t bytes,
                       enum cs_variable variable)
{
    const int32_t asked = cs_variable_number(variable);
    context->groups = asked > 0 ? asked : is_host ? 1 : most;
    context->group_bytes = asked > 0 ? 0 : bytes;
}

static void open_experts(struct cs_exec *exec, const struct cs_rank_shape *shape, int own)
{
    const struct cs_plan *plan = exec->config.plan;
    const int32_t group = shape->ep > 1 ? cs_plan_group(plan, CS_GROUP_EP, -1, own) : -1;
    exec->experts = exec->context;
    exec->experts.n = shape->ep;
    exec->experts.place = cs_plan_at(plan, own).ep;
    exec->experts.sums = exec->config.device->mem != NULL;
    exec->experts.user = &exec->expert_peers;
    exec->expert_peers =
        (struct cs_exec_peers){.exec = exec,
                               .comm = exec->config.experts,
                               .n = shape->ep,
                               .first = own,
                               .rank = group >= 0 ? plan->group[group].rank : NULL};
}

enum cs_status cs_exec_open_context(struct cs_exec *exec, struct cs_err *err)
{
    const bool is_host = exec->config.device->mem == NULL;
    const struct cs_rank_shape shape = cs_plan_rank_shape(exec->config.plan, exec->config.rank);
    const int own = cs_exec_own_rank(exec);
    const struct cs_rank_at at = cs_plan_at(exec->config.plan, own);
    exec->context = (struct cs_context){
        .n = shape.cp,
        .place = at.cp,
        .start = is_host ? start_on_host : start_on_device,
        .finish = is_host ? finish_on_host : finish_on_device,
        .user = &exec->context_peers,
    };
    exec->tensors = exec->context;
    exec->tensors.n = shape.tp;
    exec->tensors.place = at.tp;
    exec->tensors.sums = !is_host;
    exec->tensors.move = is_host ? NULL : move_on_device; /* others were not measured so */
    exec->tensors.user = &exec->tensor_peers;
    exec->all = exec->context;
    exec->all.n = cs_plan_width(exec->config.plan, exec->config.rank);
    exec->all.place = exec->config.place;
    exec->all.user = &exec->all_peers;
    exec->all_peers = (struct cs_exec_peers){
        exec, exec->config.items, exec->all.n, own - exec->config.place, 1, NULL};
    exec->context_peers = (struct cs_exec_peers){
        exec, exec->config.context, shape.cp, own - at.cp * shape.tp, shape.tp, NULL};
    exec->tensor_peers =
        (struct cs_exec_peers){exec, exec->config.sharers, shape.tp, own - at.tp, 1, NULL};
    open_experts(exec, &shape, own);
    if (is_host && meets(exec))
        CS_TRY(exec->config.comm->table->share(exec->config.comm, &exec->exchange.comm, err));
    cs_replicas_move_by(exec->config.replicas, move_within_pass, exec);
    cs_tensor_ranks_move_by(exec->config.tensors, move_within_pass, exec);
    set_groups(&exec->context, is_host, CS_CONTEXT_GROUPS_AHEAD, CS_CONTEXT_GROUP_BYTES,
               CS_VAR_CONTEXT_GROUPS);
    set_groups(&exec->tensors, is_host, CS_TENSORS_GROUPS, CS_TENSORS_GROUP_BYTES,
               CS_VAR_TENSOR_GROUPS);
    return CS_OK;
}

void cs_exec_close_context(struct cs_exec *exec)
{
    cs_context_free(&exec->context);
    cs_context_free(&exec->tensors);
    cs_context_free(&exec->experts);
    cs_context_free(&exec->all);
    if (exec->exchange.comm != NULL)
        exec->exchange.comm->table->free(exec->exchange.comm);
    free(exec->exchange.xfer);
    free(exec->expert_rows);
}

struct cs_context *cs_exec_context(struct cs_exec *exec)
{
    return exec->context.n > 1 ? &exec->context : NULL;
}

struct cs_context *cs_exec_sharers(struct cs_exec *exec, int32_t stage)
{
    const bool is_shared = exec->tensors.n > 1 && !cs_plan_is_guest(exec->config.plan, stage);
    return is_shared ? &exec->tensors : NULL;
}

struct cs_context *cs_exec_all(struct cs_exec *exec)
{
    return exec->all.n > 1 ? &exec->all : NULL;
}

struct cs_context *cs_exec_experts(struct cs_exec *exec, int32_t slot)
{
    if (exec->experts.n < 2)
        return NULL;
    exec->experts.row_step = 2 * exec->expert_slots;
    exec->experts.rows = exec->expert_rows != NULL ? exec->expert_rows + 2 * slot : NULL;
    return &exec->experts;
}

void cs_exec_begin_exchanges(struct cs_exec *exec)
{
    struct cs_exec_exchange *x = &exec->exchange;
    x->messages_sent = x->bytes_sent = x->wait_ns = 0;
    atomic_store(&x->moved_ns, 0);
}
