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
    double *busy;        /* (n_stages) */
    int32_t *peak;       /* (n_stages) */

    struct cs_engine_step {
        int32_t rank;
        uint32_t action;
    } * critical; /* actions that take time on the longest path, first to last */

    int32_t n_critical;
};

/* cores > 0: compute actions of all ranks share that many, first come first served.
 * CS_PLAN when nothing can go on, with the heads of all streams. */
enum cs_status cs_engine_run(const struct cs_net *net, cs_engine_cost cost, void *user,
                             int32_t cores, struct cs_arena *arena, struct cs_engine_result *out,
                             struct cs_err *err) CS_NODISCARD;

#endif
