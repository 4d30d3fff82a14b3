/* Spans: what the events of one step mean. Events name actions by id; a key table says what each
 * action of a rank is. From both come the drawable spans of a step, the busy time and bubble of
 * every stage and the waits of every rank. Measured and simulated events go through the same
 * function.
 *
 *   bubble of a stage = 1 - busy / makespan; busy = compute spans of the stage
 *   makespan          = first start to last end of any action of the step, over all ranks
 *
 * (core/trace knows nothing of programs; whoever lowers one fills the keys, one per action.) */
#ifndef CS_TRACE_SPAN_H
#define CS_TRACE_SPAN_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/trace/event.h"

struct cs_span_key {
    int16_t stage, peer; /* -1: none */
    int32_t slot;        /* -1: none */
    char letter;         /* of the operation: cs_op_letter */
    uint8_t is_compute;  /* runs on the compute stream */
    uint8_t is_grad;
    uint8_t reserved;
};

_Static_assert(sizeof(struct cs_span_key) == 12, "keys are stored in trace files");

struct cs_span_keys {
    const struct cs_span_key *key; /* (n) by action id */
    uint32_t n;
};

struct cs_span_events {
    const struct cs_event *event;
    uint32_t n;
};

struct cs_span_input {
    int32_t n_ranks, n_stages;
    /* that every stage is on; below 2: one. Its busy time is the mean of its ranks, which are more
     * where several share a stage */
    int32_t replicas;
    const struct cs_span_keys *keys;     /* (n_ranks) of the program of this step */
    const struct cs_span_events *events; /* (n_ranks) of this step */
};

struct cs_span {
    int64_t start_ns, end_ns; /* since the start of the step */
    struct cs_span_key key;
    int32_t rank;
    uint32_t action;
    int32_t cpu_us;
};

struct cs_span_step {
    int64_t start_ns;    /* clock of the events */
    int64_t makespan_ns; /* 0: no actions */
    int32_t n_ranks, n_stages, replicas;
    int64_t *busy_ns;                  /* (n_stages) */
    double *bubble;                    /* (n_stages) NaN without actions */
    int64_t (*wait_ns)[CS_WAIT_KINDS]; /* (n_ranks) */
    int64_t *data_ns;                  /* (n_ranks) waited for the feeder */
    int64_t *save_ns;                  /* (n_ranks) */
    struct cs_span *span;              /* by rank, then as recorded */
    int32_t n_spans;
    int32_t n_unknown; /* events whose times, action, stage or kind cannot be: dropped */
};

void cs_span_build(const struct cs_span_input *in, struct cs_arena *arena,
                   struct cs_span_step *out);

#endif
