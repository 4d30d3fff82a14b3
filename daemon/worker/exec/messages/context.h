/* Transfers between the ranks of a stage, of a context or of shared matrices, and with those of other
 * replicas that have other experts of it, in the middle of its work. On a device with streams they are enqueued (worker/comm/context_comm.h). On a host the compute
 * thread moves them itself, over the connections that the messages of the program, which are for other ranks, do not use:
 * handing them to another thread and back takes longer than most of them. All of them run the same program, on as many slots, and meet at the same points of
 * it: who waits for whom is, put on top of each other, the order of that one program, which is proved
 * to be without a circle. */
#ifndef CS_WORKER_EXEC_CONTEXT_H
#define CS_WORKER_EXEC_CONTEXT_H

#include "worker/exec/state/state.h"

/* fills exec->context, exec->tensors and exec->experts from the plan */
enum cs_status cs_exec_open_context(struct cs_exec *exec, struct cs_err *err) CS_NODISCARD;
void cs_exec_close_context(struct cs_exec *exec);
/* what layers of a stage get; NULL: rows are not split, matrices are not shared, nobody else runs it */
struct cs_context *cs_exec_context(struct cs_exec *exec);
struct cs_context *cs_exec_sharers(struct cs_exec *exec, int32_t stage);
struct cs_context *cs_exec_all(struct cs_exec *exec);
/* NULL: they are not spread; of the slot that is run next */
struct cs_context *cs_exec_experts(struct cs_exec *exec, int32_t slot);
/* Before the first action of a step: experts on devices are told by whom how many rows come (expert_rows.c). */
enum cs_status cs_exec_meet_experts(struct cs_exec *exec, struct cs_err *err) CS_NODISCARD;
/* A step begins. */
void cs_exec_begin_exchanges(struct cs_exec *exec);

#endif
