/* What the charts of the Metrics view show: which there are, which part of the x axis, and the lines
 * of each as points. */
#ifndef CS_CONSOLE_VIEWS_METRICS_DATA_H
#define CS_CONSOLE_VIEWS_METRICS_DATA_H

#include "console/draw/chart.h"
#include "console/views/state/view.h"

enum { CS_METRICS_PANELS = 40 };

/* a metric, or the members of one side by side */
struct cs_metrics_panel {
    int metric; /* row of cs_metrics */
    bool is_members;
};

/* those that the selected job has figures of; returns how many */
int cs_metrics_panels(const struct cs_store *store, struct cs_metrics_panel out[CS_METRICS_PANELS]);

/* x over steps of one job, and back: as many points as are enough for a screen */
struct cs_metrics_map {
    enum cs_metrics_align align;
    int64_t last_step; /* -1: no step */
    int n;
    double *step, *x; /* (n) ascending; NULL: x is the step */
};

/* The part of the x axis that is shown. */
struct cs_metrics_window {
    struct cs_metrics_map own, beside[CS_STORE_BESIDE];
    double low, high; /* of the range */
    double from, to;  /* shown of it */
    double cursor;    /* x, NaN none */
};

void cs_metrics_window(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_metrics_window *out);
void cs_metrics_window_free(struct cs_metrics_window *window);

/* Lines of a panel for so many dots: chart.line[i] belongs to label[i]. */
struct cs_metrics_lines {
    struct cs_chart chart;

    struct cs_metrics_label {
        char name[48];
        double value; /* at the cursor, else the last; NaN when it diverged */
        bool is_known;
        double x; /* where that is */
    } label[CS_CHART_LINES];
    struct cs_chart_point *point[CS_CHART_LINES]; /* owned */
};

void cs_metrics_lines(const struct cs_store *store, const struct cs_screen *screen,
                      const struct cs_metrics_window *window, const struct cs_metrics_panel *panel,
                      int dots, struct cs_metrics_lines *out);
void cs_metrics_lines_free(struct cs_metrics_lines *lines);

/* of the tables of choices: 0 none, "0.9" of the value before; 0 all, the last so many steps */
double cs_metrics_smoothing(int row);
int64_t cs_metrics_range(int row);

enum { CS_METRICS_SMOOTHINGS = 4, CS_METRICS_RANGES = 4 };

/* "2.113" "32.0%" "69.4k" as the metric is told */
void cs_metrics_value(char *out, size_t cap, const struct cs_metric *metric, double value);

/* metrics_parts.c: what stands in place of the charts */
void cs_metrics_draw_jobs(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area);
void cs_metrics_draw_diff(const struct cs_store *store, const struct cs_screen *screen,
                          struct cs_area area);
/* jobs that can be laid over, newest first; returns how many */
int cs_metrics_others(const struct cs_store *store, int64_t out[CS_STORE_JOBS]);
/* metrics_keys.c */
extern const struct cs_key_row cs_metrics_keys[];
bool cs_metrics_back(struct cs_screen *screen); /* from list, difference, one chart, cursor */
void cs_metrics_move(struct cs_screen *screen, const struct cs_store *store, int rows);

#endif
