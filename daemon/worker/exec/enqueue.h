/* A step on a device with streams. */
#ifndef CS_WORKER_EXEC_ENQUEUE_H
#define CS_WORKER_EXEC_ENQUEUE_H

#include "worker/exec/state/state.h"

/* runs the whole step */
enum cs_status cs_exec_enqueue(struct cs_exec *exec, struct cs_err *err) CS_NODISCARD;
/* graphs, which are made with the first step; says what came of them where that was asked for */
void cs_exec_free_graphs(struct cs_exec *exec);

#endif
