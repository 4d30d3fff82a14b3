/* The interpreter inside: what its threads share, and the parts that run actions. */
#ifndef CS_WORKER_EXEC_STATE_H
#define CS_WORKER_EXEC_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "worker/exec/state/boundary.h"
#include "worker/exec/state/config.h"
#include "worker/exec/state/graphs.h"
#include "worker/layer/exchange.h"
#include "worker/memory/plan.h"

/* Hosts: what the compute thread exchanges between two of its actions with other ranks of its stage, or that have its
 * experts or gradients, which are no messages of the program. */
struct cs_exec_exchange {
    struct cs_comm
        *comm; /* the connections of config.comm, for this thread; NULL: it meets nobody */
    struct cs_xfer *xfer; /* (room) of context.c */
    int n, room;          /* n: on their way */
    bool is_counted; /* ... as messages, and the wait for them; gradients of replicas are not */
    int64_t messages_sent, bytes_sent, wait_ns; /* of the step */
    _Atomic int64_t moved_ns;                   /* when one was complete */
};

/* Whom a context is among: its place i is rank first + i step of all, or rank[i]. comm: how they meet on
 * devices. */
struct cs_exec_peers {
    struct cs_exec *exec;
    struct cs_context_comm *comm;
    int n, first, step;
    const int32_t *rank; /* the plan's; NULL: the former */
};

struct cs_exec {
    struct cs_exec_config config;
    struct cs_stage_model **stage; /* (n_stages), NULL: other ranks' */
    struct cs_boundary *boundary;
    struct cs_scratch scratch; /* of the compute thread */
    struct cs_watch watch;
    bool is_last_slot; /* of the step, whose pass is watched */
    unsigned
        made; /* of which kinds (enum cs_made) gradients of a layer are complete when it is done */

    /* saved activations: (n_slots, n_stages) in use, and sets to reuse per stage */
    struct cs_saved **saved, ***spare;
    int32_t *n_spare;
    int32_t saved_room; /* slots */
    size_t saved_bytes, saved_peak;

    /* the arena: for each program scratch, kept activations, boundary buffers, in this order */
    char *arena;
    size_t arena_bytes;
    char *host; /* page-locked: activations that wait there */
    size_t host_bytes;
    struct cs_offload *offload;   /* NULL: none do */
    struct cs_exec_memory memory; /* of the program that needs most */
    struct cs_memory_plan **memory_plan;
    int32_t n_memory_plans;
    struct cs_memory_rehearsal *rehearsed;
    const struct cs_memory_plan *planned; /* of the running program */

    /* the running step */
    const struct cs_program *program;
    const struct cs_rank_program *mine;
    const struct cs_manifest *manifest;
    struct cs_input *inputs;
    _Atomic uint8_t *done; /* (n_actions) */
    uint8_t *wakes_comm;   /* (n_actions) a communication action waits for it */
    uint32_t action_room;
    const struct cs_action *current;   /* compute thread */
    int64_t messages_sent, bytes_sent; /* communication thread; devices: of exchanges too */

    struct cs_context context; /* n below 2: rows of a slot are not split */
    struct cs_context tensors; /* n below 2: the stage's matrices are not shared */
    struct cs_context experts; /* n below 2: its experts are not spread */
    struct cs_context all;     /* ranks that run its program; n below 2: it is alone */
    struct cs_exec_peers context_peers, tensor_peers, expert_peers, all_peers;
    int32_t *expert_rows;             /* (experts.n, slots, 2) messages/expert_rows.c */
    int32_t expert_slots;             /* of the running step */
    struct cs_exec_exchange exchange; /* compute thread */
    void *byte;                       /* memory of the device for a message that has none */

    /* between the threads */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    _Atomic int is_failed;
    struct cs_err failure; /* under lock */
    int wake_fd;           /* eventfd: the compute thread did something; -1: single rank */
    pthread_mutex_t ring_lock;

    /* devices with streams: events of every action, and two of the step; joint: of a message over
     * several channels */
    struct cs_mark *mark;
    uint32_t n_marks;
    void *base, *reached, *joint;
    struct cs_graphs *graphs; /* of compute actions; NULL: none */
};

/* this rank among all */
static inline int cs_exec_own_rank(const struct cs_exec *exec)
{
    const struct cs_exec_config *c = &exec->config;
    return cs_plan_rank_of(c->plan, c->replica, c->rank) + c->place;
}

/* whom an action of this rank means (its peer, the own one) among all ranks */
static inline int cs_exec_rank(const struct cs_exec *exec, int rank_in_replica)
{
    return cs_plan_peer(exec->config.plan, cs_exec_own_rank(exec), rank_in_replica);
}

/* all dependencies of an action are done */
bool cs_exec_is_ready(const struct cs_exec *exec, const struct cs_action *action);
/* mark an action done and wake who waits for it */
void cs_exec_finish(struct cs_exec *exec, uint32_t action);
/* the communication thread looks again */
void cs_exec_wake_comm(const struct cs_exec *exec);
/* keep the first failure and stop both threads */
void cs_exec_fail(struct cs_exec *exec, const struct cs_err *err);
bool cs_exec_has_failed(const struct cs_exec *exec);

void cs_exec_event(struct cs_exec *exec, enum cs_event_kind kind, uint32_t action, int64_t start_ns,
                   int64_t end_ns, int64_t value);
void cs_exec_show(struct cs_exec *exec, int is_comm, int32_t action);

/* Rows of an edge in a slot, known before it is placed; with an encoder other ones where they leave it
 * than where they fill rows of the LLM, if ranks share either. */
int64_t cs_exec_edge_rows(const struct cs_exec *exec, int32_t edge, int32_t slot, bool at_producer);

#endif
