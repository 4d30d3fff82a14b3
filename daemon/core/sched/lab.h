/* Experiments on plain numbers (cs.lab of Lua): modules given by the time of every stage, lowered,
 * verified and simulated by the same code as a real plan. Times have any unit and may be
 * fractional; sums of whole numbers below 2^53 are exact. */
#ifndef CS_SCHED_LAB_H
#define CS_SCHED_LAB_H

#include "core/sched/program.h"

struct cs_lab_module {
    const char *name;
    const char *feeds; /* module that consumes the output; NULL or "": none */
    int32_t n_stages;
    const double *fwd, *bwd; /* (n_stages) */
    const double *wgrad; /* (n_stages) weight gradients apart from bwd, added to it; NULL: none */
};

struct cs_lab_options {
    const char *schedule; /* "1f1b" */
    int32_t slots;
    double hop; /* time of every message between ranks; occupies nobody */
};

/* Stages in the order of the modules as given: stage i of module m is first[m] + i. Every stage has
 * its own rank. A stage whose backward takes no time has no backward. */
struct cs_lab {
    int32_t n_modules, n_stages;
    int32_t *first;          /* (n_modules) */
    const char **stage_name; /* (n_stages) "v.0" */
    int32_t *plan_stage;     /* (n_stages) id in program->plan, which is in dataflow order */
    const struct cs_program *program;
    const double *fwd, *bwd; /* (n_stages) by plan stage */
    double hop;
};

struct cs_lab_result {
    double makespan;
    double *bubble, *busy; /* (n_stages) */
    int32_t *peak;         /* (n_stages) live slots */
    const char **critical; /* "F0 v.0", messages "s0 v.0 -> llm.0" (hop > 0), first to last */
    int32_t n_critical;
};

/* CS_INVALID: no or too many stages, names twice or unknown, modules that feed each other in a
 * circle, times that are negative or not finite. CS_PLAN: unknown schedule. */
enum cs_status cs_lab_make(const struct cs_lab_module *modules, int n_modules,
                           const struct cs_lab_options *options, struct cs_arena *arena,
                           struct cs_lab **out, struct cs_err *err) CS_NODISCARD;
/* "F0 F1 B0 ..." of a stage, counted as above */
void cs_lab_text(const struct cs_lab *lab, int stage, struct cs_buf *out);
enum cs_status cs_lab_simulate(const struct cs_lab *lab, struct cs_arena *arena,
                               struct cs_lab_result *out, struct cs_err *err) CS_NODISCARD;

#endif
