/* The interpreter of a rank's program: one step at a time.
 *
 * The calling thread runs the compute stream. When the rank has peers, a second thread owns the
 * transport and runs the communication stream: a send or receive is posted when its dependencies
 * are done and everything before it in its channel (peer and direction) is posted; collectives wait
 * for all earlier communication. With a single rank both streams are run by the caller. The first
 * failure of either thread ends the step on both and is what the caller gets. On a device with
 * streams the caller enqueues everything (enqueue.c).
 *
 * Slots come to the device one by one, each before its first compute action; what could go wrong
 * with one was found out before the step (worker/slot/slot.h). */
#ifndef CS_WORKER_EXEC_EXEC_H
#define CS_WORKER_EXEC_EXEC_H

#include "core/sched/program.h"
#include "core/trace/ring.h"
#include "kernels/comm.h"
#include "worker/comm/channels.h"
#include "worker/comm/context_comm.h"
#include "worker/comm/copies.h"
#include "worker/comm/replicas.h"
#include "worker/comm/tensors.h"
#include "worker/exec/graphs.h"
#include "worker/model/stage.h"
#include "worker/params/optim.h"

struct cs_exec;

struct cs_exec_config {
    const struct cs_graph *graph; /* as this rank has it (params->graph) */
    const struct cs_plan *plan;
    const struct cs_params *params;
    struct cs_device *device;
    struct cs_optim *optim;          /* NULL: evaluation programs only */
    struct cs_comm *comm;            /* of all ranks; NULL: single rank */
    struct cs_channels *channels;    /* between devices with memory of their own; else NULL */
    struct cs_context_comm *context; /* between devices that share a context; else NULL */
    struct cs_context_comm *sharers; /* ... matrices; else NULL */
    struct cs_replicas *replicas;    /* NULL: one */
    struct cs_tensor_ranks *tensors; /* that share the stage; NULL: none */
    struct cs_copies *copies;        /* of encoders; NULL: none */
    struct cs_ring *ring;            /* NULL: no events */
    int rank;                        /* in the replica, as programs and plans name it */
    int replica;                     /* whose ranks are its peers (cs_plan_rank_of) */
    int place;                       /* among the ranks that run its program (cs_plan_place) */
    int tp;                          /* among those that share its matrices */
    int deadline_ms; /* that long nothing may arrive while something is awaited; 0: for ever */
};

struct cs_exec_counts {
    int64_t messages_sent, bytes_sent; /* rows and gradients; collectives are not counted */
    size_t saved_bytes;                /* activations kept for a backward, at the peak */
    int64_t context_wait_ns;           /* of the compute thread for other ranks of its stage */
};

enum cs_status cs_exec_new(const struct cs_exec_config *config, struct cs_exec **out,
                           struct cs_err *err) CS_NODISCARD;
void cs_exec_free(struct cs_exec *exec); /* accepts NULL */

/* What this rank's arena is divided into by the program that needs most, in bytes: activations
 * between forward and backward, scratch of the running action, rows on their way between stages. 0
 * before the first reserve. */
struct cs_exec_memory {
    size_t kept, scratch, boundary;
    size_t host; /* page-locked memory of the host, for activations that wait there */
};

/* Slots that steps of a job have, of one replica. */
struct cs_exec_steps {
    int most;          /* none has more */
    int usual;         /* few have more */
    size_t slot_bytes; /* what the caller takes of the device for every slot beside */
    bool has_eval;
};

/* Before the first step: memory for every step that may come, as worker/memory/plan.h plans it, in
 * one piece which all programs share. Nothing is allocated afterwards. Where steps of `most` slots
 * do not fit in the device, those of `usual` slots must; that is said on stderr, and a step that
 * needs more makes the piece grow or fails. *n_slots: how many it was. CS_NO_MEMORY names the rank,
 * what it needs, what is there and what needs less. Without it cs_exec_run allocates when it
 * must. */
enum cs_status cs_exec_reserve(struct cs_exec *exec, const struct cs_exec_steps *steps,
                               const struct cs_input_tables *tables, int *n_slots,
                               struct cs_err *err) CS_NODISCARD;
struct cs_exec_memory cs_exec_memory(const struct cs_exec *exec);
/* No step took more than its plan said: one that does is a mistake, which is told and lived with. */
bool cs_exec_keeps_plan(const struct cs_exec *exec);

/* inputs: (program->n_slots) slots, prepared and with room but not placed: each is placed before
 * the first action that computes on it. After an error the exec can only be freed. */
enum cs_status cs_exec_run(struct cs_exec *exec, const struct cs_program *program,
                           const struct cs_manifest *manifest, struct cs_input *inputs,
                           struct cs_exec_counts *counts, struct cs_err *err) CS_NODISCARD;

/* CS_INPUT_* flags: what the stages of this rank read of a slot */
unsigned cs_exec_needs(const struct cs_exec *exec, bool is_eval);
/* the compute action in work or the last one, for people: "F llm.1 slot 2"; "" before the first */
void cs_exec_where(const struct cs_exec *exec, char *out, size_t cap);
/* what became of compute actions on a device with streams, since the start */
struct cs_graphs_counts cs_exec_graphs(const struct cs_exec *exec);
/* a stage of this rank, NULL: elsewhere (tests) */
const struct cs_stage_model *cs_exec_stage(const struct cs_exec *exec, int32_t stage);

#endif
