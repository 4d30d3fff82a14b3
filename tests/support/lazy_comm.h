/* Communicators between lazy devices (lazy_device.h), whose ranks are threads of one process: what is
 * enqueued has run when the host goes on, but for sums of all (all_reduce) and what comes over communicators
 * of rows and sums: whoever reads these before a stream has waited for them finds NaN. Messages that do not fit each other end the test. */
#ifndef CS_TESTS_SUPPORT_LAZY_COMM_H
#define CS_TESTS_SUPPORT_LAZY_COMM_H

#include "kernels/device.h"

extern const struct cs_device_comm_ops cs_lazy_comm_ops;

/* For the device of this thread: an event is recorded behind the arrivals of a stream, a stream waits for it,
 * or the host for all. */
void cs_lazy_comm_record(const void *event, const void *stream);
void cs_lazy_comm_wait(const void *event); /* NULL: for all */

#endif
