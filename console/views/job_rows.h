/* Between jobs.c, job_rows.c and job_details.c: the list of jobs. */
#ifndef CS_CONSOLE_VIEWS_JOB_ROWS_H
#define CS_CONSOLE_VIEWS_JOB_ROWS_H

#include "console/draw/widget.h"
#include "console/views/state/view.h"

enum { CS_JOB_COLUMNS = 11, CS_JOB_CELL = 64 };

struct cs_job_cells {
    char text[CS_JOB_COLUMNS][CS_JOB_CELL];
};

extern const struct cs_column cs_job_columns[CS_JOB_COLUMNS];
void cs_job_cells_fill(const struct cs_store *store, const struct cs_store_job *job,
                       struct cs_job_cells *cells);
/* its cells, and the reason of its state */
void cs_job_row_text(const struct cs_store *store, const struct cs_store_job *job,
                     struct cs_buf *out);
const char *cs_job_sort_name(enum cs_job_sort sort); /* "newest" */

/* The jobs that the filter lets through in the order that was chosen, as indices of store->jobs;
 * `out` takes CS_STORE_JOBS. Returns how many. */
int cs_job_rows(const struct cs_store *store, const struct cs_screen *screen, int *out);
/* A rule with number and name, then what is known; of a failed job why it failed first. */
void cs_job_details(const struct cs_store *store, const struct cs_screen *screen,
                    const struct cs_store_job *job, struct cs_area area);

#endif
