/* The end of a training step, action by action: sums of gradients, norm, update, gathering of
 * weights. */
#include "worker/exec/update.h"

#include "worker/exec/state/marks.h"

enum cs_status cs_exec_tied_host(struct cs_exec *exec, const struct cs_action *action,
                                 struct cs_err *err)
{
    const struct cs_exec_config *c = &exec->config;
    (void)action;
    return cs_optim_tied(c->optim, c->comm, c->deadline_ms, err);
}

/* Exchanged and added on the compute stream, for which nothing else is left to run meanwhile. */
enum cs_status cs_exec_tied_device(struct cs_exec *exec, const struct cs_action *action,
                                   struct cs_err *err)
{
    const struct cs_device *d = exec->config.device;
    struct cs_tied_exchange x;
    (void)action;
    if (!cs_optim_tied_begin(exec->config.optim, &x))
        return CS_OK;
    if (x.peer >= 0)
        CS_TRY(cs_channels_exchange(exec->config.channels, cs_exec_rank(exec, x.peer), x.mine,
                                    x.theirs, x.bytes, d->stream, err));
    cs_optim_tied_end(exec->config.optim, &x);
    return CS_OK;
}

static enum cs_status check_replicas(const struct cs_exec *exec, const struct cs_action *action,
                                     struct cs_err *err)
{
    if (exec->config.replicas != NULL)
        return CS_OK;
    return cs_fail(err, CS_INTERNAL, "action %u (%s) has no replicas", action->id,
                   cs_op_letter((enum cs_op)action->op));
}

enum cs_status cs_exec_tensors(struct cs_exec *exec, const struct cs_action *action,
                               struct cs_err *err)
{
    (void)action;
    return cs_tensor_ranks_reduce(exec->config.tensors, err);
}

enum cs_status cs_exec_copies(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err)
{
    CS_TRY(cs_replicas_settle(exec->config.replicas, action->stage, err));
    return cs_copies_reduce(exec->config.copies, action->stage, err);
}

enum cs_status cs_exec_reduce(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err)
{
    CS_TRY(check_replicas(exec, action, err));
    CS_TRY(cs_optim_tied_here(exec->config.optim, err));
    return cs_replicas_reduce(exec->config.replicas, err);
}

enum cs_status cs_exec_norm_host(struct cs_exec *exec, const struct cs_action *action,
                                 struct cs_err *err)
{
    const struct cs_exec_config *c = &exec->config;
    (void)action;
    return cs_optim_norm(c->optim, c->comm, exec->manifest->trained_tokens, c->deadline_ms, err);
}

/* The norm waits for the device anyway, but without an eye on the peers; so the device is awaited
 * here, and the slots are checked before anything is updated. */
enum cs_status cs_exec_norm_device(struct cs_exec *exec, const struct cs_action *action,
                                   struct cs_err *err)
{
    CS_TRY(cs_exec_await_device(exec, err));
    for (int32_t s = 0; s < exec->program->n_slots; s++)
        CS_TRY(cs_input_check(&exec->inputs[s], err));
    return cs_exec_norm_host(exec, action, err);
}

enum cs_status cs_exec_step(struct cs_exec *exec, const struct cs_action *action,
                            struct cs_err *err)
{
    (void)action;
    (void)err;
    cs_optim_update(exec->config.optim, exec->manifest->step);
    return CS_OK;
}

enum cs_status cs_exec_gather(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err)
{
    CS_TRY(check_replicas(exec, action, err));
    return cs_replicas_gather(exec->config.replicas, err);
}

enum cs_status cs_exec_end(struct cs_exec *exec, const struct cs_action *action, struct cs_err *err)
{
    (void)exec;
    (void)action;
    (void)err;
    return CS_OK;
}
