/* Discrete-event simulator: runs the programs of all ranks with numbers instead of work. Longest
 * path: start = max(stream free, dependencies, matched message), end = start + cost; no progress =
 * deadlock, reported with the heads of all streams. Emits the same events as a worker. */
#ifndef CS_SCHED_SIM_H
#define CS_SCHED_SIM_H

#include "core/sched/program.h"
#include "core/trace/event.h"

/* cost of an action in nanoseconds; NULL: the plan's stage times and the cluster's link */
typedef int64_t (*cs_sim_cost)(void *user, const struct cs_program *program, int rank,
                               const struct cs_action *action);

struct cs_sim_options {
    cs_sim_cost cost;
    void *user;
    int64_t hop_ns; /* default cost of a message: latency ... */
    int64_t
        link_bytes_per_s; /* ... plus bytes / bandwidth; 0: latency only. Transfers occupy nobody */
    int32_t cores;        /* CPU ranks share this many cores; 0: unlimited */
};

struct cs_sim_result {
    int64_t makespan_ns; /* of a program with equal leads: the period of the steady state */
    int64_t *busy_ns;    /* (n_stages) compute time of the stage */
    double *bubble;      /* (n_stages) 1 - busy / makespan */
    int32_t *peak; /* (n_stages) live slots: forward done, last backward not (1 where there is none)
                    */
    int32_t *left; /* (n_stages) live slots at the end: 0 */
    int32_t n_modules;
    double *module_bubble; /* (n_modules) by cs_stage.branch: idle share of the module's ranks, work
                              of other modules on them not counted idle */
    int64_t *span_idle_ns; /* (n_ranks) last end - first start - busy */
    int64_t *exposed_ns;   /* (n_ranks) idle before an action while a message or collective that it
                              waits for is under way */
    int64_t *peak_bytes;   /* (n_ranks) weights, gradients, optimizer state, saved activations */
    struct cs_event **events; /* (n_ranks) one per action, by action id */
    uint32_t *critical;       /* pairs (rank, action id) from the first to the last */
    int32_t n_critical;
};

enum cs_status cs_simulate(const struct cs_program *program, const struct cs_sim_options *options,
                           struct cs_arena *arena, struct cs_sim_result *out,
                           struct cs_err *err) CS_NODISCARD;

#endif
