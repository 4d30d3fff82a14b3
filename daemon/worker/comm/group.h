/* Opens a communicator between the GPUs of several ranks. */
#ifndef CS_WORKER_COMM_GROUP_H
#define CS_WORKER_COMM_GROUP_H

#include "kernels/comm.h"
#include "worker/device/device.h"

/* All n ranks call it: rank (n) among all, this one's place among them. The first makes the id, which
 * travels over the job's sockets. CS_UNSUPPORTED: no NCCL. */
enum cs_status cs_comm_group_open(struct cs_device *device, const int32_t *rank, int n, int place,
                                  enum cs_device_comm_kind kind, struct cs_comm *comm,
                                  int deadline_ms, void **out, struct cs_err *err) CS_NODISCARD;

#endif
