/* What the end of a training step does: gradients are summed where parameters live more than once,
 * their norm is taken, weights are updated and go back to the replicas. Rows of the table of
 * actions.h; a host and a device with streams differ where a rank waits for others. */
#ifndef CS_WORKER_EXEC_UPDATE_H
#define CS_WORKER_EXEC_UPDATE_H

#include "worker/exec/state/state.h"

/* sum of a tied embedding's two gradients */
enum cs_status cs_exec_tied_host(struct cs_exec *exec, const struct cs_action *action,
                                 struct cs_err *err) CS_NODISCARD;
enum cs_status cs_exec_tied_device(struct cs_exec *exec, const struct cs_action *action,
                                   struct cs_err *err) CS_NODISCARD;
/* sum of gradients that the ranks of a stage make in parts */
enum cs_status cs_exec_tensors(struct cs_exec *exec, const struct cs_action *action,
                               struct cs_err *err) CS_NODISCARD;
/* sum of an encoder's gradients over its copies */
enum cs_status cs_exec_copies(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err) CS_NODISCARD;
/* sum of gradients over the replicas, each of which keeps its part */
enum cs_status cs_exec_reduce(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err) CS_NODISCARD;
/* norm of all gradients, gathered from all ranks */
enum cs_status cs_exec_norm_host(struct cs_exec *exec, const struct cs_action *action,
                                 struct cs_err *err) CS_NODISCARD;
enum cs_status cs_exec_norm_device(struct cs_exec *exec, const struct cs_action *action,
                                   struct cs_err *err) CS_NODISCARD;
/* the optimizer's update of this rank's parameters */
enum cs_status cs_exec_step(struct cs_exec *exec, const struct cs_action *action,
                            struct cs_err *err) CS_NODISCARD;
/* the updated weights from and to all replicas */
enum cs_status cs_exec_gather(struct cs_exec *exec, const struct cs_action *action,
                              struct cs_err *err) CS_NODISCARD;
/* the end of the step: nothing is left to do */
enum cs_status cs_exec_end(struct cs_exec *exec, const struct cs_action *action,
                           struct cs_err *err) CS_NODISCARD;

#endif
