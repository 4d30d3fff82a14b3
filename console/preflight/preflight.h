/* What can be known of a job before it is submitted: whether workers run its plan, whether its data,
 * weights and destinations are there and usable, and what it will take. `plan`, `submit` and `run`
 * ask here, so that nothing that a glance shows is found after STARTING. */
#ifndef CS_CONSOLE_PREFLIGHT_H
#define CS_CONSOLE_PREFLIGHT_H

#include <jansson.h>

#include "core/base/buf.h"
#include "core/doc/findings.h"
#include "core/model/spec.h"
#include "core/plan/plan.h"
#include "core/sched/sim/forecast.h"

struct cs_preflight {
    int64_t steps, step_ns; /* step_ns: predicted, of a step that fills all slots of the plan */
    int64_t data_step_ns;   /* ... that are as full as samples that were looked at make them */
    int64_t total_ns;       /* of all steps of such data; ns 0: not known */
    double tokens_per_step; /* of the samples that were looked at */
    double tokens_per_s;
    int64_t checkpoint_bytes, memory_bytes; /* one checkpoint; what the fullest rank needs */
    json_t *notes, *warnings;               /* arrays of texts; owned */
    struct cs_findings findings; /* of the documents of its directories and of its data */
};

/* A script's document with what is made of it; everything lives in the arena. */
struct cs_preflight_made {
    const json_t *document;     /* the caller's */
    const struct cs_here *here; /* the caller's */
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    const struct cs_device_class *device; /* that it is for */
    struct cs_forecast_figures figures;   /* as the Plan view tells them; plan->predicted_* too */
    const struct cs_rank_needs *needs;    /* (plan->n_ranks) */
};

enum cs_status cs_preflight_make(const json_t *document, bool is_job, const struct cs_here *here,
                                 struct cs_arena *arena, struct cs_preflight_made *out,
                                 struct cs_err *err) CS_NODISCARD;

/* A job. Errors are those that the job would end with: CS_PLAN, CS_INVALID, CS_NOT_FOUND, CS_REFUSED,
 * CS_NO_SPACE, each with what to do. The arena keeps the findings. Freed also after an error. */
enum cs_status cs_preflight_job(const struct cs_preflight_made *made, struct cs_arena *arena,
                                struct cs_preflight *out, struct cs_err *err) CS_NODISCARD;
/* A plan alone: figures, findings, and a warning where workers would not run it. */
enum cs_status cs_preflight_plan(const struct cs_preflight_made *made, struct cs_arena *arena,
                                 struct cs_preflight *out, struct cs_err *err) CS_NODISCARD;
void cs_preflight_free(struct cs_preflight *preflight);

void cs_preflight_warn(struct cs_preflight *out, const char *fmt, ...) CS_PRINTF(2, 3);

/* advice.c: warnings about settings that are allowed and hardly ever meant */
void cs_preflight_advise(const struct cs_spec *spec, bool is_job, struct cs_preflight *out);

/* files.c: what will be written, and the weights that are read. what: "checkpoint.dir", "--export" */
enum cs_status cs_preflight_destination(const char *what, const char *dir,
                                        struct cs_err *err) CS_NODISCARD;
enum cs_status cs_preflight_files(const struct cs_preflight_made *made, struct cs_preflight *out,
                                  struct cs_err *err) CS_NODISCARD;

/* For people: notes, a line of figures, findings (defaults too where asked), warnings. */
void cs_preflight_text(const struct cs_preflight *preflight, bool with_defaults,
                       struct cs_buf *out);
/* Notes and warnings, a line each. */
void cs_preflight_data(const struct cs_preflight *preflight, struct cs_buf *out);
/* The warnings alone, with those of the findings, a line each. */
void cs_preflight_warnings(const struct cs_preflight *preflight, struct cs_buf *out);
/* {"steps", "total_ns", ...}, new reference */
json_t *cs_preflight_json(const struct cs_preflight *preflight);

#endif
