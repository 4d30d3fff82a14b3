/* The metrics of one job over its steps, for charts: a curve for every metric and member that its
 * rows have, of training and of evaluations, each bounded in memory (core/trace/series.h). Beside
 * them how many tokens were seen and how long was trained until each step, so that jobs can be laid
 * side by side by step, by tokens or by time. */
#ifndef CS_CONSOLE_STORE_METRICS_H
#define CS_CONSOLE_STORE_METRICS_H

#include <jansson.h>

#include "core/trace/series.h"
#include "core/wire/metric.h"

enum { CS_CURVES = 96 /* of one job; more members are left out */ };

struct cs_curve {
    char name[CS_METRIC_NAME];
    bool is_eval;
    double last; /* newest value, NaN when it diverged */
    struct cs_series *series;
};

struct cs_metrics {
    int n;
    struct cs_curve curve[CS_CURVES];
    struct cs_series *tokens, *seconds; /* seen and spent until a step; NULL: no row yet */
    double sum_tokens, sum_seconds;
    int64_t last_step; /* of training, -1 none */
};

void cs_metrics_init(struct cs_metrics *metrics);
void cs_metrics_free(struct cs_metrics *metrics); /* and begins anew */
/* A row, as core/wire/metric.h has it; "steps" in it: the mean of so many steps that end with its
 * own, with the least and greatest of the columns NAME_min and NAME_max. Steps at or before the last
 * one supersede it and all after it. Rows without a step are dropped. */
void cs_metrics_add(struct cs_metrics *metrics, const json_t *step);
/* NULL: no row had it */
const struct cs_curve *cs_metrics_find(const struct cs_metrics *metrics, const char *name,
                                       bool is_eval);

#endif
