/* Context parallelism in a layer: attention of the own rows over keys of all rows of the slot.
 *
 * Forward, keys and values of every rank's rows come to those ranks whose queries see them under the
 * layer's mask. Backward they come once more (they are not kept), and what the own queries give to
 * the gradients of such rows goes to the ranks that have them, where it is added in fp32 in the order
 * of ranks. Rows travel run by run (worker/slot/split.h); ranks that do not see each other's rows do
 * not meet, and a rank without rows need not come. All ranks of a context run the same program, so
 * they meet in the same order. Host only. */
#ifndef CS_WORKER_MODEL_CONTEXT_H
#define CS_WORKER_MODEL_CONTEXT_H

#include "kernels/comm.h"
#include "worker/model/heads.h"

struct cs_context {
    int n, place;
    int first; /* rank of all; the others follow it */
    /* Moves all transfers of a call together, returns when they are complete; or when the step has
     * failed, which whoever runs it knows. */
    void (*exchange)(void *user, struct cs_xfer *xfer, int n);
    void *user;
    struct cs_xfer *xfer; /* grows with the runs of a slot */
    int room;
};

void cs_context_free(struct cs_context *context); /* what it took; accepts NULL */

/* Keys and values at the places of all rows of the slot, instead of the own ones: those that a query
 * of here sees; the others are 0. Where rows are not split nothing happens. */
void cs_context_gather(struct cs_run *run, const struct cs_layer_model *l, struct cs_heads *heads);
/* Where attention puts gradients of the keys and values of all rows; own is what the layer goes on
 * with. The same as own where rows are not split. */
struct cs_head_grads cs_context_grads(struct cs_run *run, const struct cs_layer_model *l,
                                      const struct cs_head_grads *own);
/* The gradients of all rows to their owners: the sum over all ranks into own, whose rows are
 * own_stride elements apart. */
void cs_context_reduce(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const struct cs_head_grads *all, const struct cs_head_grads *own,
                       int64_t own_stride);

#endif
