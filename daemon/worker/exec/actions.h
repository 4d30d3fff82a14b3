/* What this worker does for every operation of a program: one row an operation, a column for a host
 * and one for a device with streams. Whoever runs actions - the compute thread, the communication
 * thread, the one that enqueues - looks here. */
#ifndef CS_WORKER_EXEC_ACTIONS_H
#define CS_WORKER_EXEC_ACTIONS_H

#include "worker/exec/state/state.h"

/* Host: returns when the action is done. Device: when it is enqueued. */
typedef enum cs_status cs_exec_fn(struct cs_exec *exec, const struct cs_action *action,
                                  struct cs_err *err);

/* where an action runs on a device with streams */
enum cs_exec_stream { CS_ON_COMPUTE, CS_ON_CHANNEL, CS_ON_REPLICAS };

struct cs_exec_op {
    cs_exec_fn *host, *device; /* NULL: cannot be run there */
    enum cs_exec_stream on;
    bool outlasts_step; /* devices: the step does not wait for its end, who needs it does */
};

extern const struct cs_exec_op cs_exec_ops[CS_OP_COUNT];

/* Run or enqueue an action, whichever the device does. CS_UNSUPPORTED: it has no row. */
enum cs_status cs_exec_act(struct cs_exec *exec, const struct cs_action *action,
                           struct cs_err *err) CS_NODISCARD;
/* devices with streams: the stream of an action */
void *cs_exec_stream_of(const struct cs_exec *exec, const struct cs_action *action);
/* Before an action, outside of its times: if it is the first that computes on its slot, the slot
 * goes to where the device reads it. */
void cs_exec_place_slot(struct cs_exec *exec, const struct cs_action *action);

#endif
