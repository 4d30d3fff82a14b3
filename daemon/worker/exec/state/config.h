/* What the interpreter is given, and what it takes of a rank's memory. */
#ifndef CS_WORKER_EXEC_STATE_CONFIG_H
#define CS_WORKER_EXEC_STATE_CONFIG_H

#include "core/sched/program.h"
#include "core/trace/ring.h"
#include "kernels/comm.h"
#include "worker/comm/channels.h"
#include "worker/comm/context_comm.h"
#include "worker/comm/copies.h"
#include "worker/comm/replicas.h"
#include "worker/comm/tensors.h"
#include "worker/exec/state/graphs.h"
#include "worker/model/stage.h"
#include "worker/params/optim.h"

struct cs_exec_config {
    const struct cs_graph *graph; /* as this rank has it (params->graph) */
    const struct cs_plan *plan;
    const struct cs_params *params;
    struct cs_device *device;
    struct cs_optim *optim;            /* NULL: evaluation programs only */
    struct cs_comm *comm;              /* of all ranks; NULL: single rank */
    struct cs_channels *channels;      /* between devices with memory of their own; else NULL */
    struct cs_context_comm *context;   /* between devices that share a context; else NULL */
    struct cs_context_comm *sharers;   /* ... matrices; else NULL */
    struct cs_context_comm *items;     /* ... items of encoders beside those; else NULL */
    struct cs_context_comm *experts;   /* ... experts; else NULL */
    struct cs_replicas *replicas;      /* NULL: one */
    struct cs_tensor_ranks *tensors;   /* that share the stage; NULL: none */
    struct cs_copies *copies;          /* of encoders; NULL: none */
    struct cs_context_comm *copy_sums; /* between devices that have these; else NULL */
    struct cs_ring *ring;              /* NULL: no events */
    int rank;                          /* in the replica, as programs and plans name it */
    int replica;                       /* whose ranks are its peers (cs_plan_rank_of) */
    int place;                         /* among the ranks that run its program (cs_plan_place) */
    int tp;                            /* among those that share its matrices */
    int deadline_ms; /* that long nothing may arrive while something is awaited; 0: for ever */
};

/* What this rank's arena is divided into by the program that needs most, in bytes: activations
 * between forward and backward, scratch of the running action, rows on their way between stages. 0
 * before the first reserve. */
struct cs_exec_memory {
    size_t kept, scratch, boundary;
    size_t host; /* page-locked memory of the host, for activations that wait there */
};

#endif
