/* The feeder of a job: samples in keyed order -> slots and manifests, step after step.
 *
 * A training step is batch_samples good samples (carried ones first); its manifest is published
 * when all of them are decoded and written. After every eval_every steps and at the end an
 * evaluation pass follows: the held-out samples in file order, at most eval_max_samples, in steps
 * of batch_samples.
 *
 * Samples of a training step are spread over its slots as the specification's balance says
 * (core/spread/step_slots.h); those of an evaluation stay in file order.
 *
 * Flags: CS_STEP_CHECKPOINT on every checkpoint_every-th step, on request, and on the last
 * manifest. CS_STEP_LAST on the last manifest of all: that of the last step, or of the evaluation
 * after it. A stop request makes the next training step the last one (an evaluation under way is
 * cut short: no manifest of it has CS_STEP_EVAL_LAST).
 *
 * A job may go on from a checkpoint whose step was not evaluated: then that comes first. Where all
 * steps are done, that is all there is (without another checkpoint), or nothing.
 *
 * What is published depends on (specification, plan, cursor, first step, requests) only. */
#ifndef CS_FEEDER_FEEDER_H
#define CS_FEEDER_FEEDER_H

#include <stdatomic.h>

#include "core/data/pool.h"
#include "core/model/graph.h"
#include "core/model/spec.h"
#include "core/plan/plan.h"

/* Set by another thread, taken by the feeder at the next manifest. */
struct cs_feeder_request {
    _Atomic bool checkpoint, stop, stop_now; /* stop_now: stop without a checkpoint */
};

struct cs_feeder_config {
    const struct cs_spec *spec;
    const struct cs_graph *graph;
    const struct cs_slot_budget *budget;
    const struct cs_plan *plan; /* what spreading weighs samples by; NULL: no spreading */
    struct cs_pool *pool;
    const char *job_dir;  /* quarantine.jsonl goes there */
    const json_t *cursor; /* NULL: from the start */
    int64_t first_step;
    bool is_eval_first;  /* the evaluation after step first_step - 1 was not made */
    int n_threads;       /* of preprocessing, 0: 2 */
    int64_t ahead_bytes; /* of samples loaded ahead, 0: CS_DATA_AHEAD_BYTES */
    size_t cache_bytes;  /* for resized pictures */
    struct cs_feeder_request *request;
    /* feeder.ready, feeder.step, feeder.bad, feeder.done; takes the reference */
    void (*send)(void *user, json_t *message);
    void *user;
};

/* Runs to the last manifest. Errors: the data cannot be used (each with file, sample and reason),
 * CS_INTERRUPTED when the pool was stopped. */
enum cs_status cs_feeder_run(const struct cs_feeder_config *config,
                             struct cs_err *err) CS_NODISCARD;

#endif
