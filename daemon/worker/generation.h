/* A rank's part of one generation of a job: the documents, its place among the members, the
 * communicators, parameters and programs. One value, made of the message worker.boot and of what the
 * process has anyway (device, event ring); after it was left, the process could enter another. */
#ifndef CS_WORKER_GENERATION_H
#define CS_WORKER_GENERATION_H

#include "core/base/system/laps.h"
#include "worker/train/trainer.h"

struct cs_generation {
    int64_t id;  /* of the job's: 0, 1, ... */
    json_t *msg; /* worker.boot; spec and plan live in it */
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    int rank; /* of all replicas'; -1: none, the value is empty */
    int deadline_ms;
    char *ckpt_dir;
    struct cs_comm *comm;            /* of all members; NULL: this rank is alone */
    struct cs_channels *channels;    /* NULL: the host, or one rank */
    struct cs_context_comm *context; /* NULL: the host, or rows are not split */
    struct cs_context_comm *sharers; /* NULL: the host, or matrices are not shared */
    struct cs_context_comm
        *items; /* NULL: the host, or no others share items where matrices are shared */
    struct cs_context_comm *experts; /* NULL: the host, or experts are not spread */
    struct cs_context_comm *copies;  /* NULL: the host, or no encoder has copies */
    struct cs_replicas *replicas;    /* NULL: one */
    struct cs_trainer *trainer;      /* parameters and programs */
    struct cs_laps laps;             /* what of its making took how long */
};

/* Documents and place. Takes the reference of msg, also on failure; cs_generation_leave either way. */
enum cs_status cs_generation_read(json_t *msg, struct cs_generation *out,
                                  struct cs_err *err) CS_NODISCARD;
/* All members together: connects with the others, makes the parameters and fills them, fresh or
 * from the checkpoint that the message names. Device and ring (NULL: no events) are borrowed. */
enum cs_status cs_generation_enter(struct cs_generation *generation, struct cs_device *device,
                                   struct cs_ring *ring, struct cs_err *err) CS_NODISCARD;
/* All members together, before the device is closed. Fine for an empty value. */
void cs_generation_leave(struct cs_generation *generation);

#endif
