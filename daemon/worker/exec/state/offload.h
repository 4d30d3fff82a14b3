/* Moves sets of activations between a device and page-locked host memory, on two streams of their own, one
 * each way (core/plan/offload.h). Where a set goes is fixed before the step by the order of the
 * program's actions: it leaves behind its forward when another slot uses its place before its backward,
 * and comes back as soon as nobody uses the place any more. Devices with streams only; by the thread that
 * enqueues. */
#ifndef CS_WORKER_EXEC_OFFLOAD_H
#define CS_WORKER_EXEC_OFFLOAD_H

#include "worker/exec/state/state.h"

/* A step begins; the running program's memory plan says what moves. */
enum cs_status cs_exec_offload_begin(struct cs_exec *exec, struct cs_err *err) CS_NODISCARD;
/* A forward or backward is about to be enqueued, and was; saved: of its slot, with what a forward kept. */
enum cs_status cs_exec_offload_before(struct cs_exec *exec, const struct cs_action *action,
                                      struct cs_err *err) CS_NODISCARD;
enum cs_status cs_exec_offload_after(struct cs_exec *exec, const struct cs_action *action,
                                     const struct cs_saved *saved, struct cs_err *err) CS_NODISCARD;
void cs_exec_offload_free(struct cs_exec *exec);

#endif
