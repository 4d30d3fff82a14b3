/* What a run of the engine means for stages, ranks and modules. Private to core/sched. */
#ifndef CS_SCHED_SIM_COUNT_H
#define CS_SCHED_SIM_COUNT_H

#include "core/sched/sim/engine.h"

/* of a group of stages on one rank */
struct cs_engine_count {
    double busy, fwd;   /* fwd: the part of forwards */
    double exposed;     /* idle of the rank before an action while a message that it needs runs */
    double first, last; /* start of the first, end of the last action; first < 0: none */
    double span_idle;   /* of the rank between them */
    int32_t peak; /* most live slots: forward done, last backward not; at least 1 if it computes */
    int32_t left; /* live slots at the end */
};

/* of a rank */
struct cs_engine_rank {
    double busy;
    double first, last; /* start of the first, end of the last action; 0: none */
    double span_idle;   /* last end - first start - busy */
    double exposed;     /* idle before an action while a message or collective it needs runs */
    int64_t peak_bytes; /* weights, state and saved activations of live slots */
};

/* group: (n_stages) index into count, which has n_groups entries; a group stays on one rank. */
void cs_engine_count(const struct cs_precedence *graph, const struct cs_engine_result *run,
                     const int32_t *group, int32_t n_groups, struct cs_arena *arena,
                     struct cs_engine_count *count);
/* rank: (n_ranks) */
void cs_engine_ranks(const struct cs_precedence *graph, const struct cs_engine_result *run,
                     struct cs_arena *arena, struct cs_engine_rank *rank);
/* Idle share of the ranks of every module (cs_stage.branch), from the ranks' counts.
 * Returns (n_modules). */
double *cs_engine_modules(const struct cs_plan *plan, const struct cs_engine_rank *rank,
                          double makespan, struct cs_arena *arena, int32_t *n_modules);

#endif
