/* What the user has chosen in the Metrics view. */
#ifndef CS_CONSOLE_VIEWS_STATE_METRICS_STATE_H
#define CS_CONSOLE_VIEWS_STATE_METRICS_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "console/store/store.h"

/* what lies along the x axis, the same for all charts and jobs */
enum cs_metrics_align { CS_BY_STEPS, CS_BY_TOKENS, CS_BY_TIME, CS_BY_COUNT };

enum cs_metrics_part { CS_METRICS_CHARTS, CS_METRICS_JOBS, CS_METRICS_DIFF };

struct cs_metrics_screen {
    enum cs_metrics_part
        part;             /* charts; the list of jobs to lay over; the difference of two jobs */
    int panel;            /* chart under the cursor, of those that are there */
    bool is_single;       /* it alone */
    uint64_t log_panels;  /* bit: metric (row of cs_metrics) on a log axis */
    int smoothing, range; /* rows of their tables in views/metrics_data.c */
    enum cs_metrics_align align;
    int zoom;      /* 1, 2, 4 ..: that part of the range is shown */
    double scroll; /* where it begins, share of the range; 1 - 1/zoom: at its end */
    bool has_cursor;
    double cursor;                   /* share of what is shown */
    int list_row, top;               /* of the list of jobs; of the difference */
    int64_t beside[CS_STORE_BESIDE]; /* jobs laid over, by number */
    int n_beside;
};

#endif
