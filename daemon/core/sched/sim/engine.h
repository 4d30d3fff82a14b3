/* The simulator's engine: longest paths through the precedence graph, in doubles, so that it serves
 * nanoseconds (exact below 2^53) and the fractional times of experiments. Private to core/sched. */
#ifndef CS_SCHED_SIM_ENGINE_H
#define CS_SCHED_SIM_ENGINE_H

#include "core/sched/proof/precedence.h"

typedef double (*cs_engine_cost)(void *user, const struct cs_program *program, int rank,
                                 const struct cs_action *action);

struct cs_engine_result {
    double makespan;
    double *start, *end; /* (graph->n_actions), by graph->base[rank] + id */

    struct cs_engine_step {
        int32_t rank;
        uint32_t action;
    } * critical; /* actions that take time on the longest path, first to last */

    int32_t n_critical;
};

struct cs_engine_input {
    cs_engine_cost cost;
    cs_engine_cost latency; /* part of a message's cost that occupies no link; NULL: nothing */
    void *user;
    int32_t cores; /* > 0: compute actions of all ranks share that many, first come first served */
    const int32_t *twins; /* (n_ranks) processes that each stands for: all want a core; NULL: one */
    const int32_t *node, *nic; /* (n_ranks) messages share links, see links.h; NULL: they do not */
    bool is_whole;             /* times are whole numbers and stay so */
};

/* CS_PLAN when nothing can go on, with the cycle of those that wait for each other if there is
 * one, and the heads of all streams. */
enum cs_status cs_engine_run(const struct cs_precedence *graph, const struct cs_engine_input *input,
                             struct cs_arena *arena, struct cs_engine_result *out,
                             struct cs_err *err) CS_NODISCARD;

#endif
