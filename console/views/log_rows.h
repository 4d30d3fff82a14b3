/* The lines of the logs that are shown: those of the chosen level, source and filter. */
#ifndef CS_CONSOLE_VIEWS_LOG_ROWS_H
#define CS_CONSOLE_VIEWS_LOG_ROWS_H

#include "console/views/state/view.h"

/* indices for cs_store_line in their order; returns how many */
int cs_log_rows(const struct cs_store *store, const struct cs_screen *screen,
                int out[CS_STORE_LOGS]);
/* place among rows of the cursor, of the next row when its line is not shown; -1: there are none */
int cs_log_cursor(const struct cs_store *store, const struct cs_screen *screen, const int *rows,
                  int n);
/* "r3" "runner" "feeder" "daemon" */
void cs_log_source(char out[16], int rank);
/* "13:17:59.035 warn  runner  text" */
void cs_log_row_text(const struct cs_store_line *line, struct cs_buf *out);

#endif
