/* A simulated step as a value that a view can draw: what every rank does when, where it waits, what
 * it holds, and which chain of actions the step's time is made of. Made by the simulator from a
 * program, or straight from a plan. Times are integer nanoseconds from the start of the step.
 *
 * Of several copies of a program (cs_sim_options.copies) one of every class is there; ranks and
 * stages count through them.
 *
 * Ownership: everything lies in the arena given; names belong to the plan. */
#ifndef CS_SCHED_SIM_FORECAST_H
#define CS_SCHED_SIM_FORECAST_H

#include "core/plan/cost/stage/needs.h"
#include "core/sched/sim/sim.h"

/* What a rank holds at a time, of what it needs (cs_rank_needs); WEIGHTS and STATE (gradients, optimizer) do not change within a step */
#define CS_HELD_TABLE(X)                                                                           \
    X(WEIGHTS, "weights")                                                                          \
    X(STATE, "gradients and optimizer")                                                            \
    X(ACTIVATIONS, "activations") /* see core/sched/kept.h */                                      \
    X(BOUNDARY,                                                                                    \
      "boundary buffers") /* rows and gradients on their way: at the sender from the end \
                                       of their producer to the end of the message, at the         \
                                       receiver from there to the end of their consumer */

enum cs_held {

#define X(held, name) CS_HELD_##held,
    CS_HELD_TABLE(X)
#undef X
        CS_HELD_COUNT
};

const char *cs_held_name(enum cs_held held);

struct cs_forecast_action {
    int64_t start_ns, end_ns; /* a message: while it is under way; both ends have the same times */
    uint32_t id;              /* index in the program of the rank */
    uint8_t op;               /* enum cs_op */
    uint8_t is_grad, lead;
    bool is_critical;
    int16_t stage, edge, peer; /* -1: none; see cs_action */
    int32_t slot;              /* -1: none */
};

/* from at_ns on, until the next point */
struct cs_forecast_point {
    int64_t at_ns;
    int64_t bytes[CS_HELD_COUNT];
};

struct cs_forecast_rank {
    struct cs_forecast_action *action; /* in the order of the program: compute by start, messages
                                          where they are posted */
    uint32_t n_actions;
    struct cs_forecast_point *memory; /* by time, the first at 0; at least one */
    uint32_t n_points;
    struct cs_rank_needs needs;         /* what it takes for the step and has from its start */
    int64_t busy_ns, first_ns, last_ns; /* compute; start of the first, end of the last of it */
    int64_t span_idle_ns;               /* last - first - busy */
    int64_t exposed_ns;                 /* idle while a message or collective that the next
                                           action waits for is under way */
    double bubble, span_bubble;         /* 1 - busy / makespan; span_idle / (last - first) */
};

struct cs_forecast_stage {
    const char *name;
    int32_t rank, branch;
    int64_t fwd_ns, bwd_ns; /* in all, over the step */
    int64_t busy_ns;        /* the sum of both */
    int64_t exposed_ns;     /* as of ranks, before actions of this stage */
    int64_t span_idle_ns;   /* between the first and the last action of the stage, while its rank
                               computes nothing */
    int32_t peak;           /* live slots, see cs_sim_result */
    double bubble;          /* 1 - busy / makespan */
    double span_bubble;     /* span_idle / (last end - first start) */
};

struct cs_forecast_module {
    int32_t branch, n_ranks;
    double bubble; /* idle share of the module's ranks, work of other modules not counted idle */
};

struct cs_forecast_step { /* of the critical path */
    int32_t rank;
    uint32_t id; /* index in rank[].action */
};

struct cs_forecast {
    int64_t makespan_ns;
    double bubble; /* 1 - sum of busy / (ranks * makespan) */
    int32_t n_ranks, n_stages, n_modules, n_slots;
    struct cs_forecast_rank *rank;
    struct cs_forecast_stage *stage;
    struct cs_forecast_module *module;
    struct cs_forecast_step *critical; /* actions that take time, first to last, each from the end
                                          of the one before: their times add up to the makespan */
    int32_t n_critical;
    char program_hash[65];
};

/* What is told of a plan in a line. */
struct cs_forecast_figures {
    int64_t step_ns;
    double bubble;      /* cs_plan_mean_bubble */
    int64_t peak_bytes; /* what the rank that needs most needs */
    int32_t peak_rank;  /* of programs */
};

/* (n_stages) of its stages -> of all ranks of the plan: those that share a stage count each, those of several stages
 * are busy with all of them; the optimizer is no work. */
double cs_plan_mean_bubble(const struct cs_plan *plan, const double *stage_bubble);

/* Idle share of a rank of programs beside the work of all its stages; NaN where one of these is. */
double cs_plan_rank_bubble(const struct cs_plan *plan, const double *stage_bubble, int32_t rank);

/* (n_ranks) 1 - work of a rank's stages / makespan: those that share a rank add up */
double *cs_forecast_rank_bubbles(const struct cs_forecast *forecast, struct cs_arena *arena);
/* of the plan that was simulated */
struct cs_forecast_figures cs_forecast_figures(const struct cs_forecast *forecast,
                                               const struct cs_plan *plan, struct cs_arena *arena);

/* Simulates a program. element_bytes: of a row's element in a message, 0: 4. Needs are those that the plan alone
 * tells: no scratch, nothing that split backwards hold. */
enum cs_status cs_forecast_program(const struct cs_program *program,
                                   const struct cs_sim_options *options, int element_bytes,
                                   struct cs_arena *arena, struct cs_forecast *out,
                                   struct cs_err *err) CS_NODISCARD;

/* ... with all that the ranks of its plan need; needs->n_buffers is counted here. */
enum cs_status cs_forecast_with_needs(const struct cs_program *program,
                                      const struct cs_sim_options *options,
                                      const struct cs_needs_of *needs, struct cs_arena *arena,
                                      struct cs_forecast *out, struct cs_err *err) CS_NODISCARD;

/* Zero: the plan as it is, with the costs of cs_plan_predict. */
struct cs_forecast_options {
    const char *schedule;             /* NULL: the plan's; see core/plan/plan_schedule.h */
    int32_t slots;                    /* 0: the plan's */
    const struct cs_sim_options *sim; /* NULL: none of its inputs; without a cost function: the
                                         costs and links of the cluster */
    bool shares_links; /* messages divide the ports and NICs of the cluster's devices */
};

/* Lowers and simulates a plan, the slots of one of its replicas. CS_PLAN: the plan does not fit the schedule; says what would. */
enum cs_status cs_forecast_plan(const struct cs_plan *plan, const struct cs_graph *graph,
                                const struct cs_cluster *cluster,
                                const struct cs_forecast_options *options, struct cs_arena *arena,
                                struct cs_forecast *out, struct cs_err *err) CS_NODISCARD;

#endif
