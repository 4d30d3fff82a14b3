/* Discrete-event simulator: runs the programs of all ranks with numbers instead of work. Longest
 * path: start = max(stream free, dependencies, matched message), end = start + cost; no progress =
 * deadlock, reported with the heads of all streams. Emits the same events as a worker. */
#ifndef CS_SCHED_SIM_SIM_H
#define CS_SCHED_SIM_SIM_H

#include "core/sched/program.h"
#include "core/trace/event.h"

/* cost of an action in nanoseconds; NULL: the plan's stage times and the cluster's link */
typedef int64_t (*cs_sim_cost)(void *user, const struct cs_program *program, int rank,
                               const struct cs_action *action);

/* Links that messages share: two devices of a node meet on the ports of the devices, two nodes on
 * the ports of the NICs. A port has an out and an in side; n messages on one side each get an n-th
 * of it, and a message goes at the pace of its fuller side. */
struct cs_sim_links {
    const int32_t *node; /* (copies * n_ranks) node of every rank */
    const int32_t *nic; /* (copies * n_ranks) NIC that it uses towards other nodes, any numbers from
                           0 below copies * n_ranks */
};

/* Zero: costs of the plan, nothing shared, no disturbance. */
struct cs_sim_options {
    cs_sim_cost cost;
    void *user;
    int64_t hop_ns; /* default cost of a message: latency ... */
    /* ... plus bytes / bandwidth; 0: latency only. Transfers occupy nobody. */
    int64_t link_bytes_per_s;
    /* CPU ranks share this many cores, those of all replicas and of all that share a stage, whether they are
     * simulated or others stand for them; 0: unlimited */
    int32_t cores;
    /* Stragglers: factors of compute in thousandths, 1000 changes nothing; they multiply. NULL:
     * none. Rounded to the nearest nanosecond. */
    const int32_t *rank_permille;  /* (copies * n_ranks) copy by copy */
    const int32_t *stage_permille; /* (n_stages) */
    /* Jitter: every action that takes time takes jitter_permille thousandths more or less, evenly
     * spread; the same for the same seed, rank and action. 0 .. 1000. */
    int32_t jitter_permille;
    uint64_t seed;
    const struct cs_sim_links *links; /* NULL: infinitely many; messages divide no bandwidth */
    cs_sim_cost latency; /* the part of a message's cost that occupies no link; NULL: hop_ns where
                            cost is NULL, else nothing */
    /* Data-parallel copies of the program's ranks: rank r of copy c is rank c * n_ranks + r. They
     * meet in collectives of the world. Copies whose ranks have the same factors are simulated
     * once (a class); with jitter, shared cores or links all of them are. 0: one. */
    int32_t copies;
    bool is_full; /* simulate every copy, also those alike: for tests, the result is the same */
};

struct cs_sim_result {
    int64_t makespan_ns; /* of a program with equal leads: the period of the steady state */
    int64_t *busy_ns;    /* (n_stages) compute time of the stage */
    double *bubble;      /* (n_stages) 1 - busy / makespan */
    /* (n_stages) live slots: forward done, last backward not; 1 where there is no backward */
    int32_t *peak;
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
    /* Of several copies the arrays above hold those simulated, one of each class: n_stages and
     * n_ranks are n_classes times the program's, rank and stage ids count through. */
    int32_t n_classes;
    int32_t *class_of;           /* (copies) */
    int64_t *stage_exposed_ns;   /* (n_stages) exposed_ns before actions of the stage */
    int64_t *stage_span_ns;      /* (n_stages) last end - first start of its actions */
    int64_t *stage_span_idle_ns; /* (n_stages) part of it in which its rank computes nothing */
};

/* CS_PLAN: a dead-lock, with the heads of all streams and, where actions wait in a cycle, the
 * cycle; factors below 0; more distinct ranks than programs have. */
enum cs_status cs_simulate(const struct cs_program *program, const struct cs_sim_options *options,
                           struct cs_arena *arena, struct cs_sim_result *out,
                           struct cs_err *err) CS_NODISCARD;

#endif
