/* The communication thread of a host: messages and collectives of a step. */
#ifndef CS_WORKER_EXEC_COMMUNICATE_H
#define CS_WORKER_EXEC_COMMUNICATE_H

#include "worker/exec/state/state.h"

/* the thread's function; exec: struct cs_exec. A failure is kept there (cs_exec_fail). */
void *cs_exec_communicate(void *exec);

#endif
