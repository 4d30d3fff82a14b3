/* What every stage did with its time: a table below the charts of the Pipeline view, and its rows as a list. */
#ifndef CS_CONSOLE_VIEWS_PIPELINE_TABLE_H
#define CS_CONSOLE_VIEWS_PIPELINE_TABLE_H

#include "console/draw/widget.h"
#include "console/views/row_list.h"

enum { CS_PIPELINE_SHOWN = 128 /* stages at once */ };

extern const struct cs_rows cs_pipeline_rows;

/* the ranks that run a stage, of the first replica; without a plan the first of them */
void cs_pipeline_ranks(const struct cs_store *store, int32_t stage, char *out, size_t cap);
/* stage: (n) */
void cs_pipeline_table(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_area area, const int *stage, int n, int y);

#endif
