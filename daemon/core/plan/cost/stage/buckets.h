/* Which gradients of a stage replicas sum as one, and when: what predictions of data parallelism
 * need to know. The rule is the worker's (worker/params/params.c): trained parameters in the order
 * of layers, a bucket ends with the layer that fills it or with its stage, and with every layer where
 * gradients are divided; the table of a tied
 * embedding is one of its own and the last to be summed: where both of its gradients are on one
 * rank it is complete only after they have met. */
#ifndef CS_PLAN_COST_BUCKETS_H
#define CS_PLAN_COST_BUCKETS_H

#include "core/plan/plan.h"

enum { CS_BUCKET_BYTES = 24 << 20 }; /* of gradients */

struct cs_stage_bucket {
    int64_t params, grad_bytes;
    /* Time of a slot's backward of the stage that is left when the bucket is complete, and of its
     * forward that is over before a layer of it begins: the stage's times, dealt out to layers by
     * their FLOPs. */
    int64_t left_ns, into_ns;
    bool is_late; /* of a tied embedding: after all others */
};

/* Fills bucket and n_buckets of every stage, after their times; a plan of one replica has none. The
 * planner calls it; whoever reads a plan and predicts its steps does too. */
void cs_stage_buckets(const struct cs_graph *graph, struct cs_arena *arena, struct cs_plan *plan);

#endif
