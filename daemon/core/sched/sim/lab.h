/* Experiments on plain numbers (cs.lab of Lua): modules given by the time of every stage, lowered,
 * verified and simulated by the same code as a real plan. Times have any unit and may be
 * fractional; sums of whole numbers below 2^53 are exact. */
#ifndef CS_SCHED_SIM_LAB_H
#define CS_SCHED_SIM_LAB_H

#include "core/sched/program.h"

struct cs_lab_module {
    const char *name;
    const char *feeds; /* module that consumes the output; NULL or "": none */
    int32_t n_stages;
    const double *fwd, *bwd; /* (n_stages) */
    const double *wgrad; /* (n_stages) weight gradients apart from bwd, added to it; NULL: none */
};

struct cs_lab_options {
    const char *schedule; /* "1f1b", ...: core/model/schedules.h */
    int32_t slots;
    double hop; /* time of every message between ranks; occupies nobody */
};

/* All zero: as the schedule's name says. */
struct cs_lab_tuning {
    int32_t chunks; /* interleaved: of every stage of the last module, 0: 2. three-phase: 0: 1 */
    int32_t window; /* anchors: groups that are encoded ahead, 0: 2 */
    int32_t ahead;  /* see cs_program_options; 0: not bounded */
    int32_t lead_before, lead_after; /* equal: a step in the steady state, see cs_program_options */
};

/* Stages in the order of the modules as given: stage i of module m is first[m] + i. A stage whose
 * backward takes no time has no backward.
 *
 * gpipe, 1f1b, zb-*: every stage has its own rank. interleaved: the stages of the module that feeds
 * none are cut into chunks of equal time; a stage here is a rank with all its chunks. three-phase,
 * anchors: the stages of the module that feeds none have a rank each; every other module has as
 * many stages as there are ranks, whatever was given: copies of the whole module, each with the sum
 * of the given times and every p-th slot. */
struct cs_lab {
    int32_t n_modules, n_stages;
    int32_t *first;           /* (n_modules) */
    const char **module_name; /* (n_modules) */
    const char **stage_name;  /* (n_stages) "v.0" */
    int32_t *plan_stage;      /* (n_stages) id in program->plan, which is in dataflow order; of the
                                 first chunk */
    int32_t *rank;            /* (n_stages) */
    bool *is_copied;          /* (n_modules) whole copies of the module, one a stage */
    const struct cs_program *program;
    /* by plan stage */
    const double *fwd, *bwd, *wgrad; /* weight gradients are not in bwd */
    const int32_t *stage_of;         /* stage as counted here */
    const int32_t *chunk_of;         /* -1: the stage is not cut */
    double hop;
};

/* the largest factor of a time */
#define CS_LAB_FACTOR 1e12

/* What disturbs a simulation; all zero: nothing. A rank is one of program->n_ranks, lab->rank says
 * where a stage is; rank r of copy c is rank c * n_ranks + r. */
struct cs_lab_inputs {
    const double *rank_factor;  /* (copies * n_ranks) of its compute times, NULL: 1 */
    const double *stage_factor; /* (n_stages), NULL: 1 */
    double jitter;          /* 0 .. 1: every time is up to that part longer or shorter, evenly */
    uint64_t seed;          /* of the jitter */
    int32_t ranks_per_node; /* > 0: messages share links, see cs_sim_links ... */
    int32_t ranks_per_nic;  /* ... and so many ranks a NIC towards other nodes; 0: 1 */
    double latency;         /* part of the hop that occupies no link */
    int32_t copies;         /* data-parallel copies, those alike simulated once; 0: 1 */
    bool is_full;           /* simulate those alike too: the same result */
    const double *bytes;    /* (n_stages) kept by a live slot, NULL: no memory curve */
};

struct cs_lab_point {
    double at, bytes; /* from at on, until the next point */
};

/* Of several copies there is one of every class: entry [class * n_stages + stage]. */
struct cs_lab_result {
    double makespan;   /* with equal leads: the period of the steady state */
    double *bubble;    /* (n_stages) 1 - busy / makespan, idle share of the stage's rank */
    double *busy;      /* (n_stages) */
    int32_t *peak;     /* (n_stages) live slots, a slot of a chunk counts one; 1 without backward */
    int32_t *left;     /* (n_stages) live slots at the end: 0 */
    double *span_idle; /* (n_stages) of its rank: last end - first start - busy */
    double *exposed;   /* (n_stages) of its rank: idle while a message it needs is under way */
    double *stage_exposed; /* (n_stages) the same before actions of the stage alone */
    double *span_bubble;   /* (n_stages) span_idle over last end - first start */
    double *module_bubble; /* (n_modules) 1 - busy / (ranks * makespan), over its own ranks */
    const char **critical; /* "F0 v.0", messages "s0 v.0 -> llm.0" (hop > 0), first to last; with
                              several classes " (copy 3)" is added */
    int32_t n_critical;
    int32_t n_classes;
    int32_t *class_of; /* (copies) */
    int32_t *first;    /* (n_classes) the first copy of the class */
    struct cs_lab_point *
        *curve;        /* (n_stages) what the stage's live slots hold; NULL without bytes */
    int32_t *n_points; /* (n_stages) */
};

/* CS_INVALID: no or too many stages, stages times slots over 2^23, names twice or unknown, modules
 * that feed each other in a cycle, times that are negative or not finite. CS_PLAN: unknown
 * schedule. */
enum cs_status cs_lab_make(const struct cs_lab_module *modules, int n_modules,
                           const struct cs_lab_options *options, struct cs_arena *arena,
                           struct cs_lab **out, struct cs_err *err) CS_NODISCARD;
/* The same with all options. CS_PLAN also: too few slots for zb-h2, leading slots without an
 * encoder that has no backward at all. */
enum cs_status cs_lab_make_tuned(const struct cs_lab_module *modules, int n_modules,
                                 const struct cs_lab_options *options,
                                 const struct cs_lab_tuning *tuning, struct cs_arena *arena,
                                 struct cs_lab **out, struct cs_err *err) CS_NODISCARD;
/* "F0 F1 B0 ..." of a stage, chunks "F0.1", a split backward "B0" and "W0", slots of the next step
 * "F0'",, counted as above */
void cs_lab_text(const struct cs_lab *lab, int stage, struct cs_buf *out);
enum cs_status cs_lab_simulate(const struct cs_lab *lab, struct cs_arena *arena,
                               struct cs_lab_result *out, struct cs_err *err) CS_NODISCARD;
/* The same, disturbed. CS_INVALID: inputs that are negative or not finite, a jitter over 1, a
 * latency over the hop; CS_PLAN: more distinct copies than programs have ranks for. */
enum cs_status cs_lab_simulate_with(const struct cs_lab *lab, const struct cs_lab_inputs *inputs,
                                    struct cs_arena *arena, struct cs_lab_result *out,
                                    struct cs_err *err) CS_NODISCARD;

#endif
