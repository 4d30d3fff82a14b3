/* What messages and collectives take: threads or children of this process stand for the ranks, connected as those of a
 * job are, on the host by sockets, on devices by the communicators of their kind. */
#ifndef CS_WORKER_MEASURE_LINKS_H
#define CS_WORKER_MEASURE_LINKS_H

#include "core/plan/cost/basis/profile.h"
#include "worker/device/device.h"

/* Devices that ranks stand on. open is called by the rank that uses the device, close by the same. */
struct cs_link_devices {
    int n;
    /* A rank is a child of this process, which has not opened a device yet, as ranks of a job are processes: NCCL makes
     * those of one process wait for each other whenever they launch. Else a thread. */
    bool are_processes;
    size_t bytes; /* of the largest exchange; 0: 64 MiB */
    enum cs_status (*open)(int index, struct cs_device **out, struct cs_err *err);
    void (*close)(struct cs_device *device);
};

/* Latency and bandwidth of every kind, for groups of 2, 4 and 8 as far as there are devices; devices NULL: of the
 * host, 2 and 4. Bytes are those of the whole vector.
 * Of devices also what large exchanges and products take beside each other. One device: nothing. Fills profile->link, in the arena. */
enum cs_status cs_measure_links(const struct cs_link_devices *devices, struct cs_arena *arena,
                                struct cs_profile *profile, struct cs_err *err) CS_NODISCARD;

#endif
