/* The simulator's engine: longest paths through the precedence graph, in doubles, so that it serves
 * nanoseconds (exact below 2^53) and the fractional times of experiments. Private to core/sched. */
#ifndef CS_SCHED_ENGINE_H
#define CS_SCHED_ENGINE_H

#include "core/sched/net.h"

typedef double (*cs_engine_cost)(void *user, const struct cs_program *program, int rank,
                                 const struct cs_action *action);

struct cs_engine_result {
    double makespan;
    double *start, *end; /* (net->n_actions), by net->base[rank] + id */

    struct cs_engine_step {
        int32_t rank;
        uint32_t action;
    } * critical; /* actions that take time on the longest path, first to last */

    int32_t n_critical;
};

/* of a group of stages on one rank */
struct cs_engine_count {
    double busy;
    int32_t peak; /* most live slots: forward done, last backward not; at least 1 if it computes */
    int32_t left; /* live slots at the end */
};

/* of a rank */
struct cs_engine_rank {
    double busy;
    double span_idle;   /* last end - first start - busy */
    double exposed;     /* idle before an action while a message or collective it needs runs */
    int64_t peak_bytes; /* weights, state and saved activations of live slots */
};

/* cores > 0: compute actions of all ranks share that many, first come first served.
 * CS_PLAN when nothing can go on, with the heads of all streams. */
enum cs_status cs_engine_run(const struct cs_net *net, cs_engine_cost cost, void *user,
                             int32_t cores, struct cs_arena *arena, struct cs_engine_result *out,
                             struct cs_err *err) CS_NODISCARD;

/* group: (n_stages) index into count, which has n_groups entries; a group stays on one rank. */
void cs_engine_count(const struct cs_net *net, const struct cs_engine_result *run,
                     const int32_t *group, int32_t n_groups, struct cs_arena *arena,
                     struct cs_engine_count *count);
/* rank: (n_ranks) */
void cs_engine_ranks(const struct cs_net *net, const struct cs_engine_result *run,
                     struct cs_arena *arena, struct cs_engine_rank *rank);
/* Idle share of the ranks of every module (cs_stage.branch), from the ranks' counts: (n_modules).
 */
double *cs_engine_modules(const struct cs_plan *plan, const struct cs_engine_rank *rank,
                          double makespan, struct cs_arena *arena, int32_t *n_modules);

#endif
