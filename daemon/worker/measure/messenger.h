/* A thread that moves messages of a host for another, as the communication thread of a job does
 * (worker/exec/communicate.c): what a message takes is mostly that threads are woken, the sender's by the one that
 * computes, the receiver's by what comes, and by that the one that waits for it. */
#ifndef CS_WORKER_MEASURE_MESSENGER_H
#define CS_WORKER_MEASURE_MESSENGER_H

#include "kernels/comm.h"

struct cs_messenger;

/* Over the connections of comm, which outlives it; the caller uses them for something else while nothing is asked. */
enum cs_status cs_messenger_new(struct cs_comm *comm, struct cs_messenger **out,
                                struct cs_err *err) CS_NODISCARD;
/* Waits for the thread; accepts NULL. */
void cs_messenger_free(struct cs_messenger *messenger);
/* Hands it the transfer and sleeps until it is complete, or failed. */
enum cs_status cs_messenger_move(struct cs_messenger *messenger, struct cs_xfer *xfer,
                                 int deadline_ms, struct cs_err *err) CS_NODISCARD;

#endif
