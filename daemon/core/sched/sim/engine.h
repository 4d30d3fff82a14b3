/* The simulator's engine: longest paths through the precedence graph, in doubles, so that it serves
 * nanoseconds (exact below 2^53) and the fractional times of experiments. Private to core/sched. */
#ifndef CS_SCHED_SIM_ENGINE_H
#define CS_SCHED_SIM_ENGINE_H

#include "core/sched/proof/net.h"

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

struct cs_engine_input {
    cs_engine_cost cost;
    cs_engine_cost latency; /* part of a message's cost that occupies no link; NULL: nothing */
    void *user;
    int32_t cores; /* > 0: compute actions of all ranks share that many, first come first served */
    const int32_t *node, *nic; /* (n_ranks) messages share links, see links.h; NULL: they do not */
    bool is_whole;             /* times are whole numbers and stay so */
};

/* CS_PLAN when nothing can go on, with the circle of those that wait for each other if there is
 * one, and the heads of all streams. */
enum cs_status cs_engine_run(const struct cs_net *net, const struct cs_engine_input *input,
                             struct cs_arena *arena, struct cs_engine_result *out,
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
