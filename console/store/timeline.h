/* Timelines of one step: the spans that a plan predicts and those that were measured, in one form.
 * Pure but for memory: every timeline owns an arena. */
#ifndef CS_CONSOLE_STORE_TIMELINE_H
#define CS_CONSOLE_STORE_TIMELINE_H

#include <jansson.h>

#include "core/sched/sim/calibrate.h"
#include "core/sched/sim/sim.h"
#include "core/trace/span.h"

struct cs_timeline_sum {
    int64_t fwd_ns, bwd_ns;
    int32_t n_fwd, n_input, n_weight;
};

struct cs_timeline {
    struct cs_arena *arena;      /* NULL: empty */
    struct cs_span_step spans;   /* as cs_span_build */
    struct cs_timeline_sum *sum; /* (n_stages) over all ranks of a stage */
    int64_t *opt_ns;             /* (n_ranks) */
    int64_t step;                /* -1: predicted */
    int32_t slots;
    bool has_waits; /* waits are known */
};

/* What one stage did in the step, in nanoseconds. Waits are those of its rank, -1 where unknown. */
struct cs_timeline_stage {
    int64_t busy_ns, idle_ns; /* idle = makespan - busy */
    int64_t wait_recv_ns, wait_send_ns, opt_ns;
    double fwd_ns, bwd_ns; /* mean per slot, NaN without any; bwd: input and weight together */
    int32_t n_fwd, n_bwd;
    double bubble;
};

void cs_timeline_clear(struct cs_timeline *timeline);
/* takes the place of what was there; the input is copied */
void cs_timeline_set(struct cs_timeline *timeline, const struct cs_span_input *in, int64_t step,
                     int32_t slots);
/* The programs of a plan, simulated with the costs that planning used, or with measured ones on so
 * many cores (measured NULL: none, cores is not read). On failure the timeline stays. */
enum cs_status cs_timeline_predict(struct cs_timeline *timeline, const struct cs_plan *plan,
                                   const struct cs_graph *graph,
                                   const struct cs_device_class *device,
                                   struct cs_measured *measured, int32_t cores,
                                   struct cs_err *err) CS_NODISCARD;
/* The rows of event.spans: [rank, action, start_us, end_us, letter, stage, slot, peer, is_grad], or
 * the first four of these, which need plan and graph (else NULL) for the program of `slots`. Rows
 * that do not fit are dropped. CS_INVALID: none did. n_ranks, n_stages: of the plan. */
enum cs_status cs_timeline_rows(struct cs_timeline *timeline, const json_t *rows, int64_t step,
                                int32_t slots, int32_t n_ranks, int32_t n_stages,
                                const struct cs_plan *plan, const struct cs_graph *graph,
                                struct cs_err *err) CS_NODISCARD;
/* waits of event.spans, of the step that was set last: [receive_us, send_us] of each rank; anything else is
 * dropped */
void cs_timeline_waits(struct cs_timeline *timeline, const json_t *waits);
struct cs_timeline_stage cs_timeline_stage(const struct cs_timeline *timeline, int32_t stage,
                                           int32_t rank);
/* forward and backward of one slot, NaN without either */
double cs_timeline_work_ns(const struct cs_timeline_stage *stage);

#endif
