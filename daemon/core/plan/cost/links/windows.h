/* Memory of the device that communicators take for copies between GPUs by their copy engines (kernels/cuda/comm/peers.cuh):
 * a ring for every peer, of those that share matrices and of those that share experts, and for every channel that
 * comes from another rank, as far as they are of one host. CPU ranks have none. */
#ifndef CS_PLAN_COST_WINDOWS_H
#define CS_PLAN_COST_WINDOWS_H

#include "core/plan/cluster.h"
#include "core/plan/groups.h"

/* of the rings; equal to CS_DEVICE_COMM_RING_* of kernels/device.h */
#define CS_WINDOW_RING_BYTES ((int64_t)32 << 20)
#define CS_WINDOW_LANE_BYTES ((int64_t)16 << 20)

enum { CS_WINDOW_RANKS = 8 /* more have none */ };

/* A message that waits holds a queue of the device, and there are 32: ranks with more channels than that have none. */
enum { CS_WINDOW_CHANNELS = 6 };

/* false: ranks of the host's processor, nothing below counts */
bool cs_device_has_windows(const struct cs_device_class *device);
/* Of a rank whose stage is of tp ranks that share matrices and of ep that share experts. Where larger groups are
 * of two hosts the rank has less. */
int64_t cs_window_bytes(int32_t devices_per_node, int32_t tp, int32_t ep);
/* Both ranks of a channel (kind CS_GROUP_CHANNEL) are of one host and have few enough of them. */
bool cs_channel_has_window(const struct cs_plan *plan, int32_t devices_per_node,
                           const struct cs_group *channel);
/* How many channels with a window come to each rank, windows (cs_plan_world), of all that have channels in its table. */
void cs_channel_windows(const struct cs_plan *plan, int32_t devices_per_node,
                        struct cs_arena *scratch, int32_t *windows);
/* Of the channels that come to a rank (of all). */
int64_t cs_channel_window_bytes(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                int32_t rank);
/* Channels of a rank that have none: NCCL moves what goes there, and holds multiprocessors. */
int32_t cs_channels_without_window(const struct cs_cluster *cluster, const struct cs_plan *plan,
                                   int32_t rank);

#endif
