/* Tables of separated values, as RFC 4180 and Python's csv have them: a cell that begins with a quote may hold separators,
 * ends of lines and doubled quotes. */
#ifndef CS_INPUT_DATA_CSV_H
#define CS_INPUT_DATA_CSV_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/buf.h"

/* Where in a table a byte is; all zero but for the separator at its beginning. */
struct cs_csv_scan {
    char separator;

    enum { CS_CSV_BEGIN, CS_CSV_PLAIN, CS_CSV_QUOTED, CS_CSV_QUOTE } in;
};

/* Goes on by a byte; true: it is the end of a line that ends a row. */
bool cs_csv_ends_row(struct cs_csv_scan *scan, char c);
/* Appends the cell at *at of a row without its end, and goes behind it. false: there is none. *at: 0 at first. */
bool cs_csv_cell(const char *row, size_t n, char separator, size_t *at, struct cs_buf *out);
/* The one of comma, semicolon and tab that the row has most of outside of quotes. */
char cs_csv_separator_of(const char *row, size_t n);

#endif
