/* From worker.boot to a rank that is ready: values read and checked, shared memory mapped, peers
 * connected, weights loaded, the program made. */
#ifndef CS_WORKER_BOOT_H
#define CS_WORKER_BOOT_H

#include "worker/session.h"

struct cs_boot {
    json_t *msg; /* spec and plan live in it */
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    int rank; /* of all replicas' */
    char *ckpt_dir;
    void *ring_memory, *pool_memory;
    size_t ring_bytes, pool_bytes;
    struct cs_ring ring;
    struct cs_pool *pool;
    struct cs_comm *comm;
    struct cs_device device;
    struct cs_channels *channels; /* GPUs only */
    struct cs_replicas *replicas; /* NULL: one */
    struct cs_trainer *trainer;
};

/* Takes the reference of msg, also on failure. */
enum cs_status cs_boot_open(json_t *msg, struct cs_boot *boot, struct cs_err *err) CS_NODISCARD;
void cs_boot_close(struct cs_boot *boot);
/* the worker.ready message */
enum cs_status cs_boot_ready(struct cs_boot *boot, json_t **ready, struct cs_err *err) CS_NODISCARD;

#endif
