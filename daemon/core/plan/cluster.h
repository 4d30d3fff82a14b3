/* Cluster: what a plan may use. "cpu:N" nodes offer N CPU ranks; device classes carry the figures a
 * roofline needs. Presets and further classes are rows of one table. */
#ifndef CS_PLAN_CLUSTER_H
#define CS_PLAN_CLUSTER_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_device_class {
    const char *name;                          /* "cpu", "h100-80g" ... */
    int64_t flops;                             /* usable FLOP/s of the training dtype */
    int64_t bytes_per_s;                       /* memory bandwidth */
    int64_t link_bytes_per_s, link_latency_ns; /* between ranks of one node */
    int64_t mem_bytes;
    int64_t net_bytes_per_s, net_latency_ns; /* of one device to another node */
};

struct cs_cluster {
    const struct cs_device_class *device;
    int32_t n_nodes, devices_per_node;
};

const struct cs_device_class *cs_device_class_find(const char *name); /* NULL: unknown */
/* "here" (cpu, 8 devices, unless here_devices says otherwise), the name of a preset ("h100x8": one
 * node of it), {"preset": "h100x8", "nodes": 512}, or
 * {"nodes": 1, "devices_per_node": 8, "device": "cpu"} */
enum cs_status cs_cluster_read(const json_t *json, int here_devices, struct cs_cluster *out,
                               struct cs_err *err) CS_NODISCARD;

#endif
