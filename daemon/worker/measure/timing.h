/* How long a subject takes: medians of some samples, each long enough for the clock. */
#ifndef CS_WORKER_MEASURE_TIMING_H
#define CS_WORKER_MEASURE_TIMING_H

#include "worker/measure/measure_layer.h"

struct cs_effort {
    int first;                          /* times that do not count: memory grows, plans are made */
    int samples;                        /* 1 to CS_EFFORT_SAMPLES */
    int64_t gpu_least_ns, cpu_least_ns; /* of a sample */
    int64_t gpu_warm_ns;                /* before, until its clock is what it is under this load */
};

enum { CS_EFFORT_SAMPLES = 5 };

/* For what is measured once; and, about a fifth of it, for what is measured in several ways. */
extern const struct cs_effort cs_effort_whole, cs_effort_brief;

/* Nanoseconds of one layer, forward and, beside it, backward. bwd NULL: the forward alone, which keeps nothing. */
enum cs_status cs_time_passes(const struct cs_effort *effort, struct cs_subject *s, double *fwd,
                              double *bwd, struct cs_err *err) CS_NODISCARD;

/* one of the cs_subject_ functions of these arguments */
typedef enum cs_status (*cs_timed)(struct cs_subject *s, int repeats, int64_t *ns,
                                   struct cs_err *err);

enum cs_status cs_time_one(const struct cs_effort *effort, struct cs_subject *s, cs_timed run,
                           double *out, struct cs_err *err) CS_NODISCARD;

#endif
