/* What the work of a stage on a slot does; rows of the table of actions.h. */
#ifndef CS_WORKER_EXEC_PASSES_H
#define CS_WORKER_EXEC_PASSES_H

#include "worker/exec/state/state.h"

enum cs_status cs_exec_forward(struct cs_exec *exec, const struct cs_action *action,
                               struct cs_err *err) CS_NODISCARD;
enum cs_status cs_exec_backward(struct cs_exec *exec, const struct cs_action *action,
                                struct cs_err *err) CS_NODISCARD;
/* the input half: what the weight half needs stays saved */
enum cs_status cs_exec_backward_input(struct cs_exec *exec, const struct cs_action *action,
                                      struct cs_err *err) CS_NODISCARD;
/* the weight half; of a stage without an input half its whole backward */
enum cs_status cs_exec_backward_weight(struct cs_exec *exec, const struct cs_action *action,
                                       struct cs_err *err) CS_NODISCARD;

#endif
