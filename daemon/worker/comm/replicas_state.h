/* Replicas inside: what the files that serve them share. Private to replicas.c and divided.c. */
#ifndef CS_WORKER_COMM_REPLICAS_STATE_H
#define CS_WORKER_COMM_REPLICAS_STATE_H

#include "worker/comm/replicas.h"

enum { CS_REPLICAS_TURNS = 2 }; /* most of params->n_turns */

/* Ranks that sum what they all have: members of a group of the plan. */
struct cs_replica_ranks {
    int n, mine;   /* this one's place */
    int32_t *rank; /* (n) */
    void *nccl;    /* devices; NULL: it is alone */
};

struct cs_replicas {
    struct cs_device *device;
    struct cs_comm *comm; /* sockets of all ranks */
    struct cs_params *params;
    struct cs_replica_ranks of[CS_HELDS]; /* who has the same of what */
    bool is_spread;                       /* experts are on several ranks */
    int deadline_ms;
    struct cs_xfer *xfer; /* (2 n of the most) */
    float *theirs;        /* host: (n) parts of a bucket, one after the other */
    cs_replicas_move_fn *move;
    void *mover;
    /* devices */
    void *stream, *event;
    int32_t n_buckets; /* of params, which may be gone before this is */
    void **arrived;    /* (n_buckets) events: weights are here */
    bool *is_started;  /* (n_buckets) sum is on its way */
    bool *is_awaited;  /* (n_buckets) weights may still be on their way */
    bool *is_late;     /* (n_buckets) other ranks of the replica have parts of its gradients, too */
    int32_t n_awaited;

    /* what is divided */
    bool divides;
    bool *has_sum;                    /* (n_buckets) of a slot of this step */
    int32_t holds[CS_REPLICAS_TURNS]; /* the layer whose weights a buffer has, -1: none */
    void *come[CS_REPLICAS_TURNS];    /* devices: events: they are there */
    void **summed;                    /* ... (n_buckets) gradients are read */
    int64_t *asked; /* ... (n_buckets) which of all sums that was, 0: somebody has waited for it */
    int64_t n_asked;
    void *part; /* devices: this replica's part of a slot's sum */
    size_t part_bytes;
};

static inline const struct cs_device_ops *cs_replicas_mem(const struct cs_replicas *r)
{
    return r->device->mem;
}

static inline const struct cs_replica_ranks *cs_replicas_of(const struct cs_replicas *r,
                                                            const struct cs_bucket *b)
{
    return &r->of[b->held];
}

/* elements of a bucket that one of its holders updates */
static inline int64_t cs_replicas_part(const struct cs_replicas *r, const struct cs_bucket *b)
{
    return b->n / cs_replicas_of(r, b)->n;
}

/* The replicas' stream goes on after what is on the device's, or the other way round. */
static inline enum cs_status cs_replicas_after(struct cs_replicas *r, void *stream, void *before,
                                               struct cs_err *err)
{
    CS_TRY(cs_replicas_mem(r)->event_record(r->device->handle, r->event, before, err));
    return cs_replicas_mem(r)->stream_wait(r->device->handle, stream, r->event, err);
}

/* ---- divided.c: lists and sums that both files make ---- */

/* Transfers of everybody's part of the gradients of a bucket, to theirs; returns how many. */
int cs_replicas_list_parts(struct cs_replicas *r, const struct cs_bucket *b, float *grads);
/* out = the sum of own and theirs in the order of holders, this rank's part of the bucket */
void cs_replicas_add_parts(const struct cs_replicas *r, const struct cs_bucket *b, const float *own,
                           float *out);
/* ... of own parts of weights to where they are whole */
int cs_replicas_list_weights(struct cs_replicas *r, const struct cs_bucket *b);
/* The same of devices, on the replicas' stream: to = this rank's part of the sum; weights whole. */
enum cs_status cs_replicas_reduce_scatter(struct cs_replicas *r, const struct cs_bucket *b,
                                          void *to, struct cs_err *err) CS_NODISCARD;
enum cs_status cs_replicas_all_gather(struct cs_replicas *r, const struct cs_bucket *b,
                                      struct cs_err *err) CS_NODISCARD;

/* ---- divided.c: what is divided ---- */

enum cs_status cs_replicas_bind_divided(struct cs_replicas *r, struct cs_err *err) CS_NODISCARD;
void cs_replicas_free_divided(struct cs_replicas *r);
/* weights are new, no slot of the step has a sum; accepts NULL */
void cs_replicas_forget(struct cs_replicas *r);
/* the gradients of a layer's buckets that are divided, of kinds (enum cs_made) that are complete; accepts
 * NULL */
enum cs_status cs_replicas_sum_layer(struct cs_replicas *r, int32_t layer, unsigned made,
                                     struct cs_err *err) CS_NODISCARD;

#endif
