/* Cluster: what a plan may use. "cpu:N" nodes offer N CPU ranks; device classes carry the figures a
 * roofline needs. Presets and further classes are rows of one table. */
#ifndef CS_PLAN_CLUSTER_H
#define CS_PLAN_CLUSTER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

/* What ranks of one node exchange; the bytes are those of a message, or of the whole vector. Shift: every rank sends to
 * one and receives from another, as rows between products go (worker/layer/sequence_moves.h): on GPUs by copy engines
 * where these reach all ranks. */
enum cs_link_op {
    CS_LINK_SEND,
    CS_LINK_ALL_GATHER,
    CS_LINK_REDUCE_SCATTER,
    CS_LINK_ALL_REDUCE,
    CS_LINK_ALL_TO_ALL,
    CS_LINK_SHIFT,
    CS_LINK_OPS
};

/* Copy engines may move it between GPUs of one host, else NCCL does. */
static inline bool cs_link_can_copy(enum cs_link_op op)
{
    return op == CS_LINK_SEND || op == CS_LINK_SHIFT;
}

/* Groups of 2, 4 and 8 ranks are measured. */
enum { CS_LINK_GROUPS = 3 };

enum { CS_LINK_POINTS = 4 };

/* What an exchange of so many bytes took. */
struct cs_link_point {
    int64_t bytes, ns;
};

/* latency_ns + bytes / bytes_per_s, the line through the smallest and the largest exchange that were measured;
 * bytes_per_s 0: none was. Between them it is the points that hold, n_points 0: the line. */
struct cs_link_curve {
    int64_t latency_ns, bytes_per_s;
    struct cs_link_point point[CS_LINK_POINTS]; /* (n_points) by bytes, ascending */
    int32_t n_points;
};

/* Beside computing: its bytes take so many times as long as alone, and computing loses a part of its speed (0 to 1).
 * times 0: was not measured. */
struct cs_link_beside {
    double times, slows;
};

struct cs_link_curves {
    struct cs_link_curve curve[CS_LINK_OPS][CS_LINK_GROUPS];
    struct cs_link_beside beside[CS_LINK_OPS][CS_LINK_GROUPS];
};

extern const char *const cs_link_op_names[CS_LINK_OPS]; /* "send", "all-gather" ... */

struct cs_device_class {
    const char *name;                          /* "cpu", "h100-80g" ... */
    int64_t flops;                             /* usable FLOP/s of the training dtype */
    int64_t bytes_per_s;                       /* memory bandwidth */
    int64_t link_bytes_per_s, link_latency_ns; /* between ranks of one node */
    int64_t mem_bytes;
    int64_t net_bytes_per_s, net_latency_ns; /* of one device to another node */
    int64_t
        operator_ns; /* of each, however few rows: cost/basis/operators.h; 0: a host calls a function */
    int32_t units; /* multiprocessors that kernels share, 0: messages take none of the device */
    const struct cs_link_curves *measured; /* of a profile (cost/links.h); NULL: nothing was */
};

/* A channel: messages of a peer in one direction. Where no copy engine moves them (core/plan/cost/links/windows.h) a
 * kernel holds that many multiprocessors, moving or waiting (what kernels/cuda/comm/nccl.cu allows it), and moves what
 * they can. */
enum { CS_CHANNEL_UNITS = 2 };

/* The same of a communicator of replicas. */
enum { CS_GROUP_UNITS = 32 };

/* Of a channel between ranks of one node: as it was measured, beside computing where it was so, else the link's, of whose speed its
 * multiprocessors move at most 34 GB/s each (a gigabyte over NVLink of an H200). */
struct cs_link_curve cs_channel_of(const struct cs_device_class *device);

struct cs_cluster {
    const struct cs_device_class *device;
    int32_t n_nodes, devices_per_node;
};

/* What "here" is: the GPUs of the node that is asked, else its CPU cores. */
struct cs_here {
    const struct cs_device_class *device; /* NULL: CPU cores */
    int32_t devices;                      /* 0: as many as is usual */
};

const struct cs_device_class *cs_device_class_find(const char *name); /* NULL: unknown */
/* The class a GPU is planned as, from its product name ("NVIDIA H100 80GB HBM3"); one that has no
 * class of its own is planned as the largest whose memory it has, and note says so ("": nothing to
 * say). mem_bytes <= 0: unknown. */
const struct cs_device_class *cs_device_class_of_gpu(const char *name, int64_t mem_bytes,
                                                     char *note, size_t cap);
/* "h100-80g:4", "cpu:8": CLASS:DEVICES */
enum cs_status cs_here_read(const char *text, struct cs_here *out, struct cs_err *err) CS_NODISCARD;
void cs_here_print(const struct cs_here *here, char *out, size_t cap); /* "": CPU, as usual */
/* "here" (cpu, 8 devices, unless here_devices says otherwise), the name of a preset ("h100x8": one
 * node of it), {"preset": "h100x8", "nodes": 512}, or
 * {"nodes": 1, "devices_per_node": 8, "device": "cpu"} */
enum cs_status cs_cluster_read(const json_t *json, int here_devices, struct cs_cluster *out,
                               struct cs_err *err) CS_NODISCARD;
/* the same where "here" may be GPUs; here NULL: CPU cores, 8 of them */
enum cs_status cs_cluster_read_here(const json_t *json, const struct cs_here *here,
                                    struct cs_cluster *out, struct cs_err *err) CS_NODISCARD;

#endif
