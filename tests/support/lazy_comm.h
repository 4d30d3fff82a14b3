/* Communicators between lazy devices (lazy_device.h), whose ranks are threads of one process. Collectives, and what
 * goes over communicators of rows and sums, are under way until a stream has waited for them (lazy_pending.h);
 * other messages have come when the host goes on. Messages that do not fit each other end the test,
 * and calls that the kind of a communicator does not connect when it is opened. */
#ifndef CS_TESTS_SUPPORT_LAZY_COMM_H
#define CS_TESTS_SUPPORT_LAZY_COMM_H

#include "kernels/device.h"

extern const struct cs_device_comm_ops cs_lazy_comm_ops;

#endif
