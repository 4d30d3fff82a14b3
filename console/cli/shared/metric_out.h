/* Rows of steps on standard output: a table for people, CSV, JSON lines; chosen columns. */
#ifndef CS_CONSOLE_CLI_METRIC_OUT_H
#define CS_CONSOLE_CLI_METRIC_OUT_H

#include "console/cli/command/cmd.h"

enum cs_metric_form {
    CS_METRIC_TABLE,
    CS_METRIC_STREAM, /* a table whose rows come while it is printed: all columns of one width */
    CS_METRIC_CSV,    /* RFC 4180; unknown is empty */
    CS_METRIC_LINES   /* an object a line, what is unknown left out */
};

struct cs_metric_out;

/* columns: names of the history's columns and of metrics (core/wire/metric.h), separated by commas;
 * NULL: what is usual for the form. columns of the reply of job.metrics are known, members are those
 * that its rows have. CS_USAGE: no such column, with those there are. */
enum cs_status cs_metric_out_new(enum cs_metric_form form, const char *columns, const json_t *reply,
                                 struct cs_metric_out **out, struct cs_err *err) CS_NODISCARD;
void cs_metric_out_row(struct cs_metric_out *out, const json_t *row); /* cs_metric_row */
void cs_metric_out_end(struct cs_metric_out *out); /* prints what is left, frees; accepts NULL */

#endif
