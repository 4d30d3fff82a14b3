/* Memory of the device that communicators take for copies between GPUs by their copy engines (kernels/cuda/comm/peers.cuh):
 * a ring for every peer, of those that share matrices and of those that share experts, as far as they are of one
 * host. CPU ranks have none. */
#ifndef CS_PLAN_COST_WINDOWS_H
#define CS_PLAN_COST_WINDOWS_H

#include "core/plan/cluster.h"

/* of the rings; equal to CS_DEVICE_COMM_RING_* of kernels/device.h */
#define CS_WINDOW_RING_BYTES ((int64_t)32 << 20)

enum { CS_WINDOW_RANKS = 8 /* more have none */ };

/* Of a rank whose stage is of tp ranks that share matrices and of ep that share experts. Where larger groups are
 * of two hosts the rank has less. */
int64_t cs_window_bytes(const struct cs_device_class *device, int32_t devices_per_node, int32_t tp,
                        int32_t ep);

#endif
