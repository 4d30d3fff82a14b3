/* Marks of a step on a device with streams: two events an action, its begin and its end, on the
 * stream where it runs. From them come the waits of streams for each other, the times of the
 * actions, and what the device is at when a step does not end. */
#ifndef CS_WORKER_EXEC_MARKS_H
#define CS_WORKER_EXEC_MARKS_H

#include "worker/exec/state/state.h"

/* of one action of the program, by its id */
struct cs_mark {
    void *begin, *end; /* events with times */
    void *stream;      /* of the running step; set when the action is enqueued */
};

/* marks for that many actions, and for the step; between steps */
enum cs_status cs_exec_reserve_marks(struct cs_exec *exec, uint32_t n_actions,
                                     struct cs_err *err) CS_NODISCARD;
void cs_exec_free_marks(struct cs_exec *exec);
/* Until everything enqueued on the compute stream is done. CS_TIMEOUT names what is open, a peer
 * that died is found out meanwhile. */
enum cs_status cs_exec_await_device(struct cs_exec *exec, struct cs_err *err) CS_NODISCARD;

#endif
