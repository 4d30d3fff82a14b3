/* Exact peak bytes of a rank: what its stage holds, class by class, as the plan that is made of it counts it
 * (core/plan/cost/stage/needs.h).
 *
 *   weights     of its shard of every layer                       zero 3: / shards, but for a tied table
 *   grads       of what trains                                    zero 2: / shards, the same
 *   optimizer   two moments, and an fp32 master below fp32, or    zero 1: / shards
 *               moments alone where state is kept in bf16
 *   activations saved per slot * slots in flight, and what a split backward holds between its
 *               halves * slots that are there
 *   boundary    buffers for rows and gradients that enter and leave, as many as the order of the ranks' actions asks
 *               for (core/sched/buffers.h); half of a tied table's gradient that its two ranks exchange
 *   workspace   what a layer needs while it runs (core/plan/cost/stage/scratch.h): logits of the head, gradients;
 *               under full recompute the activations of the one layer that is done again. Beside it what zero 2 and
 *               3 make whole, its gradients, its weights: on a GPU of two layers that follow each other, where one
 *               comes or goes while the other works (core/plan/cost/stage/zero.h)
 *   windows     what communicators and channels take (core/plan/cost/links/windows.h)
 * shards = dp * cp: parameters are equal on those ranks. Source: Cornstarch, in-flight microbatches
 * and memory. */
#ifndef CS_SEARCH_MEMORY_H
#define CS_SEARCH_MEMORY_H

#include "core/base/buf.h"
#include "core/plan/cost/stage/zero.h"
#include "core/search/problem/problem.h"

struct cs_memory {
    int64_t weights, grads, optimizer, activations, boundary, workspace, windows;

    struct cs_memory_work {
        int64_t work; /* of the largest layer */
        struct cs_zero_whole whole;
    } of_work; /* their sum is the workspace */
};

struct cs_memory_load {
    int32_t zero, shards;
    int32_t in_flight; /* slots of the stage */
    int32_t chunks;    /* in_flight counts chunks, of which a stage has so many; 1 */
    int32_t first;     /* layer, among those of all branches */
    int32_t turns;     /* buffers at which layers take turns; 0: 1 */
};

/* Raises what a layer of a branch needs, with load's level, shards and turns. */
void cs_memory_add_work(const struct cs_search_layer *layer, int32_t number,
                        const struct cs_memory_load *load, struct cs_memory_work *work);
int64_t cs_memory_workspace(const struct cs_memory_work *work);
void cs_memory_add(const struct cs_search_layer *layer, int32_t n,
                   const struct cs_memory_load *load, struct cs_memory *memory);
/* what a rank that has all layers of a branch does not hold twice: option->shared */
void cs_memory_share(const struct cs_search_layer *shared, const struct cs_memory_load *load,
                     struct cs_memory *memory);
int64_t cs_memory_total(const struct cs_memory *memory);
/* "rank 5 (llm.2) needs 91.0 GiB of 80.0 GiB: 64.0 GiB activations of 4 slots in flight, ..." */
void cs_memory_explain(const struct cs_memory *memory, int32_t rank, const char *stage,
                       int32_t in_flight, int64_t cap, struct cs_buf *out);

#endif
