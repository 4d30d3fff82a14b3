/* The end of a step: tied gradients, global norm, clipping, AdamW.
 *
 * A tied embedding whose head stage is on another rank has a copy of its weights there, which must
 * stay the same to the bit for ever. So both copies are updated from the same bits: each rank first
 * sums its own gradient over its own replicas (in whatever order their communicator adds), then the
 * two ranks exchange the part that both of them update and add the two numbers, which commutes. A
 * sum of more than two numbers after the exchange would be made twice, by two communicators, and
 * might round differently. Norm and step are the same on all ranks; masters and moments begin equal
 * (same fresh values, same checkpoint); rounding takes its random bits from the name and the place
 * in the whole table; so by induction the copies are equal after every step. Exchanged are 2/dp of
 * the table's gradient.
 *
 * Gradients are of the loss sum; the norm reported is that of the mean over the step's trained
 * tokens, as torch's clip_grad_norm_ sees it. The squares of every trainable tensor are summed in
 * fp64 by its owner, gathered by all ranks and added in the order of parameter ids, so every rank
 * has the same number in every layout. With replicas each owns a part of every tensor, and the
 * parts are added in their order. A norm that is not finite skips the update on every rank.
 *
 * State kept in bf16: weights have no masters, and what an update gives is rounded stochastically
 * (kernels/round.h). The random bits are a function of (seed, updates made, name of the parameter,
 * element): the same in every layout, for every number of replicas and after a resume. */
#ifndef CS_WORKER_PARAMS_OPTIM_H
#define CS_WORKER_PARAMS_OPTIM_H

#include "kernels/comm.h"
#include "worker/device/device.h"
#include "worker/params/params.h"

struct cs_optim {
    const struct cs_spec *spec;
    const struct cs_plan *plan;
    struct cs_device *device;
    struct cs_params *params;
    int rank, n_ranks; /* of all replicas */
    size_t *bytes;     /* (n_ranks) of the gathered squares */
    int32_t *first;    /* (n_ranks) where those of a rank begin */
    /* (n_counted) of the n-th trained parameter: whose program trains it, and where its square is
     * among those of such a rank */
    int32_t *owner, *at;
    int32_t n_counted, n_mine;
    struct cs_sumsq_tensor *square;           /* (n_mine) what this rank counts */
    struct cs_adamw_tensor *update;           /* (n_updates) what it trains */
    struct cs_adamw_bf16_tensor *update_bf16; /* the same where state is kept in bf16 */
    uint64_t *name;                           /* (n_updates) hashes of names */
    int32_t n_updates;
    int32_t *group_end; /* (groups of the job + 1): where its updates end; first: of no group */
    double *mine, *all;
    double *squares; /* what operators write; mine itself on the host */
    void *tied_peer; /* the part of the other stage's gradient of the tied embedding; NULL: here */
    size_t tied_bytes, square_bytes;
    bool is_tied_summed;
    int64_t n_skipped; /* updates of the run whose norm was not finite; resume sets it */
    /* of the last step */
    double grad_norm, lr;
    bool is_skipped;
    float grad_scale;
};

enum cs_status cs_optim_new(const struct cs_spec *spec, const struct cs_graph *graph,
                            const struct cs_plan *plan, struct cs_params *params,
                            struct cs_device *device, int rank, struct cs_optim **out,
                            struct cs_err *err) CS_NODISCARD;
void cs_optim_free(struct cs_optim *optim); /* accepts NULL */

/* clears gradients and the step's results */
void cs_optim_begin(struct cs_optim *optim);

/* The two gradients of a tied embedding, where they are to be summed: whole ones on one rank, else
 * the parts that the replica updates. */
struct cs_tied_exchange {
    int peer; /* the other stage's rank, -1: both are here */
    void *mine, *theirs;
    size_t bytes;
};

/* false: nothing is tied, trained, kept apart, or left to do. Else: send mine to peer, fill theirs,
 * then end. */
bool cs_optim_tied_begin(struct cs_optim *optim, struct cs_tied_exchange *out);
void cs_optim_tied_end(struct cs_optim *optim, const struct cs_tied_exchange *x);
/* Sum the tied embedding's two gradients, after those of replicas are (cs_replicas_reduce). comm
 * NULL or both stages on this rank: locally. */
enum cs_status cs_optim_tied(struct cs_optim *optim, struct cs_comm *comm, int deadline_ms,
                             struct cs_err *err) CS_NODISCARD;
/* The same where both stages are on this rank: before the replicas' sums; programs need no action
 * for that. Done once a step. */
enum cs_status cs_optim_tied_here(struct cs_optim *optim, struct cs_err *err) CS_NODISCARD;
/* Squares, gathering, norm and clip factor. trained_tokens 0: nothing to update. */
enum cs_status cs_optim_norm(struct cs_optim *optim, struct cs_comm *comm, int64_t trained_tokens,
                             int deadline_ms, struct cs_err *err) CS_NODISCARD;
/* step: of the manifest, 0 for the first */
void cs_optim_update(struct cs_optim *optim, int64_t step);

#endif
