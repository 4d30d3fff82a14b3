/* The memory that a rank takes of its device, once, for all programs. */
#ifndef CS_WORKER_EXEC_ARENA_H
#define CS_WORKER_EXEC_ARENA_H

#include "worker/exec/exec.h"
#include "worker/exec/state/state.h"

/* A step begins: what the program needs is planned and there. */
enum cs_status cs_exec_use_memory(struct cs_exec *exec, const struct cs_program *program,
                                  const struct cs_input_tables *tables,
                                  struct cs_err *err) CS_NODISCARD;
void cs_exec_free_memory(struct cs_exec *exec);

#endif
