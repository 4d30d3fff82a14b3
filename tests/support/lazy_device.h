/* A device with streams for tests of the worker where there is no GPU: its memory is the host's,
 * its operators are the CPU's, and like a GPU it does what was enqueued later: when somebody waits,
 * asks for an event or copies from memory that is not its own. Memory comes filled with NaN. It
 * captures graphs. One rank, one thread; others of the process are reached as over NCCL
 * (lazy_comm.h), and what was given to their streams is under way until somebody waits (lazy_pending.h). */
#ifndef CS_TESTS_SUPPORT_LAZY_DEVICE_H
#define CS_TESTS_SUPPORT_LAZY_DEVICE_H

#include <stdbool.h>

#include "worker/device/device.h"

struct cs_device *cs_lazy_device_new(void);
/* Where that is a device's own stream, what was computed before is done: true. */
bool cs_lazy_device_reach(const void *stream);
void cs_lazy_device_free(struct cs_device *device);

struct cs_lazy_counts {
    int64_t captured, launched, destroyed; /* graphs */
};

struct cs_lazy_counts cs_lazy_device_counts(const struct cs_device *device);
/* from now on no capture succeeds; it ends with an error as of an operator that cannot be
 * captured */
void cs_lazy_device_refuse_graphs(struct cs_device *device);

#endif
