/* The table of what this worker does for every operation of a program. */
#include "worker/exec/actions.h"

#include "worker/exec/messages/messages.h"
#include "worker/exec/passes.h"
#include "worker/exec/update.h"

/* On a host the communication
 * thread posts messages, several at a time, and takes note of their ends (communicate.c). Updated
 * weights may still be on their way to the replicas when a step is over: each layer of the next
 * step waits for its own. */
/* clang-format off */
const struct cs_exec_op cs_exec_ops[CS_OP_COUNT] = {
    /*                 host                     device                   stream          outlasts */
    [CS_OP_FWD]        = {cs_exec_forward,         cs_exec_forward,         CS_ON_COMPUTE,  false},
    [CS_OP_BWD]        = {cs_exec_backward,        cs_exec_backward,        CS_ON_COMPUTE,  false},
    [CS_OP_BWD_INPUT]  = {cs_exec_backward_input,  cs_exec_backward_input,  CS_ON_COMPUTE,  false},
    [CS_OP_BWD_WEIGHT] = {cs_exec_backward_weight, cs_exec_backward_weight, CS_ON_COMPUTE,  false},
    [CS_OP_SEND]       = {NULL,                    cs_exec_enqueue_message, CS_ON_CHANNEL,  false},
    [CS_OP_RECV]       = {NULL,                    cs_exec_enqueue_message, CS_ON_CHANNEL,  false},
    [CS_OP_TIED]       = {cs_exec_tied_host,       cs_exec_tied_device,     CS_ON_COMPUTE,  false},
    [CS_OP_REDUCE]     = {cs_exec_reduce,          cs_exec_reduce,          CS_ON_COMPUTE,  false},
    [CS_OP_NORM]       = {cs_exec_norm_host,       cs_exec_norm_device,     CS_ON_COMPUTE,  false},
    [CS_OP_STEP]       = {cs_exec_step,            cs_exec_step,            CS_ON_COMPUTE,  false},
    [CS_OP_GATHER]     = {cs_exec_gather,          cs_exec_gather,          CS_ON_REPLICAS, true },
    [CS_OP_COPIES]     = {cs_exec_copies,          cs_exec_copies,          CS_ON_COMPUTE,  false},
    [CS_OP_TENSORS]    = {cs_exec_tensors,         cs_exec_tensors,         CS_ON_COMPUTE,  false},
    [CS_OP_MARK]       = {cs_exec_end,             cs_exec_end,             CS_ON_COMPUTE,  false},
};

/* clang-format on */

enum cs_status cs_exec_act(struct cs_exec *exec, const struct cs_action *action, struct cs_err *err)
{
    const struct cs_exec_op none = {0};
    const struct cs_exec_op *op = action->op < CS_OP_COUNT ? &cs_exec_ops[action->op] : &none;
    cs_exec_fn *run = exec->config.device->mem != NULL ? op->device : op->host;
    if (run == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "action %u (%s) cannot be run by this worker",
                       action->id, cs_op_letter((enum cs_op)action->op));
    return run(exec, action, err);
}

void *cs_exec_stream_of(const struct cs_exec *exec, const struct cs_action *action)
{
    switch (cs_exec_ops[action->op].on) {
    case CS_ON_CHANNEL:
        return cs_channels_stream(exec->config.channels, cs_exec_rank(exec, action->peer),
                                  action->op == CS_OP_SEND);
    case CS_ON_REPLICAS:
        return cs_replicas_stream(exec->config.replicas);
    case CS_ON_COMPUTE:
        break;
    }
    return exec->config.device->stream;
}

void cs_exec_place_slot(struct cs_exec *exec, const struct cs_action *action)
{
    const bool is_compute = cs_op_stream((enum cs_op)action->op) == CS_STREAM_COMPUTE;
    if (is_compute && action->slot >= 0 && !exec->inputs[action->slot].is_placed)
        cs_input_place(&exec->inputs[action->slot]);
}
