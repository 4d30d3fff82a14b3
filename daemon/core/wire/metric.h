/* What a step's row says, as numbers with names: charts, exports and reports are driven by this one
 * table. A row is the body of runner.step and event.step, an object made of a row of job.metrics, or
 * a line of a journal.
 *
 * Some metrics have members: "loss/coco" is the loss of a source of samples, "mfu/llm" what a module
 * reaches. Their names are the metric's, a slash and the member's. */
#ifndef CS_WIRE_METRIC_H
#define CS_WIRE_METRIC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_metric {
    const char *name;  /* "step_ms": of columns and charts */
    const char *title; /* "step time" */
    const char *unit;  /* "ms", "" none */
    const char *help;
    bool is_share;                      /* 0..1, shown as a percentage */
    bool is_of_eval;                    /* what evaluations are made for */
    double (*read)(const json_t *step); /* NaN: the row has it not */
    /* where its members stand in a row: {name: {key: value}}, {name: value} without a key; NULL: it
     * has none */
    const char *members, *key;
};

enum { CS_METRIC_NAME = 64 };

extern const struct cs_metric cs_metrics[];
extern const int cs_n_metrics;

/* the metric of a name, with or without a member; NULL: there is none */
const struct cs_metric *cs_metric_find(const char *name);

/* Called for every value that a row has, in the order of the table; not finite: it diverged. */
typedef void cs_metric_each(void *user, const char *name, double value);
void cs_metric_read(const json_t *step, cs_metric_each *each, void *user);
/* one of them, NaN: the row has it not */
double cs_metric_get(const json_t *step, const char *name);
bool cs_metric_is_eval(const json_t *step); /* the row of an evaluation */

/* A row of job.metrics as an object by its columns' names; what is null is left out. The caller's
 * reference. */
json_t *cs_metric_row(const json_t *columns, const json_t *row);

#endif
