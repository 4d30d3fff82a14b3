/* From worker.boot to a rank that is ready: values read and checked, shared memory mapped, peers
 * connected, weights loaded, the program made. */
#ifndef CS_WORKER_BOOT_H
#define CS_WORKER_BOOT_H

#include "worker/generation.h"
#include "worker/session.h"

/* What a process has as long as it lives, and the generation that it is in. */
struct cs_boot {
    void *ring_memory, *pool_memory;
    size_t ring_bytes, pool_bytes;
    struct cs_ring ring;
    struct cs_pool *pool;
    struct cs_device device;
    struct cs_generation generation;
};

/* Takes the reference of msg, also on failure. */
enum cs_status cs_boot_open(json_t *msg, struct cs_boot *boot, struct cs_err *err) CS_NODISCARD;
void cs_boot_close(struct cs_boot *boot);
struct cs_ring *cs_boot_ring(struct cs_boot *boot); /* NULL: no events */
/* the worker.ready message */
enum cs_status cs_boot_ready(struct cs_boot *boot, json_t **ready, struct cs_err *err) CS_NODISCARD;

#endif
